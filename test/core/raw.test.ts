import { describe, expect, it } from 'vitest'
import { mentions, rawBytes, rawResult, sizeOf } from '../../src/core/raw.ts'
import { scanAnswer } from '../../src/core/scan.ts'

const pieces = (...texts: string[]) => texts.map((text) => Buffer.from(text))

describe('a text in bytes that came in pieces', () => {
  it('is found inside a piece and across their ends, however small they are', () => {
    expect(mentions(pieces('{"content":[{"uri":"a"}]}'), '"uri"')).toBe(true)
    expect(mentions(pieces('{"content":[{"ur', 'i":"a"}]}'), '"uri"')).toBe(true)
    expect(mentions(pieces('{"', 'u', 'r', 'i', '":1}'), '"uri"')).toBe(true)
  })
  it('is not found where it is not', () => {
    expect(mentions(pieces('{"ur', '"i":1}'), '"uri"')).toBe(false)
    expect(mentions([], '"uri"')).toBe(false)
  })
})

const line = '{"jsonrpc":"2.0","id":"p:1","result":{"content":[{"type":"text","text":"é"}],"n":[1, 2]}}'
const json = '{"content":[{"type":"text","text":"é"}],"n":[1, 2]}'

/** The same line in pieces of this length. */
function result(length: number) {
  const bytes = Buffer.from(line)
  const answer = scanAnswer(bytes)
  if (typeof answer === 'string') throw new Error(answer)
  const parts = Array.from({ length: Math.ceil(bytes.length / length) }, (_, n) =>
    bytes.subarray(n * length, (n + 1) * length),
  )
  const made = rawResult(parts, answer)
  if (!made) throw new Error('not made')
  return made
}

describe('a result that is still bytes', () => {
  it.each([1, 2, 3, 7, 40, 41, 1_000])('is the same however it came, in pieces of %i bytes', (length) => {
    const made = result(length)
    expect(Buffer.concat(rawBytes(made) ?? []).toString()).toBe(json)
    expect(made).toEqual({ content: [{ type: 'text', text: 'é' }], n: [1, 2] })
    expect(sizeOf(made)).toBe(Buffer.byteLength(json))
  })

  it('parses a member once, and is no longer bytes when it is copied', () => {
    const made = result(10)
    expect(made.content).toBe(made.content)
    const copy = { ...made, isError: true }
    expect(rawBytes(copy)).toBeUndefined()
    expect(copy).toEqual({ content: [{ type: 'text', text: 'é' }], n: [1, 2], isError: true })
  })
})
