import type { Clock } from '../core/clock.ts'
import type { Log } from '../core/log.ts'
import { type Catalog, clashSentence } from './catalog.ts'

const CLASH_DELAY_MS = 1_000

/** A clash is told once, whatever changes around it; after a moment, because finding it puts all tools in order. */
export function warnOfClashes(catalog: Catalog, log: Log, clock: Clock): () => void {
  const told = new Set<string>()
  let cancel: (() => void) | undefined
  let changedAt = 0
  // One timer for all owners of a start: making a new one with each takes as long as putting it into the catalogue.
  const wait = (ms: number): void => {
    cancel = clock.after(ms, () => {
      cancel = undefined
      const leftMs = changedAt + CLASH_DELAY_MS - clock.now()
      if (leftMs > 0) wait(leftMs)
      else look()
    })
  }
  const look = (): void => {
    for (const sentence of catalog.snapshot().clashes.map(clashSentence)) {
      if (told.has(sentence)) continue
      told.add(sentence)
      log.warn(sentence, { code: 'E_NAME_TAKEN' })
    }
  }
  const stop = catalog.onChange(() => {
    changedAt = clock.now()
    if (!cancel) wait(CLASH_DELAY_MS)
  })
  return () => {
    cancel?.()
    stop()
  }
}
