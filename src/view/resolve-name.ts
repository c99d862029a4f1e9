import type { Snapshot } from '../catalog/catalog.ts'
import type { NameClash } from '../catalog/name-clashes.ts'
import type { Owner, OwnerInfo } from '../catalog/owner.ts'
import { getOrInsert } from '../core/get-or-insert.ts'
import { omitUndefined } from '../core/omit-undefined.ts'
import { once } from '../core/once.ts'
import type { Tool } from '../core/tool.ts'
import { actionOf, editDistance, findNearest, removeOwnerPrefix, wordsOf } from '../core/tool-names.ts'
import type { MergedTools } from './merge-tools.ts'
import { unreadServers } from './unread-servers.ts'
import type { ViewTool } from './view.ts'
import type { HiddenReason } from './visibility.ts'

/** Longer than any tool name, and than any alias that a model would write. */
const MAX_NAME = 512

type UnavailableOwner = Pick<OwnerInfo, 'id' | 'state' | 'reason'>

/** What a name means for one caller. */
export type Resolution =
  | { readonly kind: 'found'; readonly tool: ViewTool }
  | { readonly kind: 'ambiguous'; readonly candidates: readonly string[] }
  /** The tool exists, and the caller may learn why it cannot be used. */
  | { readonly kind: 'hidden'; readonly id: string; readonly hidden: HiddenReason }
  | UnknownName

/** A name that no tool has. All suggested tools are visible. */
export interface UnknownName {
  readonly kind: 'unknown'
  /** Ids of the tools that it probably means. */
  readonly suggestions: readonly string[]
  /** Ids of tools of the named owner that have a word of the name. */
  readonly similar: readonly string[]
  /** True if the caller sees tools of the owner that the name begins with. */
  readonly ownerHasTools: boolean
  /** Ids of servers that may have the tool, because their tools are not known yet. */
  readonly unread: readonly string[]
  /** The named server, if it is not connected. */
  readonly down?: UnavailableOwner
}

/**
 * Creates the function that resolves names. The first of these that matches wins:
 * 1. a tool's id, then its wire name;
 * 2. the same with another separator (`__`, `::`, `:`, `/`), and without `mcp_` or `api_`;
 * 3. an alias of only one tool;
 * 4. the same with one `_` as the separator;
 * 5. an action name of only one tool;
 * 6. all of these, ignoring case and punctuation;
 * 7. the name or alias of a hidden tool, if the caller may learn about it.
 *
 * A name that begins with the name of an owner, or that contains a dot, means only a tool of that owner. The name of a
 * hidden tool never means another tool.
 * @param quarantined ids of tools that wait for a review, by their names
 * @param owners those that the caller sees
 */
export function createResolver(
  { tools, byId, hidden, short }: MergedTools,
  quarantined: ReadonlyMap<string, string>,
  owners: readonly Owner[],
  snapshot: Snapshot,
): (name: string) => Resolution {
  /** By id or by wire name, full or shortened. Ids have priority. */
  const findExact = (name: string): ViewTool | undefined =>
    byId.get(name) ?? byId.get(snapshot.byName.get(name)?.id ?? short.get(name) ?? '')
  // Computed on use: most names are exact, and ten thousand tools have many other names.
  const derived = once(() => indexNames(tools))
  const clashes = once(() => {
    const ofTools = snapshot.clashes.filter(({ isPrompt }) => !isPrompt)
    return new Map(ofTools.map((clash) => [clash.name.toLowerCase(), clash]))
  })

  const toResolution = (found: ReadonlySet<ViewTool> | undefined): Resolution | undefined => {
    if (!found || found.size === 0) return undefined
    const [only] = found
    if (found.size === 1 && only) return { kind: 'found', tool: only }
    return { kind: 'ambiguous', candidates: [...found].map((entry) => entry.tool.id).slice(0, 10) }
  }

  const hiddenNames = once(() => listHiddenSpellings(hidden))
  const toUnknown = (name: string): Resolution => {
    const meantOwners = findMeantOwners(name, snapshot)
    const mayHave = (id: string): boolean => (meantOwners ? meantOwners.has(id) : !FIRST_SEPARATOR.test(name))
    return { kind: 'unknown', ...suggest(name, tools, owners), unread: unreadServers({ owners }).filter(mayHave) }
  }

  /** The hidden tool with this name, if the caller may learn about it. */
  function findHidden(name: string): Resolution | undefined {
    const dotted = name.replace(FIRST_SEPARATOR, '.')
    const tool = snapshot.byId.get(name) ?? snapshot.byName.get(name) ?? snapshot.byId.get(dotted)
    const id = tool?.id ?? quarantined.get(name) ?? quarantined.get(dotted)
    const reason = id === undefined ? undefined : hidden.get(id)
    return id !== undefined && reason && reason.kind !== 'denied' ? { kind: 'hidden', id, hidden: reason } : undefined
  }

  /**
   * With servers `a` and `a_b`, `a_b_x` could mean `a.b_x` or `a_b.x`. If both exist it means neither, otherwise only
   * the latter.
   */
  function byUnderscore(name: string): Resolution | undefined {
    const found = new Set<ViewTool>()
    let meantOwners: ReadonlySet<string> = new Set()
    for (let at = name.indexOf('_'); at > 0; at = name.indexOf('_', at + 1)) {
      const head = snapshot.ownersNamed(name.slice(0, at).toLowerCase())
      const dotted = `${name.slice(0, at)}.${name.slice(at + 1)}`
      const named = findExact(dotted)
      if (named) found.add(named)
      if (head.size === 0) continue
      meantOwners = head
      for (const entry of derived().owned.get(dotted.toLowerCase()) ?? []) found.add(entry)
    }
    const [only] = found
    return only && found.size === 1 && meantOwners.size > 0 && !meantOwners.has(only.tool.module)
      ? toUnknown(name)
      : toResolution(found)
  }

  /** The found tools that belong to an owner that the name means. */
  function amongMeant(name: string, found: ReadonlySet<ViewTool> | undefined): Resolution | undefined {
    if (!found) return undefined
    const meantOwners = findMeantOwners(name, snapshot)
    if (!meantOwners) return toResolution(found)
    return toResolution(new Set([...found].filter(({ tool }) => meantOwners.has(tool.module))))
  }

  function bySeparator(name: string): Resolution | undefined {
    for (const separator of ['__', '::', ':', '/']) {
      const at = name.indexOf(separator)
      if (at <= 0) continue
      const dotted = `${name.slice(0, at)}.${name.slice(at + separator.length)}`
      const tool = findExact(dotted)
      if (tool) return { kind: 'found', tool }
      const aliased = amongMeant(name, derived().aliases.get(dotted.toLowerCase()))
      if (aliased) return aliased
    }
    return undefined
  }

  /** By the action or in any spelling, unless a hidden tool has such a name. */
  function byLooseSpelling(name: string): Resolution | undefined {
    const flat = flatten(name)
    if (hiddenNames().has(flat)) return undefined
    const { actions, flat: flatNames } = derived()
    return amongMeant(name, actions.get(name.toLowerCase())) ?? amongMeant(name, flatNames.get(flat))
  }

  function isHiddenName(name: string): boolean {
    const tool = snapshot.byId.get(name) ?? snapshot.byName.get(name)
    return tool !== undefined && !byId.has(tool.id) && hidden.has(tool.id)
  }

  return (raw) => {
    const name = raw.trim()
    const tool = findExact(name) ?? findBundledTool(name, byId, snapshot)
    if (tool) return { kind: 'found', tool }
    if (isHiddenName(name)) return findHidden(name) ?? toUnknown(name)
    // No tool has such a name: without the invisible characters it could mean another one. Trying every spelling of a long one
    // would be slow.
    if (UNNAMEABLE.test(name) || name.length > MAX_NAME) return NOTHING_SIMILAR
    const unavailable = /__|[.:/]/.test(name) ? findUnavailable(ownerNamed(name, owners)) : undefined
    if (unavailable?.isEmpty) return { ...NOTHING_SIMILAR, down: unavailable.down }
    const clash = clashes().get(name.toLowerCase())
    if (clash?.isAway) return findHidden(name) ?? toUnknown(name)
    return (
      (clash && toResolution(getClashingTools(clash, tools, byId))) ??
      bySeparator(name) ??
      amongMeant(name, derived().aliases.get(name.toLowerCase())) ??
      byUnderscore(name) ??
      findHidden(name) ??
      byLooseSpelling(name) ??
      findHiddenByBareName(name, hidden, snapshot) ??
      toUnknown(name)
    )
  }
}

const NOTHING_SIMILAR: UnknownName = {
  kind: 'unknown',
  suggestions: [],
  similar: [],
  ownerHasTools: false,
  unread: [],
}

/** The tools that a contested name means: the tool that has the name, otherwise all that want it. */
function getClashingTools(
  { ids, kept, isCase }: NameClash,
  tools: readonly ViewTool[],
  byId: ReadonlyMap<string, ViewTool>,
): ReadonlySet<ViewTool> {
  const holder = kept === undefined || isCase ? undefined : byId.get(kept)
  if (holder) return new Set([holder])
  return ids.length > 1 && (kept === undefined || isCase)
    ? new Set(tools.filter(({ tool }) => ids.includes(tool.id)))
    : new Set()
}

/** Invisible characters, and an empty part between dots. */
const UNNAMEABLE = /[\p{C}\u115f\u1160\u3164\uffa0]|\.\./u

const SEPARATOR = /__|::|[:/]/g
const FIRST_SEPARATOR = /__|::|[:/]/

/** `pegboard.filesystem.read` is the bundled module's tool, even if a server is called `filesystem`. */
const OWN_MODULE = /^pegboard(?:\.|__|::|:|\/)(.+)$/i

function findBundledTool(
  name: string,
  byId: ReadonlyMap<string, ViewTool>,
  { ownersNamed }: Snapshot,
): ViewTool | undefined {
  const [, bundledName] = OWN_MODULE.exec(name) ?? []
  if (bundledName === undefined || [...ownersNamed('pegboard')].some((id) => id !== 'pegboard')) return undefined
  const id = bundledName.replace(FIRST_SEPARATOR, '.')
  const found = byId.get(`pegboard_${id}`) ?? byId.get(id)
  return found?.tool.origin === 'module' ? found : undefined
}

/** The owners that a name begins with; undefined if it begins with none. */
function findMeantOwners(name: string, { ownersNamed }: Snapshot): ReadonlySet<string> | undefined {
  const folded = name.toLowerCase()
  const heads = [...folded.matchAll(SEPARATOR)].map(({ index }) => folded.slice(0, index))
  for (const head of heads.reverse()) {
    const owners = ownersNamed(head)
    if (owners.size > 0) return owners
  }
  const dot = folded.indexOf('.')
  return dot === -1 ? undefined : ownersNamed(folded.slice(0, dot))
}

/**
 * Names of hidden tools, ignoring case and punctuation. For tools that wait or whose server fails, also without the
 * owner.
 */
function listHiddenSpellings(hidden: ReadonlyMap<string, HiddenReason>): ReadonlySet<string> {
  const names = new Set<string>()
  for (const [id, { kind, stage }] of hidden) {
    const dot = id.indexOf('.')
    const action = id.slice(dot + 1)
    names.add(flatten(id))
    names.add(flatten(`${removeOwnerPrefix(id.slice(0, dot))}.${action}`))
    if (kind === 'quarantined' || stage === 'upstream') names.add(flatten(action))
  }
  return names
}

interface NameIndex {
  /** Tools of servers and APIs, by id without `mcp_` or `api_`. */
  readonly owned: ReadonlyMap<string, ReadonlySet<ViewTool>>
  readonly aliases: ReadonlyMap<string, ReadonlySet<ViewTool>>
  /** By names without the module. */
  readonly actions: ReadonlyMap<string, ReadonlySet<ViewTool>>
  /** By letters and digits only. */
  readonly flat: ReadonlyMap<string, ReadonlySet<ViewTool>>
}

function indexNames(tools: readonly ViewTool[]): NameIndex {
  const aliases = new Map<string, Set<ViewTool>>()
  const actions = new Map<string, Set<ViewTool>>()
  const flat = new Map<string, Set<ViewTool>>()
  const owned = new Map<string, Set<ViewTool>>()
  for (const entry of tools) {
    const { id, module } = entry.tool
    const action = actionOf(entry.tool)
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
  // An alias never hides a tool that has the same name in another spelling: the name then means both.
  const spelled = new Map<string, Set<ViewTool>>()
  for (const named of actions.values()) for (const entry of named) add(spelled, flatten(actionOf(entry.tool)), entry)
  for (const [name, aliased] of aliases) {
    if (actions.has(name)) {
      if ([...aliased].some((entry) => !actions.get(name)?.has(entry))) aliases.delete(name)
      continue
    }
    for (const entry of spelled.get(flatten(name)) ?? []) aliased.add(entry)
  }
  return { owned, aliases, actions, flat }
}

/** The only hidden tool that has this name without its category. */
function findHiddenByBareName(
  name: string,
  hidden: ReadonlyMap<string, HiddenReason>,
  snapshot: Snapshot,
): Resolution | undefined {
  const lowerName = name.toLowerCase()
  const found: Array<readonly [string, HiddenReason]> = []
  for (const [id, why] of hidden) {
    const tool = why.kind === 'denied' ? undefined : snapshot.byId.get(id)
    if (!tool) continue
    if ([actionOf(tool), ...tool.aliases].some((one) => one.toLowerCase() === lowerName)) found.push([id, why])
  }
  if (found.length === 0) return findDisabledByBareName(lowerName, hidden, snapshot)
  const [only] = found
  return only && found.length === 1 ? { kind: 'hidden', id: only[0], hidden: only[1] } : undefined
}

/** Agents rely on some tools by their bare names. They learn that the module is disabled; by other names they do not. */
function findDisabledByBareName(
  name: string,
  hidden: ReadonlyMap<string, HiddenReason>,
  snapshot: Snapshot,
): Resolution | undefined {
  for (const [id, { kind, stage }] of hidden) {
    if (kind !== 'denied' || stage !== 'switch') continue
    const tool = snapshot.byId.get(id)
    if (!tool?.toldWhenOff || actionOf(tool) !== name) continue
    const setting = `tools.${name}.enabled`
    const reason = `${name} tool is disabled (enable via config: ${setting}=true)`
    return { kind: 'hidden', id, hidden: { kind: 'disabled', stage, reason, setting } }
  }
  return undefined
}

function suggest(
  name: string,
  tools: readonly ViewTool[],
  owners: readonly Owner[],
): Omit<UnknownName, 'kind' | 'unread'> {
  const owner = ownerNamed(name, owners)
  const owned = tools.filter((entry) => entry.tool.module === owner?.id)
  const ownerWords = wordsOf(owner?.id ?? '')
  const requested = wordsOf(splitName(name).action).filter((word) => !ownerWords.includes(word))
  const down = findUnavailable(owner)?.down
  return {
    suggestions: findSuggestions(name, tools, owner, owned),
    similar: idsOf(findSimilar(requested, owned, 'any')).slice(0, 5),
    ownerHasTools: owned.length > 0,
    ...omitUndefined({ down }),
  }
}

/**
 * Ids with a similar spelling, otherwise tools with the same words in their names. For a name with an unknown owner, tools
 * of others that have the same action and only read, because the model wanted another owner: `fs.read`.
 */
function findSuggestions(
  name: string,
  tools: readonly ViewTool[],
  owner: Owner | undefined,
  owned: readonly ViewTool[],
): readonly string[] {
  const { dotted, action, isBare } = splitName(name)
  // A correct category is a stronger hint than similar letters.
  const ofOwner = owner ? findNearest(`${owner.id}.${action}`, idsOf(owned)) : []
  const spelled = new Set([...ofOwner, ...findNearest(dotted, idsOf(tools))])
  const candidates = spelled.size === 0 && isBare ? findNearestActions(dotted, tools) : [...spelled]
  const near = candidates.filter((id) => {
    const found = tools.find(({ tool }) => tool.id === id)
    return found && isNear(dotted, found.tool)
  })
  if (near.length > 0) return near
  if (isBare) return idsOf(findSimilar(wordsOf(name), tools, 'all')).slice(0, 3)
  if (owner) return []
  const hasAction = ({ tool }: ViewTool): boolean => actionOf(tool).toLowerCase() === action.toLowerCase()
  return idsOf(tools.filter((entry) => entry.tool.effect === 'read' && hasAction(entry))).slice(0, 3)
}

/** Ids of the tools whose names without the module are the nearest. */
function findNearestActions(name: string, tools: readonly ViewTool[]): readonly string[] {
  const actions = new Map(tools.map(({ tool }) => [actionOf(tool), tool.id]))
  return findNearest(name, actions.keys()).flatMap((action) => actions.get(action) ?? [])
}

const idsOf = (entries: readonly ViewTool[]): string[] => entries.map(({ tool }) => tool.id)

/** Only these tools are suggested, because a model may call a suggested tool by mistake. */
const isHarmless = ({ tool }: ViewTool): boolean => tool.effect !== 'destructive'

/**
 * Harmless tools with all or any of these words in their names, first those with the most of them and the fewest
 * others. Then tools whose names have these words with another verb.
 */
function findSimilar(words: readonly string[], tools: readonly ViewTool[], which: 'all' | 'any'): ViewTool[] {
  const harmless = tools.filter(isHarmless)
  const named = harmless
    .map((entry) => {
      const own = wordsOf(actionOf(entry.tool))
      return { entry, common: words.filter((word) => own.some((one) => isSameWord(word, one))).length, all: own.length }
    })
    .filter(({ common }) => common > 0 && (which === 'any' || common === words.length))
    .sort((a, b) => b.common - a.common || a.all - b.all)
    .map(({ entry }) => entry)
  const withOtherVerb = harmless.filter(({ tool }) => tool.searchPhrases?.includes(words.join(' ')))
  return [...new Set([...named, ...withOtherVerb])]
}

/** True for equal words, and if one begins with the other, such as `list` and `listdir`. */
const isSameWord = (a: string, b: string): boolean => a === b || isBeginning(a, b) || isBeginning(b, a)
const isBeginning = (word: string, long: string): boolean => word.length >= 3 && long.startsWith(word)

/**
 * At most a third of the action's letters may differ: two letters are half of `help` and `hdel`. In the name of a
 * destructive tool at most one, because a model may call what is suggested.
 */
function isNear(dotted: string, { id, effect }: Tool): boolean {
  const actionIn = (name: string): string => name.slice(name.indexOf('.') + 1).toLowerCase()
  const requestedAction = actionIn(dotted)
  const names = dotted.includes('.') ? [actionIn(id)] : [actionIn(id), id.toLowerCase()]
  return names.some((name) => {
    const longest = Math.max(requestedAction.length, name.length)
    const third = Math.floor(longest / 3)
    const max = effect === 'destructive' ? Math.min(1, third) : Math.min(longest >> 1, Math.max(1, third))
    return editDistance(requestedAction, name, max) <= max
  })
}

/** The first part of a name, which may be an owner, and the rest. */
function splitName(name: string) {
  const dotted = name.replace(FIRST_SEPARATOR, '.')
  const [module = ''] = dotted.split('.')
  return { dotted, module, action: dotted.slice(module.length + 1), isBare: !dotted.includes('.') }
}

/** The owner that the first part of a name means. */
function ownerNamed(name: string, owners: readonly Owner[]): Owner | undefined {
  const { module } = splitName(name)
  return (
    owners.find(({ id }) => id === module) ?? owners.find(({ id }) => id === `mcp_${module}` || id === `api_${module}`)
  )
}

/**
 * A server that is not connected, and whether none of its tools is known. Undefined if its tools are known and nothing
 * failed, because calls wait for its start.
 */
function findUnavailable(
  owner: Owner | undefined,
): { readonly down: UnavailableOwner; readonly isEmpty: boolean } | undefined {
  if (owner?.origin !== 'upstream' || owner.state === 'ready') return undefined
  const { id, state, reason } = owner
  const isEmpty = owner.tools.length + owner.quarantined.length === 0
  const isStarting = state === 'known' || (state === 'connecting' && reason === undefined)
  if (isStarting && !isEmpty) return undefined
  return { down: { id, state, ...(reason === undefined ? {} : { reason }) }, isEmpty }
}

const flatten = (name: string): string => name.toLowerCase().replaceAll(/[^\p{L}\p{N}]/gu, '')

const add = (index: Map<string, Set<ViewTool>>, key: string, entry: ViewTool): void =>
  void getOrInsert(index, key, () => new Set()).add(entry)
