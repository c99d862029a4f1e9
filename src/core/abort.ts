import { setMaxListeners } from 'node:events'

/**
 * Aborts a controller, with the same reason, as soon as a signal is aborted. `AbortSignal.any` would leak memory: in Node 20, a
 * signal that outlives many calls keeps all signals that were derived from it.
 *
 * @param source signal to listen to; nothing happens without one
 * @returns removes the listener; may be called more than once
 * @example
 * const unlink = linkAbort(request.signal, controller)
 * try { await work(controller.signal) } finally { unlink() }
 */
export function linkAbort(source: AbortSignal | undefined, controller: AbortController): () => void {
  if (!source) return () => undefined
  const abort = (): void => controller.abort(source.reason)
  if (source.aborted) abort()
  else {
    // Node warns of a leak at eleven listeners, but many calls can listen to one signal.
    setMaxListeners(0, source)
    source.addEventListener('abort', abort, { once: true })
  }
  return () => source.removeEventListener('abort', abort)
}

export interface TimedSignal {
  readonly signal: AbortSignal
  /** True if the time limit aborted the signal, not `source`. */
  readonly timedOut: boolean
  /** Stops the timer and removes the listener. May be called more than once. */
  free(): void
}

/**
 * Creates a signal that aborts when `source` aborts, or with a `TimeoutError` after `ms`.
 *
 * @param source signal to listen to; absent: only the time limit aborts
 * @param ms time limit in milliseconds; its timer does not keep the process alive
 */
export function abortAfter(source: AbortSignal | undefined, ms: number): TimedSignal {
  const controller = new AbortController()
  let timedOut = false
  const timer = setTimeout(() => {
    unlink()
    timedOut = !controller.signal.aborted
    controller.abort(new DOMException('The operation was aborted due to timeout', 'TimeoutError'))
  }, ms)
  timer.unref()
  const unlink = linkAbort(source, controller)
  return {
    signal: controller.signal,
    get timedOut() {
      return timedOut
    },
    free() {
      clearTimeout(timer)
      unlink()
    },
  }
}

/**
 * Waits for work, or rejects as soon as the signal is aborted. The work continues, for example because others wait for
 * it too.
 *
 * @param reason value to reject with; default: the signal's reason
 */
export async function raceAbort<T>(
  work: Promise<T>,
  signal: AbortSignal | undefined,
  reason: (signal: AbortSignal) => unknown = ({ reason }) => reason,
): Promise<T> {
  if (!signal) return await work
  return await new Promise((resolve, reject) => {
    const abort = (): void => reject(reason(signal))
    if (signal.aborted) abort()
    signal.addEventListener('abort', abort, { once: true })
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort))
  })
}
