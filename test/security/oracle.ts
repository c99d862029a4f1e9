/**
 * A second implementation of the policy for tests, written from docs/guides/policy.md without code of src. If it and
 * the program disagree, one of them is wrong.
 */
export type Effect = 'read' | 'write' | 'destructive'

/** A tool as its author and the operator defined it. */
export interface OracleTool {
  /** Its text in the answer and in the record of runs. */
  readonly id: string
  readonly owner: string
  readonly action: string
  /** Its listed name. */
  readonly wire: string
  readonly aliases: readonly string[]
  readonly effect: Effect
  /** Only its server declares it read-only. */
  readonly unverifiedRead?: boolean
  readonly permission?: string
  /** For modules only. */
  readonly internal?: boolean
  readonly replaces?: string
}

export interface OracleCaller {
  readonly profile: string
  readonly roles: readonly string[]
}

export type Entry =
  | string
  | {
      readonly tools?: string[]
      readonly module?: string
      readonly actions?: string[]
      readonly effects?: Effect[]
      readonly roles?: string[]
      readonly profiles?: string[]
    }

export interface Constraint {
  readonly allowed_actions?: string[]
  readonly blocked_actions?: string[]
}

/** The rules of the file, or those of a profile in addition. */
export interface Layer {
  readonly default?: 'auto' | 'ask' | 'block'
  readonly maxEffect?: Effect
  readonly deny?: Entry[]
  readonly ask?: Entry[]
  readonly allow?: Entry[]
  readonly hidden?: Entry[]
  /** By owner, under the operator's name for it. */
  readonly constraints?: Readonly<Record<string, Constraint>>
  /** `tools.<name>.enabled: false`. */
  readonly off?: string[]
}

export interface ProfileLayer extends Layer {
  readonly use?: string[]
  /** `modules.<name>.enabled: false`. */
  readonly without?: string[]
  readonly permissions?: string[]
}

export interface OracleRules {
  readonly file: Layer
  readonly profiles: Readonly<Record<string, ProfileLayer>>
}

/** `gone`: as if it did not exist. `off`: does not run, and the caller may learn why. `ask`: a person must approve. */
export type Verdict = 'gone' | 'off' | 'ask' | 'runs'

const escaped = (text: string): string => text.replaceAll(/[.+?^${}()|[\]\\]/g, '\\$&')
const matchesPattern = (pattern: string, name: string): boolean =>
  new RegExp(`^${pattern.split('*').map(escaped).join('.*')}$`, 's').test(name)
const matchesAny = (patterns: readonly string[], names: readonly string[]): boolean =>
  patterns.some((pattern) => names.some((name) => matchesPattern(pattern.toLowerCase(), name.toLowerCase())))

/** The operator's name for an owner: `github` for `mcp_github`. */
export const shortOwnerName = (owner: string): string => owner.replace(/^(mcp|api)_/, '')

/** Every name of a tool. */
function listAllNames({ id, owner, action, wire, aliases }: OracleTool): string[] {
  const short = [action, ...aliases]
  const owners = [owner, shortOwnerName(owner)]
  return [
    id,
    wire,
    ...short,
    ...owners.flatMap((one) => short.flatMap((name) => [`${one}.${name}`, `${one}__${name}`])),
  ]
}

/** The names that only this tool has. */
const listOwnNames = ({ id, owner, action, wire }: OracleTool): string[] => [
  id,
  wire,
  `${shortOwnerName(owner)}.${action}`,
]

function isForCaller(entry: Exclude<Entry, string>, who: OracleCaller): boolean {
  if (entry.roles && !entry.roles.some((role) => who.roles.includes(role))) return false
  return !entry.profiles || entry.profiles.some((pattern) => matchesPattern(pattern, who.profile))
}

const isForOwner = (entry: Exclude<Entry, string>, owner: string): boolean =>
  entry.module === undefined || matchesAny([entry.module], [owner, shortOwnerName(owner)])

/** An entry of `deny`, `hidden` or `ask`. */
function limits(given: Entry, thing: OracleTool, who: OracleCaller): boolean {
  const entry = typeof given === 'string' ? { tools: [given] } : given
  if (!isForOwner(entry, thing.owner) || !isForCaller(entry, who)) return false
  if (entry.effects && !entry.effects.includes(thing.effect)) return false
  if (entry.tools && !matchesAny(entry.tools, listAllNames(thing))) return false
  return !entry.actions || matchesAny(entry.actions, listAllNames(thing))
}

/** An entry of `allow`: anybody may claim an alias, and a server's own declarations are not trusted. */
function permits(given: Entry, thing: OracleTool, who: OracleCaller): boolean {
  const entry = typeof given === 'string' ? { tools: [given] } : given
  if (!isForOwner(entry, thing.owner) || !isForCaller(entry, who)) return false
  if (entry.effects && !entry.effects.includes(thing.unverifiedRead ? 'write' : thing.effect)) return false
  if (entry.tools && !matchesAny(entry.tools, listOwnNames(thing))) return false
  return !entry.actions || matchesAny(entry.actions, [thing.action])
}

const EFFECTS: readonly Effect[] = ['read', 'write', 'destructive']

function constraintOf(layer: Layer, owner: string): Constraint | undefined {
  return layer.constraints?.[owner] ?? layer.constraints?.[shortOwnerName(owner)]
}

/** The alias under which it is visible, if its own name is not allowed. */
function aliasOnly(layer: Layer, thing: OracleTool): string | undefined {
  const allowed = constraintOf(layer, thing.owner)?.allowed_actions
  const fits = (name: string): boolean => allowed === undefined || allowed.some((one) => matchesPattern(one, name))
  return fits(thing.action) ? undefined : thing.aliases.filter((one) => /^[\w.-]{1,64}$/.test(one)).find(fits)
}

function layerVerdict(layer: Layer, thing: OracleTool, who: OracleCaller): Verdict {
  const constraint = constraintOf(layer, thing.owner)
  if (constraint?.blocked_actions && matchesAny(constraint.blocked_actions, listAllNames(thing))) return 'gone'
  const alias = aliasOnly(layer, thing)
  if (constraint?.allowed_actions && alias === undefined)
    if (!constraint.allowed_actions.some((one) => matchesPattern(one, thing.action))) return 'gone'
  if (layer.deny?.some((entry) => limits(entry, thing, who))) return 'gone'
  if (EFFECTS.indexOf(thing.effect) > EFFECTS.indexOf(layer.maxEffect ?? 'destructive')) return 'gone'
  const allowed = layer.allow?.some((entry) => permits(entry, thing, who)) === true
  if (layer.hidden?.some((entry) => limits(entry, thing, who)) && !allowed) return 'gone'
  const asked = layer.ask?.some((entry) => limits(entry, thing, who)) === true
  if (layer.default === 'block' && !asked && !allowed) return 'gone'
  const shown = alias === undefined ? [] : [`${thing.owner}.${alias}`, `${shortOwnerName(thing.owner)}.${alias}`, alias]
  const own = [...listOwnNames(thing), thing.action, ...shown]
  if (layer.off?.some((name) => own.includes(name))) return 'off'
  return asked || (layer.default === 'ask' && !allowed) ? 'ask' : 'runs'
}

/** Whether a profile has a module or server. */
function isUsed(said: OracleRules, owner: string, who: OracleCaller): boolean {
  const profile = said.profiles[who.profile]
  const names = [owner, shortOwnerName(owner)]
  if (profile?.use && !profile.use.some((pattern) => names.some((name) => matchesPattern(pattern, name)))) return false
  return !profile?.without?.some((name) => names.includes(name))
}

const layersFor = (said: OracleRules, { profile }: OracleCaller): readonly Layer[] => {
  const own = said.profiles[profile]
  return own ? [said.file, own] : [said.file]
}

/** Allowed by an alias only, which another tool has as its name, or had first. */
function hasNameOfAnother(
  thing: OracleTool,
  who: OracleCaller,
  said: OracleRules,
  things: readonly OracleTool[],
): boolean {
  const shown = listedId(thing, who, said)
  if (shown === thing.id) return false
  if (things.some(({ id }) => id === shown)) return true
  const before = things.slice(0, things.indexOf(thing)).filter((one) => listedId(one, who, said) === shown)
  return before.some((one) => verdictOn(one, who, said, things) !== 'gone')
}

const STRICTEST_FIRST: readonly Verdict[] = ['gone', 'off', 'ask', 'runs']

export function verdictOn(
  thing: OracleTool,
  who: OracleCaller,
  said: OracleRules,
  things: readonly OracleTool[],
): Verdict {
  if (thing.internal || !isUsed(said, thing.owner, who)) return 'gone'
  if (hasNameOfAnother(thing, who, said, things)) return 'gone'
  const verdicts = layersFor(said, who).map((layer) => layerVerdict(layer, thing, who))
  const { permission } = thing
  const held = [...who.roles, ...(said.profiles[who.profile]?.permissions ?? [])]
  if (permission !== undefined && !held.includes(permission)) return 'gone'
  return STRICTEST_FIRST.find((one) => verdicts.includes(one)) as Verdict
}

/** The same for an internal tool, which modules can call like any other. */
export const verdictForModules = (
  { internal: _only, ...thing }: OracleTool,
  who: OracleCaller,
  said: OracleRules,
): Verdict => verdictOn(thing, who, said, [thing])

/**
 * Whether resources and prompts of an owner are visible: if one of its tools is, even a disabled one. Without tools:
 * like a tool that only rules for the whole owner match.
 */
export function isOwnerVisible(
  owner: string,
  things: readonly OracleTool[],
  who: OracleCaller,
  said: OracleRules,
): boolean {
  if (!isUsed(said, owner, who)) return false
  const own = things.filter((thing) => thing.owner === owner)
  if (own.length > 0) return own.some((thing) => verdictOn(thing, who, said, things) !== 'gone')
  const action = 'a name that nobody thinks of'
  const any = { id: `${owner}.${action}`, owner, action, wire: '', aliases: [], effect: 'read' } as const
  const whole = (given: Entry): boolean => typeof given === 'string' || given.effects === undefined
  return layersFor(said, who).every((layer) => {
    const allowed = layer.allow?.some((entry) => whole(entry) && permits(entry, any, who)) === true
    const struck = (list: Entry[] = []): boolean => list.some((entry) => whole(entry) && limits(entry, any, who))
    if (struck(layer.deny)) return false
    if (struck(layer.hidden) && !allowed) return false
    return layer.default !== 'block' || allowed || struck(layer.ask)
  })
}

/** All tools of a caller: those that are neither gone nor off, and that no other tool replaces. */
export function listVisibleTools(
  things: readonly OracleTool[],
  who: OracleCaller,
  said: OracleRules,
): readonly OracleTool[] {
  const there = things.filter((thing) => ['ask', 'runs'].includes(verdictOn(thing, who, said, things)))
  const replaced = there.map(({ replaces }) => replaces)
  return there.filter(
    ({ id, owner, action }) => !replaced.includes(id) && !replaced.includes(`${shortOwnerName(owner)}.${action}`),
  )
}

/** The listed name: its own id, or the only allowed alias. */
export function listedId(thing: OracleTool, who: OracleCaller, said: OracleRules): string {
  const alias = layersFor(said, who)
    .map((layer) => aliasOnly(layer, thing))
    .find((one) => one !== undefined)
  return alias === undefined ? thing.id : `${thing.owner}.${alias}`
}
