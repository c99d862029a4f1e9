import { offEnd, onEnd, type Stop } from './ending.ts'

export interface Limit {
  readonly signal: AbortSignal
  /** It ended because the time was over. */
  readonly late: boolean
  /** Nobody waits for it any more. May be called twice; the end of the time does the same. */
  free(): void
}

/**
 * A signal that ends with another, or after so long. Node 20 keeps what `AbortSignal.any` derives from a signal until that goes
 * itself, which for one of a module or a connection may be in weeks: here nothing is left of those that are over.
 */
export function limited(stop: Stop | undefined, ms: number): Limit {
  const ending = new AbortController()
  let late = false
  const timer = setTimeout(() => {
    late = true
    free()
    ending.abort(new DOMException('The operation was aborted due to timeout', 'TimeoutError'))
  }, ms)
  timer.unref()
  const end = (): void => {
    free()
    ending.abort(stop?.reason)
  }
  function free(): void {
    clearTimeout(timer)
    if (stop) offEnd(stop, end)
  }
  if (stop?.aborted) end()
  else if (stop) onEnd(stop, end)
  return {
    signal: ending.signal,
    get late() {
      return late
    },
    free,
  }
}
