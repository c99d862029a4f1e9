import { omitUndefined } from '../core/omit-undefined.ts'
import { EFFECTS, type Effect, type Tool, type Tripwire } from '../core/tool.ts'
import { actionOf } from '../core/tool-names.ts'
import { createConstraintRules } from './constraints.ts'
import { createDisabledNameFinder } from './disabled-tools.ts'
import type { Constraints, RateSetting, RULE_LISTS, RuleSetting } from './policy-options.ts'
import { type Actor, createRule, namesOf, type Rule, type RuleNames, shortOwnerName } from './policy-rules.ts'
import { createRateLimit, type RateLimit } from './rate-limiter.ts'

/** A person must approve each call. */
export interface ApprovalRule {
  /** The setting that requires it. */
  readonly setting: string
  readonly reason?: string
  /** How long the person may take, in milliseconds. */
  readonly timeoutMs: number
}

/**
 * Denied: Pegboard answers exactly as if the tool did not exist. Disabled: an `enabled` setting is false, and the error says
 * that the operator disabled it.
 */
export type Decision =
  /** `as`: allowed under one alias only, and listed under that name. `ask`: each call needs approval. */
  | { readonly allow: true; readonly as?: string; readonly ask?: ApprovalRule }
  /** `setting`: what the operator would change. */
  | { readonly allow: false; readonly kind: 'denied' | 'disabled'; readonly reason: string; readonly setting?: string }

export interface Policy {
  /**
   * Decides who sees a tool, and who may call it. Views remember the decision until the version of the catalog changes.
   * So it may depend on the tool, the caller and the configuration, but not on the time or on earlier calls. If `mayAsk` is
   * true, the gate calls it again before each call. No side effects. If it throws, the tool is denied.
   * @param by the caller; default: no roles, default profile
   */
  decide(tool: Tool, by?: Actor): Decision
  /**
   * False if every tool of this module or server is denied, so that the caller does not learn about it.
   * @param by the caller; default: no roles, default profile
   */
  allowsOwner(owner: string, by?: Actor): boolean
  /** True if the resources and prompts of an owner without tools are visible. */
  allowsResources(owner: string, by: Actor): boolean
  /** True if nothing denies any tool of this owner. */
  allowsAllTools(owner: string): boolean
  /** True if some tools need approval. */
  readonly mayAsk: boolean
  readonly rates: readonly RateLimit[]
  /** What happens with result fields of a tool that look like credentials. */
  tripwire(tool: Pick<Tool, 'module' | 'tripwire'>): Tripwire
  /** Constraint entries that match no tool of their module: probably typos. */
  unmatchedConstraints(tools: Iterable<Tool>): Array<{ readonly owner: string; readonly action: string }>
}

/** The settings of `policy`, and settings of modules, servers and tools that the policy uses. */
export interface PolicySettings {
  readonly default?: 'auto' | 'ask' | 'block'
  readonly maxEffect?: Effect
  readonly deny?: readonly RuleSetting[]
  readonly ask?: readonly RuleSetting[]
  readonly allow?: readonly RuleSetting[]
  readonly hidden?: readonly RuleSetting[]
  readonly approvalTimeoutMs?: number
  readonly rateLimits?: readonly RateSetting[]
  readonly tripwire?: Tripwire | undefined
  /** By catalog owner (`mcp_git`), or by a short name (`git`), which means the module, server and API of that name. */
  readonly constraints?: Readonly<Record<string, Constraints>>
  /** Handling of results, by the same names. A short name can only make a server or API stricter. */
  readonly tripwires?: Readonly<Record<string, Tripwire>>
  /** Calls per minute, by tool name or id. */
  readonly perMinute?: Readonly<Record<string, number>>
  /** Tool names, ids or patterns with `enabled: false`. */
  readonly disabled?: readonly string[]
  /** Tool names or ids with `enabled: true`: patterns of `disabled` do not apply to them. */
  readonly enabled?: readonly string[]
  /** True for visible modules and servers, by catalog owner; default all. */
  readonly hasOwner?: (owner: string) => boolean
  /** Prefix of setting names in reasons, such as `profiles.work.`. */
  readonly settingPrefix?: string
}

/** Rules, and the rules that make exceptions from them. */
interface RuleSet {
  readonly rules: readonly Rule[]
  readonly unless: readonly Rule[]
}

const STRICTNESS: Readonly<Record<Tripwire, number>> = { off: 0, warn: 1, redact: 2, throw: 3 }
const ALLOWED: Decision = { allow: true }
const NOBODY: Actor = { profile: 'default', roles: [] }
const APPROVAL_MS = 300_000
const EVERY_TOOL = createRule({})

/**
 * `decide` applies the settings in this order, and the first that denies wins: the owners of the profile, constraints,
 * `deny`, `maxEffect`, `hidden` (unless `allow` matches), `default: block` (unless `ask` or `allow` matches), `enabled`. A
 * tool that `ask` matches needs approval, even if `allow` matches it, too.
 */
export function createPolicy(settings: PolicySettings = {}): Policy {
  const { hasOwner = () => true, settingPrefix = '', approvalTimeoutMs: timeoutMs = APPROVAL_MS } = settings
  const { default: fallback = 'auto', maxEffect = 'destructive' } = settings
  const listRules = (list: (typeof RULE_LISTS)[number]): Rule[] =>
    (settings[list] ?? []).map((rule) => createRule(rule, list === 'allow'))
  const ask = listRules('ask')
  const allow = listRules('allow')
  const policyKey = `${settingPrefix}policy`
  // In this order: the reason of the first that denies is shown.
  const denials: ReadonlyArray<RuleSet & { reason(tool: Tool): string }> = [
    { rules: listRules('deny'), unless: [], reason: () => `matched by ${policyKey}.deny` },
    {
      rules:
        maxEffect === 'destructive' ? [] : [createRule({ effects: EFFECTS.slice(EFFECTS.indexOf(maxEffect) + 1) })],
      unless: [],
      reason: ({ effect, origin }) =>
        `its effect is "${effect}" and ${policyKey}.maxEffect is lower${origin === 'upstream' ? '; to trust the hints of its server, set trustHints there' : ''}`,
    },
    {
      rules: listRules('hidden'),
      unless: allow,
      reason: () => `matched by ${policyKey}.hidden and not by ${policyKey}.allow`,
    },
    {
      rules: fallback === 'block' ? [EVERY_TOOL] : [],
      unless: [...ask, ...allow],
      reason: () => `${policyKey}.default is "block" and no list names it`,
    },
  ]
  const approvals: ReadonlyArray<RuleSet & { readonly setting: string }> = [
    { rules: ask, unless: [], setting: `${policyKey}.ask` },
    { rules: fallback === 'ask' ? [EVERY_TOOL] : [], unless: allow, setting: `${policyKey}.default` },
  ]
  const constraints = createConstraintRules(settings.constraints ?? {}, settingPrefix)
  const findDisabledName = createDisabledNameFinder(settings.disabled ?? [], settings.enabled ?? [])
  const rates = [
    ...(settings.rateLimits ?? []).map((rate, at) => createRateLimit(rate, `${policyKey}.rateLimits[${at}]`)),
    ...Object.entries(settings.perMinute ?? {}).map(([tools, perMinute]) =>
      createRateLimit({ tools, perMinute, per: 'principal' }, `${settingPrefix}tools.${tools}.rate_limit`),
    ),
  ]
  const tripwires = new Map(Object.entries(settings.tripwires ?? {}))
  const hasTripwires = tripwires.size > 0 || settings.tripwire !== undefined
  /** @param isException true for rules of `unless` that count: those for the whole owner, or those for any of its tools */
  const deniesOwner = (owner: string, by: Actor, isException: (rule: Rule) => boolean): boolean =>
    !hasOwner(owner) ||
    denials.some(
      ({ rules, unless }) =>
        rules.some((rule) => rule.isFor(by) && rule.matchesAll(owner)) && !unless.some(isException),
    )

  function decide(listedTool: Tool, by: Actor = NOBODY): Decision {
    // Renaming a tool for one caller does not change the decision.
    const tool = listedTool.itself ?? listedTool
    if (!hasOwner(tool.module)) return createDenial(`its profile does not have ${tool.module}`)
    const names = namesOf(tool)
    const { as, denial } = constraints.check(tool, names)
    const reason = denial ?? findDenial(tool, names, by)
    if (reason !== undefined) return createDenial(reason)
    const disabledName = findDisabledName(tool, names, as)
    if (disabledName !== undefined) return createDisabled(tool, disabledName, settingPrefix)
    const ask = findApproval(tool, names, by)
    return as === undefined && !ask ? ALLOWED : { allow: true, ...omitUndefined({ as, ask }) }
  }

  function findDenial(tool: Tool, names: RuleNames, by: Actor): string | undefined {
    for (const denial of denials) {
      const rule = findMatch(denial, tool, names, by)
      if (rule) return `${denial.reason(tool)}${rule.reason === undefined ? '' : `: ${rule.reason}`}`
    }
    return undefined
  }

  function findApproval(tool: Tool, names: RuleNames, by: Actor): ApprovalRule | undefined {
    for (const approval of approvals) {
      const rule = findMatch(approval, tool, names, by)
      if (rule) return { setting: approval.setting, timeoutMs, ...omitUndefined({ reason: rule.reason }) }
    }
    return undefined
  }

  return {
    decide,
    allowsOwner: (owner, by = NOBODY) => !deniesOwner(owner, by, (rule) => rule.mayMatch(owner)),
    allowsResources: (owner, by) => !deniesOwner(owner, by, (rule) => rule.isFor(by) && rule.matchesAll(owner)),
    mayAsk: approvals.some(({ rules }) => rules.length > 0),
    rates,
    tripwire(tool) {
      if (!hasTripwires) return tool.tripwire ?? 'off'
      const level = tool.tripwire ?? 'off'
      const ownerLevel = tripwires.get(tool.module) ?? pickStricter(level, tripwires.get(shortOwnerName(tool.module)))
      return pickStricter(ownerLevel, settings.tripwire)
    },
    allowsAllTools: (owner) =>
      hasOwner(owner) &&
      !constraints.constrains(owner) &&
      !settings.disabled?.length &&
      !denials.some(({ rules }) => rules.some((rule) => rule.mayMatch(owner))),
    unmatchedConstraints: constraints.listUnmatched,
  }
}

/** Combines two policies: both must allow a tool, and approval is needed if either requires it. */
export function combinePolicies(wide: Policy, narrow: Policy): Policy {
  return {
    allowsOwner: (owner, by) => wide.allowsOwner(owner, by) && narrow.allowsOwner(owner, by),
    allowsResources: (owner, by) => wide.allowsResources(owner, by) && narrow.allowsResources(owner, by),
    decide(tool, by) {
      const first = wide.decide(tool, by)
      if (!first.allow && first.kind === 'denied') return first
      const second = narrow.decide(tool, by)
      // A tool that one policy denies stays hidden even if the other only disabled it.
      if (!first.allow) return second.allow || second.kind === 'disabled' ? first : second
      if (!second.allow) return second
      if (first === ALLOWED) return second
      // If both name an approval rule, that of the wide policy counts.
      return { ...second, ...first }
    },
    allowsAllTools: (owner) => wide.allowsAllTools(owner) && narrow.allowsAllTools(owner),
    mayAsk: wide.mayAsk || narrow.mayAsk,
    rates: [...wide.rates, ...narrow.rates],
    tripwire: (tool) => pickStricter(wide.tripwire(tool), narrow.tripwire({ module: tool.module })),
    unmatchedConstraints: (tools) => {
      const toolList = [...tools]
      return [...wide.unmatchedConstraints(toolList), ...narrow.unmatchedConstraints(toolList)]
    },
  }
}

/** If `decide` denies tools without a rule in `denials`, `allowsAllTools` must be false for their owners. */
const createDenial = (reason: string): Decision => ({ allow: false, kind: 'denied', reason })

function createDisabled(tool: Tool, disabledName: string, settingPrefix: string): Decision {
  const setting = `${settingPrefix}tools.${disabledName}.enabled`
  const isBare = disabledName === actionOf(tool)
  // Tools that act on the world are often disabled on purpose, and agents that know them by bare name expect these words.
  const how = isBare && (tool.effect !== 'read' || tool.openWorld) ? ` (enable via config: ${setting}=true)` : ''
  const reason = `${isBare ? disabledName : tool.id} tool is disabled${how}`
  return { allow: false, kind: 'disabled', reason, setting }
}

/** The rule that matches the tool, unless another one makes an exception. */
function findMatch({ rules, unless }: RuleSet, tool: Tool, names: RuleNames, by: Actor): Rule | undefined {
  const matches = (rule: Rule): boolean => rule.isFor(by) && rule.matches(tool, names)
  const match = rules.find(matches)
  return match && unless.some(matches) ? undefined : match
}

const pickStricter = (one: Tripwire, other: Tripwire | undefined): Tripwire =>
  other !== undefined && STRICTNESS[other] > STRICTNESS[one] ? other : one
