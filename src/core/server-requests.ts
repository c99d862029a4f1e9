import { PegboardError } from './errors.ts'
import { isRecord } from './is-record.ts'
import { ProtocolFailure } from './protocol-failure.ts'
import type { Relay } from './tool.ts'

/** What a server may request from its client, and the capability that a client declares for it. */
export type ServerRequestKind = 'elicitation' | 'sampling' | 'roots'

export const SERVER_REQUEST_METHODS: Readonly<Record<string, ServerRequestKind>> = {
  'elicitation/create': 'elicitation',
  'sampling/createMessage': 'sampling',
  'roots/list': 'roots',
}

/** Maximum number of questions to a person in one call. People accept further ones without reading them. */
export const MAX_QUESTIONS = 20
/** How many times a call may be answered with `input_required` before it fails. */
const MAX_INPUT_ROUNDS = 8

/** How often a server has asked for input in one call. */
export interface InputCount {
  readonly rounds?: number
  readonly questions?: number
}

/**
 * Adds a round with these requests.
 * @throws PegboardError E_UPSTREAM_PROTOCOL over a limit
 */
export function addInputRound(before: InputCount, requests: unknown): Required<InputCount> {
  const rounds = (before.rounds ?? 0) + 1
  if (rounds > MAX_INPUT_ROUNDS) throw createInputError(`asked for input more than ${MAX_INPUT_ROUNDS} times`)
  const asks = isRecord(requests) ? Object.values(requests).filter(isQuestion) : []
  return { rounds, questions: addQuestions(before.questions ?? 0, asks.length) }
}

export const isQuestion = (request: unknown): boolean => isRecord(request) && request['method'] === 'elicitation/create'

/** @throws PegboardError E_UPSTREAM_PROTOCOL over the limit */
export function addQuestions(before: number, more: number): number {
  if (before + more > MAX_QUESTIONS) throw createInputError(`asked more than ${MAX_QUESTIONS} questions`)
  return before + more
}

const createInputError = (what: string): PegboardError =>
  new PegboardError('E_UPSTREAM_PROTOCOL', `The server ${what} in one call.`)

/** True if a client with these capabilities accepts the request. Plain `elicitation: {}` means forms. */
export function supportsServerRequest(
  capabilities: Readonly<Record<string, unknown>>,
  method: string,
  params: unknown,
): boolean {
  const ask = Object.hasOwn(SERVER_REQUEST_METHODS, method) ? SERVER_REQUEST_METHODS[method] : undefined
  const declared = ask && capabilities[ask]
  if (typeof declared !== 'object' || declared === null) return false
  if (ask !== 'elicitation') return true
  if ((params as { mode?: unknown } | undefined)?.mode === 'url') return 'url' in declared
  return 'form' in declared || !('url' in declared)
}

/** A request of a 2025-era server in the format of the newer revision, in which a URL elicitation has no id. */
export function toModernServerRequest(
  method: string,
  params: unknown,
): { readonly method: string; readonly params: unknown } {
  if (method !== 'elicitation/create') return { method, params }
  const { elicitationId: _id, ...rest } = params as Readonly<Record<string, unknown>>
  return { method, params: rest }
}

/** The answer if no client can be asked: a question is cancelled, anything else fails. */
export function refuseServerRequest(method: string, why: string): Promise<{ readonly action: 'cancel' }> {
  if (method === 'elicitation/create') return Promise.resolve({ action: 'cancel' })
  return Promise.reject(new ProtocolFailure(-32603, `${method} was not relayed: ${why}`))
}

/**
 * Wraps a function that asks the client so that each request is inspected first.
 * @param inspect returns the parameters to send; throws if the request must not be sent
 */
export const inspectServerRequests =
  (send: NonNullable<Relay['request']>, inspect: (params: unknown) => unknown): NonNullable<Relay['request']> =>
  (method, params, signal) => {
    let question: unknown
    try {
      question = inspect(params)
    } catch {
      return refuseServerRequest(method, 'it has a field that looks like a credential')
    }
    return send(method, question, signal)
  }
