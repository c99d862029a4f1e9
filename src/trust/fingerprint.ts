import { digestOf } from '../core/canonical.ts'
import type { Json } from '../core/is-record.ts'

/** Digest of the whole definition, as in the lock file. Includes `_meta` and icons, because clients receive those too. */
export const fingerprint = (definition: Json): string => digestOf(definition)
