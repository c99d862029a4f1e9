import type { NumberArray } from './packed-sections.ts'

/** Number of arrays that `sections()` returns. */
export const DICTIONARY_SECTIONS = 1
/** Longer words are cut; real texts do not contain any. */
const MAX_LENGTH = 1024

/**
 * Assigns numbers to words, from 0 in order of arrival.
 * @param saved result of `sections()`
 */
export function createDictionary(saved: readonly Uint8Array[] = []) {
  const [json = new Uint8Array()] = saved
  const words: string[] = json.length > 0 ? JSON.parse(new TextDecoder().decode(json)) : []
  const numbers = new Map(words.map((word, id) => [word, id]))
  return {
    get size(): number {
      return words.length
    },
    /** The number of a word, or -1 if it was never added. */
    find: (word: string): number => numbers.get(word.slice(0, MAX_LENGTH)) ?? -1,
    /** The number of a word; adds new words. */
    add(word: string): number {
      const text = word.slice(0, MAX_LENGTH)
      const existing = numbers.get(text)
      if (existing !== undefined) return existing
      // A copy, because a part of a string keeps the whole string in memory.
      const copy = Buffer.from(text, 'utf16le').toString('utf16le')
      numbers.set(copy, words.length)
      return words.push(copy) - 1
    },
    wordOf: (id: number): string => words[id] as string,
    /** The words that begin with the same letter as `word`, with their numbers. */
    *withInitialOf(word: string): Generator<readonly [word: string, id: number]> {
      const [initial = ''] = word
      for (const [id, text] of words.entries()) if (text.startsWith(initial)) yield [text, id]
    },
    sections: (): NumberArray[] => [Buffer.from(JSON.stringify(words))],
  }
}
