import { messageOf } from '../core/errors.ts'
import type { Later } from '../core/later.ts'
import type { Log } from '../core/log.ts'
import { decodeManifest, encodeManifest, type Manifest, type ManifestStore } from './manifest.ts'

/** What one server offers, kept for the next start. */
export interface Keeper {
  /** What was learnt the last time. @param stale told when it turns out to be something else by now */
  recall(stale: () => void): Manifest | undefined
  /** Encoding and writing it costs as much as learning it did, and calls come first: made and written when all is calm. */
  keep(make: () => Manifest): void
}

/** @param key names the manifest; absent store: nothing is kept */
export function createKeeper(key: string, store: ManifestStore | undefined, later: Later, log: Log): Keeper {
  return {
    recall(stale) {
      const line = store?.line(key)
      try {
        return line && decodeManifest(line, () => store?.get(key), stale)
      } catch (error) {
        log.warn(`what is kept about it cannot be used and is learnt again: ${messageOf(error)}`)
        return undefined
      }
    },
    keep(make) {
      if (!store) return
      later.add(key, () => {
        try {
          store.set(key, encodeManifest(make()))
        } catch (error) {
          // It works all the same; the next start learns it again.
          log.warn(`what it offers cannot be kept: ${messageOf(error)}`)
        }
      })
    },
  }
}
