import { messageOf } from '../core/errors.ts'
import type { Implementation } from './connection.ts'
import type { EraVerdict } from './era-history.ts'
import { type Brief, decodeManifest, encodeManifest, type Manifest, manifestKey } from './manifest.ts'
import type { Habits } from './per-client-queue.ts'
import { emptyListing, type Listing } from './read-listing.ts'
import type { ServerContext } from './upstream-shared.ts'

export interface KnownServer extends Pick<Manifest, 'capabilities' | 'startMs' | 'asks' | 'gateways'> {
  readonly listing: Listing
  readonly implementation?: Implementation | undefined
}

/**
 * Holds what is known about a server: from its connection, or from the manifest of an earlier run.
 * @param asksChanged called when the server has sent its first request to a client
 */
export function createServerInfo({ settings, shared, log }: ServerContext, asksChanged: () => void) {
  const { manifests, saveLater } = shared
  const key = manifestKey(settings())
  let known: KnownServer = { listing: emptyListing, capabilities: {} }

  const update = (change: Partial<KnownServer>): void => {
    known = { ...known, ...change }
  }
  /** For connections, which find out whether the server sends requests. */
  const habits: Habits = {
    get asks() {
      return known.asks === true
    },
    set asks(asks) {
      if (habits.asks === asks) return
      update({ asks })
      asksChanged()
    },
  }

  return {
    known(): KnownServer {
      return known
    },
    update,
    habits,
    /**
     * Loads the manifest of an earlier run.
     * @param outdated called later if the tools in it turn out to be outdated
     * @returns undefined if there is none that can be used
     */
    load(outdated: () => void): EraVerdict | undefined {
      const line = manifests?.line(key)
      try {
        const manifest = line && decodeManifest(line, () => manifests?.get(key), outdated)
        if (!manifest) return undefined
        const { verdict, capabilities, server: implementation, startMs, asks, gateways } = manifest
        known = { listing: manifest, capabilities, implementation, startMs, asks, gateways }
        return verdict
      } catch (error) {
        log.warn(`its cached tool list cannot be used, so Pegboard reads it again: ${messageOf(error)}`)
        return undefined
      }
    },
    /** Saves the manifest for the next start. @param briefOf called when it is written */
    save(verdict: EraVerdict, briefOf: (listing: Listing) => Brief): void {
      // When the process is idle, because encoding costs as much as reading the lists did.
      saveLater.schedule(key, () => {
        const { listing, implementation: server, ...facts } = known
        try {
          manifests?.set(key, encodeManifest({ verdict, server, ...facts, ...listing, brief: briefOf(listing) }))
        } catch (error) {
          // It only affects the next start, which reads the lists again.
          log.warn(`cannot cache its tool list: ${messageOf(error)}`)
        }
      })
    },
  }
}

export type ServerInfo = ReturnType<typeof createServerInfo>
