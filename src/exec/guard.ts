import { digestOf } from '../core/canonical.ts'
import type { Ending } from '../core/ending.ts'
import { PegboardError } from '../core/errors.ts'
import type { Relay } from '../core/tool.ts'
import type { Policy } from '../policy/policy.ts'
import type { ViewTool } from '../view/view.ts'
import type { CallRequest } from './call.ts'
import type { Gate, OnGate, Passing } from './gate.ts'

/** What is about to run: which tool, with what, and whose policy it was that let it. */
export interface Ready {
  readonly entry: ViewTool
  readonly input: unknown
  /** None for `setup` steps. */
  readonly policy: Policy | undefined
}

/** A call that somebody has said yes to. */
export interface Confirmed {
  readonly passing: Passing
  /** The call as it would be made now. */
  again(now: Ready): Ready
}

/** Sends a call through the gate. `undefined`, without a promise, where nobody need be asked. @throws PegboardError */
export function guard(
  gate: Gate,
  asked: Ready,
  policy: Policy,
  { caller, approval }: CallRequest,
  relay: Relay,
  ending: Ending,
  told: OnGate | undefined,
  counted: boolean,
  paused?: Passing['paused'],
): Promise<Confirmed> | undefined {
  const { input } = asked
  const passing: Passing = { tool: asked.entry.tool, input, caller, policy, relay, ending, approval, paused }
  if (!counted) gate.count(passing, told)
  const answer = gate.confirm(passing, told)
  return answer?.then(() => ({ passing, again: (now) => unchanged(asked, now) }))
}

/** @throws PegboardError E_CONFIRMATION_REQUIRED when a yes was to something else */
function unchanged(asked: Ready, now: Ready): Ready {
  if (now.entry.tool === asked.entry.tool) return asked
  const [before, after] = [asked, now].map(({ entry: { tool }, input }) => digestOf([tool.id, tool.effect, input]))
  if (before === after) return now
  const { id } = asked.entry.tool
  throw new PegboardError('E_CONFIRMATION_REQUIRED', `${id} has changed since somebody said yes to it.`, {
    hint: 'Call it again, so that the person is asked about what it is now.',
  })
}
