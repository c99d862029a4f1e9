import type { Clock } from '../core/clock.ts'
import type { Log } from '../core/log.ts'
import type { Catalog } from './catalog.ts'
import { clashSentence } from './name-clashes.ts'
import { warnWhenQuiet } from './warn-when-quiet.ts'

/** Logs each clash of names once. Returns a function that stops logging. */
export const warnOfClashes = (catalog: Catalog, log: Log, clock: Clock): (() => void) =>
  warnWhenQuiet({
    catalog,
    clock,
    quietMs: 1_000,
    find: () => catalog.snapshot().clashes.map(clashSentence),
    warn: (sentence) => log.warn(sentence, { code: 'E_NAME_TAKEN' }),
  })
