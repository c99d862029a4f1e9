/** Adds a sentence to a text, which may be missing or lack its final period. */
export const appendSentence = (text: unknown, sentence: string): string =>
  typeof text === 'string' && text.trim() !== '' ? `${text.trim().replace(/([^.!?])$/, '$1.')} ${sentence}` : sentence
