import type { Clock } from '../core/clock.ts'
import type { Catalog } from './catalog.ts'

export interface WarnWhenQuietOptions {
  readonly catalog: Catalog
  readonly clock: Clock
  /** Time without a change of the catalog before `find` is called. */
  readonly quietMs: number
  /** Calls `find` even if nothing changes; default false. */
  readonly startNow?: boolean
  /** Returns sentences for the operator; undefined to be called again after `quietMs`. */
  find(): readonly string[] | undefined
  warn(sentence: string): void
}

/** Logs each sentence once. Waits for a quiet moment, because `find` reads all tools. Returns a function that stops logging. */
export function warnWhenQuiet({
  catalog,
  clock,
  quietMs,
  startNow = false,
  find,
  warn,
}: WarnWhenQuietOptions): () => void {
  const reported = new Set<string>()
  let cancel: (() => void) | undefined
  function schedule(): void {
    cancel?.()
    cancel = clock.after(quietMs, warnNow)
  }
  function warnNow(): void {
    const found = find()
    if (!found) {
      schedule()
      return
    }
    for (const sentence of found) {
      if (reported.has(sentence)) continue
      reported.add(sentence)
      warn(sentence)
    }
  }
  const stop = catalog.onChange(schedule)
  if (startNow) schedule()
  return () => {
    cancel?.()
    stop()
  }
}
