import type { Clock } from '../core/clock.ts'
import type { Log } from '../core/log.ts'
import { type Catalog, clashSentence } from './catalog.ts'

const CLASH_DELAY_MS = 1_000

/** A clash is told once, whatever changes around it; after a moment, because finding it puts all tools in order. */
export function warnOfClashes(catalog: Catalog, log: Log, clock: Clock): () => void {
  const told = new Set<string>()
  let cancel: (() => void) | undefined
  const look = (): void => {
    for (const sentence of catalog.snapshot().clashes.map(clashSentence)) {
      if (told.has(sentence)) continue
      told.add(sentence)
      log.warn(sentence, { code: 'E_NAME_TAKEN' })
    }
  }
  const stop = catalog.onChange(() => {
    cancel?.()
    cancel = clock.after(CLASH_DELAY_MS, look)
  })
  return () => {
    cancel?.()
    stop()
  }
}
