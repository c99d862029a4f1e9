import { digestOf } from '../core/canonical.ts'
import { PegboardError } from '../core/errors.ts'
import type { Relay } from '../core/tool.ts'
import type { Policy } from '../policy/policy.ts'
import type { ViewTool } from '../view/view.ts'
import type { Gate, OnGate, PendingCall } from './approval-gate.ts'
import type { CallRequest } from './tool-calls.ts'

/** A call with its tool, arguments, and the policy that allowed it. */
export interface ReadyCall {
  readonly entry: ViewTool
  readonly input: unknown
  /** Characters of text in the arguments. */
  readonly size: number
  /** `undefined` for `setup` steps. */
  readonly policy: Policy | undefined
}

/** A call that a person approved. */
export interface ConfirmedCall {
  readonly passing: PendingCall
  /** The call with the current tool and policy. */
  again(now: ReadyCall): ReadyCall
}

/** Asks for approval if the policy requires it; `undefined` if not. @throws PegboardError */
export function confirmCall(
  gate: Gate,
  asked: ReadyCall,
  policy: Policy,
  { caller, approval }: CallRequest,
  relay: Relay,
  signal: AbortSignal,
  told: OnGate | undefined,
  counted: boolean,
  paused?: PendingCall['paused'],
): Promise<ConfirmedCall> | undefined {
  const { input } = asked
  const passing: PendingCall = { tool: asked.entry.tool, input, caller, policy, relay, signal, approval, paused }
  if (!counted) gate.count(passing, told)
  const answer = gate.confirm(passing, told)
  return answer?.then(() => ({ passing, again: (now) => requireUnchanged(asked, now) }))
}

/** @throws PegboardError E_CONFIRMATION_REQUIRED if something else was approved */
function requireUnchanged(asked: ReadyCall, now: ReadyCall): ReadyCall {
  if (now.entry.tool === asked.entry.tool) return asked
  const [before, after] = [asked, now].map(({ entry: { tool }, input }) => digestOf([tool.id, tool.effect, input]))
  if (before === after) return now
  const { id } = asked.entry.tool
  throw new PegboardError('E_CONFIRMATION_REQUIRED', `${id} changed after a person approved the call.`, {
    hint: 'Call it again to ask for approval of the current version.',
  })
}
