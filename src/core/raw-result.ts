import { withExactNumbers } from './exact-numbers.ts'
import type { CleanAnswer, Span } from './json-scanner.ts'
import type { McpResult } from './tool-result.ts'

// Not enumerable, so that a changed copy (`{ ...result }`) does not carry these bytes.
const RAW = Symbol('raw')
const LINKED = Symbol('linked')

/** Bytes in one or more non-empty chunks. */
export type Pieces = readonly Buffer[]

/**
 * A result that is still the bytes a server sent. Members are parsed on access, so it can be used like any other
 * result. `undefined` if its structured content is not an object, which 2025-era clients reject, or if its content is
 * not a list of blocks.
 * @param parts the scanned line, in chunks that are kept as long as the result
 */
export function rawResult(parts: Pieces, answer: CleanAnswer): McpResult | undefined {
  const { result, members, structured, readable, linked } = answer
  if (structured === 'other' || !readable) return undefined
  const lazy = {}
  for (const [name, span] of members) {
    let parsed: { readonly value: unknown } | undefined
    Object.defineProperty(lazy, name, {
      enumerable: true,
      configurable: true,
      get(): unknown {
        parsed ??= { value: JSON.parse(withExactNumbers(Buffer.concat(slicePieces(parts, span)).toString())) }
        return parsed.value
      },
    })
  }
  return Object.defineProperties(lazy, { [RAW]: { value: slicePieces(parts, result) }, [LINKED]: { value: linked } })
}

function slicePieces(parts: Pieces, { start, end }: Span): Pieces {
  const pieces: Buffer[] = []
  let at = 0
  for (const part of parts) {
    if (at < end && at + part.length > start) pieces.push(part.subarray(Math.max(0, start - at), end - at))
    at += part.length
  }
  return pieces
}

/** The bytes of a result that is unchanged since a server sent it; one JSON object without line breaks. */
export const rawBytes = (result: object): Pieces | undefined => (result as { readonly [RAW]?: Pieces })[RAW]

/** True if a result may name a resource. Raw results know without parsing; for others the answer is yes. */
export const mayLink = (result: object): boolean => (result as { readonly [LINKED]?: boolean })[LINKED] ?? true

/**
 * The size of a result as JSON in bytes. Exact for raw results. Otherwise an estimate that is too low: escapes in texts are
 * not counted, and numbers count as two bytes. Not recursive.
 */
export function sizeOf(result: object): number {
  const raw = rawBytes(result)
  if (raw) return raw.reduce((sum, piece) => sum + piece.length, 0)
  let size = 0
  const open: unknown[] = [result]
  while (open.length > 0) {
    const value = open.pop()
    if (typeof value === 'string') size += Buffer.byteLength(value) + 2
    else if (typeof value !== 'object' || value === null) size += 2
    else if (Array.isArray(value)) for (const one of value) open.push(one)
    else
      for (const key of Object.keys(value)) {
        size += key.length + 3
        open.push((value as Readonly<Record<string, unknown>>)[key])
      }
  }
  return size
}
