import type { Owner } from '../catalog/catalog.ts'
import { shownState } from '../catalog/state.ts'

/** The state of a server and, of one that is not well, why and when it is tried again; nothing of a module that is well. */
export function standing(owner: Owner, now: number) {
  if (owner.origin === 'module' && owner.state === 'ready') return {}
  const state = shownState(owner, owner.tools.length)
  const { reason, nextAttemptAt } = owner
  return {
    state,
    ...(reason ? { reason } : {}),
    ...(nextAttemptAt === undefined ? {} : { retry_in_ms: Math.max(0, round(nextAttemptAt - now)) }),
  }
}

/** What a call of its tools has to reckon with; nothing for a server that is started. */
export function waitFor(owner: Owner | undefined): { readonly starts_in_ms?: number; readonly state?: 'failing' } {
  if (owner?.origin !== 'upstream' || owner.state === 'ready') return {}
  if (shownState(owner, owner.tools.length) === 'failing') return { state: 'failing' }
  return owner.startsInMs === undefined ? {} : { starts_in_ms: round(owner.startsInMs) }
}

/** To two digits: more would only cost tokens. */
const round = (ms: number): number => (ms === 0 ? 0 : Number(ms.toPrecision(2)))
