import type { Clock } from '../core/clock.ts'

/** What the work resolves to, or `late` if that takes longer. */
export async function answerWithin<T, L>(work: Promise<T>, timeoutMs: number, late: L, clock: Clock): Promise<T | L> {
  let cancel = (): void => undefined
  const timeout = new Promise<L>((resolve) => {
    cancel = clock.after(timeoutMs, () => resolve(late))
  })
  try {
    return await Promise.race([work, timeout])
  } finally {
    cancel()
  }
}
