// Overrides and isolates of direction, and the tags that spell what nobody sees. No flag `u`: this is run on every text.
const SUSPECT = /[\u202A-\u202E\u2066-\u2069]|\uDB40[\uDC00-\uDC7F]/
// The tags of three flags stay: they follow a black flag and end with U+E007F.
const UNSEEN = /(\u{1F3F4}[\u{E0061}-\u{E007A}]{5}\u{E007F})|[\u202A-\u202E\u2066-\u2069]|[\u{E0000}-\u{E007F}]/gu

export const isUnseen = (text: unknown): boolean => typeof text === 'string' && SUSPECT.test(text)

/** The same text without characters that turn it around or that only a model reads. */
export const withoutUnseen = (text: string): string =>
  SUSPECT.test(text) ? text.replaceAll(UNSEEN, (_all, flag: string | undefined) => flag ?? '') : text
