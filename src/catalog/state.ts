import type { OwnerInfo, OwnerState } from './catalog.ts'

/** What people and models are told of a server: `configured` (never seen), `known`, `started`, `failing`. */
export type ShownState = 'configured' | 'known' | 'started' | 'failing' | 'degraded' | 'stopped'

/** @param tools how many of its tools are known */
export function shownState(
  { state, reason }: Pick<OwnerInfo, 'reason'> & { state: OwnerState },
  tools: number,
): ShownState {
  if (state === 'ready') return 'started'
  if (state !== 'connecting') return state
  // On its way for the first time, or again after it broke.
  if (reason !== undefined) return 'failing'
  return tools > 0 ? 'known' : 'configured'
}
