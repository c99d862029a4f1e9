/**
 * Splits text into the numbers of a vocabulary's pieces, as the tokenizer of BERT does (Devlin et al. 2019): lower
 * case without accents, split at spaces, punctuation and between letters and digits; then the longest pieces first.
 */
export interface WordPieceTokenizer {
  /** The numbers of the first `cap` pieces. A word without matching pieces becomes UNKNOWN. */
  encode(text: string, cap: number): number[]
}

/** Numbers of the special pieces, which come first in every vocabulary. */
export const UNKNOWN = 1
export const SEPARATOR = 3
export const QUERY = 5
export const TOOL = 6

const LONGEST_WORD = 40
/** Each Chinese character is a word; kana and hangul are not. */
const CHINESE =
  /[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u{20000}-\u{2a6df}\u{2a700}-\u{2b81f}\u{2b920}-\u{2ceaf}\u{2f800}-\u{2fa1f}]/gu
const UNPRINTABLE = /(?![\t\n\r])[\p{C}\ufffd]/gu
const WORDS = /[\p{P}$+<=>^`|~]|\p{N}+|[^\p{P}$+<=>^`|~\p{N}\s]+/gu

/** @param pieces the vocabulary in order; pieces inside a word begin with "##" */
export function createWordPieceTokenizer(pieces: readonly string[]): WordPieceTokenizer {
  const numbers = new Map(pieces.map((piece, number) => [piece, number]))

  /** Adds the pieces of one word, or UNKNOWN if it cannot be split completely. */
  function addWord(word: string, result: number[]): void {
    const characters = [...word]
    const lengthBefore = result.length
    for (let start = 0, end: number; start < characters.length; start = end) {
      let number: number | undefined
      for (end = characters.length; end > start; end--) {
        const piece = characters.slice(start, end).join('')
        number = numbers.get(start === 0 ? piece : `##${piece}`)
        if (number !== undefined) break
      }
      if (number === undefined || characters.length > LONGEST_WORD) {
        result.length = lengthBefore
        result.push(UNKNOWN)
        return
      }
      result.push(number)
    }
  }

  return {
    encode(text, cap) {
      const normalized = text
        .replace(UNPRINTABLE, '')
        .replace(CHINESE, ' $& ')
        .normalize('NFD')
        .replace(/\p{Mn}/gu, '')
        .toLowerCase()
      const result: number[] = []
      for (const [word] of normalized.matchAll(WORDS)) {
        addWord(word, result)
        if (result.length >= cap) break
      }
      return result.slice(0, cap)
    },
  }
}
