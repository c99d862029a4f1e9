import { isUtf8 } from 'node:buffer'
import { createFrames } from '../core/frames.ts'

export interface LineHandlers {
  line(text: string): void
  /** A line longer than the limit; it was skipped and reading goes on with the next. `id` is its own where that is sure. */
  tooLong(maxBytes: number, id: string | number | null): void
  /** A line that is not UTF-8. */
  malformed(): void
}

const CARRIAGE_RETURN = 13

/** Cuts a byte stream into lines of text; empty ones are left out. */
export function createFraming(maxBytes: number, handlers: LineHandlers): (chunk: Buffer) => void {
  return createFrames(maxBytes, {
    frame(line) {
      const text = line.at(-1) === CARRIAGE_RETURN ? line.subarray(0, -1) : line
      if (text.length === 0) return
      if (isUtf8(text)) handlers.line(text.toString('utf8'))
      else handlers.malformed()
    },
    oversize: (head, tail) => handlers.tooLong(maxBytes, idOf(head.toString('latin1'), tail.toString('latin1'))),
  })
}

// Only as the first keys or the very last: there nothing but the message itself can have them.
const FIRST = /^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(-?\d{1,15}|"[\w:.-]{1,100}")\s*,/
const LAST = /,\s*"id"\s*:\s*(-?\d{1,15}|"[\w:.-]{1,100}")\s*\}\s*$/

/** The id of a message of which only both ends are there, so that whoever sent it need not wait for its time-out. */
function idOf(head: string, tail: string): string | number | null {
  const found = (FIRST.exec(head) ?? LAST.exec(tail))?.[1]
  return found === undefined ? null : (JSON.parse(found) as string | number)
}
