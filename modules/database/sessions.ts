/** Lets so many have a session at a time; others wait, first come first served. */
export interface Sessions {
  /** @throws the signal's reason, for one that does not want to wait any more */
  take(signal: AbortSignal): Promise<void>
  give(): void
}

/**
 * A pool would count the wait for a session as a failure to connect, or wait for ever.
 */
export function createSessions(most: number): Sessions {
  let free = most
  const waiting = new Set<() => void>()
  return {
    async take(signal) {
      signal.throwIfAborted()
      if (free > 0) {
        free--
        return
      }
      await new Promise<void>((resolve, reject) => {
        const abort = (): void => {
          waiting.delete(go)
          reject(signal.reason)
        }
        const go = (): void => {
          waiting.delete(go)
          signal.removeEventListener('abort', abort)
          resolve()
        }
        signal.addEventListener('abort', abort, { once: true })
        waiting.add(go)
      })
    },
    give() {
      const [next] = waiting
      if (next) next()
      else free++
    },
  }
}
