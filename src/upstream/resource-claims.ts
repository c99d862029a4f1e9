import { ownerOfResource } from '../catalog/resource-owner.ts'
import type { Clock } from '../core/clock.ts'
import { isRecord, type Json } from '../core/is-record.ts'
import type { ServerContext } from './upstream-shared.ts'

/** Maximum number of disputed resources reported to the operator. */
const MAX_DISPUTED = 20

/** Increasing timestamps shared by all servers, also across runs; they tell who had a resource first. */
export interface Timestamps {
  next(): number
  /** Registers a timestamp of another run. */
  record(timestamp: number): void
}

export function createTimestamps(clock: Clock): Timestamps {
  let last = 0
  return {
    next() {
      // A clock set back must not make anyone the first.
      last = Math.max(clock.now(), last + 1)
      return last
    },
    record(timestamp) {
      last = Math.max(last, timestamp)
    },
  }
}

/** Storage for the times since when servers have had their resources. */
export interface ClaimStore {
  get(serverId: string): unknown
  set(serverId: string, since: Readonly<Record<string, number>>): void
}

/**
 * Records since when a server has listed each resource and template, so that a later server with the same one cannot
 * take it over.
 */
export function createClaims({ id, module, shared, log }: ServerContext) {
  const { catalog, clock, timestamps, claims: store, saveLater } = shared
  let claims = new Map<string, number>()
  let checkedUris: ReadonlySet<string> = new Set()
  let disputedCount = 0
  let began: number | undefined

  function save(): void {
    saveLater.schedule(`claims ${id}`, () => {
      const before = parseClaims(store?.get(id))
      // Another process may have seen it earlier.
      const since = [...claims].map(([name, own]) => [name, Math.min(own, before.get(name) ?? own)] as const)
      store?.set(id, Object.fromEntries(since))
    })
  }

  const findOwnerId = (uri: string): string | undefined =>
    ownerOfResource([...catalog.snapshot().owners.values()], uri)?.id

  return {
    since: (name: string): number | undefined => claims.get(name),
    names: (): readonly string[] => [...claims.keys()],
    /** Restores resources of an earlier run until the list is read. */
    restore(): void {
      claims = parseClaims(store?.get(id))
      for (const timestamp of claims.values()) timestamps.record(timestamp)
    },
    /**
     * Servers that start together have equal rights, whichever is read first.
     * @param timestamp of the start; the first list counts from then
     */
    begin(timestamp: number): void {
      began = timestamp
    },
    /** The first list is known; anything later is new. */
    begun(): void {
      began = undefined
    },
    /** Records these resources. @param mentionedAt when the server first mentioned one in a result */
    take(names: readonly string[], mentionedAt: (name: string) => number | undefined): void {
      const fresh = names.filter((name) => !claims.has(name))
      if (fresh.length === 0) return
      const now = began ?? timestamps.next()
      for (const name of fresh) {
        const earlier = mentionedAt(name)
        // Mentioning a resource gives no claim to what another server owns.
        claims.set(name, earlier !== undefined && findOwnerId(name) === module ? earlier : now)
      }
      save()
    },
    /** Removes all other resources. @returns whether there were any */
    keepOnly(names: readonly string[]): boolean {
      const now = new Set(names)
      const removed = [...claims.keys()].filter((name) => !now.has(name))
      for (const name of removed) claims.delete(name)
      if (removed.length > 0) save()
      return removed.length > 0
    },
    /** Logs listed resources for which another owner answers, unless they were in the previous list. */
    logDisputed(resources: readonly Json[]): void {
      const uris = resources.map(({ uri }) => String(uri))
      const fresh = uris.filter((uri) => !checkedUris.has(uri))
      checkedUris = new Set(uris)
      if (fresh.length === 0) return
      // By then all other known servers are restored.
      clock.after(0, () => {
        for (const uri of fresh) {
          const other = disputedCount < MAX_DISPUTED ? findOwnerId(uri) : undefined
          if (other === undefined || other === module) continue
          disputedCount++
          log.warn(`lists a resource for which ${other} answers`, { uri: uri.slice(0, 200) })
        }
      })
    },
  }
}

export type Claims = ReturnType<typeof createClaims>

function parseClaims(stored: unknown): Map<string, number> {
  if (!isRecord(stored)) return new Map()
  return new Map(Object.entries(stored).filter((entry): entry is [string, number] => Number.isFinite(entry[1])))
}
