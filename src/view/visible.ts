import type { Caller } from '../core/context.ts'
import { messageOf, PegboardError } from '../core/errors.ts'
import { wireName } from '../core/names.ts'
import type { Tool } from '../core/tool.ts'
import type { Policy } from '../policy/policy.ts'

/**
 * Why a tool is not there for a caller. `denied` must look unknown to the caller; the others may say their reason.
 */
export interface Hidden {
  readonly kind: 'denied' | 'disabled' | 'unavailable' | 'quarantined'
  readonly reason: string
  /** Of a quarantined tool: how it is refused, and what lets it in. */
  readonly code?: 'E_TOOL_CHANGED' | 'E_TOOL_QUARANTINED'
  readonly hint?: string
}

/** How a call of a hidden tool is refused, where it may be told at all. */
export function refusalOf({ id, hidden }: { readonly id: string; readonly hidden: Hidden }): PegboardError {
  if (hidden.kind === 'disabled')
    return new PegboardError('E_TOOL_DISABLED', hidden.reason, {
      hint: `Set tools.${id}.enabled to true to allow it.`,
    })
  if (hidden.kind === 'quarantined')
    return new PegboardError(hidden.code ?? 'E_TOOL_QUARANTINED', `${id} ${hidden.reason}.`, {
      ...(hidden.hint === undefined ? {} : { hint: hidden.hint }),
    })
  return new PegboardError('E_TOOL_HIDDEN', `${id} is not available: ${hidden.reason}.`, {
    hint: 'Use another tool until that has changed.',
  })
}

/** A tool as a caller may have it, or why not. */
export type Seen = { readonly tool: Tool } | { readonly hidden: Hidden }

/**
 * The one predicate behind listing, searching and calling, in this order: policy (constraints, deny, effect, switches),
 * then the tool's own `available`. A check that throws hides its tool.
 */
export function see(tool: Tool, caller: Caller, policy: Policy): Seen {
  if (tool.internal) return { hidden: { kind: 'denied', reason: 'it is for set-up steps only' } }
  let as: string | undefined
  try {
    const decision = policy.decide(tool)
    if (!decision.allow) return { hidden: { kind: decision.kind, reason: decision.reason } }
    as = decision.as
  } catch (error) {
    return { hidden: { kind: 'denied', reason: `the policy check failed: ${messageOf(error)}` } }
  }
  try {
    const available = tool.available(caller)
    if (available !== true) return { hidden: { kind: 'unavailable', reason: String(available) } }
  } catch (error) {
    return { hidden: { kind: 'unavailable', reason: `its availability check failed: ${messageOf(error)}` } }
  }
  return { tool: as === undefined ? tool : named(tool, as) }
}

/** The tool under one of its aliases; its own name becomes an alias. */
function named(tool: Tool, alias: string): Tool {
  const id = `${tool.module}.${alias}`
  const aliases = [tool.id.slice(tool.module.length + 1), ...tool.aliases.filter((other) => other !== alias)]
  return Object.create(tool, {
    id: { value: id, enumerable: true },
    name: { value: wireName(id), enumerable: true },
    aliases: { value: aliases, enumerable: true },
  })
}
