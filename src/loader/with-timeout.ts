import type { Clock } from '../core/clock.ts'
import { waitAtMost } from '../core/wait-at-most.ts'

/**
 * Waits for work, at most `ms`.
 * @throws the error of `late` after that time
 */
export async function withTimeout<T>(work: Promise<T>, ms: number, clock: Clock, late: () => Error): Promise<T> {
  // Keeps the process alive, because a top-level await in a module may wait for an unreferenced timer.
  const awake = setInterval(() => undefined, 60_000)
  const fail = (): never => {
    throw late()
  }
  return await waitAtMost(ms, work, fail, clock).finally(() => clearInterval(awake))
}
