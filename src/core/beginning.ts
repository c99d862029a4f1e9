/** The first characters of a text, in memory of their own: a slice that is kept would keep all of the text. */
export const beginning = (text: string, max: number): string =>
  text.length <= max ? text : Buffer.from(text.slice(0, max), 'utf16le').toString('utf16le')
