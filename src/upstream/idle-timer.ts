import type { Clock } from '../core/clock.ts'

export interface IdleOptions {
  /** Maximum idle time of a connection in milliseconds; 0 for unlimited. */
  limitMs(): number
  /** True if the connection is needed although no request is open. */
  busy(): boolean
  idle(): void
}

/** How long a server stays connected that was only started to read its lists. */
const UNUSED_LIMIT_MS = 10_000

/** Detects when a connection has been idle. Costs two additions per request and one timer. */
export function createIdleTimer(clock: Clock, options: IdleOptions) {
  let running = 0
  let used = false
  let idleSince = 0
  let cancel = (): void => undefined

  function check(): void {
    const configuredMs = options.limitMs()
    if (configuredMs === 0) return
    const limit = used ? configuredMs : Math.min(configuredMs, UNUSED_LIMIT_MS)
    if (running > 0 || options.busy()) idleSince = clock.now()
    const leftMs = idleSince + limit - clock.now()
    if (leftMs <= 0) options.idle()
    // The clock may have been set back.
    else cancel = clock.after(Math.min(leftMs, limit), check)
  }

  /** The limit has changed. The idle time begins again; a connection that was used stays used. */
  function resume(): void {
    cancel()
    idleSince = clock.now()
    check()
  }

  return {
    /** A new, unused connection. */
    begin(): void {
      used = running > 0
      resume()
    },
    resume,
    /** Counts the connection as in use during `work`: a request, or the wait for a connection to send one. */
    async during<T>(work: () => Promise<T>): Promise<T> {
      running++
      used = true
      try {
        return await work()
      } finally {
        running--
        idleSince = clock.now()
      }
    },
    end: (): void => cancel(),
  }
}

export type IdleTimer = ReturnType<typeof createIdleTimer>
