import { escapeCodeUnits, escapeInvisible, removeInvisible } from './invisible-characters.ts'
import { once } from './once.ts'

// Line breaks and tabs are text, and so are the joiners U+200C and U+200D, which scripts and emoji need.
const unseen = once(() => /(?![\n\t])\p{Cc}|[\u061C\u200E\u200F\u202A-\u202E\u2066-\u2069]|[\u{E0000}-\u{E007F}]/gu)

/** Upstream text made safe for a terminal: removes invisible characters and carriage returns. */
export const toPrintable = (text: string): string =>
  PLAIN.test(text) ? text : removeInvisible(text.replaceAll('\r\n', '\n')).replaceAll(unseen(), '')

/**
 * JSON made safe for a terminal: invisible characters become `\\u…`, so that the text parses to the same value.
 */
export const toPrintableJson = (json: string): string =>
  PLAIN.test(json) ? json : escapeInvisible(json).replaceAll(unseen(), escapeCodeUnits)

/** Matches nearly every text, at a tenth of the cost. */
const PLAIN = /^[\x20-\x7e\n\t]*$/
