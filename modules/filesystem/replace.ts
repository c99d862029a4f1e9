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
  readonly most: number
  /** Name of the file in errors. */
  readonly shown: string
  /** Creates the error for a result over `maxBytes`. */
  resultTooLarge(bytes: number): ToolError
}

export interface ReplaceResult {
  readonly bytes: Buffer
  readonly count: number
  /** Line of the first occurrence, from 1. */
  readonly line: number
}

export const LINE_FEED = 10

/** @throws ToolError E_VALIDATION, E_TOO_LARGE */
export function replaceIn(bytes: Buffer, { old, new: put }: Replacement, options: ReplaceOptions): ReplaceResult {
  const { all, maxBytes, most, shown, resultTooLarge } = options
  let find: Buffer = Buffer.from(old)
  let by: Buffer = Buffer.from(put)
  let { count, first } = occurrences(bytes, find)
  if (count === 0 && bytes.includes('\r\n')) {
    // Models write `\n`; the file may use `\r\n`.
    ;[find, by] = [crlf(old), crlf(put)]
    ;({ count, first } = occurrences(bytes, find))
  }
  if (count === 0)
    throw invalid(
      `'${shown}' does not contain the old text.`,
      'Read the file and copy the text exactly, with its spaces.',
    )
  if (count > 1 && !all)
    throw invalid(
      `The old text occurs ${count} times in '${shown}'.`,
      'Include more of the surrounding lines, or set replace_all.',
    )
  if (count > most)
    throw tooLarge(
      `The old text occurs ${count} times in '${shown}'; a call replaces at most ${most}.`,
      'Use a longer old text, or replace the whole file.',
    )
  const size = bytes.length + count * (by.length - find.length)
  if (size > maxBytes) throw resultTooLarge(size)
  const result = Buffer.allocUnsafe(size)
  let [from, to] = [0, 0]
  eachOccurrence(bytes, find, (at) => {
    to += bytes.copy(result, to, from, at)
    to += by.copy(result, to)
    from = at + find.length
  })
  bytes.copy(result, to, from)
  return { bytes: result, count, line: lineFeeds(bytes, 0, first) + 1 }
}

const crlf = (text: string): Buffer => Buffer.from(text.replaceAll(/\r?\n/g, '\r\n'))

export function lineFeeds(bytes: Uint8Array, from: number, to: number): number {
  let count = 0
  for (let at = from; at < to; at++) if (bytes[at] === LINE_FEED) count++
  return count
}

function occurrences(bytes: Uint8Array, find: Uint8Array): { count: number; first: number } {
  let [count, first] = [0, -1]
  eachOccurrence(bytes, find, (at) => {
    if (count++ === 0) first = at
  })
  return { count, first }
}
