import type { Owner } from '../catalog/owner.ts'
import { shownState } from '../catalog/owner-state.ts'

/** The state of a server and, if it is failing, why and when Pegboard retries. Empty for a module that is ready. */
export function ownerStatus(owner: Owner, now: number) {
  if (owner.origin === 'module' && owner.state === 'ready') return {}
  const state = shownState(owner, owner.tools.length)
  const { reason, nextAttemptAt } = owner
  return {
    state,
    ...(reason ? { reason } : {}),
    ...(nextAttemptAt === undefined ? {} : { retry_in_ms: Math.max(0, round(nextAttemptAt - now)) }),
  }
}

/** What a caller of its tools has to expect. Empty for a server that is running. */
export function waitFor(owner: Owner | undefined): { readonly starts_in_ms?: number; readonly state?: 'failing' } {
  if (owner?.origin !== 'upstream' || owner.state === 'ready') return {}
  if (shownState(owner, owner.tools.length) === 'failing') return { state: 'failing' }
  return owner.startsInMs === undefined ? {} : { starts_in_ms: round(owner.startsInMs) }
}

/** Two digits are enough; more would cost tokens. */
const round = (ms: number): number => (ms === 0 ? 0 : Number(ms.toPrecision(2)))
