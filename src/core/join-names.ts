/** `a, b and 3 more`. @param most maximum number of names to list */
export const joinNames = (names: readonly string[], most: number): string =>
  `${names.slice(0, most).join(', ')}${names.length > most ? ` and ${names.length - most} more` : ''}`
