import index from './data/index.json' with { type: 'json' }
import type { Entry } from './search.ts'

export const entries: readonly Entry[] = index.entries
