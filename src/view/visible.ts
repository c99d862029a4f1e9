import type { OwnerInfo } from '../catalog/catalog.ts'
import type { Caller } from '../core/context.ts'
import { type ErrorCode, messageOf, PegboardError } from '../core/errors.ts'
import { wireName } from '../core/names.ts'
import type { Tool } from '../core/tool.ts'
import { missingNeed } from './needs.ts'
import type { Rules } from './rules.ts'

/** The steps a tool passes before a caller has it, in this order; `backend` is a module's own check, `upstream` a server's. */
export const STAGES = [
  'policy',
  'provider',
  'capabilities',
  'flags',
  'permissions',
  'switch',
  'backend',
  'upstream',
  'replacement',
  'deliberate',
  'assembly',
] as const
export type Stage = (typeof STAGES)[number]

/**
 * Why a tool is not there for a caller. `denied` must look unknown to the caller; the others may say their reason.
 */
export interface Hidden {
  readonly kind: 'denied' | 'disabled' | 'unavailable' | 'quarantined'
  readonly stage: Stage
  /** Safe to show a model. */
  readonly reason: string
  /** What a check threw that failed: for the log and the operator alone. */
  readonly failure?: string
  /** What the operator would change. */
  readonly setting?: string
  /** Of a quarantined tool: how it is refused, and what lets it in. */
  readonly code?: 'E_TOOL_CHANGED' | 'E_TOOL_QUARANTINED'
  readonly hint?: string
}

/** How a call of a hidden tool is refused, where it may be told at all. */
export function refusalOf({ id, hidden }: { readonly id: string; readonly hidden: Hidden }): PegboardError {
  if (hidden.kind === 'disabled')
    return new PegboardError('E_TOOL_DISABLED', hidden.reason, {
      hint: `Set ${hidden.setting ?? `tools.${id}.enabled`} to true to allow it.`,
    })
  if (hidden.kind === 'quarantined')
    return new PegboardError(hidden.code ?? 'E_TOOL_QUARANTINED', `${id} ${hidden.reason}.`, {
      ...(hidden.hint === undefined ? {} : { hint: hidden.hint }),
    })
  return new PegboardError('E_TOOL_HIDDEN', `${id} is not available: ${hidden.reason}.`, {
    hint:
      hidden.stage === 'deliberate'
        ? 'Answer without it, or ask the person whether they want it.'
        : 'Use another tool until that has changed.',
  })
}

const CORRECT = 'Tell the person who runs Pegboard; only they can correct'
/** Reasons of a server that only a person can change, with the codes that its calls answer once it has been there. */
const ONLY_A_PERSON: ReadonlyArray<readonly [reason: RegExp, code: ErrorCode, hint?: string]> = [
  [/^it wants (?:a login|authorization|a token)/, 'E_AUTH_REQUIRED'],
  [/^it refuses what it is given/, 'E_AUTH_REQUIRED', `${CORRECT} that key.`],
  [/^it redirects to another address/, 'E_REDIRECT_BLOCKED', `${CORRECT} its address.`],
  [/^The address is refused/, 'E_SSRF_BLOCKED', `${CORRECT} its address.`],
]

/** Why a tool is not there: that of the server it is said to be of. */
export function absentBy(
  { id, state, reason }: Pick<OwnerInfo, 'id' | 'state' | 'reason'>,
  name: string,
): PegboardError {
  // Never seen, because only a person can open it: waiting would not help.
  const only = ONLY_A_PERSON.find(([words]) => reason !== undefined && words.test(reason))
  if (only) {
    const [, code, hint] = only
    return new PegboardError(code, `${id}: ${reason}.`, hint === undefined ? {} : { hint })
  }
  return new PegboardError(
    'E_UPSTREAM_UNAVAILABLE',
    `${id} is ${state}${reason ? ` (${reason})` : ''}, so '${name.slice(0, 80)}' is not there.`,
  )
}

/** A tool as a caller may have it, or why not. */
export type Seen = { readonly tool: Tool } | { readonly hidden: Hidden }

/**
 * The one predicate behind listing, searching and calling, in this order: policy (profile, constraints, deny, effect),
 * what the tool needs, the operator's switches (its module's too), then its own `available`. A check that throws hides its tool. What concerns
 * several tools at once, replacement and deliberate mode, comes after, then assembly.
 */
export function see(tool: Tool, caller: Caller, { policy, profile }: Rules): Seen {
  if (tool.internal) return hide('denied', 'policy', 'it is for set-up steps and modules only')
  let at: Stage = 'policy'
  try {
    const decision = policy.decide(tool, caller)
    if (!decision.allow && decision.kind === 'denied') return hide('denied', 'policy', decision.reason)
    at = 'provider'
    const missing = missingNeed(tool, caller, profile)
    // Who lacks a permission is told nothing of what it would open.
    if (missing) return hide(missing.stage === 'permissions' ? 'denied' : 'unavailable', missing.stage, missing.reason)
    if (!decision.allow) {
      const { reason, setting } = decision
      return { hidden: { kind: 'disabled', stage: 'switch', reason, ...(setting === undefined ? {} : { setting }) } }
    }
    at = 'switch'
    const enabled = tool.enabled?.(profile) ?? true
    // What nobody switched on is nobody's business.
    if (enabled !== true) return hide('denied', 'switch', String(enabled))
    at = tool.origin === 'upstream' ? 'upstream' : 'backend'
    const available = tool.available(caller, profile)
    if (available !== true) return hide('unavailable', at, String(available))
    return { tool: decision.as === undefined ? tool : named(tool, decision.as) }
  } catch (error) {
    // Nobody knows whether they may be told of it.
    const silent = at === 'policy' || at === 'provider' || at === 'switch'
    return { hidden: failed(at, error, silent ? 'denied' : 'unavailable') }
  }
}

/** What a check that threw makes of its tool. */
export const failed = (stage: Stage, error: unknown, kind: 'denied' | 'unavailable' = 'unavailable'): Hidden => ({
  kind,
  stage,
  reason: `its ${CHECKS[stage] ?? stage} check failed`,
  failure: messageOf(error),
})

const CHECKS: Partial<Record<Stage, string>> = {
  provider: 'needs',
  backend: 'availability',
  upstream: 'availability',
}

const hide = (kind: Hidden['kind'], stage: Stage, reason: string): Seen => ({ hidden: { kind, stage, reason } })

/** The tool under one of its aliases; its own name becomes an alias. */
function named(tool: Tool, alias: string): Tool {
  const id = `${tool.module}.${alias}`
  const aliases = [tool.id.slice(tool.module.length + 1), ...tool.aliases.filter((other) => other !== alias)]
  return Object.create(tool, {
    id: { value: id, enumerable: true },
    name: { value: wireName(id), enumerable: true },
    aliases: { value: aliases, enumerable: true },
    itself: { value: tool },
  })
}
