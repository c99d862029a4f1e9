export function omitUndefined<T extends object>(from: T): { [Key in keyof T]?: Exclude<T[Key], undefined> } {
  const kept: Partial<T> = {}
  for (const key in from) if (from[key] !== undefined) kept[key] = from[key]
  return kept as never
}
