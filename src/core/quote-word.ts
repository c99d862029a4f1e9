const PLAIN = /^[\w@%+=:,./-]+$/

/**
 * Quotes a word of a command that a person may copy. Every shell supports double quotes, but cmd.exe does not support single
 * quotes. So single quotes are used only for characters that a shell expands between double quotes.
 */
export function quoteWord(word: string): string {
  if (PLAIN.test(word)) return word
  if (/^[\w@%+=:,./\\ ()-]+$/.test(word) && !/\\(?:\\|$)/.test(word)) return `"${word}"`
  return `'${word.replaceAll("'", "'\\''")}'`
}
