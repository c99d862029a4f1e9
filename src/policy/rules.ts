/**
 * Compiles `filesystem.*`, `*.delete_*`, `read` patterns: `*` matches any run of characters, everything else itself.
 * Linear time whatever the pattern.
 */
export function matcher(patterns: readonly string[]): (name: string) => boolean {
  const exact = new Set(patterns.filter((pattern) => !pattern.includes('*')))
  const globs = patterns.filter((pattern) => pattern.includes('*')).map((pattern) => pattern.split('*'))
  return (name) => exact.has(name) || globs.some((parts) => matches(parts, name))
}

function matches(parts: readonly string[], name: string): boolean {
  const first = parts[0] ?? ''
  const last = parts[parts.length - 1] ?? ''
  if (!name.startsWith(first)) return false
  let at = first.length
  for (const part of parts.slice(1, -1)) {
    const found = name.indexOf(part, at)
    if (found < 0) return false
    at = found + part.length
  }
  return name.length - last.length >= at && name.endsWith(last)
}
