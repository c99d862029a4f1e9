const NEWLINE = 0x0a
const SAMPLE = 1024

// Small chunks are joined when there are this many, because a byte-by-byte stream would cost a hundred bytes per
// byte.
const MANY = 1_024
const SMALL = 256

export interface LineReaderHandlers {
  /** A line without its newline, and the chunks it came in. Keep the chunks rather than the line, which may be a copy. */
  frame(line: Buffer, parts: readonly Buffer[]): void
  /** The current line exceeds the limit; the rest of it is discarded. */
  overrun?(): void
  /** An oversized line has ended; only its first and last kilobyte were kept. */
  oversize(head: Buffer, tail: Buffer, bytes: number): void
}

/**
 * Splits a byte stream into lines. Lines over `maxBytes` are discarded without buffering them. An error of a handler
 * is thrown after the rest of the chunk is processed.
 * @param maxBytes limit, or a function that returns true if a line with this many bytes is too long
 */
export function createLineReader(
  maxBytes: number | ((bytes: number) => boolean),
  handlers: LineReaderHandlers,
): (chunk: Buffer) => void {
  const isOver = typeof maxBytes === 'number' ? (bytes: number) => bytes > maxBytes : maxBytes
  let parts: Buffer[] = []
  let size = 0
  /** Number of chunks that are already joined, and the bytes after them. */
  let joinedChunks = 0
  let unjoinedBytes = 0
  let dropped: { head: Buffer; tail: Buffer } | undefined

  const keep = (piece: Buffer): void => {
    if (piece.length === 0) return
    size += piece.length
    if (!dropped && isOver(size)) {
      // Copies, because a slice would keep the whole chunk in memory.
      dropped = {
        head: Buffer.from((parts[0] ?? piece).subarray(0, SAMPLE)),
        tail: Buffer.from((parts.at(-1) ?? piece).subarray(-SAMPLE)),
      }
      parts = []
      handlers.overrun?.()
    }
    if (dropped) dropped.tail = Buffer.from(Buffer.concat([dropped.tail, piece.subarray(-SAMPLE)]).subarray(-SAMPLE))
    else {
      parts.push(piece)
      unjoinedBytes += piece.length
      if (parts.length - joinedChunks >= MANY) join()
    }
  }

  const join = (): void => {
    if (unjoinedBytes < MANY * SMALL) parts.push(Buffer.concat(parts.splice(joinedChunks)))
    joinedChunks = parts.length
    unjoinedBytes = 0
  }

  const end = (): void => {
    const [chunks, length, oversized] = [parts, size, dropped]
    // Reset first, so that an error in a handler does not affect the next line.
    parts = []
    size = 0
    joinedChunks = 0
    unjoinedBytes = 0
    dropped = undefined
    if (oversized) handlers.oversize(oversized.head, oversized.tail, length)
    else if (chunks.length > 0)
      handlers.frame(chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks, length), chunks)
  }

  return (chunk) => {
    let from = 0
    let failure: { readonly error: unknown } | undefined
    for (;;) {
      const at = chunk.indexOf(NEWLINE, from)
      if (at === -1) break
      keep(chunk.subarray(from, at))
      try {
        end()
      } catch (error) {
        failure ??= { error }
      }
      from = at + 1
    }
    if (from < chunk.length) keep(from === 0 ? chunk : chunk.subarray(from))
    if (failure) throw failure.error
  }
}
