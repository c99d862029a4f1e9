import { offEnd, onEnd, type Stop } from '../core/ending.ts'
import { PegboardError } from '../core/errors.ts'
import type { Capacity } from '../core/tool.ts'

export interface Slots {
  /**
   * Takes a slot, waiting in line for one; whoever gives up leaves the line and gets the signal's reason.
   * @throws PegboardError E_OVERLOADED when the line is full
   */
  take(signal: Stop): Promise<void> | undefined
  release(): void
  /** Goes on with a slot given up for a while, over the bound if need be: what has begun is not put in line again. */
  retake(): void
}

/**
 * Bounds how much runs at once. `take` answers `undefined`, without a promise, while there is room. First in, first out.
 * @param setting named to whoever finds the line full
 */
export function createSlots({ maxConcurrent, maxQueued, setting }: Capacity): Slots {
  let running = 0
  // A set keeps the order, and lets anybody leave from the middle at once.
  const waiting = new Set<() => void>()
  return {
    take(signal) {
      if (running < maxConcurrent) {
        running++
        return undefined
      }
      if (waiting.size >= maxQueued)
        throw new PegboardError('E_OVERLOADED', `${running} calls are running and ${waiting.size} wait.`, {
          hint: `Try again later, or raise ${setting}.`,
          retryAfterMs: 1_000,
        })
      if (signal.aborted) return Promise.reject(signal.reason)
      return new Promise((resolve, reject) => {
        const leave = (): void => {
          waiting.delete(enter)
          reject(signal.reason)
        }
        const enter = (): void => {
          offEnd(signal, leave)
          resolve()
        }
        onEnd(signal, leave)
        waiting.add(enter)
      })
    },
    retake: () => void running++,
    release() {
      // What was retaken over the bound makes way first.
      const next: (() => void) | undefined = running > maxConcurrent ? undefined : waiting.values().next().value
      if (next) {
        waiting.delete(next)
        next()
      } else running--
    },
  }
}
