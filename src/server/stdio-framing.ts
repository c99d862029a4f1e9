import { isUtf8 } from 'node:buffer'
import { createLineReader } from '../core/line-reader.ts'

export interface LineHandlers {
  line(text: string): void
  /** A line over the limit, which was skipped. @param id its id, or null if it is not certain */
  tooLong(id: string | number | null): void
  /** A line that is not UTF-8. */
  malformed(): void
}

const CARRIAGE_RETURN = 13

/** Splits a byte stream into lines of text, without empty ones. */
export function createFraming(maxBytes: number, handlers: LineHandlers): (chunk: Buffer) => void {
  return createLineReader(maxBytes, {
    frame(line) {
      const text = line.at(-1) === CARRIAGE_RETURN ? line.subarray(0, -1) : line
      if (text.length === 0) return
      if (isUtf8(text)) handlers.line(text.toString('utf8'))
      else handlers.malformed()
    },
    oversize: (head, tail) => handlers.tooLong(idOf(head.toString('latin1'), tail.toString('latin1'))),
  })
}

// As the first or last key: there it belongs to the message itself.
const FIRST = /^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(-?\d{1,15}|"[\w:.-]{1,100}")\s*,/
const LAST = /,\s*"id"\s*:\s*(-?\d{1,15}|"[\w:.-]{1,100}")\s*\}\s*$/

/** The id of a message by its first and last bytes, so that its client need not wait for a timeout. */
function idOf(head: string, tail: string): string | number | null {
  const found = (FIRST.exec(head) ?? LAST.exec(tail))?.[1]
  return found === undefined ? null : (JSON.parse(found) as string | number)
}
