import { takesAsk } from '../core/asks.ts'
import { digestOf } from '../core/canonical.ts'
import type { Clock } from '../core/clock.ts'
import type { Answer, Caller } from '../core/context.ts'
import { type Ending, offEnd, onEnd } from '../core/ending.ts'
import { isPegboardError, PegboardError } from '../core/errors.ts'
import { once } from '../core/once.ts'
import { isRecord } from '../core/record.ts'
import type { Relay, Tool } from '../core/tool.ts'
import { createLimiter } from '../policy/limiter.ts'
import type { Asking, Policy } from '../policy/policy.ts'
import { type Asked, confirmation } from './question.ts'

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
  /** The question of several calls that run together, where this is one of them. */
  readonly approval?: JointApproval | undefined
  /** Stops the clock of the call while a person is asked about all of them. */
  readonly paused?: (<T>(answer: Promise<T>) => Promise<T>) | undefined
}

/** Calls that run together and need a yes: a person is asked about all of them at once. */
export interface JointApproval {
  readonly count: number
  /** @throws PegboardError E_CONFIRMATION_REQUIRED when a person cannot be shown all of them */
  readonly messages: () => readonly string[]
  /** How often each call may still use the answer. */
  readonly left: Map<string, number>
  answer?: Promise<void>
}

/** A call and who makes it. */
export type PlannedCall = Pick<Passing, 'tool' | 'input' | 'caller' | 'policy'>

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
  /** Prepares one question for those of the calls that need a yes; `undefined` where fewer than two do. */
  together(calls: readonly PlannedCall[]): JointApproval | undefined
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

  const keyOf = ({ tool, input, caller }: PlannedCall): string =>
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
    const { tool, relay, caller, input, approval, paused } = call
    const { setting } = asking
    if (
      !relay.request ||
      !caller.supports.elicitation ||
      !takesAsk(relay.clientCapabilities, 'elicitation/create', {})
    ) {
      told?.('unasked', setting)
      throw new PegboardError(
        'E_CONFIRMATION_REQUIRED',
        `${tool.id} runs only when a person says yes, and this client cannot ask one.`,
        {
          hint: `Use a client that can ask its user; ${setting} decides.`,
        },
      )
    }
    const together = approval && takesPart(approval, call) ? approval : undefined
    let messages: readonly string[]
    try {
      messages = together ? together.messages() : confirmation([{ tool, input, asking }], hide)
    } catch (error) {
      told?.('unasked', setting)
      throw error
    }
    told?.('ask', setting)
    try {
      if (!together) await show(messages, call, asking, tool.id)
      else if (together.answer) await (paused?.(together.answer) ?? together.answer)
      else {
        together.answer = show(messages, call, asking, `${together.count} calls`)
        await together.answer
      }
    } catch (error) {
      const isDeclined = isPegboardError(error) && error.code === 'E_CONFIRMATION_DECLINED'
      told?.(isDeclined ? 'decline' : 'unanswered', setting)
      throw error
    }
    told?.('accept', setting)
  }

  /** Whether the question of the calls that run together is about this one, too. An answer is good for each of them once. */
  function takesPart({ left }: JointApproval, call: Passing): boolean {
    const key = keyOf(call)
    const count = left.get(key) ?? 0
    left.set(key, count - 1)
    return count > 0
  }

  /** Shows the messages one after the other. @throws PegboardError unless each of them is accepted */
  async function show(
    messages: readonly string[],
    { relay, ending }: Passing,
    { setting, timeoutMs }: Asking,
    what: string,
  ): Promise<void> {
    for (const message of messages) {
      const over = new AbortController()
      const end = (): void => over.abort(ending.reason)
      onEnd(ending, end)
      if (ending.aborted) end()
      const late = new PegboardError(
        'E_CONFIRMATION_REQUIRED',
        `Nobody answered within ${Math.round(timeoutMs / 1_000)} s whether ${what} may run.`,
        { hint: `Ask the person, then call again; ${setting} decides.` },
      )
      const stop = clock.after(timeoutMs, () => over.abort(late))
      let answer: Answer
      try {
        const params = { mode: 'form', message, requestedSchema: { type: 'object', properties: {} } }
        const asked = (relay.request as NonNullable<Relay['request']>)('elicitation/create', params, over.signal)
        answer = (await Promise.race([asked, aborted(over.signal)])) as Answer
      } catch (error) {
        if (over.signal.aborted) throw over.signal.reason
        throw new PegboardError('E_CONFIRMATION_REQUIRED', `Whether ${what} may run could not be asked.`, {
          hint: `Use a client that can ask its user; ${setting} decides.`,
          cause: error,
        })
      } finally {
        stop()
        offEnd(ending, end)
      }
      if (!isRecord(answer) || answer.action !== 'accept')
        throw new PegboardError('E_CONFIRMATION_DECLINED', `The person who was asked did not let ${what} run.`)
    }
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
    together(calls) {
      const asked = calls.flatMap((call): Array<PlannedCall & Asked> => {
        const decision = call.policy.decide(call.tool, call.caller)
        return decision.allow && decision.ask ? [{ ...call, asking: decision.ask }] : []
      })
      if (asked.length < 2) return undefined
      const left = new Map<string, number>()
      for (const one of asked) {
        const key = keyOf(one)
        left.set(key, (left.get(key) ?? 0) + 1)
      }
      return { count: asked.length, messages: once(() => confirmation(asked, hide)), left }
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
