import type { ToolError } from 'pegboard'
import { invalid, tooLarge } from '../_errors.ts'
import { eachOccurrence } from '../_occurrences.ts'

export interface Replacement {
  readonly old: string
  readonly new: string
}

export interface ReplaceOptions {
  /** Replace every occurrence; otherwise exactly one is required. */
  readonly all: boolean
  /** Maximum size of the result in bytes. */
  readonly maxBytes: number
  /** Maximum number of replacements. */
  readonly maxCount: number
  /** Name of the file in errors. */
  readonly filePath: string
  /** Creates the error for a result over `maxBytes`. */
  createTooLargeError(bytes: number): ToolError
}

export interface ReplaceResult {
  readonly bytes: Buffer
  readonly count: number
  /** Line of the first occurrence, from 1. */
  readonly line: number
}

export const LINE_FEED = 10

/** @throws ToolError E_VALIDATION, E_TOO_LARGE */
export function replaceIn(
  bytes: Buffer,
  { old, new: replacement }: Replacement,
  options: ReplaceOptions,
): ReplaceResult {
  const { all, maxBytes, maxCount, filePath, createTooLargeError } = options
  let oldBytes: Buffer = Buffer.from(old)
  let newBytes: Buffer = Buffer.from(replacement)
  let { count, first } = countOccurrences(bytes, oldBytes)
  if (count === 0 && bytes.includes('\r\n')) {
    // Models write `\n`; the file may use `\r\n`.
    ;[oldBytes, newBytes] = [withCrlf(old), withCrlf(replacement)]
    ;({ count, first } = countOccurrences(bytes, oldBytes))
  }
  if (count === 0)
    throw invalid(
      `'${filePath}' does not contain the old text.`,
      'Read the file and copy the text exactly, with its spaces.',
    )
  if (count > 1 && !all)
    throw invalid(
      `The old text occurs ${count} times in '${filePath}'.`,
      'Include more of the surrounding lines, or set replace_all.',
    )
  if (count > maxCount)
    throw tooLarge(
      `The old text occurs ${count} times in '${filePath}'; a call replaces at most ${maxCount}.`,
      'Use a longer old text, or replace the whole file.',
    )
  const size = bytes.length + count * (newBytes.length - oldBytes.length)
  if (size > maxBytes) throw createTooLargeError(size)
  const result = Buffer.allocUnsafe(size)
  let [from, to] = [0, 0]
  eachOccurrence(bytes, oldBytes, (at) => {
    to += bytes.copy(result, to, from, at)
    to += newBytes.copy(result, to)
    from = at + oldBytes.length
  })
  bytes.copy(result, to, from)
  return { bytes: result, count, line: countLineFeeds(bytes, 0, first) + 1 }
}

const withCrlf = (text: string): Buffer => Buffer.from(text.replaceAll(/\r?\n/g, '\r\n'))

export function countLineFeeds(bytes: Uint8Array, from: number, to: number): number {
  let count = 0
  for (let at = from; at < to; at++) if (bytes[at] === LINE_FEED) count++
  return count
}

function countOccurrences(bytes: Uint8Array, oldBytes: Uint8Array): { count: number; first: number } {
  let [count, first] = [0, -1]
  eachOccurrence(bytes, oldBytes, (at) => {
    if (count++ === 0) first = at
  })
  return { count, first }
}
