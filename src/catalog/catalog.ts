import { PegboardError } from '../core/errors.ts'
import { isModuleId } from '../core/names.ts'
import { once } from '../core/once.ts'
import { createSignal } from '../core/signal.ts'
import type { Tool } from '../core/tool.ts'

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
  request(
    method: string,
    params: Readonly<Record<string, unknown>>,
    relay: import('../core/tool.ts').Relay,
    signal: AbortSignal,
  ): Promise<Readonly<Record<string, unknown>>>
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

export interface OwnerContents {
  readonly tools: readonly Tool[] | LaterTools
  readonly resources?: readonly Resource[]
  readonly templates?: readonly ResourceTemplate[]
  readonly prompts?: readonly Prompt[]
  readonly endpoints?: Endpoints
}

export interface Owner extends OwnerInfo {
  readonly tools: readonly Tool[]
  /** Where all its tools are alike for every caller. */
  readonly outline?: Outline
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
}

/** What changes about an owner while its tools stay; what is said of its state is replaced as a whole. */
export type OwnerChange = Pick<OwnerInfo, 'state' | 'reason' | 'nextAttemptAt' | 'startsInMs' | 'summary'>

export interface Catalog {
  /**
   * Replaces all an owner has, at once.
   * @throws PegboardError E_NAME_TAKEN or E_NAME_INVALID, changing nothing
   */
  set(info: OwnerInfo, contents: OwnerContents): void
  /** Changes what is said about an owner, not its tools. Unknown owners are ignored. */
  describe(id: string, change: Partial<OwnerChange>): void
  delete(id: string): void
  /** "My availability changed": a new version with the same tools. */
  touch(): void
  snapshot(): Snapshot
  onChange(fn: (now: Snapshot, before: Snapshot) => void): () => void
}

/**
 * The one place that knows which tools exist.
 * @param reserved names no tool may take (the meta-tools)
 */
export function createCatalog(reserved: ReadonlySet<string> = new Set()): Catalog {
  let current = snapshotOf(0, new Map(), reserved)
  const changed = createSignal<[Snapshot, Snapshot]>()

  const publish = (now: Snapshot): void => {
    const before = current
    current = now
    changed.emit(current, before)
  }
  /** A next snapshot with other owners. */
  const follow = (owners: ReadonlyMap<string, Owner>): void =>
    publish(snapshotOf(current.version + 1, owners, reserved))
  /** One with the same tools. */
  const again = (owners: ReadonlyMap<string, Owner>): void =>
    publish(Object.create(current, { version: { value: current.version + 1 }, owners: { value: owners } }) as Snapshot)

  return {
    set(info, contents) {
      if (!isModuleId(info.id)) throw new PegboardError('E_NAME_INVALID', `"${info.id}" is not a legal module name.`)
      const { tools, ...rest } = contents
      const later = 'make' in tools ? tools : undefined
      if (!later) checkNames(info.id, tools as readonly Tool[], reserved)
      const owner = ownerOf({
        resources: [],
        templates: [],
        prompts: [],
        ...rest,
        ...info,
        ...(later ? { outline: later } : {}),
        make: later ? once(() => later.make()) : () => tools as readonly Tool[],
      })
      follow(new Map(current.owners).set(info.id, owner))
    },
    describe(id, change) {
      const owner = current.owners.get(id)
      if (!owner) return
      const { reason: _why, nextAttemptAt: _when, startsInMs: _wait, ...rest } = owner as MadeOwner
      again(new Map(current.owners).set(id, ownerOf({ ...rest, ...change })))
    },
    delete(id) {
      if (!current.owners.has(id)) return
      const owners = new Map(current.owners)
      owners.delete(id)
      follow(owners)
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

function checkNames(owner: string, tools: readonly Tool[], reserved: ReadonlySet<string>): void {
  const ids = new Set<string>()
  for (const { id, name } of tools) {
    if (reserved.has(name)) throw new PegboardError('E_NAME_TAKEN', `"${name}" (${id}) is the name of a built-in tool.`)
    if (ids.has(id)) throw new PegboardError('E_NAME_TAKEN', `"${id}" is defined twice in ${owner}.`)
    ids.add(id)
  }
}

/** Tools are put in order when someone looks: fifty servers that come one after the other need not be sorted fifty times. */
function snapshotOf(version: number, owners: ReadonlyMap<string, Owner>, reserved: ReadonlySet<string>): Snapshot {
  const indexed = once((): Index => indexOf(owners, reserved))
  return {
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
  }
}

type Index = Pick<Snapshot, 'tools' | 'byId' | 'byName'>

function indexOf(owners: ReadonlyMap<string, Owner>, reserved: ReadonlySet<string>): Index {
  const tools: Tool[] = []
  const byId = new Map<string, Tool>()
  const byName = new Map<string, Tool>()
  for (const owner of owners.values()) {
    for (const tool of owner.tools) {
      const named = distinct(tool, byName, reserved)
      byId.set(named.id, named)
      byName.set(named.name, named)
      tools.push(named)
    }
  }
  return { tools, byId, byName }
}

/** Two ids may become the same wire name (`a.b__c`, `a__b.c`): the later gets `_2`, `_3` …, the same in every run. */
function distinct(tool: Tool, taken: ReadonlyMap<string, Tool>, reserved: ReadonlySet<string>): Tool {
  if (!taken.has(tool.name)) return tool
  for (let n = 2; ; n++) {
    const name = `${tool.name}_${n}`
    if (!taken.has(name) && !reserved.has(name)) return renamed(tool, name)
  }
}

/** A view of the tool under another name. Prototype, not spread: definitions may be lazy getters. */
const renamed = (tool: Tool, name: string): Tool => Object.create(tool, { name: { value: name, enumerable: true } })
