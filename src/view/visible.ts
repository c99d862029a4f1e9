import type { Caller } from '../core/context.ts'
import { messageOf } from '../core/errors.ts'
import type { Tool } from '../core/tool.ts'
import type { Policy } from '../policy/policy.ts'

/**
 * Why a tool is not there for a caller. `denied` must look unknown to the caller; the others may say their reason.
 */
export interface Hidden {
  readonly kind: 'denied' | 'disabled' | 'unavailable'
  readonly reason: string
}

/**
 * The one predicate behind listing, searching and calling, in this order: policy (constraints, deny, effect, switches),
 * then the tool's own `available`. A check that throws hides its tool.
 */
export function hiddenFrom(tool: Tool, caller: Caller, policy: Policy): Hidden | undefined {
  try {
    const decision = policy.decide(tool)
    if (!decision.allow) return { kind: decision.kind, reason: decision.reason }
  } catch (error) {
    return { kind: 'denied', reason: `the policy check failed: ${messageOf(error)}` }
  }
  try {
    const available = tool.available(caller)
    return available === true ? undefined : { kind: 'unavailable', reason: String(available) }
  } catch (error) {
    return { kind: 'unavailable', reason: `its availability check failed: ${messageOf(error)}` }
  }
}
