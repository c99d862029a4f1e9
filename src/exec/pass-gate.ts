import { digestOf } from '../core/canonical.ts'
import { PegboardError } from '../core/errors.ts'
import type { Relay } from '../core/tool.ts'
import type { ApprovalRule, Policy } from '../policy/policy.ts'
import type { ViewTool } from '../view/view.ts'
import type { ApprovalGate, OnGateEvent, PendingCall } from './approval-gate.ts'
import type { CallRequest } from './tool-calls.ts'

/** A call with its tool, arguments, and the policy that allowed it. */
export interface ResolvedCall {
  readonly entry: ViewTool
  /** The arguments as the tool's schema parsed them: defaults are filled in. */
  readonly input: unknown
  /** Characters of text in the arguments. */
  readonly size: number
  /** `undefined` for `setup` steps. */
  readonly policy: Policy | undefined
  /** The approval that the call needs. */
  readonly approvalRule: ApprovalRule | undefined
}

export interface ApprovedCall {
  readonly pending: PendingCall
  /**
   * The call with the current tool and policy.
   * @throws PegboardError E_CONFIRMATION_REQUIRED if something else was approved
   */
  recheck(current: ResolvedCall): ResolvedCall
}

/**
 * Counts the call against its rate limits, and asks for approval if it needs one; `undefined` if it does not.
 * @param isCounted whether the call was counted before
 * @throws PegboardError
 */
export function passGate(
  gate: ApprovalGate,
  resolved: ResolvedCall,
  { caller, approval }: CallRequest,
  relay: Relay,
  signal: AbortSignal,
  onGate: OnGateEvent | undefined,
  isCounted: boolean,
  paused?: PendingCall['paused'],
): Promise<ApprovedCall> | undefined {
  const { entry, input, policy, approvalRule } = resolved
  if (!policy) return undefined
  const pending: PendingCall = { tool: entry.tool, input, caller, policy, relay, signal, approval, paused }
  if (!isCounted) gate.count(pending, onGate)
  const answer = approvalRule && gate.ask(pending, approvalRule, onGate)
  return answer?.then(() => ({ pending, recheck: (now) => requireUnchanged(resolved, now) }))
}

/** @throws PegboardError E_CONFIRMATION_REQUIRED if something else was approved */
function requireUnchanged(approvedCall: ResolvedCall, current: ResolvedCall): ResolvedCall {
  if (current.entry.tool === approvedCall.entry.tool) return current
  const [before, after] = [approvedCall, current].map(({ entry: { tool }, input }) =>
    digestOf([tool.id, tool.effect, input]),
  )
  if (before === after) return current
  const { id } = approvedCall.entry.tool
  throw new PegboardError('E_CONFIRMATION_REQUIRED', `${id} changed after a person approved the call.`, {
    hint: 'Call it again to ask for approval of the current version.',
  })
}
