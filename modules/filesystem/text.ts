import { isUtf8 } from 'node:buffer'
import type { OpenFile } from 'pegboard'

const CHUNK = 256 * 1024
/** Of text in one answer: what a model can read, whatever the file holds. */
export const MAX_TEXT = 1024 * 1024
const LINE_FEED = 10

export interface LineRequest {
  readonly offset: number
  readonly limit: number
  readonly encoding: 'utf8' | 'utf16le' | 'latin1'
  readonly maxBytes: number
  readonly signal: AbortSignal
}

/** Reads as far as needed, a chunk at a time, whatever the size of the file. Lines keep their ends. */
export async function readLines(
  { handle }: OpenFile,
  { offset, limit, encoding, maxBytes, signal }: LineRequest,
): Promise<{ lines: string[]; more: boolean }> {
  const decoder = new TextDecoder(encoding === 'utf16le' ? 'utf-16le' : encoding === 'latin1' ? 'latin1' : 'utf-8', {
    ignoreBOM: true,
  })
  const buffer = Buffer.alloc(CHUNK)
  // Where a line feed is one byte, what is left out need not become text.
  const skipping = encoding === 'utf16le' ? offset : 0
  let position = skipping > 0 ? 0 : await skipLines(handle, offset, buffer, signal)
  const lines: string[] = []
  let [index, kept, partial] = [0, 0, '']
  /** Takes one line; false when the answer is full. */
  const take = (line: string): boolean => {
    if (index++ < skipping) return true
    if (lines.length === limit || kept + line.length > maxBytes) return false
    lines.push(line)
    kept += line.length
    return true
  }
  for (;;) {
    signal.throwIfAborted()
    const { bytesRead } = await handle.read(buffer, 0, CHUNK, position)
    position += bytesRead
    const text =
      partial + (bytesRead > 0 ? decoder.decode(buffer.subarray(0, bytesRead), { stream: true }) : decoder.decode())
    const parts = text.split(/(?<=\n)/)
    partial = bytesRead > 0 ? (parts.pop() ?? '') : ''
    for (const line of parts) if (line !== '' && !take(line)) return { lines, more: true }
    if (bytesRead === 0) return { lines, more: false }
    // A line longer than an answer can be: its beginning is all there is to say.
    if (partial.length > maxBytes) {
      if (index >= skipping && lines.length === 0) lines.push(partial.slice(0, maxBytes))
      if (index >= skipping) return { lines, more: true }
      partial = partial.slice(-1)
    }
  }
}

/** Where the line after so many begins, in bytes. */
async function skipLines(
  handle: OpenFile['handle'],
  count: number,
  buffer: Buffer,
  signal: AbortSignal,
): Promise<number> {
  let [position, left] = [0, count]
  while (left > 0) {
    signal.throwIfAborted()
    const { bytesRead } = await handle.read(buffer, 0, buffer.length, position)
    if (bytesRead === 0) break
    const read = buffer.subarray(0, bytesRead)
    for (let at = read.indexOf(LINE_FEED); at >= 0; at = read.indexOf(LINE_FEED, at + 1))
      if (--left === 0) return position + at + 1
    position += bytesRead
  }
  return position
}

/** The last lines, read from the end of the file. */
export async function readTail(
  { handle, size }: OpenFile,
  count: number,
  maxBytes: number,
): Promise<{ content: string; lines: number; truncated: boolean }> {
  let [start, bytes] = [size, Buffer.alloc(0)]
  for (;;) {
    const from = begin(bytes, count)
    if (from > 0 || start === 0 || bytes.length >= maxBytes) {
      const kept = bytes.subarray(Math.max(from, bytes.length - maxBytes))
      const content = wholeCharacters(kept).toString('utf8')
      const lines = content === '' ? 0 : content.split('\n').length - (content.endsWith('\n') ? 1 : 0)
      return { content, lines, truncated: start > 0 || kept.length < bytes.length }
    }
    const length = Math.min(CHUNK, start)
    const buffer = Buffer.alloc(length)
    const { bytesRead } = await handle.read(buffer, 0, length, start - length)
    // Shorter than it was: what can be read is all there is.
    start = bytesRead === length ? start - length : 0
    bytes = Buffer.concat([buffer.subarray(0, bytesRead), bytes])
  }
}

/** Where the last lines begin in bytes that end with the file; 0 if there are fewer. */
function begin(bytes: Buffer, count: number): number {
  let at = bytes.length - (bytes[bytes.length - 1] === LINE_FEED ? 1 : 0)
  for (let left = count; left > 0 && at > 0; left--) at = bytes.lastIndexOf(LINE_FEED, at - 1)
  return at <= 0 ? 0 : at + 1
}

/** Without the rest of a character whose beginning was cut off. */
function wholeCharacters(bytes: Buffer): Buffer {
  let at = 0
  while (at < 4 && at < bytes.length && ((bytes[at] as number) & 0xc0) === 0x80) at++
  return bytes.subarray(at)
}

/** As git does it: a zero byte near the start. */
export const isBinary = (head: Uint8Array): boolean => head.includes(0)

/** The whole of a small text file; undefined for binary or larger ones. */
export async function textOf({ handle, size }: OpenFile, maxBytes: number): Promise<string | undefined> {
  if (size > maxBytes) return undefined
  const bytes = await handle.readFile()
  return bytes.length > maxBytes || isBinary(bytes.subarray(0, 8192))
    ? undefined
    : bytes.toString(isUtf8(bytes) ? 'utf8' : 'latin1')
}
