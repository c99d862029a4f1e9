/** A list of listeners. `emit` calls them in order. `listen` adds one, and returns a function that removes it. */
export function createEmitter<Args extends readonly unknown[]>() {
  const listeners = new Set<(...args: Args) => void>()
  return {
    listen(fn: (...args: Args) => void): () => void {
      listeners.add(fn)
      return () => listeners.delete(fn)
    },
    emit(...args: Args): void {
      for (const fn of [...listeners]) fn(...args)
    },
  }
}
