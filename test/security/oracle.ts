/**
 * A second implementation of the policy for tests, written from docs/guides/policy.md without code of src. If it and
 * the program disagree, one of them is wrong.
 */
export type Effect = 'read' | 'write' | 'destructive'

/** A tool as its author and the operator defined it. */
export interface Thing {
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

export interface Who {
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

export interface Said {
  readonly file: Layer
  readonly profiles: Readonly<Record<string, ProfileLayer>>
}

/** `gone`: as if it did not exist. `off`: does not run, and the caller may learn why. `ask`: a person must approve. */
export type Verdict = 'gone' | 'off' | 'ask' | 'runs'

const escaped = (text: string): string => text.replaceAll(/[.+?^${}()|[\]\\]/g, '\\$&')
const like = (pattern: string, name: string): boolean =>
  new RegExp(`^${pattern.split('*').map(escaped).join('.*')}$`, 's').test(name)
const likeAny = (patterns: readonly string[], names: readonly string[]): boolean =>
  patterns.some((pattern) => names.some((name) => like(pattern.toLowerCase(), name.toLowerCase())))

/** The operator's name for an owner: `github` for `mcp_github`. */
export const called = (owner: string): string => owner.replace(/^(mcp|api)_/, '')

/** Every name of a tool. */
function everyName({ id, owner, action, wire, aliases }: Thing): string[] {
  const short = [action, ...aliases]
  const owners = [owner, called(owner)]
  return [
    id,
    wire,
    ...short,
    ...owners.flatMap((one) => short.flatMap((name) => [`${one}.${name}`, `${one}__${name}`])),
  ]
}

/** The names that only this tool has. */
const itsOwn = ({ id, owner, action, wire }: Thing): string[] => [id, wire, `${called(owner)}.${action}`]

function namesWhom(entry: Exclude<Entry, string>, who: Who): boolean {
  if (entry.roles && !entry.roles.some((role) => who.roles.includes(role))) return false
  return !entry.profiles || entry.profiles.some((pattern) => like(pattern, who.profile))
}

const isOf = (entry: Exclude<Entry, string>, owner: string): boolean =>
  entry.module === undefined || likeAny([entry.module], [owner, called(owner)])

/** An entry of `deny`, `hidden` or `ask`. */
function strikes(given: Entry, thing: Thing, who: Who): boolean {
  const entry = typeof given === 'string' ? { tools: [given] } : given
  if (!isOf(entry, thing.owner) || !namesWhom(entry, who)) return false
  if (entry.effects && !entry.effects.includes(thing.effect)) return false
  if (entry.tools && !likeAny(entry.tools, everyName(thing))) return false
  return !entry.actions || likeAny(entry.actions, everyName(thing))
}

/** An entry of `allow`: anybody may claim an alias, and a server's own declarations are not trusted. */
function permits(given: Entry, thing: Thing, who: Who): boolean {
  const entry = typeof given === 'string' ? { tools: [given] } : given
  if (!isOf(entry, thing.owner) || !namesWhom(entry, who)) return false
  if (entry.effects && !entry.effects.includes(thing.unverifiedRead ? 'write' : thing.effect)) return false
  if (entry.tools && !likeAny(entry.tools, itsOwn(thing))) return false
  return !entry.actions || likeAny(entry.actions, [thing.action])
}

const WORSE: readonly Effect[] = ['read', 'write', 'destructive']

function constraintOf(layer: Layer, owner: string): Constraint | undefined {
  return layer.constraints?.[owner] ?? layer.constraints?.[called(owner)]
}

/** The alias under which it is visible, if its own name is not allowed. */
function aliasOnly(layer: Layer, thing: Thing): string | undefined {
  const allowed = constraintOf(layer, thing.owner)?.allowed_actions
  const fits = (name: string): boolean => allowed === undefined || allowed.some((one) => like(one, name))
  return fits(thing.action) ? undefined : thing.aliases.filter((one) => /^[\w.-]{1,64}$/.test(one)).find(fits)
}

function layerSays(layer: Layer, thing: Thing, who: Who): Verdict {
  const constraint = constraintOf(layer, thing.owner)
  if (constraint?.blocked_actions && likeAny(constraint.blocked_actions, everyName(thing))) return 'gone'
  const alias = aliasOnly(layer, thing)
  if (constraint?.allowed_actions && alias === undefined)
    if (!constraint.allowed_actions.some((one) => like(one, thing.action))) return 'gone'
  if (layer.deny?.some((entry) => strikes(entry, thing, who))) return 'gone'
  if (WORSE.indexOf(thing.effect) > WORSE.indexOf(layer.maxEffect ?? 'destructive')) return 'gone'
  const allowed = layer.allow?.some((entry) => permits(entry, thing, who)) === true
  if (layer.hidden?.some((entry) => strikes(entry, thing, who)) && !allowed) return 'gone'
  const asked = layer.ask?.some((entry) => strikes(entry, thing, who)) === true
  if (layer.default === 'block' && !asked && !allowed) return 'gone'
  const shown = alias === undefined ? [] : [`${thing.owner}.${alias}`, `${called(thing.owner)}.${alias}`, alias]
  const own = [...itsOwn(thing), thing.action, ...shown]
  if (layer.off?.some((name) => own.includes(name))) return 'off'
  return asked || (layer.default === 'ask' && !allowed) ? 'ask' : 'runs'
}

/** Whether a profile has a module or server. */
function isUsed(said: Said, owner: string, who: Who): boolean {
  const profile = said.profiles[who.profile]
  const names = [owner, called(owner)]
  if (profile?.use && !profile.use.some((pattern) => names.some((name) => like(pattern, name)))) return false
  return !profile?.without?.some((name) => names.includes(name))
}

const layersFor = (said: Said, { profile }: Who): readonly Layer[] => {
  const own = said.profiles[profile]
  return own ? [said.file, own] : [said.file]
}

/** Allowed by an alias only, which another tool has as its name, or had first. */
function isCalledLikeAnother(thing: Thing, who: Who, said: Said, things: readonly Thing[]): boolean {
  const shown = shownAs(thing, who, said)
  if (shown === thing.id) return false
  if (things.some(({ id }) => id === shown)) return true
  const before = things.slice(0, things.indexOf(thing)).filter((one) => shownAs(one, who, said) === shown)
  return before.some((one) => verdictOn(one, who, said, things) !== 'gone')
}

const FROM_WORST: readonly Verdict[] = ['gone', 'off', 'ask', 'runs']

export function verdictOn(thing: Thing, who: Who, said: Said, things: readonly Thing[]): Verdict {
  if (thing.internal || !isUsed(said, thing.owner, who)) return 'gone'
  if (isCalledLikeAnother(thing, who, said, things)) return 'gone'
  const verdicts = layersFor(said, who).map((layer) => layerSays(layer, thing, who))
  const { permission } = thing
  const held = [...who.roles, ...(said.profiles[who.profile]?.permissions ?? [])]
  if (permission !== undefined && !held.includes(permission)) return 'gone'
  return FROM_WORST.find((one) => verdicts.includes(one)) as Verdict
}

/** The same for an internal tool, which modules can call like any other. */
export const verdictWithin = ({ internal: _only, ...thing }: Thing, who: Who, said: Said): Verdict =>
  verdictOn(thing, who, said, [thing])

/**
 * Whether resources and prompts of an owner are visible: if one of its tools is, even a disabled one. Without tools:
 * like a tool that only rules for the whole owner match.
 */
export function isThere(owner: string, things: readonly Thing[], who: Who, said: Said): boolean {
  if (!isUsed(said, owner, who)) return false
  const own = things.filter((thing) => thing.owner === owner)
  if (own.length > 0) return own.some((thing) => verdictOn(thing, who, said, things) !== 'gone')
  const action = 'a name that nobody thinks of'
  const any = { id: `${owner}.${action}`, owner, action, wire: '', aliases: [], effect: 'read' } as const
  const whole = (given: Entry): boolean => typeof given === 'string' || given.effects === undefined
  return layersFor(said, who).every((layer) => {
    const allowed = layer.allow?.some((entry) => whole(entry) && permits(entry, any, who)) === true
    const struck = (list: Entry[] = []): boolean => list.some((entry) => whole(entry) && strikes(entry, any, who))
    if (struck(layer.deny)) return false
    if (struck(layer.hidden) && !allowed) return false
    return layer.default !== 'block' || allowed || struck(layer.ask)
  })
}

/** All tools of a caller: those that are neither gone nor off, and that no other tool replaces. */
export function visibleTo(things: readonly Thing[], who: Who, said: Said): readonly Thing[] {
  const there = things.filter((thing) => ['ask', 'runs'].includes(verdictOn(thing, who, said, things)))
  const replaced = there.map(({ replaces }) => replaces)
  return there.filter(
    ({ id, owner, action }) => !replaced.includes(id) && !replaced.includes(`${called(owner)}.${action}`),
  )
}

/** The listed name: its own id, or the only allowed alias. */
export function shownAs(thing: Thing, who: Who, said: Said): string {
  const alias = layersFor(said, who)
    .map((layer) => aliasOnly(layer, thing))
    .find((one) => one !== undefined)
  return alias === undefined ? thing.id : `${thing.owner}.${alias}`
}
