import type { Clock } from './clock.ts'

/** Work nobody waits for, such as keeping something on disk: done when nothing more of it has come for a moment. */
export interface Later {
  /** What is added with the same key takes the place of what waits. It must not throw. */
  add(key: string, work: () => void): void
  /** Some of it is still to be done. */
  readonly busy: boolean
  /** Does all of it now. */
  flush(): void
}

/**
 * @param longestMs the first of it waits no longer, however much comes
 * @param isBusy whether more may come soon, so that it is not time yet; default never
 * @param busyMs how long nothing may come while that is so, before it is time all the same; default as long as it is so
 */
export function createLater(
  clock: Clock,
  quietMs: number,
  longestMs: number,
  isBusy: () => boolean = () => false,
  busyMs: number = longestMs,
): Later {
  const waiting = new Map<string, () => void>()
  let since = 0
  let addedAt = 0
  let cancel: (() => void) | undefined

  // One at a time, so that others get their turn.
  function step(): void {
    cancel = undefined
    const now = clock.now()
    const quietUntil = isBusy() ? Math.min(now + quietMs, addedAt + busyMs) : addedAt + quietMs
    const leftMs = Math.min(quietUntil, since + longestMs) - now
    if (leftMs > 0) {
      cancel = clock.after(leftMs, step)
      return
    }
    const [first] = waiting
    if (!first) return
    waiting.delete(first[0])
    first[1]()
    if (waiting.size > 0) cancel = clock.after(0, step)
  }

  return {
    get busy() {
      return waiting.size > 0
    },
    add(key, work) {
      addedAt = clock.now()
      if (waiting.size === 0) since = addedAt
      waiting.set(key, work)
      cancel ??= clock.after(quietMs, step)
    },
    flush() {
      cancel?.()
      cancel = undefined
      for (const work of waiting.values()) work()
      waiting.clear()
    },
  }
}
