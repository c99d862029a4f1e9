import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { ownPackage } from '../../../src/app/package-info.ts'
import { openEncoder, replaceFusion } from '../../../src/search/encoder/encoder.ts'
import { createPlainEncoderKernel } from '../../../src/search/encoder/encoder-kernel.ts'
import { queryInput, toolInput, toolTextOf } from '../../../src/search/encoder/encoder-text.ts'
import { createWordPieceTokenizer } from '../../../src/search/encoder/word-piece-tokenizer.ts'
import { type EvalTool, sourceOfEvalTool } from '../../../src/search/evaluate.ts'

interface Reference {
  readonly query?: string
  readonly tool?: EvalTool
  readonly pieces: number[]
  readonly vector: number[]
}

/** Pieces and vectors of the same weights in onnxruntime and the tokenizers library. */
const references = JSON.parse(readFileSync(new URL('reference.json', import.meta.url), 'utf8')) as Reference[]
const file = readFileSync(ownPackage().encoder.model)
const encoder = openEncoder(file)
const tokenizer = createWordPieceTokenizer(encoder.pieces)

const inputOf = ({ query, tool }: Reference) =>
  tool ? toolInput(toolTextOf(sourceOfEvalTool(tool)), tokenizer) : queryInput(query ?? '', tokenizer)
const sideOf = ({ tool }: Reference) => (tool ? 'tool' : 'query')

function cosine(a: ArrayLike<number>, b: ArrayLike<number>): number {
  const dot = (x: ArrayLike<number>, y: ArrayLike<number>): number =>
    Array.from(x, (v, at) => v * y[at]!).reduce((s, v) => s + v)
  return dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b))
}

describe('the search encoder', () => {
  it.each(references)('splits a text into the same pieces as the tokenizers library (%#)', (reference) => {
    expect(inputOf(reference).pieces).toEqual(reference.pieces)
  })

  it.each(references)('gives the same vector as onnxruntime, within a hundredth (%#)', (reference) => {
    const vector = encoder.encode(inputOf(reference), sideOf(reference))
    expect(cosine(vector, reference.vector)).toBeGreaterThan(0.99)
    expect(cosine(vector, vector)).toBeCloseTo(1, 5)
  })

  it('gives the same vector without WebAssembly', () => {
    const plain = openEncoder(file, createPlainEncoderKernel)
    const input = queryInput('list open issues', tokenizer)
    expect(cosine(plain.encode(input, 'query'), encoder.encode(input, 'query'))).toBeGreaterThan(0.9999)
  })

  it('reads words in their order', () => {
    const vectorOf = (query: string) => encoder.encode(queryInput(query, tokenizer), 'query')
    expect(cosine(vectorOf('copy the file to the backup'), vectorOf('copy the backup to the file'))).toBeLessThan(0.999)
  })

  it('reads a repeated word once, and a text of repetitions not at all', () => {
    const described = (description: string) =>
      toolTextOf(sourceOfEvalTool({ id: 'a', server: 'a', name: 'a', description })).description
    expect(described('weather '.repeat(50))).toBe('')
    expect(described('weather forecast weather forecast for a town')).toBe('weather forecast for a town')
    expect(described('from town to town by bus')).toBe('from town to town by bus')
  })

  it('reads a tool of any length, and an empty query', () => {
    const long = toolInput(
      {
        name: 'name '.repeat(100),
        server: 's '.repeat(50),
        description: 'word '.repeat(900),
        parameters: 'p: q; '.repeat(90),
      },
      tokenizer,
    )
    expect(long.pieces).toHaveLength(160)
    expect(encoder.encode(long, 'tool').every(Number.isFinite)).toBe(true)
    expect(encoder.encode(queryInput('', tokenizer), 'query').every(Number.isFinite)).toBe(true)
  })

  it('keeps its weights when the fusion weights are replaced', () => {
    const changed = openEncoder(replaceFusion(file, { rank: { encoded: 7 }, relevance: { bias: -1 } }))
    expect(changed.fusion).toEqual({ rank: { encoded: 7 }, relevance: { bias: -1 } })
    const input = queryInput('send a message', tokenizer)
    expect(changed.encode(input, 'query')).toEqual(encoder.encode(input, 'query'))
  })

  it.each([
    ['another kind of file', Buffer.from('not a model at all, but a text'), 'not a search encoder'],
    ['a file that was cut short', file.subarray(0, 1_000), 'a search encoder cut short'],
  ])('rejects %s', (_, bytes, message) => {
    expect(() => openEncoder(bytes)).toThrow(new RangeError(message))
  })
})
