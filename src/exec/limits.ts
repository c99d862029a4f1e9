import { PegboardError } from '../core/errors.ts'

export interface Slots {
  /**
   * Takes a slot, waiting in line for one; whoever gives up leaves the line and gets the signal's reason.
   * @throws PegboardError E_OVERLOADED when the line is full
   */
  take(signal: AbortSignal): Promise<void> | undefined
  release(): void
  /** Goes on with a slot given up for a while, over the bound if need be: what has begun is not put in line again. */
  retake(): void
}

/** Bounds how much runs at once. `take` answers `undefined`, without a promise, while there is room. */
export function createSlots(maxConcurrent: number, maxQueued: number): Slots {
  let running = 0
  const waiting: Array<() => void> = []
  return {
    take(signal) {
      if (running < maxConcurrent) {
        running++
        return undefined
      }
      if (waiting.length >= maxQueued)
        throw new PegboardError('E_OVERLOADED', `${running} calls are running and ${waiting.length} wait.`, {
          retryAfterMs: 1_000,
        })
      return new Promise((resolve, reject) => {
        const leave = (): void => {
          waiting.splice(waiting.indexOf(enter), 1)
          reject(signal.reason)
        }
        const enter = (): void => {
          signal.removeEventListener('abort', leave)
          resolve()
        }
        signal.addEventListener('abort', leave, { once: true })
        waiting.push(enter)
      })
    },
    retake: () => void running++,
    release() {
      // What was retaken over the bound makes way first.
      const next = running > maxConcurrent ? undefined : waiting.shift()
      if (next) next()
      else running--
    },
  }
}
