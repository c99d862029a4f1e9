/** The beginning and end of a program's output, in bounded memory. */
export interface Capture {
  add(chunk: Buffer): void
  /** Total bytes written. */
  readonly bytes: number
  readonly truncated: boolean
  text(): string
  /** The output since an earlier value of `bytes`. */
  since(position: number): string
  /** The last lines of the kept output. */
  tail(lines: number): string
}

/** @param max bytes to keep: half from the beginning, half from the end */
export function createCapture(max: number): Capture {
  const headSize = Math.floor(max / 2)
  const head: Buffer[] = []
  let headBytes = 0
  // A ring buffer, created on demand.
  let ring: Buffer | undefined
  let bytesAfterHead = 0
  let bytes = 0

  function add(chunk: Buffer): void {
    bytes += chunk.length
    const first = chunk.subarray(0, headSize - headBytes)
    // Copied, because a slice would keep the whole chunk in memory.
    if (first.length > 0) head.push(Buffer.from(first))
    headBytes += first.length
    const rest = chunk.subarray(first.length)
    if (rest.length === 0) return
    ring ??= Buffer.alloc(max - headSize)
    const tail = rest.subarray(Math.max(0, rest.length - ring.length))
    const ringPosition = (bytesAfterHead + rest.length - tail.length) % ring.length
    const untilWrap = Math.min(tail.length, ring.length - ringPosition)
    tail.copy(ring, ringPosition, 0, untilWrap)
    tail.copy(ring, 0, untilWrap)
    bytesAfterHead += rest.length
  }

  function readEnd(): Buffer {
    if (!ring) return Buffer.alloc(0)
    if (bytesAfterHead <= ring.length) return ring.subarray(0, bytesAfterHead)
    const ringPosition = bytesAfterHead % ring.length
    return Buffer.concat([ring.subarray(ringPosition), ring.subarray(0, ringPosition)])
  }

  function since(position: number): string {
    const endStart = bytes - Math.min(bytesAfterHead, ring?.length ?? 0)
    const start = Buffer.concat(head).subarray(position)
    const leftOut = endStart - Math.max(position, headBytes)
    if (leftOut <= 0)
      return Buffer.concat([start, readEnd().subarray(Math.max(0, position - endStart))]).toString('utf8')
    // Drops a character that was cut.
    const [first, last] = [
      start.toString('utf8').replace(/\uFFFD$/, ''),
      readEnd()
        .toString('utf8')
        .replace(/^\uFFFD+/, ''),
    ]
    return `${first === '' ? '' : `${first}\n`}… ${leftOut} bytes left out …\n${last}`
  }
  const text = (): string => since(0)

  return {
    add,
    get bytes() {
      return bytes
    },
    get truncated() {
      return bytesAfterHead > (ring?.length ?? 0)
    },
    text,
    since,
    tail(lines) {
      const written = text()
      const parts = written.split('\n')
      const emptyPart = written.endsWith('\n') ? 1 : 0
      return parts.slice(-(lines + emptyPart)).join('\n')
    },
  }
}
