import type { Clock } from '../core/clock.ts'
import { isPegboardError } from '../core/errors.ts'
import type { Json } from '../core/is-record.ts'
import { isProtocolFailure, ProtocolFailure } from '../core/protocol-failure.ts'
import { addInputRound, supportsServerRequest, toModernServerRequest } from '../core/server-requests.ts'
import { createParkedQuestions, type RequestContext, type RoundResult } from './parked-questions.ts'
import type { ProcessRpc } from './process-rpc.ts'
import { createSeal, type SealedState, type StateBinding } from './sealed-state.ts'

/** A request that may take several rounds of questions and answers. */
export interface ResumableRequest extends StateBinding, RequestContext {
  readonly era: 'legacy' | 'modern'
}

/**
 * Requests that Pegboard answers with a question first. It seals the state for the next round to the principal and the
 * request. Calls to 2025 servers that ask while they run stay open for 2026 clients.
 */
export type ResumedRequests = ReturnType<typeof createResumedRequests>

export interface NamedTask {
  readonly owner: string
  readonly id: string
  /** Id of the process that started it, if it is another one. */
  readonly at?: string
}

export interface ResumedRequestsOptions {
  readonly clock: Clock
  /** Signs states. Called once, for the first state. */
  readonly key: () => Buffer
  /** Minimum time that a call waits for an answer, in milliseconds (at least 5 minutes). */
  readonly patienceMs?: number
  /** Other processes that share the state; absent: none. */
  readonly processes?: ProcessRpc | undefined
}

/** How long a call waits for a person to answer. */
const PARKED_MS = 5 * 60_000
/** Validity of a state that a server wrote. No call waits for its answer, and the server can limit it further. */
const STATE_MS = 60 * 60_000
/** Validity of task names. Most servers forget tasks much sooner. */
const TASK_MS = 30 * 24 * 60 * 60_000
const TASK = { method: 'task', params: null } as const
const LIMITS = { perPrincipal: 32, total: 256 } as const

export function createResumedRequests(options: ResumedRequestsOptions) {
  const { clock, key, patienceMs = 0, processes } = options
  const parkedMs = Math.max(PARKED_MS, patienceMs)
  const { seal, open } = createSeal(key, clock)
  const parking = createParkedQuestions({ clock, ttlMs: parkedMs, ...LIMITS })
  processes?.answer('parked', ({ principal, id, round }, context) =>
    parking.resume(String(principal), String(id), Number(round), context),
  )

  async function resumed(
    principal: string,
    [id, round]: NonNullable<SealedState['parked']>,
    request: ResumableRequest,
  ) {
    const localResult = parking.resume(principal, id, round, request)
    const result = localResult ?? processes?.ask('parked', { principal, id, round }, request)
    return (await result) as RoundResult<Json> | undefined
  }

  /** Seals the state of a server together with the input it asked for, also where the server sent no state. */
  const sealResult = <Result extends Json>(
    request: ResumableRequest,
    before: SealedState | undefined,
    result: Result,
  ): Result => {
    if (result['resultType'] !== 'input_required') return result
    const { requestState: inner } = result
    const state = { ...(inner === undefined ? {} : { inner }), ...addInputRound(before ?? {}, result['inputRequests']) }
    return { ...result, requestState: seal(request, state, STATE_MS) }
  }

  const question = <Result extends Json>(
    request: ResumableRequest,
    inputRequests: unknown,
    state: SealedState,
    ttlMs: number,
  ): Result =>
    ({ resultType: 'input_required', inputRequests, requestState: seal(request, state, ttlMs) }) as unknown as Result

  /** The request with the state of the server in place of the sealed one. */
  function contextOf(request: ResumableRequest, state: SealedState | undefined): RequestContext {
    if (!state) return request
    const { requestState: _sealed, inputResponses, ...relay } = request.relay
    const answered = state.again || inputResponses === undefined ? relay : { ...relay, inputResponses }
    const resumedRelay = { ...answered, resumed: true } as const
    return {
      relay: state.inner === undefined ? resumedRelay : { ...resumedRelay, requestState: state.inner },
      signal: request.signal,
      onProgress: request.onProgress,
    }
  }

  async function parkable<Result extends Json>(
    request: ResumableRequest,
    state: SealedState | undefined,
    work: (context: RequestContext) => Promise<Result>,
  ): Promise<Result> {
    const { principal } = request
    const outcome = state?.parked
      ? await resumed(principal, state.parked, request)
      : await parking.start(principal, contextOf(request, state), work)
    if (!outcome)
      throw new ProtocolFailure(-32602, 'The call of this requestState has ended. Make the call again from the start.')
    if (outcome.kind === 'done') return sealResult(request, state, outcome.result as Result)
    return question(request, outcome.requests, { parked: [outcome.id, outcome.round] }, parkedMs)
  }

  return {
    /** @throws ProtocolFailure -32602 for a state of another request, before `work` is called */
    async run<Result extends Json>(
      request: ResumableRequest,
      work: (context: RequestContext) => Promise<Result>,
    ): Promise<Result> {
      const { relay } = request
      const state = relay.requestState === undefined ? undefined : open(request, relay.requestState)
      if (relay.requestState !== undefined && !state) throw new ProtocolFailure(-32602, INVALID_STATE)
      try {
        const parks = relay.request === undefined && (state?.parked || canAnswer(relay.clientCapabilities))
        return parks
          ? await parkable(request, state, work)
          : sealResult(request, state, await work(contextOf(request, state)))
      } catch (error) {
        const urls = request.era === 'modern' ? urlsOf(error) : undefined
        if (!urls) throw error
        if (!supportsServerRequest(relay.clientCapabilities, 'elicitation/create', { mode: 'url' }))
          throw new ProtocolFailure(-32021, 'The server needs a page to be opened first', {
            requiredCapabilities: { elicitation: { url: {} } },
          })
        return question(request, urls, { again: true, ...addInputRound(state ?? {}, urls) }, STATE_MS)
      }
    },
    /** The name of a server's task, valid for one principal. */
    nameTask: (principal: string, owner: string, id: string): string =>
      seal({ principal, ...TASK }, { inner: processes ? [owner, id, processes.processId] : [owner, id] }, TASK_MS),
    /** Finds a task by its name; undefined if it belongs to another principal. */
    findTask(principal: string, name: unknown): NamedTask | undefined {
      const found = open({ principal, ...TASK }, name)?.inner as readonly [string, string, string?] | undefined
      if (!found) return undefined
      const [owner, id, at] = found
      return at === undefined || at === processes?.processId ? { owner, id } : { owner, id, at }
    },
    close: parking.close,
  }
}

const INVALID_STATE =
  'requestState is invalid: it was changed, has expired or belongs to another request. Make the call again.'

const canAnswer = ({ elicitation, sampling, roots }: Json): boolean =>
  elicitation !== undefined || sampling !== undefined || roots !== undefined

/** Pages that a 2025 server needs opened, as questions of 2026; undefined for other errors. */
function urlsOf(error: unknown): Json | undefined {
  const failure = isPegboardError(error) ? error.cause : error
  if (!isProtocolFailure(failure) || failure.code !== -32042) return undefined
  const elicitations = (failure.data as { elicitations?: unknown } | undefined)?.elicitations
  if (!Array.isArray(elicitations) || elicitations.length === 0) return undefined
  const toQuestion = (params: object) => toModernServerRequest('elicitation/create', { ...params, mode: 'url' })
  return Object.fromEntries(elicitations.map((params, n) => [`url-${n + 1}`, toQuestion(params)]))
}
