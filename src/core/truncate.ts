/** The first `max` characters, never half of a surrogate pair, copied so that the whole text can be freed. */
export function truncate(text: string, max: number): string {
  if (text.length <= max) return text
  const end = isLow(text.charCodeAt(max)) ? max - 1 : max
  return Buffer.from(text.slice(0, end), 'utf16le').toString('utf16le')
}

/** The second half of a surrogate pair. */
const isLow = (unit: number): boolean => unit >= 0xdc00 && unit <= 0xdfff
