import { resolvePointer } from './json-pointer.ts'

/** Tools of servers and APIs with larger schemas are skipped. */
export const MAX_EXPANDED_SCHEMA_SIZE = 100_000

/**
 * Number of nodes of a schema with all references expanded once. Twenty definitions that each use the next one twice
 * expand to a million, which would block a validator. A recursive definition counts once.
 */
export function expandedSchemaSize(schema: unknown): number {
  if (!JSON.stringify(schema).includes('"$ref"')) return 0
  const sizes = new Map<unknown, number>()
  const size = (node: unknown): number => {
    if (typeof node !== 'object' || node === null) return 0
    const cached = sizes.get(node)
    if (cached !== undefined) return cached
    sizes.set(node, 0)
    let sum = 1
    for (const [key, value] of Object.entries(node))
      sum +=
        key === '$ref' && typeof value === 'string'
          ? size(resolvePointer(schema, value) ?? resolvePointer(schema, value, false))
          : size(value)
    sizes.set(node, sum)
    return sum
  }
  return size(schema)
}
