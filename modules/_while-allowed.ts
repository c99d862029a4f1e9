import type { Services } from 'pegboard'

/** How often the owner's access is checked. */
const CHECK_MS = 2_000

/** Returns a function that tells whether the caller who started background work still has access. */
export const createAccessCheck =
  ({ tasks }: Pick<Services, 'tasks'>): (() => boolean) =>
  () =>
    tasks?.mayGoOn() ?? true

/** Calls `end` when the owner has lost access. Call the result when the work is finished. */
export function endWithoutAccess(hasAccess: () => boolean, onEnd: () => void): () => void {
  const timer = setInterval(() => void (hasAccess() || onEnd()), CHECK_MS).unref()
  return () => clearInterval(timer)
}
