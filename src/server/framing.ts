import { isUtf8 } from 'node:buffer'

export interface FrameHandlers {
  line(text: string): void
  /** A line longer than the limit; it was skipped and reading goes on with the next. */
  tooLong(maxBytes: number): void
  /** A line that is not UTF-8. */
  malformed(): void
}

/** Cuts a byte stream into lines. A line over `maxBytes` is thrown away as it comes, so memory stays bounded. */
export function createFraming(maxBytes: number, handlers: FrameHandlers): (chunk: Buffer) => void {
  let parts: Buffer[] = []
  let held = 0
  let skipping = false

  const finish = (line: Buffer): void => {
    const end = line.length > 0 && line[line.length - 1] === 13 ? line.length - 1 : line.length
    if (end === 0) return
    const text = end === line.length ? line : line.subarray(0, end)
    if (isUtf8(text)) handlers.line(text.toString('utf8'))
    else handlers.malformed()
  }

  return (chunk) => {
    let start = 0
    for (;;) {
      const at = chunk.indexOf(10, start)
      const piece = chunk.subarray(start, at < 0 ? chunk.length : at)
      if (!skipping && held + piece.length > maxBytes) {
        skipping = true
        parts = []
        held = 0
        handlers.tooLong(maxBytes)
      }
      if (at < 0) {
        if (!skipping && piece.length > 0) {
          parts.push(piece)
          held += piece.length
        }
        return
      }
      if (skipping) skipping = false
      else if (parts.length === 0) finish(piece)
      else {
        parts.push(piece)
        const line = Buffer.concat(parts)
        parts = []
        held = 0
        finish(line)
      }
      start = at + 1
    }
  }
}
