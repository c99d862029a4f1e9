/**
 * The value at a pointer such as `#/$defs/a`; undefined if there is none.
 * @param isEscaped whether names may contain the escapes of URLs; default true. An invalid escape is a literal name.
 */
export function resolvePointer(root: unknown, ref: string, isEscaped = true): unknown {
  if (!ref.startsWith('#/')) return ref === '#' ? root : undefined
  let at = root
  for (const part of ref.slice(2).split('/')) {
    const key = (isEscaped ? decodeEscapes(part) : part).replaceAll('~1', '/').replaceAll('~0', '~')
    if (typeof at !== 'object' || at === null || !Object.hasOwn(at, key)) return undefined
    at = (at as Readonly<Record<string, unknown>>)[key]
  }
  return at
}

function decodeEscapes(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}
