import type { Clock } from '../core/clock.ts'

/** Waits for work, at most `ms`. @throws what `late` makes when the time is over */
export async function within<T>(work: Promise<T>, ms: number, clock: Clock, late: () => Error): Promise<T> {
  // Nothing else may keep the process alive while a module's top level waits for something that never comes.
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
