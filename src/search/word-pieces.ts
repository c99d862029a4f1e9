import { wordsOf } from './tokenize.ts'

const SHORTEST_GRAM = 3
const LONGEST_GRAM = 5
const MAX_WORD = 32

/**
 * The pieces of a text that the embedding table has rows for: words as search sees them, and the parts of compound
 * words.
 */
export function piecesOf(text: string, cap = Number.POSITIVE_INFINITY): string[] {
  const pieces: string[] = []
  for (const word of wordsOf(text)) {
    if (pieces.length >= cap) break
    if (word.parts.length === 0) pieces.push(word.text)
    else for (const part of word.parts) pieces.push(part)
  }
  return pieces
}

/** 32-bit FNV-1a over UTF-16 code units, with a final mix so that similar words get distant hashes. */
export function hashOf(text: string, start = 0, end = text.length): number {
  let hash = 2166136261
  for (let i = start; i < end; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 16777619)
  hash ^= hash >>> 15
  hash = Math.imul(hash, 0x2c1b3c6d)
  hash ^= hash >>> 12
  return hash >>> 0
}

/** Hashes of the character 3- to 5-grams of `<word>`, used for words without their own row. */
export function gramsOf(word: string): number[] {
  const marked = `<${word.slice(0, MAX_WORD)}>`
  const grams: number[] = []
  for (let length = SHORTEST_GRAM; length <= LONGEST_GRAM; length++)
    for (let at = 0; at + length <= marked.length; at++) grams.push(hashOf(marked, at, at + length))
  return grams
}
