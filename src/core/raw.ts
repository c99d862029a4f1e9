import { withExactNumbers } from './exact-numbers.ts'
import type { McpResult } from './result.ts'
import type { CleanAnswer, Span } from './scan.ts'

// Not enumerable, so that a changed copy (`{ ...result }`) does not claim to be these bytes.
const RAW = Symbol('raw')
const LINKED = Symbol('linked')

/** Bytes in several pieces, none of them empty. */
export type Pieces = readonly Buffer[]

/**
 * A result that is still the bytes a server sent. It reads like any other: a member is parsed when somebody looks at
 * it, and spreading it, comparing it or writing it as JSON looks at all of them. `undefined` when its structured content
 * is no object, which clients of the 2025 era do not take, or its content no list of blocks: somebody has to look at it.
 * @param parts the line that was scanned, in pieces that are kept as long as the result is
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
        parsed ??= { value: JSON.parse(withExactNumbers(Buffer.concat(cut(parts, span)).toString())) }
        return parsed.value
      },
    })
  }
  return Object.defineProperties(lazy, { [RAW]: { value: cut(parts, result) }, [LINKED]: { value: linked } })
}

function cut(parts: Pieces, { start, end }: Span): Pieces {
  const pieces: Buffer[] = []
  let at = 0
  for (const part of parts) {
    if (at < end && at + part.length > start) pieces.push(part.subarray(Math.max(0, start - at), end - at))
    at += part.length
  }
  return pieces
}

/** The bytes of a result that nobody changed since a server sent it; one JSON object without line ends. */
export const rawBytes = (result: object): Pieces | undefined => (result as { readonly [RAW]?: Pieces })[RAW]

/** Whether a result may name a resource: bytes tell without being parsed, anything else may. */
export const mayLink = (result: object): boolean => (result as { readonly [LINKED]?: boolean })[LINKED] ?? true

/**
 * How many bytes a result is as JSON: exact for one that is still bytes; otherwise its text, its keys and two bytes for
 * whatever else there is, which is a little less than the JSON. Does not recurse on the call stack.
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
