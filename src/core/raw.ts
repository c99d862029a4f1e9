import type { McpResult } from './result.ts'
import type { CleanAnswer } from './scan.ts'

// Not enumerable, so that a changed copy (`{ ...result }`) does not claim to be these bytes.
const RAW = Symbol('raw')

/**
 * A result that is still the bytes a server sent. It reads like any other: a member is parsed when somebody looks at
 * it, and spreading it, comparing it or writing it as JSON looks at all of them. `undefined` when its structured content
 * is no object: clients of the 2025 era take nothing else, so somebody has to rewrite it.
 * @param line kept as long as the result is
 */
export function rawResult(line: Buffer, { result, members }: CleanAnswer): McpResult | undefined {
  const structured = members.get('structuredContent')
  if (structured && line[structured.start] !== 0x7b) return undefined
  const lazy = {}
  for (const [name, { start, end }] of members) {
    let parsed: { readonly value: unknown } | undefined
    Object.defineProperty(lazy, name, {
      enumerable: true,
      configurable: true,
      get(): unknown {
        parsed ??= { value: JSON.parse(line.toString('utf8', start, end)) }
        return parsed.value
      },
    })
  }
  return Object.defineProperty(lazy, RAW, { value: line.subarray(result.start, result.end) })
}

/** The bytes of a result that nobody changed since a server sent it; one JSON object without line ends. */
export const rawBytes = (result: object): Buffer | undefined => (result as { readonly [RAW]?: Buffer })[RAW]

/**
 * How many bytes a result is as JSON: exact for one that is still bytes; otherwise its text, its keys and two bytes for
 * whatever else there is, which is a little less than the JSON. Does not recurse on the call stack.
 */
export function sizeOf(result: object): number {
  const raw = rawBytes(result)
  if (raw) return raw.length
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
