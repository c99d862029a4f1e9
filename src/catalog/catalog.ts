import { PegboardError } from '../core/errors.ts'
import { isModuleId } from '../core/names.ts'
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
  /** Whether it handed out this URI in a result lately: servers link to resources they never list. */
  handedOut?(uri: string): boolean
  request(
    method: string,
    params: Readonly<Record<string, unknown>>,
    relay: import('../core/tool.ts').Relay,
    signal: AbortSignal,
  ): Promise<Readonly<Record<string, unknown>>>
}

export interface OwnerContents {
  readonly tools: readonly Tool[]
  readonly resources?: readonly Resource[]
  readonly templates?: readonly ResourceTemplate[]
  readonly prompts?: readonly Prompt[]
  readonly endpoints?: Endpoints
}

export interface Owner extends OwnerInfo {
  readonly tools: readonly Tool[]
  readonly resources: readonly Resource[]
  readonly templates: readonly ResourceTemplate[]
  readonly prompts: readonly Prompt[]
  readonly endpoints?: Endpoints
}

/** Everything known at one moment. Frozen; a change makes a new one with a higher version. */
export interface Snapshot {
  readonly version: number
  readonly owners: ReadonlyMap<string, Owner>
  /** All tools, by owner in the order owners came, then as the owner listed them. */
  readonly tools: readonly Tool[]
  readonly byId: ReadonlyMap<string, Tool>
  readonly byName: ReadonlyMap<string, Tool>
}

export interface Catalog {
  /**
   * Replaces all an owner has, at once.
   * @throws PegboardError E_NAME_TAKEN or E_NAME_INVALID, changing nothing
   */
  set(info: OwnerInfo, contents: OwnerContents): void
  /** Changes what is said about an owner, not its tools. Unknown owners are ignored. */
  describe(id: string, change: Partial<Pick<OwnerInfo, 'state' | 'reason' | 'summary'>>): void
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
  let current: Snapshot = { version: 0, owners: new Map(), tools: [], byId: new Map(), byName: new Map() }
  const changed = createSignal<[Snapshot, Snapshot]>()

  const publish = (owners: ReadonlyMap<string, Owner>): void => {
    const before = current
    current = index(owners, before.version + 1, reserved)
    changed.emit(current, before)
  }

  return {
    set(info, contents) {
      if (!isModuleId(info.id)) throw new PegboardError('E_NAME_INVALID', `"${info.id}" is not a legal module name.`)
      const owner: Owner = Object.freeze({ resources: [], templates: [], prompts: [], ...contents, ...info })
      publish(new Map(current.owners).set(info.id, owner))
    },
    describe(id, change) {
      const owner = current.owners.get(id)
      if (!owner) return
      const { reason: _old, ...rest } = owner
      publish(new Map(current.owners).set(id, Object.freeze({ ...rest, ...change })))
    },
    delete(id) {
      if (!current.owners.has(id)) return
      const owners = new Map(current.owners)
      owners.delete(id)
      publish(owners)
    },
    touch: () => publish(current.owners),
    snapshot: () => current,
    onChange: (fn) => changed.listen(fn),
  }
}

function index(owners: ReadonlyMap<string, Owner>, version: number, reserved: ReadonlySet<string>): Snapshot {
  const tools: Tool[] = []
  const byId = new Map<string, Tool>()
  const byName = new Map<string, Tool>()
  for (const owner of owners.values()) {
    for (const tool of owner.tools) {
      if (reserved.has(tool.name))
        throw new PegboardError('E_NAME_TAKEN', `"${tool.name}" (${tool.id}) is the name of a built-in tool.`)
      const twin = byId.get(tool.id)
      if (twin) throw new PegboardError('E_NAME_TAKEN', `"${tool.id}" is defined twice in ${owner.id}.`)
      const named = distinct(tool, byName, reserved)
      byId.set(named.id, named)
      byName.set(named.name, named)
      tools.push(named)
    }
  }
  return Object.freeze({ version, owners, tools, byId, byName })
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
