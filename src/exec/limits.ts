import { PegboardError } from '../core/errors.ts'

export interface Slots {
  /** Takes a slot, waiting in line for one. @throws PegboardError E_OVERLOADED when the line is full */
  take(): Promise<void> | undefined
  release(): void
}

/** Bounds how much runs at once. `take` answers `undefined`, without a promise, while there is room. */
export function createSlots(maxConcurrent: number, maxQueued: number): Slots {
  let running = 0
  const waiting: Array<() => void> = []
  return {
    take() {
      if (running < maxConcurrent) {
        running++
        return undefined
      }
      if (waiting.length >= maxQueued)
        throw new PegboardError('E_OVERLOADED', `${running} calls are running and ${waiting.length} wait.`, {
          retryAfterMs: 1_000,
        })
      return new Promise((resolve) => waiting.push(resolve))
    },
    release() {
      const next = waiting.shift()
      if (next) next()
      else running--
    },
  }
}
