import type { Clock } from '../core/clock.ts'
import { waitAtMost } from '../core/wait-at-most.ts'
import type { Upstream } from './upstream.ts'
import type { ServerSettings } from './upstream-settings.ts'

export interface RunningServer {
  readonly upstream: Upstream
  readonly module: string
  readonly settings: ServerSettings
}

/** True if the caller sees this module. */
export type Sees = (module: string) => boolean

/**
 * Looks for the server of an unknown tool name. Starts an unknown server that the name begins with, and waits for it.
 * Otherwise reads the lists of running servers again, at most once a minute, and of an idle server that the name begins
 * with.
 * @returns whether to look again
 * @param options.signal aborted when nobody waits any more
 * @param options.sees modules that the caller sees; default all
 */
export type UnknownToolSearch = (
  name: string,
  options?: { readonly signal?: AbortSignal | undefined; readonly sees?: Sees },
) => Promise<boolean>

/** Minimum time between searches, and maximum wait of a call. */
const EVERY_MS = 60_000
const WAIT_MS = 8_000

/** @param running by id */
export function createUnknownToolSearch(
  clock: Clock,
  running: () => ReadonlyMap<string, RunningServer>,
): UnknownToolSearch {
  let searching: Promise<void> | undefined
  let searchedAt = Number.NEGATIVE_INFINITY

  /** Servers that may have an unknown tool: the running ones, and an idle one that the name begins with. */
  async function refreshCandidates(name: string, sees: Sees): Promise<void> {
    const candidates = [...running()].filter(([id, { upstream, module, settings }]) => {
      if (!sees(module)) return false
      const { state } = upstream.status()
      const named = (): boolean => isNamed(name, [id, module, settings.prefix])
      return state === 'ready' || ((state === 'known' || state === 'connecting') && named())
    })
    const refreshed = Promise.allSettled(candidates.map(([, { upstream }]) => upstream.refresh()))
    await waitAtMost(WAIT_MS, refreshed, undefined, clock)
  }

  /** Unknown servers that have not failed; the one whose name matches best comes first. */
  function findUnknown(name: string, sees: Sees): Upstream | undefined {
    let best: Upstream | undefined
    let longest = 0
    for (const [id, { upstream, module, settings }] of running()) {
      const length = matchingPrefixLength(name, [id, module, settings.prefix])
      if (length <= longest) continue
      if (!upstream.isUnknown() || !sees(module)) continue
      best = upstream
      longest = length
    }
    return best
  }

  return async (name, { signal, sees = () => true } = {}) => {
    const unknownUpstream = findUnknown(name, sees)
    if (unknownUpstream) {
      // Its state tells why it failed.
      await unknownUpstream.waitForConnection(signal).catch(() => undefined)
      return true
    }
    // Concurrent callers share one search.
    if (searching) {
      await searching
      return true
    }
    if (running().size === 0 || clock.now() - searchedAt < EVERY_MS) return false
    searchedAt = clock.now()
    searching = refreshCandidates(name, sees).finally(() => {
      searching = undefined
    })
    await searching
    return true
  }
}

/** True if a tool name begins with one of these. */
export const isNamed = (name: string, names: readonly string[]): boolean => matchingPrefixLength(name, names) > 0

/** Length of the longest of these that the tool name begins with; 0 for none. */
function matchingPrefixLength(name: string, names: readonly string[]): number {
  const lowerName = name.toLowerCase()
  let longest = 0
  for (const one of names) {
    const { length } = one
    if (length > longest && lowerName.startsWith(one.toLowerCase()) && /^[^a-z0-9]/.test(lowerName.slice(length)))
      longest = length
  }
  return longest
}
