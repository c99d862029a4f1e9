import type { ServerResponse } from 'node:http'
import type { Clock } from '../core/clock.ts'
import { once } from '../core/once.ts'
import { isDroppable } from './backpressure.ts'
import { HttpError } from './http-error.ts'
import { type Pieces, piecesOf } from './json-pieces.ts'

/** Interval of comments, in milliseconds, so that no proxy closes a quiet stream. */
export const KEEP_ALIVE_MS = 15_000
/** Unread bytes at which the connection is closed. */
const MAX_WAITING_BYTES = 16 * 1024 * 1024
/** Unread bytes at which log messages and progress are dropped. */
const MAX_DROPPABLE_BYTES = 4 * 1024 * 1024

/** A stream of server-sent events. After it closes, calls have no effect. */
export interface EventStream {
  send(message: object): void
  /** Sends a serialized message with an id. @param droppable whether it can be dropped */
  put(data: Pieces, id: string, droppable: boolean): void
  /** Sends an id and no message. */
  prime(id: string): void
  event(name: string, data: string): void
  comment(): void
  end(): void
  /** Closes the connection without sending the rest. */
  drop(): void
  readonly closed: boolean
}

export function openEventStream(res: ServerResponse, headers: Readonly<Record<string, string>> = {}): EventStream {
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
      if (isDroppable(message) && res.writableLength >= MAX_DROPPABLE_BYTES) return
      write('event: message\ndata: ', ...piecesOf(message), '\n\n')
    },
    put: (data, id, droppable) => {
      if (droppable && res.writableLength >= MAX_DROPPABLE_BYTES) return
      write(`event: message\nid: ${id}\ndata: `, ...data, '\n\n')
    },
    prime: (id) => write(`id: ${id}\ndata: \n\n`),
    event: (name, data) => write(`event: ${name}\ndata: ${data}\n\n`),
    comment: () => write(': keepalive\n\n'),
    end: () => void res.end(),
    drop: () => void res.destroy(),
    get closed() {
      return res.writableEnded || res.destroyed
    },
  }
}

/** Calls listeners at an interval, with one timer for all and none without listeners. */
export interface Pulse {
  add(fn: () => void): () => void
}

export function createPulse(clock: Clock, everyMs = KEEP_ALIVE_MS): Pulse {
  const listeners = new Set<() => void>()
  let isArmed = false
  const arm = (): void => {
    if (isArmed || listeners.size === 0) return
    isArmed = true
    clock.after(everyMs, () => {
      for (const listener of [...listeners]) listener()
      isArmed = false
      arm()
    })
  }
  return {
    add(fn) {
      listeners.add(fn)
      arm()
      return () => listeners.delete(fn)
    },
  }
}

/** Limits the open streams of each principal. */
export type StreamSlots = ReturnType<typeof createStreamSlots>

export function createStreamSlots(max: number) {
  const taken = new Map<string, number>()
  const hasRoom = (principal: string): boolean => (taken.get(principal) ?? 0) < max
  return {
    hasRoom,
    get size(): number {
      return [...taken.values()].reduce((sum, one) => sum + one, 0)
    },
    /** Takes a slot, and returns how to free it. @param id of the request; default null @throws HttpError 429 at the limit */
    take(principal: string, id?: string | number): () => void {
      if (!hasRoom(principal))
        throw new HttpError(429, 'Too many open streams', { id: id ?? null, headers: { 'retry-after': '30' } })
      taken.set(principal, (taken.get(principal) ?? 0) + 1)
      return once(() => {
        const remaining = (taken.get(principal) ?? 1) - 1
        if (remaining === 0) taken.delete(principal)
        else taken.set(principal, remaining)
      })
    },
  }
}
