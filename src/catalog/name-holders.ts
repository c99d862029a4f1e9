import { asRecord } from '../core/is-record.ts'
import type { Owner } from './owner.ts'
import type { OwnerNames } from './owner-names.ts'

/** True for the id of a tool, or of an owner of prompts, that keeps its names although it does not list them now. */
export type IsReserved = (id: string) => boolean

/** The first holder of each name, in this or an earlier run. Updated when names are assigned. */
export interface NameHolders {
  /** Ids of tools by wire name in lower case. */
  readonly tools: Map<string, string>
  /** Ids of owners by prompt name. */
  readonly prompts: Map<string, string>
}

/** Storage for the holders of names that servers can contest. */
export interface HolderStore {
  get(): unknown
  set(holders: Readonly<Record<keyof NameHolders, Readonly<Record<string, string>>>>): void
}

export function readHolders(stored: unknown): NameHolders {
  const mapOf = (value: unknown): Map<string, string> =>
    new Map(Object.entries(asRecord(value)).filter((entry): entry is [string, string] => typeof entry[1] === 'string'))
  const { tools, prompts } = asRecord(stored)
  return { tools: mapOf(tools), prompts: mapOf(prompts) }
}

/** Leaves out names that begin with the name of the holder's owner, because no other owner can get those. */
export function contestedHolders({ tools, prompts }: NameHolders, names: OwnerNames): NameHolders {
  const isContested = ([name, id]: readonly [string, string]): boolean => {
    const head = names.get(name.slice(0, Math.max(0, name.indexOf('__'))).toLowerCase())
    return head?.size !== 1 || !head.has(ownerOf(id))
  }
  return { tools: new Map([...tools].filter(isContested)), prompts: new Map([...prompts].filter(isContested)) }
}

const ownerOf = (id: string): string => id.split('.', 1)[0] as string

/** The holder of a name, if it keeps the name although it does not list it now. */
export function findAbsentHolder(
  holder: string | undefined,
  ids: readonly string[],
  isReserved: IsReserved,
): string | undefined {
  return holder !== undefined && !ids.includes(holder) && isReserved(holder) ? holder : undefined
}

/** Removes names that nobody wants, so that any tool can get them. */
export function freeUnwantedNames(
  holders: Map<string, string>,
  wanted: ReadonlyMap<string, unknown>,
  isReserved: IsReserved,
): void {
  for (const [name, holder] of holders) if (!wanted.has(name) && !isReserved(holder)) holders.delete(name)
}

/** States in which all tools and prompts of an owner are known. */
const COMPLETE: ReadonlySet<Owner['state']> = new Set(['ready', 'known', 'degraded'])

/**
 * A tool keeps its name while it waits for a review. A configured server keeps its names until its lists are known, and
 * the names of its prompts while tools wait, because all of its prompts may be hidden then.
 */
export function createReservations(
  owners: ReadonlyMap<string, Owner>,
  configured: OwnerNames,
): { readonly tools: IsReserved; readonly prompts: IsReserved } {
  const isAway = (id: string): boolean => {
    const owner = owners.get(id)
    return owner ? !COMPLETE.has(owner.state) : [...configured.values()].some((ids) => ids.has(id))
  }
  return {
    tools: (id) =>
      isAway(ownerOf(id)) || (owners.get(ownerOf(id))?.quarantined.some(({ tool }) => tool.id === id) ?? false),
    prompts: (id) => isAway(id) || (owners.get(id)?.quarantined.length ?? 0) > 0,
  }
}
