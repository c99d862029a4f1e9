import { PegboardError } from './errors.ts'
import { getOrInsert } from './get-or-insert.ts'
import type { Capacity } from './tool.ts'

export interface Semaphore {
  /**
   * Acquires a slot, waiting if necessary. If the signal aborts, the call leaves the queue and rejects with the signal's reason.
   * @param who each value has its own queue; queues are served in turn, and when the queue is full the longest one
   * loses its last entry. A value never has more than `share` of the slots, and leaves the rest to others; calls without a value
   * may have all.
   * @throws PegboardError E_OVERLOADED if the queue is full
   */
  acquire(signal: AbortSignal, who?: string): Promise<void> | undefined
  release(who?: string): void
  /** Whether `acquire` would not wait. */
  isFree(who?: string): boolean
  readonly running: number
  readonly waiting: number
  /** Takes a released slot back, even beyond the limit, because running work must not queue again. */
  reacquire(who?: string): void
}

/** Share of the slots that one principal leaves to others. Otherwise its slow calls make everybody else wait. */
const LEFT_TO_OTHERS = 1 / 8

/**
 * Limits concurrency. `acquire` returns `undefined`, without a promise, while a slot is free. Each queue is first in,
 * first out.
 * @param setting named in the error when the queue is full
 */
export function createSemaphore({ maxConcurrent, maxQueued, setting, share: configuredShare }: Capacity): Semaphore {
  let running = 0
  let waiting = 0
  // In the order in which they are served next. A Set keeps the order and allows removal from the middle.
  const queues = new Map<string, Set<QueuedCall>>()
  const runningByOwner = new Map<string, number>()
  const share = configuredShare ?? maxConcurrent - Math.floor(maxConcurrent * LEFT_TO_OTHERS)
  const mayEnter = (who: string): boolean =>
    running < maxConcurrent && (who === '' || (runningByOwner.get(who) ?? 0) < share)
  const countSlot = (who: string, by: 1 | -1): void => {
    running += by
    const count = (runningByOwner.get(who) ?? 0) + by
    if (count > 0) runningByOwner.set(who, count)
    else runningByOwner.delete(who)
  }

  const createOverloadError = (): PegboardError =>
    new PegboardError('E_OVERLOADED', `${running} calls are running and ${waiting} wait.`, {
      hint: setting === '' ? 'Try again later.' : `Try again later, or raise ${setting}.`,
      retryAfterMs: 1_000,
    })

  function leave(who: string, call: QueuedCall): void {
    const queue = queues.get(who)
    if (!queue?.delete(call)) return
    waiting--
    if (queue.size === 0) queues.delete(who)
  }

  /** @throws PegboardError if no queue is longer than this one would be */
  function makeRoom(who: string): void {
    let [longest, size] = ['', (queues.get(who)?.size ?? 0) + 1]
    for (const [name, queue] of queues) if (queue.size > size) [longest, size] = [name, queue.size]
    const last = [...(queues.get(longest) ?? [])].at(-1)
    if (longest === who || !last) throw createOverloadError()
    leave(longest, last)
    last.giveUp(createOverloadError())
  }

  /** A queue is served last after its owner got or released a slot. */
  function moveToEnd(who: string): void {
    const queue = queues.get(who)
    if (queue && queues.delete(who)) queues.set(who, queue)
  }

  return {
    acquire(signal, who = '') {
      if (mayEnter(who)) {
        countSlot(who, 1)
        return undefined
      }
      if (waiting >= maxQueued) makeRoom(who)
      if (signal.aborted) return Promise.reject(signal.reason)
      return new Promise((resolve, reject) => {
        const onAbort = (): void => {
          leave(who, call)
          reject(signal.reason)
        }
        const call: QueuedCall = {
          enter() {
            signal.removeEventListener('abort', onAbort)
            resolve()
          },
          giveUp(error) {
            signal.removeEventListener('abort', onAbort)
            reject(error)
          },
        }
        signal.addEventListener('abort', onAbort, { once: true })
        getOrInsert(queues, who, () => new Set()).add(call)
        waiting++
      })
    },
    reacquire: (who = '') => countSlot(who, 1),
    isFree: (who = '') => mayEnter(who),
    get running() {
      return running
    },
    get waiting() {
      return waiting
    },
    release(who = '') {
      countSlot(who, -1)
      moveToEnd(who)
      for (const [next, queue] of queues) {
        if (!mayEnter(next)) continue
        const [call] = queue as ReadonlySet<QueuedCall>
        leave(next, call as QueuedCall)
        moveToEnd(next)
        countSlot(next, 1)
        call?.enter()
        return
      }
    },
  }
}

const semaphores = new WeakMap<Capacity, Semaphore>()

/** One semaphore for everything that shares this object. */
export const semaphoreOf = (capacity: Capacity): Semaphore =>
  getOrInsert(semaphores, capacity, () => createSemaphore(capacity))

interface QueuedCall {
  enter(): void
  giveUp(error: PegboardError): void
}
