import { setTimeout as sleep } from 'node:timers/promises'

/** Resolves when the work is done, or after `ms`. @throws the signal's reason */
export async function waitFor(promise: Promise<unknown>, ms: number, signal: AbortSignal): Promise<void> {
  const waitEnded = new AbortController()
  const timeout = sleep(ms, undefined, { signal: AbortSignal.any([signal, waitEnded.signal]) })
  await Promise.race([promise, timeout.catch(() => signal.throwIfAborted())])
  waitEnded.abort()
}
