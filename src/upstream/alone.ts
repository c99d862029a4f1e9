import type { Clock } from '../core/clock.ts'
import { offEnd, onEnd, type Stop } from '../core/ending.ts'
import { createFew } from '../core/few.ts'
import type { Relay } from '../core/tool.ts'

/** What is learnt of a server over all its connections. */
export interface Habits {
  /** It has asked something of a caller. */
  asks: boolean
}

/**
 * Keeps calls of different clients apart at a server that asks: its questions do not say which call they are of, so
 * while a client that can be asked has a call open, calls of other clients wait. Nobody waits for long.
 */
export interface Alone {
  /** Resolves when the call may begin; `undefined` when it may at once. Give the relay to `leave` afterwards. */
  enter(relay: Relay, signal?: Stop): Promise<void> | undefined
  /** Answers whether it was the last call with this relay. */
  leave(relay: Relay): boolean
  /** A person is asked: others may go on meanwhile. Call the result when there is an answer, and wait for it. */
  away(relay: Relay): () => Promise<void> | undefined
  /** The one connection all open calls are of: any call of it that can be asked, else any. */
  only(): Relay | undefined
  readonly size: number
}

/** How long a client that can be asked waits for others, and one that cannot: it has nothing to gain. */
export const WAIT_MS = { interactive: 10_000, other: 1_000 } as const

interface Open {
  count: number
  away: number
  readonly interactive: boolean
}

interface Waiting {
  readonly relay: Relay
  readonly interactive: boolean
  go(): void
}

/** Callers who cannot be asked are only told apart by their call. */
const connectionOf = (relay: Relay): object => relay.connection ?? relay.request ?? relay

const isInteractive = ({ request, clientCapabilities: { elicitation, sampling, roots } }: Relay): boolean =>
  request !== undefined && (elicitation !== undefined || sampling !== undefined || roots !== undefined)

export function createAlone(habits: Habits, clock: Clock | undefined): Alone {
  const open = createFew<Relay, Open>()
  const waiting: Waiting[] = []

  /** Whether a question could not be told to be of one of them. A caller who thinks hinders none but those who can be asked. */
  function blocked(relay: Relay, interactive: boolean): boolean {
    for (const [at, other] of open.keys.entries()) {
      if (connectionOf(other) === connectionOf(relay)) continue
      const state = open.values[at] as Open
      if (interactive || (state.interactive && state.away === 0)) return true
    }
    return false
  }

  function take(relay: Relay, interactive: boolean): void {
    const state = open.get(relay)
    if (state) state.count++
    else open.set(relay, { count: 1, away: 0, interactive })
  }

  /** Those who wait go in the order they came; who is not hindered passes by. */
  function next(): void {
    const ahead: Waiting[] = []
    for (const one of [...waiting]) {
      const yields = ahead.some(
        (first) => connectionOf(first.relay) !== connectionOf(one.relay) && (first.interactive || one.interactive),
      )
      if (yields || blocked(one.relay, one.interactive)) ahead.push(one)
      else one.go()
    }
  }

  function wait(
    relay: Relay,
    interactive: boolean,
    signal: Stop | undefined,
    begin: () => void,
    first = false,
  ): Promise<void> {
    return new Promise((resolve, reject) => {
      const over = (): void => {
        cancel()
        if (signal) offEnd(signal, gone)
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
      // Then it goes on among others, and what is asked meanwhile is declined.
      const cancel = clock?.after(interactive ? WAIT_MS.interactive : WAIT_MS.other, one.go) ?? (() => undefined)
      if (signal) onEnd(signal, gone)
      if (first) waiting.unshift(one)
      else waiting.push(one)
    })
  }

  return {
    enter(relay, signal) {
      // Most servers never ask.
      if (!habits.asks || clock === undefined) return void take(relay, isInteractive(relay))
      const interactive = isInteractive(relay)
      const mine = connectionOf(relay)
      const yields = waiting.some(
        (first) => connectionOf(first.relay) !== mine && (first.interactive || interactive) && !open.get(relay),
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
        // The server may ask again as soon as it has its answer.
        if (clock === undefined || !blocked(relay, true)) return undefined
        return wait(relay, true, undefined, () => undefined, true)
      }
    },
    only() {
      let found: Relay | undefined
      for (const relay of open.keys) {
        if (found && connectionOf(relay) !== connectionOf(found)) return undefined
        found = relay
      }
      return found
    },
    get size() {
      return open.keys.length
    },
  }
}
