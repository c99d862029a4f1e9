import type { Caller } from '../core/caller.ts'
import { dropOldest } from '../core/drop-oldest.ts'
import { getOrInsert } from '../core/get-or-insert.ts'
import { decideExposure, type Exposure, isSearched, ownersWithoutTools } from './exposure.ts'
import type { ExposureSettings } from './exposure-options.ts'
import type { View } from './view.ts'

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
 * Remembers exposures, because a list must not change its mode during a conversation. There is one exception: if all
 * tools were listed while a server, API or module was still being read, and its tools do not fit.
 * @param alwaysListed returns the number of tools that every mode lists
 * @param isLoading whether modules are being loaded
 */
export function createRememberedExposures(
  settingsOf: (profile: string) => ExposureSettings,
  alwaysListed: (caller: Caller) => number,
  isLoading: () => boolean,
) {
  // A session may use several profiles in turn, and a principal several clients.
  const sessions = new Map<string, Map<string, ExposureEntry>>()
  const principals = new Map<string, Map<string, ExposureEntry>>()

  const isAllRead = (view: View): boolean => !isLoading() && ownersWithoutTools(view).length === 0

  /** The new exposure if tools were added that no longer fit; undefined if the remembered one stays. */
  function findOutgrown(entry: ExposureEntry, view: View, caller: Caller): Exposure | undefined {
    if (entry.isFinal || entry.view.deref() === view) return undefined
    const exposure = decideExposure(view, entry.settings, alwaysListed(caller), false)
    return isSearched(exposure.mode) ? exposure : undefined
  }

  return {
    /** Decided for the first request of a session; without sessions, of a principal and profile. */
    of(view: View, caller: Caller): Exposure {
      // Not `view.caller`, because sessions share views.
      const { session, profile, principal, grants } = caller
      const scope = session === undefined ? 'client' : 'session'
      const entriesByScope = session === undefined ? principals : sessions
      const entries = getOrInsert(entriesByScope, session ?? principal, () => new Map<string, ExposureEntry>())
      dropOldest(entriesByScope, MAX_KEPT)
      const variant = `${profile} ${view.limits.key}${grants ? JSON.stringify(grants) : ''}`
      const remember = (settings: ExposureSettings, decided: Exposure, when: string): Exposure => {
        const exposure = { ...decided, why: `decided when ${when}: ${decided.why}` }
        const isFinal = isSearched(exposure.mode) || isAllRead(view)
        entries.set(variant, { exposure, settings, isFinal, view: new WeakRef(view) })
        return exposure
      }

      const existing = entries.get(variant)
      if (!existing) {
        const settings = settingsOf(profile)
        return remember(settings, decideExposure(view, settings, alwaysListed(caller)), `this ${scope} first asked`)
      }
      const outgrown = findOutgrown(existing, view, caller)
      if (outgrown) return remember(existing.settings, outgrown, `the tools of this ${scope} no longer fit`)
      existing.view = new WeakRef(view)
      existing.isFinal ||= isAllRead(view)
      return existing.exposure
    },
    /** Call it when a session has ended. */
    forget: (session: string) => sessions.delete(session),
    /** Call it when settings have changed. Sessions keep their exposure; other callers get a new one. */
    decideAnew: () => principals.clear(),
  }
}
