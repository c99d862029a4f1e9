/** The beginning and end of a program's output, in bounded memory. */
export interface Capture {
  add(chunk: Buffer): void
  /** Total bytes written. */
  readonly bytes: number
  readonly truncated: boolean
  text(): string
  /** The output since an earlier value of `bytes`. */
  since(at: number): string
  /** The last lines of the kept output. */
  tail(lines: number): string
}

/** @param max bytes to keep: half from the beginning, half from the end */
export function createCapture(max: number): Capture {
  const half = Math.floor(max / 2)
  const head: Buffer[] = []
  let headBytes = 0
  // A ring buffer, created on demand.
  let ring: Buffer | undefined
  let totalBytes = 0
  let bytes = 0

  function add(chunk: Buffer): void {
    bytes += chunk.length
    const first = chunk.subarray(0, half - headBytes)
    // Copied, because a slice would keep the whole chunk in memory.
    if (first.length > 0) head.push(Buffer.from(first))
    headBytes += first.length
    const rest = chunk.subarray(first.length)
    if (rest.length === 0) return
    ring ??= Buffer.alloc(max - half)
    const tail = rest.subarray(Math.max(0, rest.length - ring.length))
    const at = (totalBytes + rest.length - tail.length) % ring.length
    const fits = Math.min(tail.length, ring.length - at)
    tail.copy(ring, at, 0, fits)
    tail.copy(ring, 0, fits)
    totalBytes += rest.length
  }

  function readEnd(): Buffer {
    if (!ring) return Buffer.alloc(0)
    if (totalBytes <= ring.length) return ring.subarray(0, totalBytes)
    const at = totalBytes % ring.length
    return Buffer.concat([ring.subarray(at), ring.subarray(0, at)])
  }

  function since(at: number): string {
    const begins = bytes - Math.min(totalBytes, ring?.length ?? 0)
    const start = Buffer.concat(head).subarray(at)
    const left = begins - Math.max(at, headBytes)
    if (left <= 0) return Buffer.concat([start, readEnd().subarray(Math.max(0, at - begins))]).toString('utf8')
    // Drops a character that was cut.
    const [first, last] = [
      start.toString('utf8').replace(/\uFFFD$/, ''),
      readEnd()
        .toString('utf8')
        .replace(/^\uFFFD+/, ''),
    ]
    return `${first === '' ? '' : `${first}\n`}… ${left} bytes left out …\n${last}`
  }
  const text = (): string => since(0)

  return {
    add,
    get bytes() {
      return bytes
    },
    get truncated() {
      return totalBytes > (ring?.length ?? 0)
    },
    text,
    since,
    tail(lines) {
      const written = text()
      const parts = written.split('\n')
      const closed = written.endsWith('\n') ? 1 : 0
      return parts.slice(-(lines + closed)).join('\n')
    },
  }
}
