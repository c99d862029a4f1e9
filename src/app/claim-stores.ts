import { hash } from 'node:crypto'
import { join } from 'node:path'
import type { HolderStore } from '../catalog/name-holders.ts'
import { createFileStore } from '../state/file-store.ts'
import type { ClaimStore } from '../upstream/resource-claims.ts'

const keyOf = (text: string): string => hash('sha256', text).slice(0, 32)

/**
 * Stores the owners of resources, in one file for each server and configuration, because configurations that share a state folder may use one name
 * for different servers.
 * @param configuration identifies the configuration
 */
export function claimStore(state: string, configuration: string, onError: (error: unknown) => void): ClaimStore {
  const files = createFileStore<unknown>(join(state, 'resources', keyOf(configuration)), onError)
  return {
    get: (server) => files.get(keyOf(server)),
    set: (server, since) => files.set(keyOf(server), since),
  }
}

/** Stores the holders of names that several servers want, in one file for each configuration. */
export function nameHolderStore(state: string, configuration: string, onError: (error: unknown) => void): HolderStore {
  const files = createFileStore<unknown>(join(state, 'names'), onError)
  const key = keyOf(configuration)
  return {
    get: () => files.get(key),
    set: (holders) => files.set(key, holders),
  }
}
