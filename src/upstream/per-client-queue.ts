import type { Clock } from '../core/clock.ts'
import { ShortLivedMap } from '../core/short-lived-map.ts'
import type { Relay } from '../core/tool.ts'

/** What is learned about a server over all its connections. */
export interface Habits {
  /** True if it has sent a request without telling for which call. */
  asks: boolean
}

/** How long a client waits for others: one that can be asked, and one that cannot and so gains nothing. */
export const WAIT_MS = { interactive: 10_000, other: 1_000 } as const

interface OpenCall {
  count: number
  away: number
  readonly interactive: boolean
  /** Higher for calls that began later. */
  readonly began: number
}

/** A call by its relay. `interactive`: its client can be asked. */
interface Call {
  readonly relay: Relay
  readonly interactive: boolean
}

interface WaitingCall extends Call {
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

/** True if a waiting call keeps its turn before another one: both may get questions, or one of them. */
const goesBefore = (first: Call, other: Call): boolean =>
  clientOf(first.relay) !== clientOf(other.relay) && (first.interactive || other.interactive)

/**
 * Serializes the calls of different clients at a server that sends requests. Such requests do not tell which call
 * they belong to, so while a client that can be asked has an open call, calls of other clients wait, for a limited
 * time.
 */
export function createPerClientQueue(habits: Habits, clock: Clock) {
  const open = new ShortLivedMap<Relay, OpenCall>()
  const waiting: WaitingCall[] = []
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

  function addOpen(relay: Relay, interactive: boolean): void {
    const state = open.get(relay)
    if (state) state.count++
    else open.set(relay, { count: 1, away: 0, interactive, began: ++begun })
  }

  /** Waiting calls proceed in order; a call that is not blocked may pass others. */
  function next(): void {
    const ahead: WaitingCall[] = []
    for (const call of [...waiting]) {
      const yields = ahead.some((first) => goesBefore(first, call))
      if (yields || blocked(call.relay, call.interactive)) ahead.push(call)
      else call.go()
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
      const leaveQueue = (): void => {
        cancel()
        signal?.removeEventListener('abort', onAbort)
        waiting.splice(waiting.indexOf(entry), 1)
      }
      const onAbort = (): void => {
        leaveQueue()
        reject(signal?.reason)
        next()
      }
      const entry: WaitingCall = {
        relay,
        interactive,
        go() {
          leaveQueue()
          begin()
          resolve()
        },
      }
      // After that it runs beside others, and requests that cannot be attributed are declined.
      const cancel = clock.after(interactive ? WAIT_MS.interactive : WAIT_MS.other, entry.go)
      signal?.addEventListener('abort', onAbort, { once: true })
      if (first) waiting.unshift(entry)
      else waiting.push(entry)
    })
  }

  return {
    /** Resolves when the call may begin; `undefined` if it may begin at once. Pass the relay to `leave` afterwards. */
    enter(relay: Relay, signal?: AbortSignal): Promise<void> | undefined {
      // Most servers never send requests.
      if (!habits.asks) return void addOpen(relay, isInteractive(relay))
      const interactive = isInteractive(relay)
      const yields = !open.get(relay) && waiting.some((first) => goesBefore(first, { relay, interactive }))
      if (!yields && !blocked(relay, interactive)) return void addOpen(relay, interactive)
      return wait(relay, interactive, signal, () => addOpen(relay, interactive))
    },
    /** Returns whether it was the last call with this relay. */
    leave(relay: Relay): boolean {
      const state = open.get(relay)
      if (state && --state.count > 0) return false
      open.delete(relay)
      if (waiting.length > 0) next()
      return true
    },
    /** A person is being asked, so others may continue. Call the result when there is an answer, and await it. */
    askPerson(relay: Relay): () => Promise<void> | undefined {
      const state = open.get(relay)
      if (!state) return () => undefined
      state.away++
      if (waiting.length > 0) next()
      return () => {
        state.away--
        // The server may send the next request as soon as it has its answer.
        if (!blocked(relay, true)) return undefined
        return wait(relay, true, undefined, () => undefined, true)
      }
    },
    /**
     * The call that a request belongs to, if all open calls are of one client. Prefers a client that can be asked, one
     * that has answered, and the latest call.
     */
    findCaller(): Relay | undefined {
      let found: Relay | undefined
      let best: OpenCall | undefined
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
function isLikelier(one: OpenCall, other: OpenCall): boolean {
  if (one.interactive !== other.interactive) return one.interactive
  const waits = one.away > 0
  return waits === other.away > 0 ? one.began > other.began : !waits
}
