import { foldName, type Spellings } from '../core/fold.ts'
import { isToolName } from '../core/names.ts'
import type { Effect, Tool, Tripwire } from '../core/tool.ts'
import { createRate, type Rate } from './limiter.ts'
import type { Constraints, RateSetting, RuleSetting } from './options.ts'
import {
  type Actor,
  actionOf,
  coverer,
  createRule,
  isSecond,
  matcher,
  ownNames,
  type Rule,
  shortOf,
  spellings,
} from './rules.ts'

/** A person has to say yes first. */
export interface Asking {
  /** What in the configuration wants it. */
  readonly setting: string
  /** Why, as the operator put it. */
  readonly reason?: string
  /** How long the person may think. */
  readonly timeoutMs: number
}

/** Hidden means: answer exactly as if it did not exist. Disabled may be told. */
export type Decision =
  /** `as`: allowed under one of its aliases only, and shown under that name. `ask`: each call needs a yes. */
  | { readonly allow: true; readonly as?: string; readonly ask?: Asking }
  /** `setting`: what the operator would change. */
  | { readonly allow: false; readonly kind: 'denied' | 'disabled'; readonly reason: string; readonly setting?: string }

export interface Policy {
  /**
   * Asked for every listing and search, and again for every call that is `guarded`. Pure; a policy that throws denies.
   * @param by who wants to know; default somebody without roles in the default profile
   */
  decide(tool: Tool, by?: Actor): Decision
  /**
   * Whether this module or server is there at all. @param by who wants to know; absent: whether it is there for anybody
   */
  sees(owner: string, by?: Actor): boolean
  /** Whether it is there for what it has beside tools, where it has none of those. */
  offers(owner: string, by: Actor): boolean
  /** Nothing forbids any tool of this owner, whatever it is called and does. */
  allowsAll(owner: string): boolean
  /** Some calls need a yes, or are counted: what a view allows is not all there is to say. */
  readonly guarded: boolean
  /** What counts calls, of all tools. */
  readonly rates: readonly Rate[]
  /** What is done about fields of results of a tool that look like credentials. */
  tripwire(tool: Pick<Tool, 'module' | 'tripwire'>): Tripwire
  /** Constraint entries that name no tool of their module: probably typos. */
  unknownActions(tools: Iterable<Tool>): Array<{ readonly owner: string; readonly action: string }>
}

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
  /** By catalogue owner: module id, or `mcp_<server>`. */
  readonly constraints?: Readonly<Record<string, Constraints>>
  /** What is done about results, by catalogue owner or as the operator calls it. */
  readonly tripwires?: Readonly<Record<string, Tripwire>>
  /** Calls a minute, by tool name or id. */
  readonly perMinute?: Readonly<Record<string, number>>
  /** Tool names or ids with `enabled: false`. */
  readonly disabled?: readonly string[]
  /** Modules and servers that are there at all, by catalogue owner; default every one. */
  readonly sees?: (owner: string) => boolean
  /** What stands before the names of settings in reasons, such as `profiles.work.`. */
  readonly where?: string
}

const STRICTNESS: Readonly<Record<Tripwire, number>> = { off: 0, warn: 1, redact: 2, throw: 3 }
const RANK: Readonly<Record<Effect, number>> = { read: 0, write: 1, destructive: 2 }
const ALLOWED: Decision = { allow: true }
const NOBODY: Actor = { profile: 'default', roles: [] }
const APPROVAL_MS = 300_000

/** Deny before ask before allow before the default. */
export function createPolicy(settings: PolicySettings = {}): Policy {
  const { sees = () => true, where = '', approvalTimeoutMs: timeoutMs = APPROVAL_MS } = settings
  const fallback = settings.default ?? 'auto'
  const deny = (settings.deny ?? []).map((rule) => createRule(rule))
  const hidden = (settings.hidden ?? []).map((rule) => createRule(rule))
  const ask = (settings.ask ?? []).map((rule) => createRule(rule))
  const allow = (settings.allow ?? []).map((rule) => createRule(rule, true))
  const disabled = new Set(settings.disabled ?? [])
  const max = RANK[settings.maxEffect ?? 'destructive']
  const constraints = new Map(
    Object.entries(settings.constraints ?? {}).map(([owner, rule]) => [
      owner,
      {
        allowed: rule.allowed_actions && matcher(rule.allowed_actions),
        blocked: coverer(rule.blocked_actions ?? []),
      },
    ]),
  )
  const rates = [
    ...(settings.rateLimits ?? []).map((rate, at) => createRate(rate, `${where}policy.rateLimits[${at}]`)),
    ...Object.entries(settings.perMinute ?? {}).map(([tools, perMinute]) =>
      createRate({ tools, perMinute, per: 'principal' }, `${where}tools.${tools}.rate_limit`),
    ),
  ]
  const tripwires = new Map(Object.entries(settings.tripwires ?? {}))
  const wired = tripwires.size > 0 || settings.tripwire !== undefined
  const listed = [...ask, ...allow]
  const isThere = (owner: string, by?: Actor): boolean =>
    sees(owner) &&
    !deny.some((rule) => rule.covers(owner, by)) &&
    (!hidden.some((rule) => rule.covers(owner, by)) || allow.some((rule) => rule.concerns(owner))) &&
    (fallback !== 'block' || listed.some((rule) => rule.concerns(owner)))

  const first = (rules: readonly Rule[], tool: Tool, names: () => Spellings, by: Actor): Rule | undefined =>
    rules.length === 0 ? undefined : rules.find((rule) => rule.fits(tool, names, by))

  function decide(given: Tool, by: Actor = NOBODY): Decision {
    // Whatever it is called for this caller, the same is said of it.
    const tool = given.itself ?? given
    if (!sees(tool.module)) return denied(`its profile does not have ${tool.module}`)
    let known: Spellings | undefined
    const names = (): Spellings => {
      known ??= spellings(tool)
      return known
    }
    const rule = constraints.get(isSecond(tool.module) ? shortOf(tool.module) : tool.module)
    let as: string | undefined
    if (rule) {
      const place = `${where}modules.${tool.module}.constraints`
      if (rule.blocked(names())) return denied(`blocked by ${place}.blocked_actions`)
      if (rule.allowed && !rule.allowed(actionOf(tool))) {
        as = (tool.chosenAliases ?? tool.aliases).filter(isToolName).find(rule.allowed)
        if (as === undefined) return denied(`not in ${place}.allowed_actions`)
      }
    }
    const forbidden = first(deny, tool, names, by)
    if (forbidden) return denied(`matched by ${where}policy.deny${because(forbidden)}`)
    if (RANK[tool.effect] > max)
      return denied(
        `its effect is "${tool.effect}" and ${where}policy.maxEffect is lower${tool.origin === 'upstream' ? '; if its server is to be believed, set trustHints there' : ''}`,
      )
    const permits = allow.length > 0 && allow.some((one) => one.fits(tool, () => ownNames(tool), by))
    const unseen = permits ? undefined : first(hidden, tool, names, by)
    if (unseen) return denied(`matched by ${where}policy.hidden and not by ${where}policy.allow${because(unseen)}`)
    const wanted = first(ask, tool, names, by)
    if (!wanted && !permits && fallback === 'block')
      return denied(`${where}policy.default is "block" and no list names it`)
    const switched =
      disabled.size === 0
        ? undefined
        : ([
            tool.name,
            ...[actionOf(tool), ...(as === undefined ? [] : [as])].flatMap((action) => spelled(tool, action)),
          ].find((name) => disabled.has(name)) ?? [...disabled].find((name) => names().folded.has(foldName(name))))
    if (switched !== undefined) {
      const setting = `${where}tools.${switched}.enabled`
      const isBare = switched === actionOf(tool)
      // What acts on the world is often off on purpose, and agents that know it by its bare name know these words.
      const how = isBare && (tool.effect !== 'read' || tool.openWorld) ? ` (enable via config: ${setting}=true)` : ''
      return {
        allow: false,
        kind: 'disabled',
        reason: `${isBare ? switched : tool.id} tool is disabled${how}`,
        setting,
      }
    }
    const asking = wanted
      ? { setting: `${where}policy.ask`, timeoutMs, ...(wanted.reason === undefined ? {} : { reason: wanted.reason }) }
      : !permits && fallback === 'ask'
        ? { setting: `${where}policy.default`, timeoutMs }
        : undefined
    if (as === undefined && !asking) return ALLOWED
    return { allow: true, ...(as === undefined ? {} : { as }), ...(asking ? { ask: asking } : {}) }
  }

  return {
    decide,
    sees: isThere,
    offers: (owner, by) =>
      isThere(owner, by) &&
      (!hidden.some((rule) => rule.covers(owner, by)) || allow.some((rule) => rule.covers(owner, by))) &&
      (fallback !== 'block' || listed.some((rule) => rule.covers(owner, by))),
    guarded: ask.length > 0 || fallback === 'ask' || rates.length > 0,
    rates,
    tripwire(tool) {
      if (!wired) return tool.tripwire ?? 'off'
      const own = tripwires.size === 0 ? undefined : (tripwires.get(tool.module) ?? tripwires.get(shortOf(tool.module)))
      return stricter(own ?? tool.tripwire ?? 'off', settings.tripwire)
    },
    allowsAll: (owner) =>
      fallback !== 'block' &&
      disabled.size === 0 &&
      max === RANK.destructive &&
      !constraints.has(isSecond(owner) ? shortOf(owner) : owner) &&
      !deny.some((rule) => rule.concerns(owner)) &&
      !hidden.some((rule) => rule.concerns(owner)) &&
      sees(owner),
    unknownActions(tools) {
      if (constraints.size === 0) return []
      const known = new Map<string, Spellings[]>()
      for (const tool of tools) {
        if (!constraints.has(tool.module)) continue
        known.set(tool.module, [...(known.get(tool.module) ?? []), spellings(tool)])
      }
      return Object.entries(settings.constraints ?? {}).flatMap(([owner, rule]) => {
        const own = known.get(owner)
        if (!own) return []
        return [...(rule.allowed_actions ?? []), ...(rule.blocked_actions ?? [])]
          .filter((action) => !own.some(coverer([action])))
          .map((action) => ({ owner, action }))
      })
    },
  }
}

/** A tool has to be allowed by both, and is asked about where one of them wants that. */
export function both(wide: Policy, own: Policy): Policy {
  return {
    sees: (owner, by) => wide.sees(owner, by) && own.sees(owner, by),
    offers: (owner, by) => wide.offers(owner, by) && own.offers(owner, by),
    decide(tool, by) {
      const first = wide.decide(tool, by)
      if (!first.allow && first.kind === 'denied') return first
      const second = own.decide(tool, by)
      // What one denies is not told of because the other only switched it off.
      if (!first.allow) return second.allow || second.kind === 'disabled' ? first : second
      if (!second.allow) return second
      if (first === ALLOWED) return second
      return { ...second, ...first }
    },
    allowsAll: (owner) => wide.allowsAll(owner) && own.allowsAll(owner),
    guarded: wide.guarded || own.guarded,
    rates: [...wide.rates, ...own.rates],
    tripwire: (tool) => stricter(wide.tripwire(tool), own.tripwire({ module: tool.module })),
    unknownActions: (tools) => {
      const all = [...tools]
      return [...wide.unknownActions(all), ...own.unknownActions(all)]
    },
  }
}

/** How the operator may write one of the names of a tool. */
const spelled = ({ module }: Tool, action: string): string[] => [
  `${module}.${action}`,
  action,
  `${shortOf(module)}.${action}`,
]

const denied = (reason: string): Decision => ({ allow: false, kind: 'denied', reason })
const because = ({ reason }: Rule): string => (reason === undefined ? '' : `: ${reason}`)

const stricter = (one: Tripwire, other: Tripwire | undefined): Tripwire =>
  other !== undefined && STRICTNESS[other] > STRICTNESS[one] ? other : one
