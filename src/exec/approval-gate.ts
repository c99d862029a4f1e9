import { linkAbort, raceAbort } from '../core/abort.ts'
import type { Answer, Caller } from '../core/caller.ts'
import { digestOf } from '../core/canonical.ts'
import type { Clock } from '../core/clock.ts'
import { dropOldest } from '../core/drop-oldest.ts'
import { isPegboardError, PegboardError } from '../core/errors.ts'
import { formatCount } from '../core/format-count.ts'
import { isRecord } from '../core/is-record.ts'
import { once } from '../core/once.ts'
import { supportsServerRequest } from '../core/server-requests.ts'
import type { Relay, Tool } from '../core/tool.ts'
import type { ApprovalRule, Policy } from '../policy/policy.ts'
import { createRateLimiter } from '../policy/rate-limiter.ts'
import { type ApprovalRequest, createConfirmation } from './approval-question.ts'

/** A call that is checked and has not run. */
export interface PendingCall {
  readonly tool: Tool
  /** The arguments as the tool's schema parsed them: defaults are filled in. */
  readonly input: unknown
  readonly caller: Caller
  readonly policy: Policy
  /** Sends questions to the client. The time that a question takes does not count against the call's time limit. */
  readonly relay: Relay
  readonly signal: AbortSignal
  /** The shared question, if the call is one of several that run together. */
  readonly approval?: JointApproval | undefined
  /** Pauses the time limit of the call while a person answers the shared question. */
  readonly paused?: (<T>(answer: Promise<T>) => Promise<T>) | undefined
}

/** One question for several calls that run together and need approval. */
export interface JointApproval {
  readonly count: number
  /** @throws PegboardError E_CONFIRMATION_REQUIRED when a person cannot be shown all of them */
  readonly messages: () => readonly string[]
  /** How often each call may still use the answer. */
  readonly remaining: Map<string, number>
  answer?: Promise<void>
}

/** A call after `src/exec/resolve-call.ts` has resolved its name to a tool. */
export type GatedCall = Pick<PendingCall, 'tool' | 'input' | 'caller' | 'policy'>
export type CallToApprove = ApprovalRequest & Pick<PendingCall, 'caller'>

/**
 * What happened at the gate, in the words of the audit log. `unasked`: nobody could be asked. `unanswered`: the client
 * was asked and no answer arrived. An event that ends the call also belongs in the condition in `audited-call.ts`.
 */
export type GateEvent = 'ask' | 'accept' | 'decline' | 'unanswered' | 'unasked' | 'rate limit'
export type OnGateEvent = (event: GateEvent, setting: string) => void

export interface ApprovalGate {
  /**
   * The approval that the call needs; `undefined` if it needs none. Must not count calls, because it runs several times for
   * one call: before the call waits for a slot or a server, after each wait, and before a person is asked about all calls
   * of a `run_parallel`. It also runs when a client plans the call with a watcher or schedule. Then it does not know when
   * the call will run.
   *
   * If it rejects a call, the audit log still has the decision `allow`, because the policy allowed the tool. `outcome` is
   * the error's code.
   * @throws PegboardError E_NOT_FOUND if the policy denies the tool. A rule that rejects the call throws
   * E_DENIED_BY_POLICY, or a code that says more, such as E_TOO_LARGE
   */
  check(call: GatedCall): ApprovalRule | undefined
  /**
   * Counts the call against its rate limits. Runs once for each request, before a person is asked and before the call waits
   * for a slot: a call that was counted can still fail. A client that repeats a call with the answer to a server's question
   * sends another request. Reports a refusal as a `GateEvent`, which is the `decision` in the audit log.
   *
   * Count by principal, because calls of clients of 2026-07-28, background tasks, watchers and schedules have no session.
   * A limit for each session must forget its counts in `forget` in `src/app/client-tools.ts`, which runs when a session ends.
   * @throws PegboardError E_RATE_LIMITED if the call can succeed later
   */
  count(call: GatedCall, onGate?: OnGateEvent): void
  /**
   * Asks a person to approve this call. Returns `undefined` if an approval was kept for it. An approval is valid
   * for one call with these arguments, until the call ends, or as `keepApproval` says.
   * @throws PegboardError E_CONFIRMATION_REQUIRED, E_CONFIRMATION_DECLINED
   */
  ask(call: PendingCall, rule: ApprovalRule, onGate?: OnGateEvent): Promise<void> | undefined
  /** Prepares one question for calls that need approval; `undefined` for fewer than two. */
  combineApprovals(calls: readonly CallToApprove[]): JointApproval | undefined
  /**
   * Call this when an approved call ended with a question of its server, or with a page to open. When the client
   * repeats the call with the answer and the signed state within 15 minutes, it needs no second approval.
   */
  keepApproval(call: Pick<PendingCall, 'tool' | 'input' | 'caller'>): void
}

export interface GateOptions {
  /** Time of the machine, or of Redis if several Pegboards share their state. */
  readonly clock: Clock
  /** Removes known secrets from a text. */
  readonly hide: (text: string) => string
}

/** How long and how many approvals are kept for calls that their clients repeat. */
const KEPT_APPROVAL_MS = 15 * 60_000
const MAX_KEPT_APPROVALS = 1_000

export function createApprovalGate({ clock, hide }: GateOptions): ApprovalGate {
  const limiter = createRateLimiter(clock)
  const keptApprovals = new Map<string, number>()

  const keyOf = ({ tool, input, caller }: Pick<PendingCall, 'tool' | 'input' | 'caller'>): string =>
    digestOf([caller.principal, caller.profile, tool.id, tool.effect, input])

  /** True once for each call that was approved before its server asked a question. */
  function takeKeptApproval(call: PendingCall): boolean {
    if (keptApprovals.size === 0 || !call.relay.resumed) return false
    const key = keyOf(call)
    const until = keptApprovals.get(key)
    keptApprovals.delete(key)
    return until !== undefined && until > clock.now()
  }

  async function askPerson(call: PendingCall, rule: ApprovalRule, onGate: OnGateEvent | undefined): Promise<void> {
    const { tool, relay, caller, input, approval, paused } = call
    const { setting } = rule
    if (
      !relay.request ||
      !caller.supports.elicitation ||
      !supportsServerRequest(relay.clientCapabilities, 'elicitation/create', {})
    ) {
      onGate?.('unasked', setting)
      throw new PegboardError(
        'E_CONFIRMATION_REQUIRED',
        `${tool.id} needs the approval of a person, and this client cannot ask one.`,
        { hint: `Use a client that can ask its user, or change ${setting}.` },
      )
    }
    const joint = approval && takeJointAnswer(approval, call) ? approval : undefined
    let messages: readonly string[]
    try {
      messages = joint ? joint.messages() : createConfirmation([{ tool, input, rule }], hide)
    } catch (error) {
      onGate?.('unasked', setting)
      throw error
    }
    onGate?.('ask', setting)
    try {
      if (!joint) await showMessages(messages, call, rule, tool.id)
      else if (joint.answer) await (paused?.(joint.answer) ?? joint.answer)
      else {
        joint.answer = showMessages(messages, call, rule, `${joint.count} calls`)
        await joint.answer
      }
    } catch (error) {
      const isDeclined = isPegboardError(error) && error.code === 'E_CONFIRMATION_DECLINED'
      onGate?.(isDeclined ? 'decline' : 'unanswered', setting)
      throw error
    }
    onGate?.('accept', setting)
  }

  /** True if the shared question covers this call. Each call can use an answer once. */
  function takeJointAnswer({ remaining }: JointApproval, call: PendingCall): boolean {
    const key = keyOf(call)
    const count = remaining.get(key) ?? 0
    remaining.set(key, count - 1)
    return count > 0
  }

  /** Shows the messages one after the other. @throws PegboardError unless each of them is accepted */
  async function showMessages(
    messages: readonly string[],
    { relay, signal }: PendingCall,
    { setting, timeoutMs }: ApprovalRule,
    what: string,
  ): Promise<void> {
    for (const message of messages) {
      const abort = new AbortController()
      const unlink = linkAbort(signal, abort)
      const timeoutError = new PegboardError(
        'E_CONFIRMATION_REQUIRED',
        `Nobody answered the approval request for ${what} within ${Math.round(timeoutMs / 1_000)} s.`,
        { hint: `Ask the person, then call again, or change ${setting}.` },
      )
      const stop = clock.after(timeoutMs, () => abort.abort(timeoutError))
      let answer: Answer
      try {
        const params = { mode: 'form', message, requestedSchema: { type: 'object', properties: {} } }
        const elicitation = (relay.request as NonNullable<Relay['request']>)('elicitation/create', params, abort.signal)
        // Some relays do not listen to a signal.
        answer = (await raceAbort(elicitation, abort.signal)) as Answer
      } catch (error) {
        if (abort.signal.aborted) throw abort.signal.reason
        throw new PegboardError(
          'E_CONFIRMATION_REQUIRED',
          `The client could not show the approval request for ${what}.`,
          {
            hint: `Use a client that can ask its user, or change ${setting}.`,
            cause: error,
          },
        )
      } finally {
        stop()
        unlink()
      }
      if (!isRecord(answer) || answer.action !== 'accept')
        throw new PegboardError('E_CONFIRMATION_DECLINED', `A person did not approve ${what}.`)
    }
  }

  return {
    check({ policy, tool, caller }) {
      // The view of the caller already has no denied tools. This finds out whether a person must approve.
      const decision = policy.mayAsk ? policy.decide(tool, caller) : undefined
      if (decision?.allow === false) throw new PegboardError('E_NOT_FOUND', `Tool '${tool.id}' not found.`)
      return decision?.ask
    },
    count({ policy, tool, caller }, onGate) {
      if (policy.rates.length === 0) return
      const exceeded = limiter.take(policy.rates, tool, caller)
      if (!exceeded) return
      const { rate, retryAfterMs } = exceeded
      onGate?.('rate limit', rate.setting)
      throw new PegboardError(
        'E_RATE_LIMITED',
        `${tool.id} has a limit of ${formatCount(rate.perMinute, 'call')} per minute.`,
        {
          hint: `Try again in ${Math.ceil(retryAfterMs / 1_000)} s. ${rate.setting} sets the limit.`,
          retryAfterMs,
        },
      )
    },
    ask: (call, rule, onGate) => (takeKeptApproval(call) ? undefined : askPerson(call, rule, onGate)),
    combineApprovals(calls) {
      if (calls.length < 2) return undefined
      const remaining = new Map<string, number>()
      for (const call of calls) {
        const key = keyOf(call)
        remaining.set(key, (remaining.get(key) ?? 0) + 1)
      }
      return {
        count: calls.length,
        messages: once(() => createConfirmation(calls, hide)),
        remaining,
      }
    },
    keepApproval(call) {
      const now = clock.now()
      if (keptApprovals.size >= MAX_KEPT_APPROVALS)
        for (const [key, until] of keptApprovals) if (until <= now) keptApprovals.delete(key)
      keptApprovals.set(keyOf(call), now + KEPT_APPROVAL_MS)
      dropOldest(keptApprovals, MAX_KEPT_APPROVALS)
    },
  }
}
