import type { ServerResponse } from 'node:http'
import type { Clock } from '../core/clock.ts'
import { piecesOf } from './pieces.ts'
import { isPassing } from './unread.ts'

/** Comments are sent this often, so that nobody between us and the client takes a quiet stream for a dead one. */
export const KEEP_ALIVE_MS = 15_000
/** A client that does not read is cut off when this much waits for it. */
const MAX_WAITING_BYTES = 16 * 1024 * 1024
/** Before that it gets no more logs and progress. */
const MAX_PASSING_BYTES = 4 * 1024 * 1024

/** A server-sent event stream on a response. Nothing is sent once it is closed, from either side. */
export interface Events {
  send(message: object): void
  event(name: string, data: string): void
  comment(): void
  end(): void
  readonly closed: boolean
}

/** Starts the stream: headers go out at once. */
export function openEvents(res: ServerResponse, headers: Readonly<Record<string, string>> = {}): Events {
  res.writeHead(200, {
    'content-type': 'text/event-stream',
    'cache-control': 'no-cache, no-transform',
    'x-accel-buffering': 'no',
    ...headers,
  })
  res.flushHeaders()
  const write = (...pieces: readonly (string | Buffer)[]): void => {
    if (res.writableEnded || res.destroyed) return
    res.cork()
    for (const piece of pieces) res.write(piece)
    res.uncork()
    if (res.writableLength > MAX_WAITING_BYTES) res.destroy()
  }
  return {
    send: (message) => {
      if (isPassing(message) && res.writableLength >= MAX_PASSING_BYTES) return
      write('event: message\ndata: ', ...piecesOf(message), '\n\n')
    },
    event: (name, data) => write(`event: ${name}\ndata: ${data}\n\n`),
    comment: () => write(': keepalive\n\n'),
    end: () => void res.end(),
    get closed() {
      return res.writableEnded || res.destroyed
    },
  }
}

/** One timer for everything that wants to be woken every `KEEP_ALIVE_MS`; none while nothing does. */
export interface Pulse {
  add(fn: () => void): () => void
}

export function createPulse(clock: Clock, everyMs = KEEP_ALIVE_MS): Pulse {
  const listeners = new Set<() => void>()
  let armed = false
  const arm = (): void => {
    armed = true
    clock.after(everyMs, () => {
      for (const listener of [...listeners]) listener()
      armed = false
      if (listeners.size > 0) arm()
    })
  }
  return {
    add(fn) {
      listeners.add(fn)
      if (!armed) arm()
      return () => listeners.delete(fn)
    },
  }
}

/** Counts open streams of each principal. */
export interface Slots {
  /** The function that frees the slot, or undefined when the principal has no more. */
  take(principal: string): (() => void) | undefined
  readonly size: number
}

export function createSlots(max: number): Slots {
  const taken = new Map<string, number>()
  return {
    get size() {
      return [...taken.values()].reduce((sum, one) => sum + one, 0)
    },
    take(principal) {
      const count = taken.get(principal) ?? 0
      if (count >= max) return undefined
      taken.set(principal, count + 1)
      let free = false
      return () => {
        if (free) return
        free = true
        const left = (taken.get(principal) ?? 1) - 1
        if (left === 0) taken.delete(principal)
        else taken.set(principal, left)
      }
    },
  }
}
