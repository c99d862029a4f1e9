const EMPTY = Buffer.alloc(0)

/** Joins chunks in one block of memory. A list of chunks would cost a hundred bytes more for each chunk. */
export function createGrowingBuffer() {
  let buffer = EMPTY
  let length = 0
  return {
    get length(): number {
      return length
    },
    add(bytes: Uint8Array): void {
      if (length + bytes.length > buffer.length) {
        const larger = Buffer.allocUnsafeSlow(Math.max(2 * buffer.length, length + bytes.length))
        buffer.copy(larger, 0, 0, length)
        buffer = larger
      }
      buffer.set(bytes, length)
      length += bytes.length
    },
    /** Returns all bytes and empties the buffer. */
    take(): Buffer {
      const bytes = buffer.subarray(0, length)
      buffer = EMPTY
      length = 0
      return bytes
    },
  }
}
