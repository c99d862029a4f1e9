import type { Clock } from '../core/clock.ts'

/** Starts work a few items at a time. */
export type StartQueue = ReturnType<typeof createStartQueue>

export interface StartQueueOptions {
  readonly maxConcurrent: number
  /** After this long an unfinished item no longer blocks the next. */
  readonly longestMs: number
  /** If all slots have been taken for this long while someone waits, as many more items may start. */
  readonly impatientMs: number
}

interface Turn {
  readonly work: () => Promise<void>
  readonly skip?: () => boolean
}

export function createStartQueue(clock: Clock, { maxConcurrent, longestMs, impatientMs }: StartQueueOptions) {
  const urgent: Turn[] = []
  const waiting: Turn[] = []
  let taken = 0
  let impatient = false

  function next(): void {
    while (taken < maxConcurrent) {
      const turn = urgent.shift() ?? waiting.shift()
      if (!turn) break
      if (!turn.skip?.()) begin(turn)
    }
    if (urgent.length === 0 || impatient) return
    impatient = true
    clock.after(impatientMs, startMore)
  }

  function startMore(): void {
    impatient = false
    for (const turn of urgent.splice(0, maxConcurrent)) begin(turn)
    next()
  }

  function begin({ work }: Turn): void {
    taken++
    let isDone = false
    const done = (): void => {
      if (isDone) return
      isDone = true
      stop()
      taken--
      next()
    }
    const stop = clock.after(longestMs, done)
    work().then(done, done)
  }

  return {
    /** True while an item runs that is not overdue. */
    get busy(): boolean {
      return taken > 0
    },
    /** Queues work; `skip` is called when its turn comes and tells whether it is no longer needed. */
    take(work: () => Promise<void>, skip: () => boolean): void {
      waiting.push({ work, skip })
      next()
    },
    /** Queues work before all work without a waiting caller. */
    first(work: () => Promise<void>): void {
      urgent.push({ work })
      next()
    },
  }
}
