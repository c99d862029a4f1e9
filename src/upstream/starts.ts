/**
 * Starts processes one in each turn of the loop. To start one takes this process as long as many calls, and longer on a
 * busy machine: ten in a row would hold up everything else.
 */
export interface Starts {
  /** Resolves when the caller may start one. */
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
