import type { Clock } from '../core/clock.ts'
import { ShortLivedMap } from '../core/short-lived-map.ts'
import type { Relay } from '../core/tool.ts'

/** What is learned about a server over all its connections. */
export interface Habits {
  /** True if it has sent a request without telling for which call. */
  asks: boolean
}

/**
 * Serializes the calls of different clients at a server that sends requests. Such requests do not tell which call
 * they belong to, so while a client that can be asked has an open call, calls of other clients wait, for a limited
 * time.
 */
export interface PerClientQueue {
  /** Resolves when the call may begin; `undefined` if it may begin at once. Pass the relay to `leave` afterwards. */
  enter(relay: Relay, signal?: AbortSignal): Promise<void> | undefined
  /** Returns whether it was the last call with this relay. */
  leave(relay: Relay): boolean
  /** A person is being asked, so others may continue. Call the result when there is an answer, and await it. */
  away(relay: Relay): () => Promise<void> | undefined
  /**
   * The call that a request belongs to, if all open calls are of one client. Prefers a client that can be asked, one
   * that has answered, and the latest call.
   */
  only(): Relay | undefined
  readonly size: number
}

/** How long a client waits for others: one that can be asked, and one that cannot and so gains nothing. */
export const WAIT_MS = { interactive: 10_000, other: 1_000 } as const

interface Open {
  count: number
  away: number
  readonly interactive: boolean
  /** Higher for calls that began later. */
  readonly began: number
}

interface Waiting {
  readonly relay: Relay
  readonly interactive: boolean
  go(): void
}

/**
 * Identity of the calling client. Without sessions each request stands alone, so the principal counts. Callers that
 * cannot be asked are distinguished by call.
 */
const clientOf = (relay: Relay): unknown =>
  (relay.session === undefined ? relay.principal : undefined) ?? relay.connection ?? relay.request ?? relay

const isInteractive = ({ request, clientCapabilities: { elicitation, sampling, roots } }: Relay): boolean =>
  request !== undefined && (elicitation !== undefined || sampling !== undefined || roots !== undefined)

export function createPerClientQueue(habits: Habits, clock: Clock | undefined): PerClientQueue {
  const open = new ShortLivedMap<Relay, Open>()
  const waiting: Waiting[] = []
  let begun = 0

  /**
   * True if a request could not be attributed. A client that is answering a question blocks only clients that can be
   * asked.
   */
  function blocked(relay: Relay, interactive: boolean): boolean {
    for (const [other, state] of open) {
      if (clientOf(other) === clientOf(relay)) continue
      if (interactive || (state.interactive && state.away === 0)) return true
    }
    return false
  }

  function take(relay: Relay, interactive: boolean): void {
    const state = open.get(relay)
    if (state) state.count++
    else open.set(relay, { count: 1, away: 0, interactive, began: ++begun })
  }

  /** Waiting calls proceed in order; a call that is not blocked may pass others. */
  function next(): void {
    const ahead: Waiting[] = []
    for (const one of [...waiting]) {
      const yields = ahead.some(
        (first) => clientOf(first.relay) !== clientOf(one.relay) && (first.interactive || one.interactive),
      )
      if (yields || blocked(one.relay, one.interactive)) ahead.push(one)
      else one.go()
    }
  }

  function wait(
    relay: Relay,
    interactive: boolean,
    signal: AbortSignal | undefined,
    begin: () => void,
    first = false,
  ): Promise<void> {
    return new Promise((resolve, reject) => {
      const over = (): void => {
        cancel()
        signal?.removeEventListener('abort', gone)
        waiting.splice(waiting.indexOf(one), 1)
      }
      const gone = (): void => {
        over()
        reject(signal?.reason)
        next()
      }
      const one: Waiting = {
        relay,
        interactive,
        go() {
          over()
          begin()
          resolve()
        },
      }
      // After that it runs beside others, and requests that cannot be attributed are declined.
      const cancel = clock?.after(interactive ? WAIT_MS.interactive : WAIT_MS.other, one.go) ?? (() => undefined)
      signal?.addEventListener('abort', gone, { once: true })
      if (first) waiting.unshift(one)
      else waiting.push(one)
    })
  }

  return {
    enter(relay, signal) {
      // Most servers never send requests.
      if (!habits.asks || clock === undefined) return void take(relay, isInteractive(relay))
      const interactive = isInteractive(relay)
      const mine = clientOf(relay)
      const yields = waiting.some(
        (first) => clientOf(first.relay) !== mine && (first.interactive || interactive) && !open.get(relay),
      )
      if (!yields && !blocked(relay, interactive)) return void take(relay, interactive)
      return wait(relay, interactive, signal, () => take(relay, interactive))
    },
    leave(relay) {
      const state = open.get(relay)
      if (state && --state.count > 0) return false
      open.delete(relay)
      if (waiting.length > 0) next()
      return true
    },
    away(relay) {
      const state = open.get(relay)
      if (!state) return () => undefined
      state.away++
      if (waiting.length > 0) next()
      return () => {
        state.away--
        // The server may send the next request as soon as it has its answer.
        if (clock === undefined || !blocked(relay, true)) return undefined
        return wait(relay, true, undefined, () => undefined, true)
      }
    },
    only() {
      let found: Relay | undefined
      let best: Open | undefined
      for (const [relay, state] of open) {
        if (found && clientOf(relay) !== clientOf(found)) return undefined
        if (best && !isLikelier(state, best)) continue
        found = relay
        best = state
      }
      return found
    },
    get size() {
      return open.size
    },
  }
}

/** True if a request more likely belongs to `one`. A client may never return to answer another question. */
function isLikelier(one: Open, other: Open): boolean {
  if (one.interactive !== other.interactive) return one.interactive
  const waits = one.away > 0
  return waits === other.away > 0 ? one.began > other.began : !waits
}
