import type { Caller } from '../core/caller.ts'
import { dropOldest } from '../core/drop-oldest.ts'
import { getOrInsert } from '../core/get-or-insert.ts'
import { decideExposure, type Exposure, isSearched, ownersWithoutTools } from './exposure.ts'
import type { ExposureSettings } from './exposure-options.ts'
import type { View } from './view.ts'

/**
 * Remembers exposures, because a list must not change its mode during a conversation. There is one exception: if all
 * tools were listed while a server, API or module was still being read, and its tools do not fit.
 */
export interface RememberedExposures {
  /** Decided for the first request of a session; without sessions, of a principal and profile. */
  of(view: View, caller: Caller): Exposure
  /** Call it when a session has ended. */
  forget(session: string): void
  /** Call it when settings have changed. Sessions keep their exposure; other callers get a new one. */
  decideAnew(): void
}

const MAX_KEPT = 10_000

interface ExposureEntry {
  readonly exposure: Exposure
  readonly settings: ExposureSettings
  /** False while modules, or servers whose tools count, are still being read. */
  isFinal: boolean
  /** The view that it was last checked against. Sessions that ask for nothing must not keep old views. */
  view: WeakRef<View>
}

/**
 * @param alwaysListed returns the number of tools that every mode lists
 * @param isLoading whether modules are being loaded
 */
export function createRememberedExposures(
  settingsOf: (profile: string) => ExposureSettings,
  alwaysListed: (caller: Caller) => number,
  isLoading: () => boolean,
): RememberedExposures {
  // A session may use several profiles in turn, and a principal several clients.
  const sessions = new Map<string, Map<string, ExposureEntry>>()
  const principals = new Map<string, Map<string, ExposureEntry>>()
  return {
    of(view, caller) {
      // Not `view.caller`, because sessions share views.
      const { session, profile, principal, grants } = caller
      const [entriesByOwner, key] = session === undefined ? [principals, principal] : [sessions, session]
      const variant = `${profile} ${view.limits.key}${grants ? JSON.stringify(grants) : ''}`
      const existing = entriesByOwner.get(key)?.get(variant)
      const settings = existing?.settings ?? settingsOf(profile)
      const decide = (counts: boolean): Exposure => decideExposure(view, settings, alwaysListed(caller), counts)
      const outgrown = existing && !existing.isFinal && existing.view.deref() !== view ? decide(false) : undefined
      const isFinal = !isLoading() && ownersWithoutTools(view).length === 0
      if (existing && !(outgrown && isSearched(outgrown.mode))) {
        existing.view = new WeakRef(view)
        existing.isFinal ||= isFinal
        return existing.exposure
      }
      const scope = session === undefined ? 'client' : 'session'
      const when = outgrown ? `when the tools of this ${scope} no longer fit` : `when this ${scope} first asked`
      const decided = outgrown ?? decide(true)
      const exposure = { ...decided, why: `decided ${when}: ${decided.why}` }
      const variants = getOrInsert(entriesByOwner, key, () => new Map())
      dropOldest(entriesByOwner, MAX_KEPT)
      const entry = { exposure, settings, isFinal: isFinal || isSearched(exposure.mode), view: new WeakRef(view) }
      variants.set(variant, entry)
      return exposure
    },
    forget: (session) => sessions.delete(session),
    decideAnew: () => principals.clear(),
  }
}
