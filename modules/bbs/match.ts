export interface NameAndCode {
  readonly name: string
  readonly code?: string
}

const namesOf = ({ name, code = '' }: NameAndCode): readonly string[] => [name.toLowerCase(), code.toLowerCase()]

/** Finds by exact name or code, ignoring case. */
export function findByName<T extends NameAndCode>(items: readonly T[], query: string): T | undefined {
  const text = query.trim().toLowerCase()
  return text === '' ? undefined : items.find((item) => namesOf(item).includes(text))
}

/** Finds by whole name first, then by part of it. */
export function findByNamePart<T extends NameAndCode>(items: readonly T[], query: string): T | undefined {
  const text = query.trim().toLowerCase()
  if (text === '') return undefined
  return findByName(items, query) ?? items.find((item) => namesOf(item).some((name) => name.includes(text)))
}

export const contains = (text: string, part: string): boolean => text.toLowerCase().includes(part.trim().toLowerCase())
