/** Resolves when the caller may start a process. */
export type SpawnQueue = () => Promise<void>

/**
 * Starts processes one per turn of the event loop. Starting one takes as long as many calls, longer on a busy
 * machine, so ten in a row would block everything else.
 */
export function createSpawnQueue(): SpawnQueue {
  let isFree = true
  const waiting: Array<() => void> = []

  function next(): void {
    const start = waiting.shift()
    isFree = start === undefined
    if (!start) return
    setImmediate(next)
    start()
  }

  return () =>
    new Promise((resolve) => {
      waiting.push(resolve)
      if (isFree) next()
    })
}
