export interface Named {
  readonly name: string
  readonly code?: string
}

/** The one that is called so, by name or code and in any case: as a whole first, else by a part of it. */
export function named<T extends Named>(all: readonly T[], wanted: string): T | undefined {
  const text = wanted.trim().toLowerCase()
  if (text === '') return undefined
  const namesOf = ({ name, code = '' }: T): readonly string[] => [name.toLowerCase(), code.toLowerCase()]
  return (
    all.find((one) => namesOf(one).includes(text)) ??
    all.find((one) => namesOf(one).some((name) => name.includes(text)))
  )
}

export const contains = (text: string, part: string): boolean => text.toLowerCase().includes(part.trim().toLowerCase())
