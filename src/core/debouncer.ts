import { type Clock, ticksOf } from './clock.ts'

/** Delays background work, such as saving, until nothing more has been scheduled for a moment. */
export type Debouncer = ReturnType<typeof createDebouncer>

/** @param longestMs maximum delay of the first item, however much follows */
export function createDebouncer(clock: Clock, quietMs: number, longestMs: number) {
  const pending = new Map<string, () => void>()
  let since = 0
  let addedAt = 0
  let cancel: (() => void) | undefined

  // One item at a time, so that other work gets a turn.
  function step(): void {
    cancel = undefined
    const now = ticksOf(clock)
    const leftMs = Math.min(addedAt + quietMs, since + longestMs) - now
    if (leftMs > 0) {
      cancel = clock.after(leftMs, step)
      return
    }
    const [first] = pending
    if (!first) return
    pending.delete(first[0])
    first[1]()
    if (pending.size > 0) cancel = clock.after(0, step)
  }

  return {
    /** Replaces pending work with the same key. The work must not throw. */
    schedule(key: string, work: () => void): void {
      addedAt = ticksOf(clock)
      if (pending.size === 0) since = addedAt
      pending.set(key, work)
      cancel ??= clock.after(quietMs, step)
    },
    flush(): void {
      cancel?.()
      cancel = undefined
      for (const work of pending.values()) work()
      pending.clear()
    },
  }
}
