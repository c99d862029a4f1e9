import type { Caller } from '../core/context.ts'
import { decideExposure, type Exposure, type ExposureSettings } from './exposure.ts'
import type { View } from './view.ts'

/** Remembers how tools are shown, because a list must not flip between two modes in the middle of a conversation. */
export interface Exposures {
  /** Decided at the first question: once a session, or once a principal and profile where there are no sessions. */
  of(view: View, caller: Caller): Exposure
  /** A session ended. */
  forget(session: string): void
  /** Settings changed: callers without a session are decided anew, sessions keep what they have. */
  use(settings: ExposureSettings): void
}

const MAX_KEPT = 10_000

export function createExposures(initial: ExposureSettings): Exposures {
  let settings = initial
  const sessions = new Map<string, Exposure>()
  const principals = new Map<string, Exposure>()
  return {
    of(view, caller) {
      // Views are shared between sessions; the caller is not.
      const { session } = caller
      const [kept, key] = session === undefined ? [principals, principalKey(caller)] : [sessions, session]
      const known = kept.get(key)
      if (known) return known
      const decided = decideExposure(view, settings)
      const made = {
        ...decided,
        why: `decided when this ${session === undefined ? 'client' : 'session'} first asked: ${decided.why}`,
      }
      if (kept.size >= MAX_KEPT) kept.delete(kept.keys().next().value ?? key)
      kept.set(key, made)
      return made
    },
    forget: (session) => sessions.delete(session),
    use(next) {
      settings = next
      principals.clear()
    },
  }
}

const principalKey = ({ principal, profile }: Caller): string => JSON.stringify([principal, profile])
