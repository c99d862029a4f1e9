/** A list of listeners. `emit` calls them in order; the function `listen` returns removes one. */
export interface Emitter<Args extends readonly unknown[]> {
  listen(fn: (...args: Args) => void): () => void
  emit(...args: Args): void
}

export function createEmitter<Args extends readonly unknown[]>(): Emitter<Args> {
  const listeners = new Set<(...args: Args) => void>()
  return {
    listen(fn) {
      listeners.add(fn)
      return () => listeners.delete(fn)
    },
    emit(...args) {
      for (const fn of [...listeners]) fn(...args)
    },
  }
}
