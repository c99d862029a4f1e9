import type { Caller } from '../core/context.ts'
import { decideExposure, type Exposure } from './exposure.ts'
import type { ExposureSettings } from './options.ts'
import type { View } from './view.ts'

/** Remembers how tools are shown, because a list must not flip between two modes in the middle of a conversation. */
export interface Exposures {
  /** Decided at the first question: once a session, or once a principal and profile where there are no sessions. */
  of(view: View, caller: Caller): Exposure
  /** A session ended. */
  forget(session: string): void
  /** Settings changed: callers without a session are decided anew, sessions keep what they have. */
  decideAnew(): void
}

const MAX_KEPT = 10_000

/** @param beside how many tools are listed in every mode */
export function createExposures(
  settingsOf: (profile: string) => ExposureSettings,
  beside: (caller: Caller) => number = () => 0,
): Exposures {
  // A session may speak for several profiles, and a principal through several clients, one request after the other.
  const sessions = new Map<string, Map<string, Exposure>>()
  const principals = new Map<string, Map<string, Exposure>>()
  return {
    of(view, caller) {
      // Views are shared between sessions; the caller is not.
      const { session, profile, principal, grants } = caller
      const [all, key] = session === undefined ? [principals, principal] : [sessions, session]
      const way = `${profile} ${view.limits.key}${grants ? JSON.stringify(grants) : ''}`
      const known = all.get(key)?.get(way)
      if (known) return known
      const decided = decideExposure(view, settingsOf(profile), beside(caller))
      const made = {
        ...decided,
        why: `decided when this ${session === undefined ? 'client' : 'session'} first asked: ${decided.why}`,
      }
      let kept = all.get(key)
      if (!kept) {
        if (all.size >= MAX_KEPT) all.delete(all.keys().next().value ?? key)
        kept = new Map()
        all.set(key, kept)
      }
      kept.set(way, made)
      return made
    },
    forget: (session) => sessions.delete(session),
    decideAnew: () => principals.clear(),
  }
}
