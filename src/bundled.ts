import { z as zod } from './index.ts'
import { deferred } from './loader/deferred.ts'

/** What the bundled modules get as `pegboard`: most starts check no value of theirs, and need no zod. */
export * from './index.ts'
export const z = deferred(() => zod)
