import { messageOf, PegboardError } from '../core/errors.ts'
import { asRecord, isRecord, type Json } from '../core/is-record.ts'
import { isProtocolFailure, ProtocolFailure } from '../core/protocol-failure.ts'
import { SERVER_REQUEST_METHODS, type ServerRequestKind } from '../core/server-requests.ts'
import { relayedAsk } from './relayed-ask.ts'

/** What a server may ask for in a result. */
export interface InputRules {
  readonly id: string
  /** Path of the server's entry in the configuration. */
  readonly where: string
  readonly era: 'legacy' | 'modern'
  readonly allowed: readonly ServerRequestKind[]
}

/** Clients show each question to a person. */
const MAX_ASKED = 16

/**
 * Checks a result that asks the client for input, and adds the server's name to the questions. Other results are
 * returned unchanged.
 * @throws PegboardError E_UPSTREAM_PROTOCOL for requests that `relay` does not allow or that the server's era does
 * not have
 */
export function checkedInput(result: Json, rules: InputRules): Json {
  const asksForInput = result['resultType'] === 'input_required'
  const requests = result['inputRequests']
  // Within a task's result there is no request left to answer the question.
  const nested = isRecord(result['result']) && result['result']['resultType'] === 'input_required'
  if (!asksForInput && requests === undefined && !nested) return result
  if (nested || rules.era === 'legacy')
    throw createInputError(rules, 'asks a question where the protocol does not allow one')
  // A result with state only is repeated without asking anybody.
  if (requests === undefined) return result
  if (!isRecord(requests)) throw createInputError(rules, 'asks in an invalid form')
  const entries = Object.entries(requests)
  if (entries.length > MAX_ASKED)
    throw createInputError(rules, `asks ${entries.length} things at once, more than ${MAX_ASKED}`)
  return { ...result, inputRequests: Object.fromEntries(entries.map(([key, one]) => [key, checkRequest(one, rules)])) }
}

/** The same for the error -32042, which asks the client to open URLs; other errors are returned unchanged. */
export function checkedFailure(error: unknown, rules: InputRules): unknown {
  if (!isProtocolFailure(error) || error.code !== -32042) return error
  const { elicitations } = asRecord(error.data)
  try {
    if (!Array.isArray(elicitations) || elicitations.length > MAX_ASKED)
      throw createInputError(rules, 'asks in an invalid form')
    const relayed = elicitations.map((params) => {
      const ask = checkRequest({ method: 'elicitation/create', params: { ...(params as object), mode: 'url' } }, rules)
      const { mode: _ours, ...rest } = ask['params'] as Json
      return isRecord(params) && 'mode' in params ? ask['params'] : rest
    })
    return new ProtocolFailure(error.code, error.message, { ...(error.data as object), elicitations: relayed })
  } catch (refusal) {
    return refusal
  }
}

function checkRequest(request: unknown, rules: InputRules): Json {
  const { method, params, ...rest } = asRecord(request)
  const ask =
    typeof method === 'string' && Object.hasOwn(SERVER_REQUEST_METHODS, method)
      ? SERVER_REQUEST_METHODS[method]
      : undefined
  if (ask === undefined || (params !== undefined && !isRecord(params)))
    throw createInputError(rules, 'sent an unknown request')
  if (!rules.allowed.includes(ask))
    throw createInputError(rules, `asks for ${ask}, which ${rules.where}.relay does not allow`)
  try {
    return { ...rest, method, params: relayedAsk(String(method), params ?? {}, rules.id) }
  } catch (error) {
    throw createInputError(rules, `sent a request that is not relayed: ${messageOf(error)}`)
  }
}

const createInputError = ({ id }: InputRules, what: string): PegboardError =>
  new PegboardError('E_UPSTREAM_PROTOCOL', `${id} ${what}.`)
