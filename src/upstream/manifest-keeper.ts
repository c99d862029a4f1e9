import type { Debouncer } from '../core/debouncer.ts'
import { messageOf } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import { decodeManifest, encodeManifest, type Manifest, type ManifestStore } from './manifest.ts'

/** Stores what a server offers, for the next start. */
export interface ManifestKeeper {
  /** Loads the stored manifest. @param stale called when the manifest turns out to be outdated */
  recall(stale: () => void): Manifest | undefined
  /** Stores a manifest when the process is idle, because encoding it costs as much as reading the lists did. */
  keep(make: () => Manifest): void
}

/** @param key of the manifest; nothing is stored without a store */
export function createManifestKeeper(
  key: string,
  store: ManifestStore | undefined,
  saveLater: Debouncer,
  log: Log,
): ManifestKeeper {
  return {
    recall(stale) {
      const line = store?.line(key)
      try {
        return line && decodeManifest(line, () => store?.get(key), stale)
      } catch (error) {
        log.warn(`its cached tool list cannot be used, so Pegboard reads it again: ${messageOf(error)}`)
        return undefined
      }
    },
    keep(make) {
      if (!store) return
      saveLater.schedule(key, () => {
        try {
          store.set(key, encodeManifest(make()))
        } catch (error) {
          // Only the next start is affected: it reads the lists again.
          log.warn(`cannot cache its tool list: ${messageOf(error)}`)
        }
      })
    },
  }
}
