import type { Clock } from '../core/clock.ts'
import { waitAtMost } from '../core/wait-at-most.ts'

/**
 * Waits for work, at most `ms`.
 * @throws the error of `createError` after that time
 */
export async function withTimeout<T>(work: Promise<T>, ms: number, clock: Clock, createError: () => Error): Promise<T> {
  // Keeps the process alive, because a top-level await in a module may wait for an unreferenced timer.
  const keepAlive = setInterval(() => undefined, 60_000)
  const throwError = (): never => {
    throw createError()
  }
  return await waitAtMost(ms, work, throwError, clock).finally(() => clearInterval(keepAlive))
}
