import { once } from './once.ts'
import { withoutUnseen } from './unseen.ts'

// Lines and tabs are text. So are the joiners U+200C and U+200D, which scripts and emoji need.
const unseen = once(() => /(?![\n\t])\p{Cc}|[\u061C\u200E\u200F\u202A-\u202E\u2066-\u2069]|[\u{E0000}-\u{E007F}]/gu)

/** What a server wrote for people and models as a terminal may show it: without what neither can see, and without carriage returns. */
export const plain = (text: string): string =>
  PLAIN.test(text) ? text : withoutUnseen(text.replaceAll('\r\n', '\n')).replaceAll(unseen(), '')

/** JSON with the same characters written as `\\u…`: whoever parses it misses nothing, and no terminal obeys it. */
export const plainJson = (json: string): string =>
  PLAIN.test(json)
    ? json
    : json.replaceAll(unseen(), (character) =>
        character
          .split('')
          .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
          .join(''),
      )

/** Nearly every text, which is told at a tenth of the cost. */
const PLAIN = /^[\x20-\x7e\n\t]*$/
