import { createEmitter } from '../core/emitter.ts'
import { PegboardError } from '../core/errors.ts'
import { once } from '../core/once.ts'
import type { Tool } from '../core/tool.ts'
import { isModuleId } from '../core/tool-names.ts'
import {
  contestedHolders,
  createReservations,
  type HolderStore,
  type NameHolders,
  readHolders,
} from './name-holders.ts'
import type { LazyTools, Owner, OwnerChange, OwnerContents, OwnerInfo, Prompt } from './owner.ts'
import { type OwnerNames, otherOwnerIn, ownerNames } from './owner-names.ts'
import { promptNames } from './prompt-names.ts'
import { indexTools, type ToolIndex } from './tool-index.ts'

/** Everything in the catalog at one moment. Immutable; a change creates a new one with a higher version. */
export interface Snapshot extends ToolIndex {
  readonly version: number
  /** By id, in the order in which they first appeared. */
  readonly owners: ReadonlyMap<string, Owner>
  /** All tools: by owner, then in the owner's own order. Reading this creates lazy tools. */
  readonly tools: readonly Tool[]
  /** Names for clients, of the prompts that could not keep the name that their server lists. */
  readonly promptNames: ReadonlyMap<Prompt, string>
  /** Ids of the owners that a name in lower case can mean. Includes configured owners that are not in the catalog. */
  ownersNamed(name: string): ReadonlySet<string>
}

export interface Catalog {
  /** Names in lower case that no tool may have: those of the meta-tools. */
  readonly reserved: ReadonlySet<string>
  /**
   * Adds an owner, or replaces it with everything that it published.
   * @throws PegboardError E_NAME_TAKEN, E_NAME_INVALID; then nothing has changed
   */
  set(info: OwnerInfo, contents: OwnerContents): void
  /** Changes the description of an owner, not its tools. Ignores an unknown id. */
  describe(id: string, change: Partial<OwnerChange>): void
  /** Removes an owner. Ignores an unknown id. */
  delete(id: string): void
  /** Sets the names of all configured owners. No tool of another owner may have a name that begins with one of them. */
  claim(names: OwnerNames): void
  /** Creates a new version with the same tools, because their availability may have changed. */
  touch(): void
  snapshot(): Snapshot
  /** Registers a listener. Returns a function that removes it. */
  onChange(listener: (now: Snapshot, before: Snapshot) => void): () => void
}

/** Reports that the tools of a server cannot be created. Without `owner`: the tools of all servers are left out. */
export type OnOwnerError = (error: unknown, owner?: string) => void

/**
 * Creates the catalog, the only place that knows which tools exist.
 * @param reserved names in lower case that no tool may have; default none
 * @param onBroken default ignores the error
 * @param store keeps names across runs; default none
 */
export function createCatalog(
  reserved: ReadonlySet<string> = new Set(),
  onBroken: OnOwnerError = () => undefined,
  store?: HolderStore,
): Catalog {
  const published = new Map<string, PublishedOwner>()
  let saved = ''
  const holders = once(() => {
    const stored = readHolders(store?.get())
    saved = serializeHolders(stored)
    return stored
  })
  const changed = createEmitter<[Snapshot, Snapshot]>()
  let claimed: OwnerNames = new Map()
  let names = createNames(new Map())
  let current = snapshotOf(0, new Map(), names)

  /** Assigns names on first access, so that a start with fifty servers does not assign all names fifty times. */
  function createNames(owners: ReadonlyMap<string, Owner>): NameTable {
    const configured = claimed
    const namesOfOwners = once(() => ownerNames(owners.keys(), configured))
    const isReserved = once(() => createReservations(owners, configured))
    const index = (ownerList: readonly Owner[]): ToolIndex => {
      const tools = ownerList.flatMap((owner) => owner.tools)
      return indexTools(tools, reserved, namesOfOwners(), holders().tools, isReserved().tools)
    }
    const claimedBy = (prompt: Parameters<typeof otherOwnerIn>[0]) => otherOwnerIn(prompt, namesOfOwners())
    const withSave = <Value>(value: Value): Value => {
      if (store) save(namesOfOwners())
      return value
    }
    return {
      owners: namesOfOwners,
      tools: once(() => {
        const all = [...owners.values()]
        try {
          return withSave(index(all))
        } catch (error) {
          onBroken(error)
          return index(all.filter(({ origin }) => origin === 'module'))
        }
      }),
      prompts: once(() => withSave(promptNames(owners.values(), claimedBy, holders().prompts, isReserved().prompts))),
    }
  }

  function save(namesOfOwners: OwnerNames): void {
    const contested = contestedHolders(holders(), namesOfOwners)
    const text = serializeHolders(contested)
    if (text === saved) return
    saved = text
    store?.set({ tools: Object.fromEntries(contested.tools), prompts: Object.fromEntries(contested.prompts) })
  }

  function publish(owners: ReadonlyMap<string, Owner>): void {
    const before = current
    current = snapshotOf(before.version + 1, owners, names)
    changed.emit(current, before)
  }

  function publishRenamed(owners: ReadonlyMap<string, Owner>): void {
    names = createNames(owners)
    publish(owners)
  }

  return {
    reserved,
    set(info, contents) {
      if (!isModuleId(info.id)) throw new PegboardError('E_NAME_INVALID', `"${info.id}" is not a legal module name.`)
      const { tools: newTools, ...others } = contents
      const lazyTools = 'make' in newTools ? newTools : undefined
      if (!lazyTools) checkNames(info.id, newTools as readonly Tool[], reserved)
      const tools = lazyTools ? once(() => makeTools(lazyTools, info.id, onBroken)) : () => newTools as readonly Tool[]
      const owner: PublishedOwner = { info, contents: { ...others, ...(lazyTools && { lazyTools }) }, tools }
      published.set(info.id, owner)
      publishRenamed(new Map(current.owners).set(info.id, ownerOf(owner)))
    },
    describe(id, change) {
      const existing = published.get(id)
      if (!existing) return
      const { reason: _reason, reasonFor: _for, nextAttemptAt: _at, startsInMs: _ms, ...info } = existing.info
      const owner: PublishedOwner = { ...existing, info: { ...info, ...change } }
      published.set(id, owner)
      publish(new Map(current.owners).set(id, ownerOf(owner)))
    },
    delete(id) {
      if (!published.delete(id)) return
      const owners = new Map(current.owners)
      owners.delete(id)
      publishRenamed(owners)
    },
    claim(next) {
      claimed = next
      publishRenamed(current.owners)
    },
    touch: () => publish(current.owners),
    snapshot: () => current,
    onChange: (listener) => changed.listen(listener),
  }
}

const serializeHolders = ({ tools, prompts }: NameHolders): string => JSON.stringify([[...tools], [...prompts]])

interface PublishedOwner {
  readonly info: OwnerInfo
  readonly contents: Omit<OwnerContents, 'tools'> & Pick<Owner, 'lazyTools'>
  readonly tools: () => readonly Tool[]
}

const ownerOf = ({ info, contents, tools }: PublishedOwner): Owner =>
  Object.freeze({
    quarantined: [],
    resources: [],
    templates: [],
    prompts: [],
    ...contents,
    ...info,
    get tools() {
      return tools()
    },
  })

/** Returns no tools if creating them fails, so that one broken manifest does not affect other servers. */
function makeTools(lazyTools: LazyTools, owner: string, onBroken: OnOwnerError): readonly Tool[] {
  try {
    return lazyTools.make()
  } catch (error) {
    onBroken(error, owner)
    return []
  }
}

function checkNames(owner: string, tools: readonly Tool[], reserved: ReadonlySet<string>): void {
  const ids = new Set<string>()
  for (const { id, name, origin } of tools) {
    // The author of a module can rename a tool; the operator cannot rename what a server lists, so it gets another name.
    if (origin === 'module' && reserved.has(name))
      throw new PegboardError('E_NAME_TAKEN', `"${name}" (${id}) is the name of a built-in tool.`)
    if (ids.has(id)) throw new PegboardError('E_NAME_TAKEN', `"${id}" is defined twice in ${owner}.`)
    ids.add(id)
  }
}

/** The names in a snapshot. All snapshots with the same tools share them. */
interface NameTable {
  readonly owners: () => OwnerNames
  readonly tools: () => ToolIndex
  readonly prompts: () => ReturnType<typeof promptNames>
}

const NO_OWNERS: ReadonlySet<string> = new Set()

const snapshotOf = (version: number, owners: ReadonlyMap<string, Owner>, names: NameTable): Snapshot => ({
  version,
  owners,
  get tools() {
    return names.tools().tools
  },
  get byId() {
    return names.tools().byId
  },
  get byName() {
    return names.tools().byName
  },
  get promptNames() {
    return names.prompts().renamed
  },
  get clashes() {
    return [...names.tools().clashes, ...names.prompts().clashes]
  },
  ownersNamed: (name) => names.owners().get(name) ?? NO_OWNERS,
})
