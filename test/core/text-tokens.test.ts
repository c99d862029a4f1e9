import { encode } from 'gpt-tokenizer/encoding/o200k_base'
import { describe, expect, it } from 'vitest'
import { cutText, isLongerThan, tokensOfText } from '../../src/core/text-tokens.ts'

const row = (i: number) => ({ id: i * 7_919, name: `Customer ${i}`, email: `user${i}@example.com`, total: i * 13.37 })
const bytes = Buffer.from(Array.from({ length: 9_000 }, (_, i) => (i * i * 31 + 17 * i) >>> 3))

const samples: Readonly<Record<string, string>> = {
  prose: 'The first time Pegboard connects to a server, it approves all of its tools and records them. '.repeat(60),
  rows: JSON.stringify(Array.from({ length: 200 }, (_, i) => row(i))),
  numbers: JSON.stringify(Array.from({ length: 1_000 }, (_, i) => Math.sin(i) * 1_000)),
  log: Array.from(
    { length: 200 },
    (_, i) => `2026-11-24T01:02:${i}Z INFO [worker-${i % 7}] GET /api/users/${i} 200 ${i * 3}ms`,
  ).join('\n'),
  base64: bytes.toString('base64'),
  hexadecimal: bytes.toString('hex'),
  html: '<div class="row"><a href="/x/y?z=1">Link text here</a><span>12</span></div>\n'.repeat(100),
  chinese: '今天天气很好，我们去公园散步。数据库连接失败，请检查网络设置。'.repeat(50),
  russian: 'Сегодня хорошая погода, и мы пойдём гулять в парк. '.repeat(50),
}

describe('the estimate of tokens', () => {
  for (const [name, text] of Object.entries(samples))
    it(`is close to o200k for ${name}`, () => {
      const ratio = tokensOfText(text) / encode(text).length
      expect(ratio).toBeGreaterThan(0.94)
      expect(ratio).toBeLessThan(1.5)
    })

  it('stops where a text is too long', () => {
    expect(isLongerThan('word '.repeat(80), 100)).toBe(false)
    expect(isLongerThan('word '.repeat(82), 100)).toBe(true)
    expect(isLongerThan('', 0)).toBe(false)
  })
})

describe('cutting a text', () => {
  it('ends after a line', () => {
    const text = 'one two three\n'.repeat(100)
    const end = cutText(text, 50)
    expect(end % 14).toBe(0)
    expect(end).toBeGreaterThan(100)
  })

  it('ends after a word if the line is long, and never within a surrogate pair', () => {
    const words = 'alpha beta '.repeat(1_000)
    expect(words.slice(0, cutText(words, 100))).toMatch(/ $/)
    const faces = '😀'.repeat(1_000)
    expect(faces.slice(0, cutText(faces, 10))).toMatch(/^(?:😀)+$/u)
  })

  it('always advances', () => {
    for (const text of ['a'.repeat(500), '='.repeat(500), ' '.repeat(500)]) {
      let at = 0
      let steps = 0
      while (at < text.length && steps++ < 10_000) at = cutText(text, 1, at)
      expect(at).toBe(text.length)
    }
  })
})
