import { takesAsk } from '../core/asks.ts'
import { digestOf } from '../core/canonical.ts'
import type { Clock } from '../core/clock.ts'
import type { Answer, Caller } from '../core/context.ts'
import { type Ending, offEnd, onEnd } from '../core/ending.ts'
import { PegboardError } from '../core/errors.ts'
import { isRecord } from '../core/record.ts'
import type { Relay, Tool } from '../core/tool.ts'
import { createLimiter } from '../policy/limiter.ts'
import type { Asking, Policy } from '../policy/policy.ts'
import { confirmation } from './question.ts'

/** One call that is about to run. */
export interface Passing {
  readonly tool: Tool
  /** What it will run with. */
  readonly input: unknown
  readonly caller: Caller
  readonly policy: Policy
  /** Questions asked through it are put aside of what bounds the call. */
  readonly relay: Relay
  readonly ending: Ending
}

/** What happened at the gate, for whoever keeps a record of it. */
export type GateEvent = 'ask' | 'accept' | 'decline' | 'unanswered' | 'unasked' | 'rate limit'
export type OnGate = (event: GateEvent, setting: string) => void

/** What a call passes that its policy has more to say about than yes or no. */
export interface Gate {
  /** Counts it. @throws PegboardError E_RATE_LIMITED */
  count(call: Passing, told?: OnGate): void
  /**
   * Resolves when a person has said yes to this very call; `undefined` where nobody need be asked. A yes is good for one
   * call with these arguments, up to its end.
   * @throws PegboardError E_CONFIRMATION_REQUIRED, E_CONFIRMATION_DECLINED
   */
  confirm(call: Passing, told?: OnGate): Promise<void> | undefined
  /** A confirmed call has ended with a question of its server, or with a page to open first: the same call, made again with the answer, needs no second yes. */
  goesOn(call: Passing): void
}

export interface GateOptions {
  readonly clock: Clock
  /** Takes out what is known to be secret. */
  readonly hide?: (text: string) => string
}

/** How long a client may take to come back with the answers for a server, and how many such calls are remembered. */
const GOES_ON_MS = 15 * 60_000
const MAX_OPEN = 1_000

export function createGate({ clock, hide = (text) => text }: GateOptions): Gate {
  const limiter = createLimiter(clock)
  const open = new Map<string, number>()

  const keyOf = ({ tool, input, caller }: Passing): string =>
    digestOf([caller.principal, caller.profile, tool.id, tool.effect, input])

  /** True once for each confirmed call that is to be made again. */
  function resumes(call: Passing): boolean {
    const { resumed, inputResponses } = call.relay
    if (open.size === 0 || (!resumed && inputResponses === undefined)) return false
    const key = keyOf(call)
    const until = open.get(key)
    open.delete(key)
    return until !== undefined && until > clock.now()
  }

  async function put(call: Passing, asking: Asking, told: OnGate | undefined): Promise<void> {
    const { tool, relay, ending, caller } = call
    const { setting, timeoutMs } = asking
    const send = relay.request
    if (!send || !caller.supports.elicitation || !takesAsk(relay.clientCapabilities, 'elicitation/create', {})) {
      told?.('unasked', setting)
      throw new PegboardError(
        'E_CONFIRMATION_REQUIRED',
        `${tool.id} runs only when a person says yes, and this client cannot ask one.`,
        {
          hint: `Use a client that can ask its user; ${setting} decides.`,
        },
      )
    }
    const over = new AbortController()
    const end = (): void => over.abort(ending.reason)
    onEnd(ending, end)
    const late = new PegboardError(
      'E_CONFIRMATION_REQUIRED',
      `Nobody answered within ${Math.round(timeoutMs / 1_000)} s whether ${tool.id} may run.`,
      {
        hint: `Ask the person, then call again; ${setting} decides.`,
      },
    )
    const stop = clock.after(timeoutMs, () => over.abort(late))
    told?.('ask', setting)
    let answer: Answer
    try {
      const { message, schema } = confirmation(tool, call.input, asking, hide)
      const params = { mode: 'form', message, requestedSchema: schema }
      answer = (await Promise.race([send('elicitation/create', params, over.signal), aborted(over.signal)])) as Answer
    } catch (error) {
      told?.('unanswered', setting)
      if (over.signal.aborted) throw over.signal.reason
      throw new PegboardError('E_CONFIRMATION_REQUIRED', `Whether ${tool.id} may run could not be asked.`, {
        hint: `Use a client that can ask its user; ${setting} decides.`,
        cause: error,
      })
    } finally {
      stop()
      offEnd(ending, end)
    }
    const yes = isRecord(answer) && answer.action === 'accept'
    told?.(yes ? 'accept' : 'decline', setting)
    if (!yes) throw new PegboardError('E_CONFIRMATION_DECLINED', `The person who was asked did not let ${tool.id} run.`)
  }

  return {
    count({ policy, tool, caller }, told) {
      if (policy.rates.length === 0) return
      const none = limiter.take(policy.rates, tool, caller)
      if (!none) return
      const { rate, retryAfterMs } = none
      told?.('rate limit', rate.setting)
      throw new PegboardError('E_RATE_LIMITED', `${tool.id} may be called ${rate.perMinute} times a minute.`, {
        hint: `Try again in ${Math.ceil(retryAfterMs / 1_000)} s; ${rate.setting} decides.`,
        retryAfterMs,
      })
    },
    confirm(call, told) {
      const decision = call.policy.decide(call.tool, call.caller)
      if (!decision.allow) throw new PegboardError('E_NOT_FOUND', `Tool '${call.tool.id}' not found.`)
      if (!decision.ask || resumes(call)) return undefined
      return put(call, decision.ask, told)
    },
    goesOn(call) {
      const now = clock.now()
      if (open.size >= MAX_OPEN) for (const [key, until] of open) if (until <= now) open.delete(key)
      const [oldest] = open.keys()
      if (open.size >= MAX_OPEN && oldest !== undefined) open.delete(oldest)
      open.set(keyOf(call), now + GOES_ON_MS)
    },
  }
}

/** Not everything that asks listens to a signal. */
const aborted = (signal: AbortSignal): Promise<never> =>
  new Promise((_resolve, reject) => {
    if (signal.aborted) reject(signal.reason)
    else signal.addEventListener('abort', () => reject(signal.reason), { once: true })
  })
