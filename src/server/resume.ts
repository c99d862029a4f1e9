import { newerAsk, takesAsk } from '../core/asks.ts'
import type { Clock } from '../core/clock.ts'
import { isPegboardError } from '../core/errors.ts'
import { isProtocolFailure, ProtocolFailure } from '../core/failure.ts'
import type { Elsewhere } from './elsewhere.ts'
import { createParking, type Outcome, type Turn } from './park.ts'
import { type Binding, createSeal, type Sealed } from './seal.ts'

type Json = Readonly<Record<string, unknown>>

/** A request that may take several rounds: which one it is, and how it is served this time. */
export interface Asked extends Binding, Turn {
  readonly era: 'legacy' | 'modern'
}

/**
 * Requests that are answered with a question first. Whatever state a client is given to come back with is sealed to its
 * principal and to this very request; and calls to servers that ask while they run are kept for clients that cannot be
 * asked otherwise.
 */
export interface Resumes {
  /** @throws ProtocolFailure -32602 for a state that is not this request's, before `work` is called */
  run<Result extends Json>(asked: Asked, work: (turn: Turn) => Promise<Result>): Promise<Result>
  /** A task of a server as its principal knows it, and nobody else. */
  nameTask(principal: string, owner: string, id: string): string
  /** The owner and its own id of a task, or `undefined` for one that is not this principal's. */
  findTask(principal: string, name: unknown): NamedTask | undefined
  /** Ends calls that wait for their client. */
  close(): void
}

export interface NamedTask {
  readonly owner: string
  readonly id: string
  /** The process that began it, where that is another one. */
  readonly at?: string
}

export interface ResumesOptions {
  readonly clock: Clock
  /** Signs states; read when the first one is made. */
  readonly key: () => Buffer
  /** How long a call waits for its client at least; five minutes anyway. */
  readonly patienceMs?: number
  /** Other processes, where a call may wait as well; absent where there are none. */
  readonly elsewhere?: Elsewhere | undefined
}

/** How long a person may think; the state of a server behind us lives longer, as that server bounds it itself. */
const PARKED_MS = 5 * 60_000
const STATE_MS = 60 * 60_000
/** Servers forget tasks by themselves, most much sooner. */
const TASK_MS = 30 * 24 * 60 * 60_000
const TASK = { method: 'task', params: null } as const
const LIMITS = { perPrincipal: 32, total: 256 } as const

export function createResumes({ clock, key, patienceMs = 0, elsewhere }: ResumesOptions): Resumes {
  const parkedMs = Math.max(PARKED_MS, patienceMs)
  const { seal, open } = createSeal(key, clock)
  const parking = createParking({ clock, ttlMs: parkedMs, ...LIMITS })
  elsewhere?.answer('parked', ({ principal, id, round }, turn) =>
    parking.resume(String(principal), String(id), Number(round), turn),
  )

  async function resumed(principal: string, [id, round]: NonNullable<Sealed['parked']>, asked: Asked) {
    const here = parking.resume(principal, id, round, asked)
    const there = here ?? elsewhere?.ask('parked', { principal, id, round }, asked)
    return (await there) as Outcome<Json> | undefined
  }

  const sealed = <Result extends Json>(asked: Asked, result: Result): Result => {
    if (result['resultType'] !== 'input_required' || result['requestState'] === undefined) return result
    return { ...result, requestState: seal(asked, { inner: result['requestState'] }, STATE_MS) }
  }

  const question = <Result extends Json>(asked: Asked, inputRequests: unknown, state: Sealed, ttlMs: number): Result =>
    ({ resultType: 'input_required', inputRequests, requestState: seal(asked, state, ttlMs) }) as unknown as Result

  /** What the client sent to go on with, as the work may see it. */
  function turnOf(asked: Asked, state: Sealed | undefined): Turn {
    if (!state) return asked
    const { requestState: _sealed, inputResponses, ...relay } = asked.relay
    const answered = state.again || inputResponses === undefined ? relay : { ...relay, inputResponses }
    const resumed = { ...answered, resumed: true } as const
    return {
      relay: state.inner === undefined ? resumed : { ...resumed, requestState: state.inner },
      signal: asked.signal,
      onProgress: asked.onProgress,
    }
  }

  async function parkable<Result extends Json>(
    asked: Asked,
    state: Sealed | undefined,
    work: (turn: Turn) => Promise<Result>,
  ): Promise<Result> {
    const { principal } = asked
    const outcome = state?.parked
      ? await resumed(principal, state.parked, asked)
      : await parking.start(principal, turnOf(asked, state), work)
    if (!outcome)
      throw new ProtocolFailure(-32602, 'The call this state belongs to no longer waits: make it again from the start')
    if (outcome.kind === 'done') return sealed(asked, outcome.result as Result)
    return question(asked, outcome.requests, { parked: [outcome.id, outcome.round] }, parkedMs)
  }

  return {
    async run(asked, work) {
      const { relay } = asked
      const state = relay.requestState === undefined ? undefined : open(asked, relay.requestState)
      if (relay.requestState !== undefined && !state)
        throw new ProtocolFailure(-32602, 'requestState is altered, expired or of another request: make the call again')
      try {
        const parks = relay.request === undefined && (state?.parked || canAnswer(relay.clientCapabilities))
        return parks ? await parkable(asked, state, work) : sealed(asked, await work(turnOf(asked, state)))
      } catch (error) {
        const urls = asked.era === 'modern' ? urlsOf(error) : undefined
        if (!urls) throw error
        if (!takesAsk(relay.clientCapabilities, 'elicitation/create', { mode: 'url' }))
          throw new ProtocolFailure(-32021, 'The server wants a page opened first', {
            requiredCapabilities: { elicitation: { url: {} } },
          })
        return question(asked, urls, { again: true }, STATE_MS)
      }
    },
    nameTask: (principal, owner, id) =>
      seal({ principal, ...TASK }, { inner: elsewhere ? [owner, id, elsewhere.mark] : [owner, id] }, TASK_MS),
    findTask(principal, name) {
      const found = open({ principal, ...TASK }, name)?.inner as readonly [string, string, string?] | undefined
      if (!found) return undefined
      const [owner, id, at] = found
      return at === undefined || at === elsewhere?.mark ? { owner, id } : { owner, id, at }
    },
    close: () => parking.close(),
  }
}

const canAnswer = ({ elicitation, sampling, roots }: Json): boolean =>
  elicitation !== undefined || sampling !== undefined || roots !== undefined

/** The pages a 2025-era server wants opened before it answers, as questions of the newer revision. */
function urlsOf(error: unknown): Json | undefined {
  const failure = isPegboardError(error) ? error.cause : error
  if (!isProtocolFailure(failure) || failure.code !== -32042) return undefined
  const elicitations = (failure.data as { elicitations?: unknown } | undefined)?.elicitations
  if (!Array.isArray(elicitations) || elicitations.length === 0) return undefined
  return Object.fromEntries(
    elicitations.map((params, n) => [
      `url-${n + 1}`,
      newerAsk('elicitation/create', { ...(params as object), mode: 'url' }),
    ]),
  )
}
