const NEWLINE = 0x0a
const SAMPLE = 1024

const MAX_SHARED = 4 * 1024 * 1024
// One for all streams, because a line is read in one go. New memory for every long line would cost more than reading it.
let shared: Buffer | undefined

function joined(parts: readonly Buffer[], length: number): Buffer {
  if (parts.length === 1) return parts[0] as Buffer
  if (length > MAX_SHARED) return Buffer.concat(parts, length)
  if (shared === undefined || shared.length < length)
    shared = Buffer.allocUnsafeSlow(Math.min(MAX_SHARED, Math.max(256 * 1024, 2 * length)))
  let at = 0
  for (const part of parts) at += part.copy(shared, at)
  return shared.subarray(0, length)
}

// A stream that comes byte by byte would cost a hundred bytes for each: pieces are joined when so many of them are small.
const MANY = 1_024
const SMALL = 256

export interface FrameHandlers {
  /**
   * One line without its newline, and the chunks it came in. The line lies in memory that the next one is put into: read
   * it before anything else happens. The chunks may be kept.
   */
  frame(line: Buffer, parts: readonly Buffer[]): void
  /** The line that is coming is longer than the limit: what comes until it ends is thrown away. */
  overrun?(): void
  /** A line longer than the limit ended; only its first and last kilobyte were kept. */
  oversize(head: Buffer, tail: Buffer, bytes: number): void
}

/**
 * Cuts a byte stream at newlines. Lines over `maxBytes` are dropped without being held in memory. What a handler throws
 * is thrown on once the rest of the chunk has been read.
 * @param maxBytes or whether a line that is coming has come too far, asked as it grows
 */
export function createFrames(
  maxBytes: number | ((bytes: number) => boolean),
  handlers: FrameHandlers,
): (chunk: Buffer) => void {
  const isOver = typeof maxBytes === 'number' ? (bytes: number) => bytes > maxBytes : maxBytes
  let parts: Buffer[] = []
  let size = 0
  /** How many of the parts are not joined again, and the bytes of those after them. */
  let joinedTo = 0
  let young = 0
  let dropped: { head: Buffer; tail: Buffer } | undefined

  const keep = (piece: Buffer): void => {
    if (piece.length === 0) return
    size += piece.length
    if (!dropped && isOver(size)) {
      // Copies: a slice would keep the whole chunk alive.
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
      young += piece.length
      if (parts.length - joinedTo >= MANY) join()
    }
  }

  /** Makes one piece of those that came since the last time, where they are small. */
  const join = (): void => {
    if (young < MANY * SMALL) parts.push(Buffer.concat(parts.splice(joinedTo)))
    joinedTo = parts.length
    young = 0
  }

  const end = (): void => {
    const [whole, length, cut] = [parts, size, dropped]
    // First, so that a handler that throws leaves nothing of its line to the next.
    parts = []
    size = 0
    joinedTo = 0
    young = 0
    dropped = undefined
    if (cut) handlers.oversize(cut.head, cut.tail, length)
    else if (whole.length > 0) handlers.frame(joined(whole, length), whole)
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
