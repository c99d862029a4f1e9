import type { Owner, OwnerInfo } from '../catalog/owner.ts'
import type { Caller } from '../core/caller.ts'
import { type ErrorCode, messageOf, PegboardError } from '../core/errors.ts'
import { classifyDisconnect } from '../core/failure-class.ts'
import type { Profile } from '../core/profile.ts'
import type { Tool } from '../core/tool.ts'
import { actionOf, wireName } from '../core/tool-names.ts'
import type { ViewRules } from './view-rules.ts'

/** The checks that a tool passes, in this order. `backend` is the check of a module's own tool, `upstream` of a server's. */
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

/** Why a caller does not see a tool. */
export interface HiddenReason {
  /** A `denied` tool must look to the caller as if it did not exist. The caller may learn the reason of the others. */
  readonly kind: 'denied' | 'disabled' | 'unavailable' | 'quarantined'
  readonly stage: Stage
  /** Safe to show to a model. */
  readonly reason: string
  /** Message of the error that a check threw: for the log and the operator only. */
  readonly failure?: string
  /** The setting to change. */
  readonly setting?: string | undefined
  /** Of a quarantined tool. */
  readonly code?: 'E_TOOL_CHANGED' | 'E_TOOL_QUARANTINED'
  readonly hint?: string
  /** The operator has rejected the definition. */
  readonly rejected?: true
}

/** The error for a call of a hidden tool. Never for the reason `denied`: the caller must not learn that the tool exists. */
export function createHiddenError({
  id,
  hidden,
}: {
  readonly id: string
  readonly hidden: HiddenReason
}): PegboardError {
  if (hidden.kind === 'disabled')
    // Not the setting: a model that can write files might change it. `pegboard why` names it to the operator.
    return new PegboardError('E_TOOL_DISABLED', hidden.reason)
  if (hidden.kind === 'quarantined')
    return new PegboardError(hidden.code ?? 'E_TOOL_QUARANTINED', `${id} ${hidden.reason}.`, { hint: hidden.hint })
  return new PegboardError('E_TOOL_HIDDEN', `${id} is not available: ${hidden.reason}.`, {
    hint:
      hidden.stage === 'deliberate'
        ? 'Answer without it, or ask the person whether they want it.'
        : 'Use another tool until that has changed.',
  })
}

const CORRECT = 'The operator must correct'
/** Reasons why a server is not connected that only a person can resolve. Calls of its tools fail with these error codes. */
const ONLY_A_PERSON: ReadonlyArray<readonly [reason: RegExp, code: ErrorCode, hint?: string]> = [
  [/^it requires (?:a login|authorization|a token)/, 'E_AUTH_REQUIRED'],
  [/^it rejects the value of/, 'E_AUTH_REQUIRED', `${CORRECT} this key.`],
  [/^it redirects to another address/, 'E_REDIRECT_BLOCKED', `${CORRECT} the address of the server.`],
  [/^The address is refused/, 'E_SSRF_BLOCKED', `${CORRECT} the address of the server.`],
  [/^there is no recording of it/, 'E_NOT_RECORDED', 'To record the call, run pegboard record FOLDER TOOL key=value.'],
  [
    /^command not found|^command ".*" is relative|cannot start \(E(?:ACCES|PERM|NOTDIR|NOEXEC|LOOP)\)|^its (?:cwd|envFile) | is not safe to run: /,
    'E_UPSTREAM_UNAVAILABLE',
    `${CORRECT} the entry of the server in the configuration.`,
  ],
]

/** What a person must do before calls of this server can succeed; undefined if waiting may help. */
export function needsPerson({ state, reason }: Pick<OwnerInfo, 'state' | 'reason'>): 'login' | 'setup' | undefined {
  const match =
    state === 'ready' || reason === undefined ? undefined : ONLY_A_PERSON.find(([words]) => words.test(reason))
  return match && (match[1] === 'E_AUTH_REQUIRED' ? 'login' : 'setup')
}

/** The error for a tool of a server that is not connected. */
export function createUnavailableError(
  { id, state, reason }: Pick<OwnerInfo, 'id' | 'state' | 'reason'>,
  name: string,
): PegboardError {
  const match = ONLY_A_PERSON.find(([words]) => reason !== undefined && words.test(reason))
  if (match) {
    const [, code, hint] = match
    const failureClass = code === 'E_AUTH_REQUIRED' ? 'login' : 'server_setup'
    return new PegboardError(code, `${id}: ${reason}.`, { class: failureClass, hint })
  }
  return new PegboardError(
    'E_UPSTREAM_UNAVAILABLE',
    `${id} is ${state}${reason ? ` (${reason})` : ''}, so '${name.slice(0, 80)}' is not available.`,
    { class: classifyDisconnect(reason ?? '') },
  )
}

/** The tool, or why the caller does not see it. If the policy allows only an alias of the tool, the tool has this name. */
export type Visibility = { readonly tool: Tool } | { readonly hidden: HiddenReason }

/**
 * Decides whether a caller sees a tool. Listing, search and calls all use this decision, so nobody can call a tool that
 * they do not see. The first check that fails hides the tool:
 *
 * 1. Internal tools are for set-up steps and modules only.
 * 2. The policy: profile, constraints, deny rules, maximum effect.
 * 3. What the tool needs: provider, capabilities, flags, then permissions.
 * 4. Switches: `enabled` in the configuration of the tool, then of its module.
 * 5. The tool's own `available`.
 *
 * A check that throws hides the tool. Checks that compare tools follow in `mergeTools`: shared aliases, replacement,
 * deliberate mode, then assembly.
 */
export function checkVisibility(tool: Tool, caller: Caller, { policy, profile }: ViewRules): Visibility {
  if (tool.internal) return hide('denied', 'policy', 'it is for set-up steps and modules only')
  let stage: Stage = 'policy'
  try {
    const decision = policy.decide(tool, caller)
    if (!decision.allow && decision.kind === 'denied') return hide('denied', 'policy', decision.reason)
    stage = 'provider'
    const missing = findUnmetNeed(tool, caller, profile)
    // A caller without a permission must not learn what the permission opens.
    if (missing) return hide(missing.stage === 'permissions' ? 'denied' : 'unavailable', missing.stage, missing.reason)
    if (!decision.allow)
      return { hidden: { kind: 'disabled', stage: 'switch', reason: decision.reason, setting: decision.setting } }
    stage = 'switch'
    const enabled = tool.enabled?.(profile) ?? true
    // Clients do not learn which modules they could have.
    if (enabled !== true) return hide('denied', 'switch', String(enabled))
    stage = tool.origin === 'upstream' ? 'upstream' : 'backend'
    const available = tool.available(caller, profile)
    if (available !== true) return hide('unavailable', stage, String(available))
    return { tool: decision.as === undefined ? tool : withAlias(tool, decision.as) }
  } catch (error) {
    // If a check of the policy or of a switch failed, it is unknown whether the caller may learn about the tool.
    const isDenied = stage === 'policy' || stage === 'provider' || stage === 'switch'
    return { hidden: createFailedCheck(stage, error, isDenied ? 'denied' : 'unavailable') }
  }
}

/**
 * The result of `checkVisibility` for all lazy tools of an owner, so that they can be counted without being created.
 * `each`: they may differ, or the tools are not lazy, so each one must be checked. Lazy tools are never internal and
 * have no needs and no switch of a module.
 */
export function checkLazyTools(
  owner: Owner,
  caller: Caller,
  { policy, ownServers }: ViewRules,
): 'all' | 'none' | 'each' {
  const { id, lazyTools, provides } = owner
  // Tools of these owners can replace other tools, or be hidden because of their names.
  const isCompared = provides !== undefined || ownServers?.has(id) === true
  if (!lazyTools || isCompared || !policy.allowsAllTools(id)) return 'each'
  return lazyTools.available(caller) === true ? 'all' : 'none'
}

/** The result of a check that threw. */
export const createFailedCheck = (
  stage: Stage,
  error: unknown,
  kind: 'denied' | 'unavailable' = 'unavailable',
): HiddenReason => ({
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

const hide = (kind: HiddenReason['kind'], stage: Stage, reason: string): Visibility => ({
  hidden: { kind, stage, reason },
})

/** The tool under one of its aliases. Its own name becomes an alias. */
function withAlias(tool: Tool, alias: string): Tool {
  const id = `${tool.module}.${alias}`
  const aliases = [actionOf(tool), ...tool.aliases.filter((other) => other !== alias)]
  return Object.create(tool, {
    id: { value: id, enumerable: true },
    name: { value: wireName(id), enumerable: true },
    aliases: { value: aliases, enumerable: true },
    itself: { value: tool },
  })
}

export type NeedStage = 'provider' | 'capabilities' | 'flags' | 'permissions'

export interface UnmetNeed {
  readonly stage: NeedStage
  readonly reason: string
}

/** The first unmet condition of a tool: provider, capabilities, flags, then permissions. */
function findUnmetNeed({ needs }: Tool, caller: Caller, profile: Profile): UnmetNeed | undefined {
  if (!needs) return undefined
  const { provider, model, flags } = profile
  const { providers, notProviders } = needs
  if (providers && !providers.includes(provider))
    return { stage: 'provider', reason: `it is for ${providers.join(', ')} only` }
  if (notProviders?.includes(provider)) return { stage: 'provider', reason: `it is not for ${provider}` }
  const { capabilities } = model
  const missingCapability = capabilities && needs.capabilities?.find((one) => !capabilities.includes(one))
  if (missingCapability) return { stage: 'capabilities', reason: `the model lacks ${missingCapability}` }
  const disabledFlag = needs.flags?.find((flag) => !(Object.hasOwn(flags, flag) && flags[flag]))
  if (disabledFlag)
    return { stage: 'flags', reason: `the flag ${disabledFlag} is off (profiles.${profile.id}.flags.${disabledFlag})` }
  const missingPermission = needs.permissions?.find(
    (permission) => !caller.roles.includes(permission) && !profile.permissions.includes(permission),
  )
  if (missingPermission) return { stage: 'permissions', reason: `it needs the permission ${missingPermission}` }
  return undefined
}
