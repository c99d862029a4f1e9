import type { OwnerInfo, OwnerState } from './owner.ts'

/** The state of a server for people and models. `configured`: Pegboard has never connected to it. */
export type ShownState = 'configured' | 'known' | 'started' | 'failing' | 'degraded' | 'stopped'

/** @param tools number of its tools that are known */
export function shownState(
  { state, reason }: Pick<OwnerInfo, 'reason'> & { state: OwnerState },
  tools: number,
): ShownState {
  if (state === 'ready') return 'started'
  if (state !== 'connecting') return state
  // A connecting server has a reason only after a failure.
  if (reason !== undefined) return 'failing'
  return tools > 0 ? 'known' : 'configured'
}
