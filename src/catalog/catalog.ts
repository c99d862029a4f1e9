import type { Caller } from '../core/context.ts'
import { PegboardError } from '../core/errors.ts'
import type { PromptSection } from '../core/module.ts'
import { distinctName, isModuleId } from '../core/names.ts'
import { once } from '../core/once.ts'
import type { Profile } from '../core/profile.ts'
import { createSignal } from '../core/signal.ts'
import type { NameOf, Tool } from '../core/tool.ts'

/** How well an owner is doing. `configured`: never seen; `known`: tools from disk, not running; the rest speak for themselves. */
export type OwnerState = 'ready' | 'configured' | 'known' | 'connecting' | 'failing' | 'stopped' | 'degraded'

/** A module or an upstream: a category of tools. */
export interface OwnerInfo {
  readonly id: string
  readonly summary: string
  readonly origin: 'module' | 'upstream'
  /** What it says of itself, for search; absent where `summary` was made up. */
  readonly about?: string
  /** Groups of words that mean the same to it, for search. */
  readonly synonyms?: readonly (readonly string[])[]
  readonly state: OwnerState
  /** Why it is not ready, in words for people. */
  readonly reason?: string
  /** When it is tried again, in milliseconds since the epoch; only while that is planned. */
  readonly nextAttemptAt?: number
  /** What a call waits for it to start, from experience; only while it is not started. */
  readonly startsInMs?: number
  /** What waits for the operator though it works, with the command that helps. */
  readonly notice?: string
  /** What its tools do in place of bundled ones, for the profiles that have it: `url_fetcher`, `web_search`. */
  readonly provides?: string
  /** Its tools are for modules alone: clients are told nothing of it. */
  readonly internal?: boolean
  /** Resources that are answers of its tools. */
  readonly readings?: readonly Reading[]
  /** What it adds to prompts. May throw. */
  readonly promptSection?: (caller: Caller, nameOf: NameOf, profile: Profile) => PromptSection | undefined
  /** What it has to tell a caller beside the result of a call. May throw. */
  readonly notices?: (caller: Caller, profile: Profile) => readonly string[] | Promise<readonly string[]>
}

/** A resource that is what a tool answers. Whoever sees the tool has it. */
export interface Reading {
  readonly uri: string
  /** As clients are told of it. */
  readonly entry: Readonly<Record<string, unknown>>
  /** Its id. */
  readonly tool: string
  readonly input: Readonly<Record<string, unknown>>
  readonly mimeType: string
}

/** A resource, template or prompt as its owner published it; `entry` is relayed unchanged but for a prompt's name. */
export interface Resource {
  readonly uri: string
  readonly entry: Readonly<Record<string, unknown>>
}
export interface ResourceTemplate {
  readonly uriTemplate: string
  readonly entry: Readonly<Record<string, unknown>>
}
export interface Prompt {
  /** The name clients see. */
  readonly name: string
  readonly entry: Readonly<Record<string, unknown>>
}

/** The requests an owner of resources and prompts answers. Names and URIs are as listed; results pass through unaltered. */
export interface Endpoints {
  /**
   * Since when it has had this URI, listed or in a result (servers link to resources they never list): milliseconds on a
   * clock all owners share; `undefined` for a URI it does not have.
   */
  hadSince?(uri: string): number | undefined
  /** Whether calls of its tools can be tasks, as far as is known. */
  readonly tasks?: boolean
  request(
    method: string,
    params: Readonly<Record<string, unknown>>,
    relay: import('../core/tool.ts').Relay,
    signal: AbortSignal,
  ): Promise<Readonly<Record<string, unknown>>>
}

/** A tool that is kept out until the operator has looked at it: neither listed, found nor called. */
export interface Withheld {
  readonly tool: Tool
  readonly code: 'E_TOOL_CHANGED' | 'E_TOOL_QUARANTINED'
  /** As the end of "it …"; safe to show a model. */
  readonly reason: string
  readonly hint: string
}

/** What is known of an owner's tools before they are made. */
export interface Outline {
  readonly count: number
  /** Estimated tokens of listing them all. */
  readonly tokens: number
  /** Whether all of them can be used now, or why none can. */
  available(caller: import('../core/context.ts').Caller): true | string
}

/** Tools that are made when someone looks at them. Legal and distinct names are their owner's business. */
export interface LaterTools extends Outline {
  make(): readonly Tool[]
}

/**
 * Tools of a server that has just come, before all of them are looked at: whoever wants more than one tool by its very
 * name has them looked at first.
 */
export interface UnreadTools {
  /** Looks at all of them. Gives the same each time. */
  read(): ReadTools
  readonly isRead: boolean
  /** One of them by its id, looked at alone; undefined for one that takes a look at all. */
  byId(id: string): Tool | undefined
  /** The same by its name in lower case. */
  byName(folded: string): Tool | undefined
  /** Whether one of them wants this name. */
  wants(folded: string): boolean
}

export interface ReadTools {
  readonly tools: readonly Tool[] | LaterTools
  readonly withheld: readonly Withheld[]
  readonly notice?: string
}

export interface OwnerContents {
  readonly tools: readonly Tool[] | LaterTools | UnreadTools
  readonly withheld?: readonly Withheld[]
  readonly resources?: readonly Resource[]
  readonly templates?: readonly ResourceTemplate[]
  readonly prompts?: readonly Prompt[]
  readonly endpoints?: Endpoints
}

export interface Owner extends OwnerInfo {
  readonly tools: readonly Tool[]
  /** Where all its tools are alike for every caller. */
  readonly outline?: Outline
  /** As long as nobody has looked at all its tools. */
  readonly unread?: UnreadTools | undefined
  readonly withheld: readonly Withheld[]
  readonly resources: readonly Resource[]
  readonly templates: readonly ResourceTemplate[]
  readonly prompts: readonly Prompt[]
  readonly endpoints?: Endpoints
}

/** Everything known at one moment. Never changes; a change makes a new one with a higher version. */
export interface Snapshot {
  readonly version: number
  readonly owners: ReadonlyMap<string, Owner>
  /** All tools, by owner in the order owners came, then as the owner listed them. */
  readonly tools: readonly Tool[]
  readonly byId: ReadonlyMap<string, Tool>
  readonly byName: ReadonlyMap<string, Tool>
  /** Names that more than one tool wanted, or that are reserved for built-in tools or for another owner. */
  readonly clashes: readonly Clash[]
  /** The modules and servers, by id, that this name in lower case stands for, whether they are there or only configured. */
  ownersNamed(name: string): ReadonlySet<string>
  /**
   * The tool that has this id, or else this name, where the tools of each owner alone tell; undefined says nothing. Costs
   * nothing for the tools of owners that were gone through before, however many versions ago.
   */
  quick(name: string): Tool | undefined
}

/** A wire name that not every tool got that wanted it. Case makes no difference. */
export interface Clash {
  readonly name: string
  /** Those that wanted it, sorted. */
  readonly ids: readonly string[]
  /** The one that keeps the name. The others have names made of this one and a hash of their ids. */
  readonly kept?: string
  /** Their names differ in case, so each keeps its own. */
  readonly isCase?: true
  /** Whose name it begins with, where it is another owner's. */
  readonly owner?: string
}

/** For the operator, naming all of them. */
export function clashSentence({ name, ids, kept, isCase, owner }: Clash): string {
  const all = ids.length > 1 ? `${ids.slice(0, -1).join(', ')} and ${ids.at(-1)}` : ids[0]
  if (owner !== undefined)
    return `${all} wants the name "${name}", which begins with the name of ${owner}; it got another. Rename it, or set a prefix.`
  if (kept === undefined && ids.length > 1)
    return `${all} both want the name "${name}"; each got a name of its own. Rename one, or set a prefix.`
  if (kept === undefined)
    return `${all} wants the name "${name}", which is a built-in tool's; it got another. Rename it, or set a prefix.`
  if (isCase) return `${all} differ in upper and lower case only; rules about one cover both. Rename one.`
  const others = ids.length > 2 ? 'the others got names' : 'the other got a name'
  return `${all} both want the name "${name}"; ${kept} keeps it, ${others} with a hash. Rename one, or set a prefix.`
}

/** Names of modules and servers that are configured, in lower case, and whose they are by catalogue id. */
export type Claims = ReadonlyMap<string, ReadonlySet<string>>

/** What changes about an owner while its tools stay; what is said of its state is replaced as a whole. */
export type OwnerChange = Pick<OwnerInfo, 'state' | 'reason' | 'nextAttemptAt' | 'startsInMs' | 'summary'>

export interface Catalog {
  /** Names no tool may take, in lower case: those of the meta-tools. */
  readonly reserved: ReadonlySet<string>
  /**
   * Replaces all an owner has, at once.
   * @throws PegboardError E_NAME_TAKEN or E_NAME_INVALID, changing nothing
   */
  set(info: OwnerInfo, contents: OwnerContents): void
  /** Changes what is said about an owner, not its tools. Unknown owners are ignored. */
  describe(id: string, change: Partial<OwnerChange>): void
  delete(id: string): void
  /** Names that stand for these owners from now on, whether they are there or not: no tool of another may begin with them. */
  claim(claims: Claims): void
  /** "My availability changed": a new version with the same tools. */
  touch(): void
  snapshot(): Snapshot
  onChange(fn: (now: Snapshot, before: Snapshot) => void): () => void
}

/**
 * The one place that knows which tools exist.
 * @param reserved names no tool may take (the meta-tools)
 * @param broken told of a server whose tools cannot be made, which then has none; without a name where the tools of all
 * servers cannot be put beside those of modules, which then are all there is
 */
export function createCatalog(
  reserved: ReadonlySet<string> = new Set(),
  broken: (error: unknown, owner?: string) => void = () => undefined,
): Catalog {
  let claims: Claims = new Map()
  // A name stays with its tool while both are there, whatever comes after.
  const holders = new Map<string, string>()
  const snapshot = (version: number, owners: ReadonlyMap<string, Owner>): Snapshot =>
    snapshotOf({ version, owners, reserved, claims, holders, broken })
  let current = snapshot(0, new Map())
  const changed = createSignal<[Snapshot, Snapshot]>()

  const publish = (now: Snapshot): void => {
    const before = current
    current = now
    changed.emit(current, before)
  }
  /** A next snapshot with other owners. */
  const follow = (owners: ReadonlyMap<string, Owner>): void => publish(snapshot(current.version + 1, owners))
  /** One with the same tools. */
  const again = (owners: ReadonlyMap<string, Owner>): void =>
    publish(Object.create(current, { version: { value: current.version + 1 }, owners: { value: owners } }) as Snapshot)

  return {
    reserved,
    set(info, contents) {
      if (!isModuleId(info.id)) throw new PegboardError('E_NAME_INVALID', `"${info.id}" is not a legal module name.`)
      const { tools, ...rest } = contents
      if ('read' in tools) {
        follow(new Map(current.owners).set(info.id, unreadOwner(info, rest, tools, broken)))
        return
      }
      const later = 'make' in tools ? tools : undefined
      if (!later) checkNames(info.id, tools as readonly Tool[], reserved)
      const owner = ownerOf({
        withheld: [],
        resources: [],
        templates: [],
        prompts: [],
        ...rest,
        ...info,
        ...(later ? { outline: later } : {}),
        make: later ? once(() => contained(later, info.id, broken)) : () => tools as readonly Tool[],
      })
      follow(new Map(current.owners).set(info.id, owner))
    },
    describe(id, change) {
      const owner = current.owners.get(id)
      if (!owner) return
      const { reason: _why, nextAttemptAt: _when, startsInMs: _wait, ...rest } = owner as MadeOwner
      const next =
        'whole' in rest ? unreadAgain(rest as unknown as ComingOwner, change) : ownerOf({ ...rest, ...change })
      again(new Map(current.owners).set(id, next))
    },
    delete(id) {
      if (!current.owners.has(id)) return
      const owners = new Map(current.owners)
      owners.delete(id)
      follow(owners)
    },
    claim(next) {
      claims = next
      follow(current.owners)
    },
    touch: () => again(current.owners),
    snapshot: () => current,
    onChange: (fn) => changed.listen(fn),
  }
}

interface MadeOwner extends Owner {
  readonly make: () => readonly Tool[]
}

const through: Pick<Owner, 'tools'> & ThisType<MadeOwner> = {
  get tools() {
    return this.make()
  },
}

const ownerOf = (fields: Omit<MadeOwner, 'tools'>): Owner =>
  Object.freeze(Object.assign(Object.create(through), fields) as Owner)

interface ComingOwner extends Owner {
  readonly coming: UnreadTools
  readonly whole: () => Pick<Owner, 'outline' | 'withheld' | 'notice'> & { readonly make: () => readonly Tool[] }
}

const throughUnread: Pick<Owner, 'tools' | 'withheld' | 'outline' | 'notice' | 'unread'> & ThisType<ComingOwner> = {
  get tools() {
    return this.whole().make()
  },
  get withheld() {
    return this.whole().withheld
  },
  get outline() {
    return this.whole().outline as Outline
  },
  get notice() {
    return this.whole().notice as string
  },
  get unread() {
    return this.coming.isRead ? undefined : this.coming
  },
}

function unreadOwner(
  info: OwnerInfo,
  rest: Omit<OwnerContents, 'tools' | 'withheld'>,
  coming: UnreadTools,
  broken: (error: unknown, owner: string) => void,
): Owner {
  const whole = once((): ReturnType<ComingOwner['whole']> => {
    const { tools, ...more } = readContained(coming, info.id, broken)
    if (!('make' in tools)) return { ...more, make: () => tools }
    return { ...more, outline: tools, make: once(() => contained(tools, info.id, broken)) }
  })
  return unreadAgain({ resources: [], templates: [], prompts: [], ...rest, ...info, coming, whole }, {})
}

const unreadAgain = (
  fields: Omit<ComingOwner, 'tools' | 'withheld' | 'outline' | 'notice' | 'unread'>,
  change: Partial<OwnerChange>,
): Owner => Object.freeze(Object.assign(Object.create(throughUnread), fields, change) as Owner)

function readContained(coming: UnreadTools, owner: string, broken: (error: unknown, owner: string) => void): ReadTools {
  try {
    return coming.read()
  } catch (error) {
    broken(error, owner)
    return { tools: [], withheld: [] }
  }
}

function contained(tools: LaterTools, owner: string, broken: (error: unknown, owner: string) => void): readonly Tool[] {
  try {
    return tools.make()
  } catch (error) {
    broken(error, owner)
    return []
  }
}

function checkNames(owner: string, tools: readonly Tool[], reserved: ReadonlySet<string>): void {
  const ids = new Set<string>()
  for (const { id, name, origin } of tools) {
    // A module's author can mend it; what a server calls its tools is not in the operator's hands.
    if (origin === 'module' && reserved.has(name))
      throw new PegboardError('E_NAME_TAKEN', `"${name}" (${id}) is the name of a built-in tool.`)
    if (ids.has(id)) throw new PegboardError('E_NAME_TAKEN', `"${id}" is defined twice in ${owner}.`)
    ids.add(id)
  }
}

interface SnapshotParts {
  readonly version: number
  readonly owners: ReadonlyMap<string, Owner>
  readonly reserved: ReadonlySet<string>
  readonly claims: Claims
  /** Ids by the wire names that they have, in lower case; kept from one snapshot to the next. */
  readonly holders: Map<string, string>
  readonly broken: (error: unknown) => void
}

/** Tools are put in order when someone looks: fifty servers that come one after the other need not be sorted fifty times. */
function snapshotOf({ version, owners, reserved, claims, holders, broken }: SnapshotParts): Snapshot {
  const named = once(() => ownerNames(owners.keys(), claims))
  const indexed = once((): Index => {
    const index = (some: ReadonlyMap<string, Owner>): Index => indexOf(some, reserved, named(), holders)
    try {
      return index(owners)
    } catch (error) {
      broken(error)
      return index(new Map([...owners].filter(([, { origin }]) => origin === 'module')))
    }
  })
  const parts = once(() => [...owners.values()].map(partOfOwner))
  return {
    quick(name) {
      const found = owners.get(name.slice(0, Math.max(0, name.indexOf('.'))))
      const tool = (found && partOfOwner(found).byId.get(name)) ?? only(parts(), name)
      if (!tool || reserved.has(tool.name.toLowerCase()) || otherOwner(tool, named()) !== undefined) return undefined
      return only(parts(), tool.name) === tool ? tool : undefined
    },
    ownersNamed: (name) => named().get(name) ?? NOBODY,
    version,
    owners,
    get tools() {
      return indexed().tools
    },
    get byId() {
      return indexed().byId
    },
    get byName() {
      return indexed().byName
    },
    get clashes() {
      return indexed().clashes
    },
  }
}

/** What the tools of one owner are called. */
interface Part {
  readonly byId: Pick<ReadonlyMap<string, Tool>, 'get'>
  /** By names in lower case; undefined for a name that several want. */
  readonly byName: Pick<ReadonlyMap<string, Tool | undefined>, 'get' | 'has'>
  /** One of them is there instead of another. */
  readonly replaces: boolean
}

const partsOf = new WeakMap<readonly Tool[], Part>()

const partOfOwner = (owner: Owner): Part => (owner.unread ? partBeforehand(owner, owner.unread) : partOf(owner.tools))

/** Somebody may look at all of them while this is kept. */
function partBeforehand(owner: Owner, unread: UnreadTools): Part {
  const known = unreadParts.get(unread)
  if (known) return known
  const whole = (): Part | undefined => (unread.isRead ? partOf(owner.tools) : undefined)
  const made: Part = {
    byId: { get: (id) => (unread.isRead ? whole()?.byId.get(id) : unread.byId(id)) },
    byName: {
      has: (folded) => whole()?.byName.has(folded) ?? unread.wants(folded),
      get: (folded) => (unread.isRead ? whole()?.byName.get(folded) : unread.byName(folded)),
    },
    replaces: false,
  }
  unreadParts.set(unread, made)
  return made
}

const unreadParts = new WeakMap<UnreadTools, Part>()

function partOf(tools: readonly Tool[]): Part {
  const known = partsOf.get(tools)
  if (known) return known
  const byId = new Map<string, Tool>()
  const byName = new Map<string, Tool | undefined>()
  for (const tool of tools) {
    const name = tool.name.toLowerCase()
    byId.set(tool.id, tool)
    byName.set(name, byName.has(name) ? undefined : tool)
  }
  const made = { byId, byName, replaces: tools.some(({ replaces }) => replaces !== undefined) }
  partsOf.set(tools, made)
  return made
}

/** The tool with this very name, where no other wants it and none stands in for another. */
function only(parts: readonly Part[], name: string): Tool | undefined {
  const folded = name.toLowerCase()
  let found: Tool | undefined
  for (const { byName, replaces } of parts) {
    if (replaces) return undefined
    if (!byName.has(folded)) continue
    if (found) return undefined
    found = byName.get(folded)
    if (!found) return undefined
  }
  return found?.name === name ? found : undefined
}

const NOBODY: ReadonlySet<string> = new Set()

/** What owners are called: as configured, by their ids, and without `mcp_` and `api_`. */
function ownerNames(ids: Iterable<string>, claims: Claims): Claims {
  const names = new Map([...claims].map(([name, owners]) => [name, new Set(owners)]))
  const add = (name: string, id: string): void => void names.set(name, (names.get(name) ?? new Set()).add(id))
  for (const id of ids) {
    add(id, id)
    const short = id.replace(/^(?:mcp|api)_/, '')
    if (short !== id) add(short, id)
  }
  return names
}

/** Another owner whose name a tool's wire name begins with: with servers `a` and `a__b`, `a__b__c` could mean either. */
function otherOwner({ name, module }: Tool, named: Claims): string | undefined {
  const folded = name.toLowerCase()
  for (let at = folded.indexOf('__', 1); at > 0; at = folded.indexOf('__', at + 1)) {
    const ids = named.get(folded.slice(0, at))
    if (ids && !ids.has(module)) return [...ids][0]
  }
  return undefined
}

type Index = Pick<Snapshot, 'tools' | 'byId' | 'byName' | 'clashes'>

function indexOf(
  owners: ReadonlyMap<string, Owner>,
  reserved: ReadonlySet<string>,
  named: Claims,
  holders: Map<string, string>,
): Index {
  const all: Tool[] = []
  const byId = new Map<string, Tool>()
  const wanted = new Map<string, Tool[]>()
  for (const owner of owners.values()) {
    for (const tool of owner.tools) {
      byId.set(tool.id, tool)
      all.push(tool)
      // Some clients take names that differ in case for the same.
      const folded = tool.name.toLowerCase()
      const others = wanted.get(folded)
      if (others) others.push(tool)
      else wanted.set(folded, [tool])
    }
  }
  const clashes: Clash[] = []
  const renames = new Map<Tool, string>()
  const rename = (tool: Tool): void => void renames.set(tool, freeName(tool, wanted))
  for (const [folded, group] of wanted) {
    const ids = group.map(({ id }) => id).sort()
    const mayHave = group.filter((tool) => !reserved.has(folded) && otherOwner(tool, named) === undefined)
    for (const tool of group) if (!mayHave.includes(tool)) rename(tool)
    const [kept, ...others] = inOrder(mayHave, holders.get(folded))
    if (kept) holders.set(folded, kept.id)
    else holders.delete(folded)
    if (!kept || group.length > mayHave.length) {
      const name = ids.map((id) => byId.get(id)?.name).find(Boolean) ?? folded
      const owner = group.length > 1 || reserved.has(folded) ? undefined : otherOwner(group[0] as Tool, named)
      clashes.push({ name, ids, ...(kept && { kept: kept.id }), ...(owner === undefined ? {} : { owner }) })
    }
    if (!kept || others.length === 0) continue
    const taken = new Set([kept.name])
    for (const tool of others) {
      // Two of one server that differ in case stay as they are called.
      if (tool.module === kept.module && !taken.has(tool.name)) taken.add(tool.name)
      else rename(tool)
    }
    const isCase = others.every((tool) => !renames.has(tool))
    if (group.length === mayHave.length)
      clashes.push({ name: kept.name, ids, kept: kept.id, ...(isCase ? { isCase } : {}) })
  }
  for (const folded of holders.keys()) if (!wanted.has(folded)) holders.delete(folded)
  const byName = new Map<string, Tool>()
  const tools = all.map((tool) => {
    const name = renames.get(tool)
    const renamedTool = name === undefined ? tool : renamed(tool, name)
    if (renamedTool !== tool) byId.set(renamedTool.id, renamedTool)
    byName.set(renamedTool.name, renamedTool)
    return renamedTool
  })
  return { tools, byId, byName, clashes }
}

/** Who has a name before others that want it: who has it already, then servers, then whose id says it without a dot. */
function inOrder(group: readonly Tool[], holder: string | undefined): readonly Tool[] {
  if (group.length < 2) return group
  const rank = ({ id, module, origin }: Tool): number =>
    id === holder ? 0 : (origin === 'upstream' ? 1 : 3) + (id.slice(module.length + 1).includes('.') ? 1 : 0)
  return [...group].sort((a, b) => rank(a) - rank(b))
}

/** Depends on the tool's own name and id only; another round of the hash where somebody is called like that. */
function freeName(tool: Tool, wanted: ReadonlyMap<string, unknown>): string {
  for (let seed = tool.id; ; seed += '#') {
    const name = distinctName(tool.name, seed)
    if (!wanted.has(name.toLowerCase())) return name
  }
}

const others = new WeakMap<Tool, Tool>()

/** The tool under another name; the same object as long as the name is the same, for whoever keeps something about it. */
function renamed(tool: Tool, name: string): Tool {
  const known = others.get(tool)
  if (known?.name === name) return known
  // Prototype, not spread: definitions may be lazy getters.
  const made: Tool = Object.create(tool, { name: { value: name, enumerable: true } })
  others.set(tool, made)
  return made
}
