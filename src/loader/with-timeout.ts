import type { Clock } from '../core/clock.ts'

/**
 * Waits for work, at most `ms`.
 * @throws the error of `late` after that time
 */
export async function withTimeout<T>(work: Promise<T>, ms: number, clock: Clock, late: () => Error): Promise<T> {
  // Keeps the process alive, because a top-level await in a module may wait for an unreferenced timer.
  const awake = setInterval(() => undefined, 60_000)
  let cancel: (() => void) | undefined
  try {
    return await Promise.race([
      work,
      new Promise<never>((_resolve, reject) => {
        cancel = clock.after(ms, () => reject(late()))
      }),
    ])
  } finally {
    cancel?.()
    clearInterval(awake)
  }
}
