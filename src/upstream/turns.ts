import type { Clock } from '../core/clock.ts'

/** Lets work begin a few at a time. */
export interface Turns {
  /** Some of it is being done, and has not taken too long. */
  readonly busy: boolean
  /** Runs `work` when it is its turn; `skip` is asked then whether it is still wanted. */
  take(work: () => Promise<void>, skip: () => boolean): void
  /** The same before all that nobody waits for. */
  first(work: () => Promise<void>): void
}

export interface TurnsOptions {
  /** How many may be at it at once. */
  readonly places: number
  /** After so long the next may begin although one is not done: one that hangs holds nobody up. */
  readonly longestMs: number
  /** How long all places may be taken before somebody waits in vain: then as many more begin. */
  readonly impatientMs: number
}

interface Turn {
  readonly work: () => Promise<void>
  readonly skip?: () => boolean
}

export function createTurns(clock: Clock, { places, longestMs, impatientMs }: TurnsOptions): Turns {
  const urgent: Turn[] = []
  const waiting: Turn[] = []
  let taken = 0
  let impatient = false

  function next(): void {
    while (taken < places) {
      const one = urgent.shift() ?? waiting.shift()
      if (!one) break
      if (!one.skip?.()) begin(one)
    }
    if (urgent.length === 0 || impatient) return
    impatient = true
    clock.after(impatientMs, more)
  }

  function more(): void {
    impatient = false
    for (const one of urgent.splice(0, places)) begin(one)
    next()
  }

  function begin({ work }: Turn): void {
    taken++
    let over = false
    const done = (): void => {
      if (over) return
      over = true
      stop()
      taken--
      next()
    }
    const stop = clock.after(longestMs, done)
    work().then(done, done)
  }

  return {
    get busy() {
      return taken > 0
    },
    take(work, skip) {
      waiting.push({ work, skip })
      next()
    },
    first(work) {
      urgent.push({ work })
      next()
    },
  }
}
