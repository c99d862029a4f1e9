import type { Clock } from '../core/clock.ts'

export interface IdleOptions {
  /** How long a connection that was used may rest, in milliseconds; 0 for ever. */
  limitMs(): number
  /** Something else needs the connection, though no request runs. */
  busy(): boolean
  /** Nobody has used it for so long. */
  idle(): void
}

/** Knows when a connection has not been used for a while. Costs a request two additions; there is one timer. */
export interface Idle {
  /** A new connection, used by nobody yet. */
  begin(): void
  /** A request starts, or someone is waiting to make one. */
  enter(): void
  leave(): void
  /** Nothing is waited for any more. */
  end(): void
}

/** A server that was only started to see what it offers is kept this long. */
const LOOK_MS = 10_000

export function createIdle(clock: Clock, options: IdleOptions): Idle {
  let running = 0
  let used = false
  let since = 0
  let cancel = (): void => undefined

  function check(): void {
    const given = options.limitMs()
    if (given === 0) return
    const limit = used ? given : Math.min(given, LOOK_MS)
    if (running > 0 || options.busy()) since = clock.now()
    const leftMs = since + limit - clock.now()
    if (leftMs <= 0) options.idle()
    // The clock may have been set back.
    else cancel = clock.after(Math.min(leftMs, limit), check)
  }

  return {
    begin() {
      cancel()
      used = running > 0
      since = clock.now()
      check()
    },
    enter() {
      running++
      used = true
    },
    leave() {
      running--
      since = clock.now()
    },
    end: () => cancel(),
  }
}
