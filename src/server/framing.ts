import { isUtf8 } from 'node:buffer'
import { createFrames } from '../core/frames.ts'

export interface LineHandlers {
  line(text: string): void
  /** A line longer than the limit; it was skipped and reading goes on with the next. */
  tooLong(maxBytes: number): void
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
    oversize: () => handlers.tooLong(maxBytes),
  })
}
