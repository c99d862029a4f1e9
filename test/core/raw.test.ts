import { describe, expect, it } from 'vitest'
import { mentions } from '../../src/core/raw.ts'

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
