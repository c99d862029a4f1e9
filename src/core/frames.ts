const NEWLINE = 0x0a
const SAMPLE = 1024

export interface FrameHandlers {
  /** One line without its newline. The bytes may belong to a shared chunk: read them at once. */
  frame(line: Buffer): void
  /** A line longer than the limit ended; only its first and last kilobyte were kept. */
  oversize(head: Buffer, tail: Buffer, bytes: number): void
}

/**
 * Cuts a byte stream at newlines. Lines over `maxBytes` are dropped without being held in memory. What a handler throws
 * is thrown on once the rest of the chunk has been read.
 */
export function createFrames(maxBytes: number, handlers: FrameHandlers): (chunk: Buffer) => void {
  let parts: Buffer[] = []
  let size = 0
  let dropped: { head: Buffer; tail: Buffer } | undefined

  const keep = (piece: Buffer): void => {
    if (piece.length === 0) return
    size += piece.length
    if (!dropped && size > maxBytes) {
      // Copies: a slice would keep the whole chunk alive.
      dropped = {
        head: Buffer.from((parts[0] ?? piece).subarray(0, SAMPLE)),
        tail: Buffer.from((parts.at(-1) ?? piece).subarray(-SAMPLE)),
      }
      parts = []
    }
    if (dropped) dropped.tail = Buffer.from(Buffer.concat([dropped.tail, piece.subarray(-SAMPLE)]).subarray(-SAMPLE))
    else parts.push(piece)
  }

  const end = (): void => {
    const [whole, length, cut] = [parts, size, dropped]
    // First, so that a handler that throws leaves nothing of its line to the next.
    parts = []
    size = 0
    dropped = undefined
    if (cut) handlers.oversize(cut.head, cut.tail, length)
    else if (whole.length === 1) handlers.frame(whole[0] as Buffer)
    else if (whole.length > 1) handlers.frame(Buffer.concat(whole, length))
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
