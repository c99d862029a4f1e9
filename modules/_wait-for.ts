import { setTimeout as sleep } from 'node:timers/promises'

/** Resolves when the work is done, or after `ms`. @throws the signal's reason */
export async function waitFor(done: Promise<unknown>, ms: number, signal: AbortSignal): Promise<void> {
  const over = new AbortController()
  const late = sleep(ms, undefined, { signal: AbortSignal.any([signal, over.signal]) })
  await Promise.race([done, late.catch(() => signal.throwIfAborted())])
  over.abort()
}
