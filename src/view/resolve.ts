import type { Clash, Owner, OwnerInfo, Snapshot } from '../catalog/catalog.ts'
import { editDistance, nearest } from '../core/names.ts'
import { once } from '../core/once.ts'
import type { ViewTool } from './view.ts'
import type { Hidden } from './visible.ts'

/** No tool is called like a longer one, nor by an alias that a model would write. */
const LONGEST_NAME = 512

type Down = Pick<OwnerInfo, 'id' | 'state' | 'reason'>

/** What a name a model wrote means for one caller. Suggestions come from visible tools only. */
export type Resolution =
  | { readonly kind: 'found'; readonly tool: ViewTool }
  | { readonly kind: 'ambiguous'; readonly candidates: readonly string[] }
  /** It exists and may be told why it cannot be used. */
  | { readonly kind: 'hidden'; readonly id: string; readonly hidden: Hidden }
  | {
      readonly kind: 'unknown'
      readonly suggestions: readonly string[]
      readonly sameModule: readonly string[]
      /** The server that is named, when it is not there. */
      readonly down?: Down
    }

/**
 * Resolution order, first that yields wins: id, wire name, other separators (`__`, `::`, `:`, `/`, and an upstream's
 * name without `mcp_` or `api_`), a unique alias, one `_` as the separator, a unique action name, all of it with case
 * and punctuation ignored, and last a hidden tool's own name or alias, where its reason may be told.
 *
 * A name that begins with an owner's name means a tool of that owner and no other, and a name with a dot always does. The
 * name of a hidden tool never means another one.
 */
export function createResolver(
  tools: readonly ViewTool[],
  byId: ReadonlyMap<string, ViewTool>,
  hidden: ReadonlyMap<string, Hidden>,
  snapshot: Snapshot,
  /** Those the caller sees. */
  owners: readonly Owner[],
  /** Ids of tools that are kept out, by what they are called. */
  withheld: ReadonlyMap<string, string>,
  /** Ids by names that this client's limits made. */
  short: ReadonlyMap<string, string> = new Map(),
): (name: string) => Resolution {
  /** By id or by what clients see, the full name or the short one; an id beats a name. */
  const exact = (name: string): ViewTool | undefined =>
    byId.get(name) ?? byId.get(snapshot.byName.get(name)?.id ?? short.get(name) ?? '')
  // Most names are exact, and ten thousand tools have many other names.
  const derived = once(() => derivedNames(tools))
  const clashes = once(() => new Map(snapshot.clashes.map((clash) => [clash.name.toLowerCase(), clash])))

  const unique = (found: ReadonlySet<ViewTool> | undefined): Resolution | undefined => {
    if (!found || found.size === 0) return undefined
    const [only] = found
    if (found.size === 1 && only) return { kind: 'found', tool: only }
    return { kind: 'ambiguous', candidates: [...found].map((entry) => entry.tool.id).slice(0, 10) }
  }

  const hiddenNames = once(() => hiddenSpellings(hidden))

  return (raw) => {
    const name = raw.trim()
    const direct = exact(name)
    if (direct) return { kind: 'found', tool: direct }
    const own = OWN_MODULE.exec(name)
    const isOurs = [...snapshot.ownersNamed('pegboard')].every((id) => id === 'pegboard')
    const bundled = own?.[1] === undefined || !isOurs ? undefined : ownModule(own[1].replace(/__|::|:|\//, '.'), byId)
    if (bundled) return { kind: 'found', tool: bundled }
    const other = snapshot.byId.get(name) ?? snapshot.byName.get(name)
    if (other && !byId.has(other.id) && hidden.has(other.id))
      return tellable(name, hidden, snapshot, withheld) ?? { kind: 'unknown', ...suggest(name, tools, owners) }
    // No tool is called so, and what is left without these characters may be.
    if (UNNAMEABLE.test(name)) return { kind: 'unknown', suggestions: [], sameModule: [] }
    // Every other spelling is looked for at every place where the name may be divided.
    if (name.length > LONGEST_NAME) return { kind: 'unknown', suggestions: [], sameModule: [] }
    const unseen = /__|[.:/]/.test(name) ? downOf(ownerNamed(name, owners)) : undefined
    if (unseen?.isEmpty) return { kind: 'unknown', suggestions: [], sameModule: [], down: unseen.down }
    const clash = clashes().get(name.toLowerCase())
    const wanting = clash && unique(clashing(clash, tools, byId))
    if (wanting) return wanting
    const meant = ownersMeant(name, snapshot)
    const among = (found: ReadonlySet<ViewTool> | undefined): Resolution | undefined =>
      unique(meant && found ? new Set([...found].filter(({ tool }) => meant.has(tool.module))) : found)
    for (const separator of ['__', '::', ':', '/']) {
      const at = name.indexOf(separator)
      if (at <= 0) continue
      const dotted = `${name.slice(0, at)}.${name.slice(at + separator.length)}`
      const found = exact(dotted)
      if (found) return { kind: 'found', tool: found }
      const aliased = among(derived().aliases.get(dotted.toLowerCase()))
      if (aliased) return aliased
    }
    const aliased = among(derived().aliases.get(name.toLowerCase()))
    if (aliased) return aliased
    for (let at = name.indexOf('_'); at > 0; at = name.indexOf('_', at + 1)) {
      const dotted = `${name.slice(0, at)}.${name.slice(at + 1)}`
      const found = exact(dotted)
      if (found) return { kind: 'found', tool: found }
      const owned =
        snapshot.ownersNamed(name.slice(0, at).toLowerCase()).size > 0 &&
        unique(derived().owned.get(dotted.toLowerCase()))
      if (owned) return owned
    }
    const told = tellable(name, hidden, snapshot, withheld)
    if (told) return told
    const flat = flatten(name)
    if (!hiddenNames().has(flat)) {
      const action = among(derived().actions.get(name.toLowerCase()))
      if (action) return action
      const flattened = among(derived().flat.get(flat))
      if (flattened) return flattened
    }
    const hiddenOne = hiddenNamed(name, hidden, snapshot)
    if (hiddenOne) return hiddenOne
    return { kind: 'unknown', ...suggest(name, tools, owners) }
  }
}

/** The tools that a name may mean that several wanted: the one that has it, in any case, or all that do not. */
function clashing(
  { ids, kept, isCase }: Clash,
  tools: readonly ViewTool[],
  byId: ReadonlyMap<string, ViewTool>,
): ReadonlySet<ViewTool> {
  const holder = kept === undefined || isCase ? undefined : byId.get(kept)
  if (holder) return new Set([holder])
  return ids.length > 1 && (kept === undefined || isCase)
    ? new Set(tools.filter(({ tool }) => ids.includes(tool.id)))
    : new Set()
}

/** Characters that nobody sees, and an empty part between dots. */
const UNNAMEABLE = /[\p{C}\u115f\u1160\u3164\uffa0]|\.\./u

const SEPARATOR = /__|::|[:/]/g

/** `pegboard.filesystem.read` is the bundled module's tool, also where a configured server is called `filesystem`. */
const OWN_MODULE = /^pegboard(?:\.|__|::|:|\/)(.+)$/i

function ownModule(id: string, byId: ReadonlyMap<string, ViewTool>): ViewTool | undefined {
  const found = byId.get(`pegboard_${id}`) ?? byId.get(id)
  return found?.tool.origin === 'module' ? found : undefined
}

/** The owners of which a name can mean a tool; undefined where it does not begin with that of an owner. */
function ownersMeant(name: string, { ownersNamed }: Snapshot): ReadonlySet<string> | undefined {
  const folded = name.toLowerCase()
  const heads = [...folded.matchAll(SEPARATOR)].map(({ index }) => folded.slice(0, index))
  for (const head of heads.reverse()) {
    const owners = ownersNamed(head)
    if (owners.size > 0) return owners
  }
  const dot = folded.indexOf('.')
  return dot === -1 ? undefined : ownersNamed(folded.slice(0, dot))
}

/** What hidden tools may be called with case and punctuation ignored; of those that only wait or are out of order, also without their owner. */
function hiddenSpellings(hidden: ReadonlyMap<string, Hidden>): ReadonlySet<string> {
  const names = new Set<string>()
  for (const [id, { kind, stage }] of hidden) {
    const dot = id.indexOf('.')
    const action = id.slice(dot + 1)
    names.add(flatten(id))
    names.add(flatten(`${id.slice(0, dot).replace(/^(?:mcp|api)_/, '')}.${action}`))
    if (kind === 'quarantined' || stage === 'upstream') names.add(flatten(action))
  }
  return names
}

interface Derived {
  /** By an upstream's name without `mcp_` or `api_`. */
  readonly owned: ReadonlyMap<string, ReadonlySet<ViewTool>>
  readonly aliases: ReadonlyMap<string, ReadonlySet<ViewTool>>
  /** Names without their module. */
  readonly actions: ReadonlyMap<string, ReadonlySet<ViewTool>>
  /** Letters and digits alone. */
  readonly flat: ReadonlyMap<string, ReadonlySet<ViewTool>>
}

function derivedNames(tools: readonly ViewTool[]): Derived {
  const aliases = new Map<string, Set<ViewTool>>()
  const actions = new Map<string, Set<ViewTool>>()
  const flat = new Map<string, Set<ViewTool>>()
  const owned = new Map<string, Set<ViewTool>>()
  for (const entry of tools) {
    const { id, module } = entry.tool
    const action = id.slice(module.length + 1)
    add(actions, action.toLowerCase(), entry)
    add(flat, flatten(id), entry)
    for (const alias of entry.tool.aliases) {
      add(aliases, alias.toLowerCase(), entry)
      add(aliases, `${module}.${alias}`.toLowerCase(), entry)
    }
    if (/^(?:mcp|api)_/.test(module)) {
      const short = module.slice(4)
      add(owned, `${short}.${action}`.toLowerCase(), entry)
      add(aliases, `${short}.${action}`.toLowerCase(), entry)
      add(flat, flatten(`${short}.${action}`), entry)
      for (const alias of entry.tool.aliases) add(aliases, `${short}.${alias}`.toLowerCase(), entry)
    }
  }
  // An alias never stands in the way of a tool that is really called like that, in any spelling: the name then means both.
  const spelled = new Map<string, Set<ViewTool>>()
  for (const named of actions.values())
    for (const entry of named) add(spelled, flatten(entry.tool.id.slice(entry.tool.module.length + 1)), entry)
  for (const [name, also] of aliases) {
    if (actions.has(name)) {
      if ([...also].some((entry) => !actions.get(name)?.has(entry))) aliases.delete(name)
      continue
    }
    for (const entry of spelled.get(flatten(name)) ?? []) also.add(entry)
  }
  return { owned, aliases, actions, flat }
}

function tellable(
  name: string,
  hidden: ReadonlyMap<string, Hidden>,
  snapshot: Snapshot,
  withheld: ReadonlyMap<string, string>,
): Resolution | undefined {
  const dotted = name.replace(/__|::|:|\//, '.')
  const tool = snapshot.byId.get(name) ?? snapshot.byName.get(name) ?? snapshot.byId.get(dotted)
  const id = tool?.id ?? withheld.get(name) ?? withheld.get(dotted)
  const reason = id === undefined ? undefined : hidden.get(id)
  return id !== undefined && reason && reason.kind !== 'denied' ? { kind: 'hidden', id, hidden: reason } : undefined
}

/** The one hidden tool that is called like this without its category. */
function hiddenNamed(name: string, hidden: ReadonlyMap<string, Hidden>, snapshot: Snapshot): Resolution | undefined {
  const wanted = name.toLowerCase()
  const found: Array<readonly [string, Hidden]> = []
  for (const [id, why] of hidden) {
    const tool = why.kind === 'denied' ? undefined : snapshot.byId.get(id)
    if (!tool) continue
    if ([id.slice(tool.module.length + 1), ...tool.aliases].some((one) => one.toLowerCase() === wanted))
      found.push([id, why])
  }
  if (found.length === 0) return offByBareName(wanted, hidden, snapshot)
  const [only] = found
  return only && found.length === 1 ? { kind: 'hidden', id: only[0], hidden: only[1] } : undefined
}

/**
 * Agents count on some tools by their bare names, and are told that the operator has not switched on the module. By no other name is
 * that told.
 */
function offByBareName(name: string, hidden: ReadonlyMap<string, Hidden>, snapshot: Snapshot): Resolution | undefined {
  for (const [id, { kind, stage }] of hidden) {
    if (kind !== 'denied' || stage !== 'switch') continue
    const tool = snapshot.byId.get(id)
    if (!tool?.toldWhenOff || id.slice(tool.module.length + 1) !== name) continue
    const setting = `tools.${name}.enabled`
    const reason = `${name} tool is disabled (enable via config: ${setting}=true)`
    return { kind: 'hidden', id, hidden: { kind: 'disabled', stage, reason, setting } }
  }
  return undefined
}

/** The nearest ids, else tools whose own name is near; and what else the named module has. */
function suggest(
  name: string,
  tools: readonly ViewTool[],
  owners: readonly Owner[],
): { suggestions: string[]; sameModule: string[]; down?: Down } {
  const dotted = name.replace(/__|::|:|\//, '.')
  const module = dotted.split('.')[0] ?? ''
  const owner = ownerNamed(name, owners)
  const owned = tools.filter((entry) => entry.tool.module === owner?.id)
  const suggestions = [
    // A category that was named rightly says more than letters that happen to be near.
    ...(owner
      ? nearest(
          `${owner.id}.${dotted.slice(module.length + 1)}`,
          owned.map((entry) => entry.tool.id),
        )
      : []),
    ...nearest(
      dotted,
      tools.map((entry) => entry.tool.id),
    ),
  ].filter((id, at, all) => all.indexOf(id) === at && nearInAction(dotted, id))
  if (suggestions.length === 0 && !dotted.includes('.')) {
    const actions = new Map(tools.map((entry) => [entry.tool.id.slice(entry.tool.module.length + 1), entry.tool.id]))
    suggestions.push(...nearest(dotted, actions.keys()).flatMap((action) => actions.get(action) ?? []))
  }
  const sameModule = owned.slice(0, 5).map((entry) => entry.tool.id)
  const down = downOf(owner)?.down
  return { suggestions, sameModule, ...(down === undefined ? {} : { down }) }
}

/** Three letters may be wrong in a long name; of `rm` and `ls` they are all. */
function nearInAction(dotted: string, id: string): boolean {
  const [wanted, action] = [dotted, id].map((name) => name.slice(name.indexOf('.') + 1).toLowerCase()) as [
    string,
    string,
  ]
  const max = Math.floor(Math.max(wanted.length, action.length) / 2)
  return !dotted.includes('.') || editDistance(wanted, action, max) <= max
}

/** The category that the first part of a name means. */
function ownerNamed(name: string, owners: readonly Owner[]): Owner | undefined {
  const module = name.replace(/__|::|:|\//, '.').split('.')[0] ?? ''
  return (
    owners.find(({ id }) => id === module) ?? owners.find(({ id }) => id === `mcp_${module}` || id === `api_${module}`)
  )
}

/** A server that is not there now, and whether nothing is known of it. One that rests has the tools that are known. */
function downOf(owner: Owner | undefined): { readonly down: Down; readonly isEmpty: boolean } | undefined {
  if (owner?.origin !== 'upstream' || owner.state === 'ready') return undefined
  const { id, state, reason } = owner
  const isEmpty = owner.tools.length + owner.withheld.length === 0
  if (state === 'known' && !isEmpty) return undefined
  return { down: { id, state, ...(reason === undefined ? {} : { reason }) }, isEmpty }
}

const flatten = (name: string): string => name.toLowerCase().replaceAll(/[^\p{L}\p{N}]/gu, '')

function add(index: Map<string, Set<ViewTool>>, key: string, entry: ViewTool): void {
  const found = index.get(key)
  if (found) found.add(entry)
  else index.set(key, new Set([entry]))
}
