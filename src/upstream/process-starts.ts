/**
 * Starts processes one per turn of the event loop. Starting one takes as long as many calls, longer on a busy
 * machine, so ten in a row would block everything else.
 */
export interface Starts {
  /** Resolves when the caller may start a process. */
  turn(): Promise<void>
}

export function createStarts(): Starts {
  let isFree = true
  const waiting: Array<() => void> = []

  function next(): void {
    const one = waiting.shift()
    isFree = one === undefined
    if (!one) return
    setImmediate(next)
    one()
  }

  return {
    turn: () =>
      new Promise((resolve) => {
        waiting.push(resolve)
        if (isFree) next()
      }),
  }
}
