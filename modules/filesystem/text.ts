import { isUtf8 } from 'node:buffer'
import type { OpenFile } from 'pegboard'
import { LINE_FEED } from './replace.ts'

const CHUNK_BYTES = 256 * 1024
/** Maximum text per answer, the most a model can read. */
export const MAX_TEXT = 1024 * 1024
/** Enough bytes to detect the type of a file. */
export const HEAD_BYTES = 8192

export interface LineRequest {
  readonly offset: number
  readonly limit: number
  readonly encoding: 'utf8' | 'utf16le' | 'latin1'
  readonly maxBytes: number
  readonly signal: AbortSignal
  /** Bytes that were read already. */
  readonly start: FileStart
}

/** The beginning of a file. */
export interface FileStart {
  readonly bytes: Buffer
  /** True if this is the whole file. */
  readonly isComplete: boolean
}

/** Most files are small and read in one go. */
export async function readStart({ handle, size }: OpenFile): Promise<FileStart> {
  const buffer = Buffer.allocUnsafe(Math.min(size + 1, CHUNK_BYTES))
  const { bytesRead } = await handle.read(buffer, 0, buffer.length, 0)
  return { bytes: buffer.subarray(0, bytesRead), isComplete: bytesRead < buffer.length }
}

/** Reads a file in chunks, first the bytes that were read already. */
function createChunkReader({ handle }: OpenFile, start: FileStart) {
  let buffer: Buffer | undefined
  let position = 0
  return {
    async next(): Promise<{ readonly bytes: Buffer; readonly last: boolean }> {
      if (position < start.bytes.length) {
        const bytes = start.bytes.subarray(position)
        position = start.bytes.length
        return { bytes, last: start.isComplete }
      }
      buffer ??= Buffer.allocUnsafe(CHUNK_BYTES)
      const { bytesRead } = await handle.read(buffer, 0, CHUNK_BYTES, position)
      position += bytesRead
      return { bytes: buffer.subarray(0, bytesRead), last: bytesRead < CHUNK_BYTES }
    },
    /** Gives back the last bytes of the current chunk. */
    unread(count: number): void {
      position -= count
    },
  }
}

/** Reads as far as needed in chunks, whatever the size of the file. Lines keep their line breaks. */
export async function readLines(
  file: OpenFile,
  { offset, limit, encoding, maxBytes, signal, start }: LineRequest,
): Promise<{ lines: string[]; more: boolean }> {
  const decoder = new TextDecoder(encoding === 'utf16le' ? 'utf-16le' : encoding, { ignoreBOM: true })
  const chunks = createChunkReader(file, start)
  // If a line feed is a single byte, skipped lines need not be decoded.
  const linesToSkip = encoding === 'utf16le' ? offset : 0
  if (linesToSkip === 0 && !(await skipUndecoded(chunks, offset, signal))) return { lines: [], more: false }
  const lines: string[] = []
  let [index, keptChars, partial] = [0, 0, '']
  /** Adds a line; false if the answer is full. */
  const addLine = (line: string): boolean => {
    if (index++ < linesToSkip) return true
    if (lines.length === limit || keptChars + line.length > maxBytes) return false
    lines.push(line)
    keptChars += line.length
    return true
  }
  for (;;) {
    signal.throwIfAborted()
    const { bytes, last } = await chunks.next()
    const parts = splitLines(partial + decoder.decode(bytes, { stream: !last }))
    partial = last ? '' : (parts.pop() ?? '')
    for (const line of parts) if (line !== '' && !addLine(line)) return { lines, more: true }
    if (last) return { lines, more: false }
    // Of a line longer than any answer, only the beginning is returned.
    if (partial.length > maxBytes) {
      if (index >= linesToSkip && lines.length === 0) lines.push(partial.slice(0, maxBytes))
      if (index >= linesToSkip) return { lines, more: true }
      partial = partial.slice(-1)
    }
  }
}

/** Skips lines without decoding them. @returns false if the file has fewer */
async function skipUndecoded(
  chunks: ReturnType<typeof createChunkReader>,
  count: number,
  signal: AbortSignal,
): Promise<boolean> {
  for (let remaining = count; remaining > 0; ) {
    signal.throwIfAborted()
    const { bytes, last } = await chunks.next()
    const [skipped, end] = skipLines(bytes, remaining)
    remaining -= skipped
    if (remaining === 0) chunks.unread(bytes.length - end)
    else if (last) return false
  }
  return true
}

/** Lines including their line breaks; the last may have none, or be empty. */
function splitLines(text: string): string[] {
  const lines: string[] = []
  let start = 0
  for (let end = text.indexOf('\n'); end >= 0; end = text.indexOf('\n', start)) {
    lines.push(text.slice(start, end + 1))
    start = end + 1
  }
  lines.push(text.slice(start))
  return lines
}

/** Number of line breaks, up to a maximum, and the position after the last one. */
function skipLines(bytes: Buffer, max: number): readonly [number, number] {
  let [count, end] = [0, 0]
  for (let at = bytes.indexOf(LINE_FEED); at >= 0 && count < max; at = bytes.indexOf(LINE_FEED, end)) {
    end = at + 1
    count++
  }
  return [count, end]
}

/** The last lines, read from the end of the file. */
export async function readTail(
  { handle, size }: OpenFile,
  count: number,
  maxBytes: number,
): Promise<{ content: string; lines: number; truncated: boolean }> {
  let [start, bytes] = [size, Buffer.alloc(0)]
  for (;;) {
    const from = tailOffset(bytes, count)
    if (from > 0 || start === 0 || bytes.length >= maxBytes) {
      const tail = bytes.subarray(Math.max(from, bytes.length - maxBytes))
      const content = dropPartialCharacter(tail).toString('utf8')
      const lines = content === '' ? 0 : content.split('\n').length - (content.endsWith('\n') ? 1 : 0)
      return { content, lines, truncated: start > 0 || tail.length < bytes.length }
    }
    const length = Math.min(CHUNK_BYTES, start)
    const buffer = Buffer.alloc(length)
    const { bytesRead } = await handle.read(buffer, 0, length, start - length)
    // The file was truncated; the readable part is all there is.
    start = bytesRead === length ? start - length : 0
    bytes = Buffer.concat([buffer.subarray(0, bytesRead), bytes])
  }
}

/** Start of the last lines in bytes that end with the file; 0 if there are fewer. */
function tailOffset(bytes: Buffer, count: number): number {
  let at = bytes.length - (bytes[bytes.length - 1] === LINE_FEED ? 1 : 0)
  for (let remaining = count; remaining > 0; remaining--) {
    // A negative position would be counted from the end.
    at = at === 0 ? -1 : bytes.lastIndexOf(LINE_FEED, at - 1)
    if (at < 0) return 0
  }
  return at + 1
}

/** Drops the rest of a character whose beginning was cut off. */
function dropPartialCharacter(bytes: Buffer): Buffer {
  let at = 0
  while (at < 4 && at < bytes.length && ((bytes[at] as number) & 0xc0) === 0x80) at++
  return bytes.subarray(at)
}

/** As in git: a NUL byte near the beginning. */
export const isBinary = (head: Uint8Array): boolean => head.includes(0)

/** The whole of a small text file; undefined for binary or larger files. */
export async function readSmallText({ handle, size }: OpenFile, maxBytes: number): Promise<string | undefined> {
  if (size > maxBytes) return undefined
  const bytes = await handle.readFile()
  return bytes.length > maxBytes || isBinary(bytes.subarray(0, HEAD_BYTES))
    ? undefined
    : bytes.toString(isUtf8(bytes) ? 'utf8' : 'latin1')
}
