/** A schema that others wrote and that unfolds to more is not worth the risk. */
export const MAX_UNFOLDED = 100_000

/**
 * How many parts a schema has when every reference in it is followed once: twenty definitions that each use the next
 * one twice are a million, and would stop whoever checks by them. A part that contains itself counts once.
 */
export function unfolded(schema: unknown): number {
  if (!JSON.stringify(schema).includes('"$ref"')) return 0
  const sizes = new Map<unknown, number>()
  const size = (node: unknown): number => {
    if (typeof node !== 'object' || node === null) return 0
    const known = sizes.get(node)
    if (known !== undefined) return known
    sizes.set(node, 0)
    let sum = 1
    for (const [key, value] of Object.entries(node))
      sum += key === '$ref' && typeof value === 'string' ? size(partAt(schema, value)) : size(value)
    sizes.set(node, sum)
    return sum
  }
  return size(schema)
}

/** What `#/$defs/a` points at. */
function partAt(schema: unknown, reference: string): unknown {
  if (!reference.startsWith('#')) return undefined
  let at = schema
  for (const step of reference.slice(1).split('/').slice(1)) {
    const key = step.replaceAll('~1', '/').replaceAll('~0', '~')
    at =
      typeof at === 'object' && at !== null && Object.hasOwn(at, key) ? (at as Record<string, unknown>)[key] : undefined
  }
  return at
}
