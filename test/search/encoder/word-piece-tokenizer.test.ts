import { describe, expect, it } from 'vitest'
import { createWordPieceTokenizer, UNKNOWN } from '../../../src/search/encoder/word-piece-tokenizer.ts'

const PIECES = ['[PAD]', '[UNK]', 'read', '##ing', 'file', '##s', '.', '12', 'a', 'm', '##ü', '##u', '日', '本']
const tokenizer = createWordPieceTokenizer(PIECES)
const piecesOf = (text: string, cap = 20) => tokenizer.encode(text, cap).map((number) => PIECES[number])

describe('word pieces', () => {
  it.each([
    ['Reading FILES.', ['read', '##ing', 'file', '##s', '.']],
    ['a12', ['a', '12']],
    ['mü', ['m', '##u']],
    ['日本', ['日', '本']],
    ['read\u200b\u0007 file', ['read', 'file']],
    ['   ', []],
  ])('of %j', (text, pieces) => {
    expect(piecesOf(text)).toEqual(pieces)
  })

  it('replace a word without matching pieces, or of more than forty letters, by one', () => {
    expect(tokenizer.encode('filexyz', 20)).toEqual([UNKNOWN])
    expect(tokenizer.encode('a'.repeat(41), 20)).toEqual([UNKNOWN])
  })

  it('stop at the cap', () => {
    expect(piecesOf('reading files', 3)).toEqual(['read', '##ing', 'file'])
  })
})
