/** `a, b and 3 more`. @param most names to write out */
export const joinNames = (names: readonly string[], most: number): string =>
  `${names.slice(0, most).join(', ')}${names.length > most ? ` and ${names.length - most} more` : ''}`
