import { describe, expect, it } from 'vitest'
import { createCitations, urlsIn } from '../../src/agent/citations.ts'

describe('URLs in tool results [SBS-16]', () => {
  it('are found once each, without surrounding punctuation', () => {
    const text =
      'See https://example.com/a?b=1#c, (http://example.org/x_(y)) and <https://example.com/a?b=1#c>. Also **https://a.test/**, "https://b.test/q;" https://c.test/[1]].'
    expect(urlsIn(text)).toEqual([
      'https://example.com/a?b=1#c',
      'http://example.org/x_(y)',
      'https://a.test/',
      'https://b.test/q',
      'https://c.test/[1]',
    ])
    expect(urlsIn('https:// http://. ftp://x.test plain')).toEqual([])
  })

  it('are found in JSON', () => {
    expect(urlsIn(JSON.stringify({ url: 'https://a.test/b', also: ['https://c.test'] }))).toEqual([
      'https://a.test/b',
      'https://c.test',
    ])
  })

  it('are stored with their tools, and those used in an answer are returned', () => {
    const citations = createCitations()
    citations.add('web__search', 'https://a.test and https://b.test')
    citations.add('web__read', 'https://a.test')
    expect(citations.all).toEqual([
      { url: 'https://a.test', tools: ['web__search', 'web__read'] },
      { url: 'https://b.test', tools: ['web__search'] },
    ])
    expect(citations.usedIn('It is at https://b.test, as I said.')).toEqual([
      { url: 'https://b.test', tools: ['web__search'] },
    ])
  })

  it('are found in linear time', () => {
    for (const piece of [')', 'http://a', `https://a.test/${')'.repeat(1_900)} `, 'https://', 'h'])
      expect(urlsIn(piece.repeat(Math.ceil(1_000_000 / piece.length))).length).toBeLessThanOrEqual(1_000)
  })
})
