import { describe, expect, it } from 'vitest'
import { valueResult } from '../../src/core/result.ts'
import { clipped } from '../../src/exec/clip.ts'
import { makeTool } from '../tools.ts'

const clip = (value: unknown, maxBytes: number) => {
  const result = valueResult(value) as Parameters<typeof clipped>[0]
  return clipped(result, makeTool('m.a'), maxBytes)
}

describe('a result that is too long', () => {
  it('loses the end of its text, and keeps it in a file beside it', () => {
    expect(clip('0123456789'.repeat(10), 25)).toEqual({
      kind: 'value',
      value: '0123456789012345678901234\n[truncated: 25 of 100 bytes; the file beside it has all of it]',
      files: [{ data: '0123456789'.repeat(10), filename: 'm.a.txt', mimetype: 'text/plain', apart: true }],
      warnings: [],
    })
  })

  it.each([
    ['äääää', 5, 'ää'],
    ['€€€', 5, '€'],
    ['a😀😀', 8, 'a😀'],
    ['a😀😀', 9, 'a😀😀'],
  ])('is cut between characters: %s after %i bytes', (text, maxBytes, kept) => {
    const { value } = clip(text, maxBytes)
    expect(String(value).split('\n')[0]).toBe(kept)
  })

  it.each([
    [{ rows: ['x'.repeat(50), 'y'.repeat(60)] }],
    [Array.from({ length: 80 }, () => 1)],
    [{ ['k'.repeat(101)]: 1 }],
  ])('is refused when it is no text, half of which is nothing: %j', (value) => {
    expect(() => clip(value, 100)).toThrow(
      expect.objectContaining({
        code: 'E_TOO_LARGE',
        message: 'm.a answered with more than 100 bytes.',
        hint: 'Ask for a part, or raise execution.maxResultBytes.',
      }),
    )
  })

  it('is what fits: nothing happens to it, nor to what JSON cannot say, which others refuse', () => {
    const round: Record<string, unknown> = {}
    round['again'] = round
    for (const value of ['x'.repeat(100), { a: 'x'.repeat(80) }, null, undefined, 1n, [1, { b: true }], round])
      expect(clip(value, 100).value).toBe(value)
  })
})
