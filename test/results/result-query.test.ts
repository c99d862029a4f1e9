import { describe, expect, it } from 'vitest'
import { queryResult, summarizeResult } from '../../src/results/result-query.ts'
import { shapeOf } from '../../src/results/result-shape.ts'

const log = Array.from({ length: 1_000 }, (_, i) =>
  i % 100 === 50 ? `ERROR job ${i} failed` : `INFO job ${i} done`,
).join('\n')
const rows = Array.from({ length: 500 }, (_, i) => ({
  id: i,
  name: `Item ${i}`,
  price: i * 2,
  tags: i % 2 ? ['odd'] : ['even', 'pair'],
  owner: { city: i % 3 ? 'Graz' : 'Wien' },
}))
const table = JSON.stringify({ total: 500, items: rows })

const read = (text: string, query: object, tokens = 1_000) => queryResult(text, query, tokens)

describe('the shape of a value', () => {
  it('names keys, types and counts', () => {
    expect(shapeOf({ total: 2, items: [{ id: 1, note: 'a' }, { id: 2.5 }], empty: [], none: null })).toBe(
      '{total: integer, items: 2 × {id: integer|number, note?: string}, empty: [], none: null}',
    )
    expect(shapeOf([[1, 2], [3]])).toBe('2 × 1–2 × integer')
  })

  it('leaves out inner levels until it fits', () => {
    const wide = Object.fromEntries(Array.from({ length: 30 }, (_, i) => [`key_${i}`, { inner: { value: i } }]))
    expect(shapeOf(wide, 2_000)).toContain('key_0: {inner: {value: integer}}')
    expect(shapeOf(wide, 700)).toContain('key_0: {1 key}')
    expect(shapeOf(wide, 100).length).toBeLessThanOrEqual(100)
  })
})

describe('the summary of a result', () => {
  it('of JSON has its shape and its beginning', () => {
    expect(summarizeResult(table, 30)).toMatchObject({
      isJson: true,
      shape: expect.stringContaining('items: 500 × {id'),
    })
    const list = summarizeResult(JSON.stringify(rows), 60)
    expect(list).toMatchObject({ lines: 500, unit: 'row', preview: expect.stringMatching(/^\{"id":0,[\s\S]*\}$/) })
  })

  it('of text ends after a line', () => {
    const { isJson, lines, preview } = summarizeResult(log, 40)
    expect([isJson, lines]).toEqual([false, 1_000])
    expect(preview).toMatch(/^INFO job 0 done\n[\s\S]* done$/)
  })
})

describe('reading a text', () => {
  it('gives the first page, and then the next', () => {
    const first = read(log, {}, 100)
    expect(first.note).toMatch(/^lines 1–\d+ of 1,000 lines\. Page 1 of about \d+; go on with page 2\.$/)
    const second = read(log, { page: 2 }, 100)
    const next = first.text.split('\n').length
    expect(second.text.split('\n')[0]).toBe(`INFO job ${next} done`)
    expect(second.note).toMatch(new RegExp(`^lines ${next + 1}–`))
  })

  it('gives every line exactly once over all pages', () => {
    const pages: string[] = []
    for (let page = 1; ; page++) {
      const { note, text } = read(log, { page }, 400)
      pages.push(text)
      if (/the last/.test(note)) break
    }
    expect(pages.join('\n')).toBe(log)
  })

  it('gives lines, head and tail', () => {
    expect(read(log, { lines: '51-52' })).toEqual({
      note: 'lines 51–52, 2 of 1,000 lines in 51-52. All of it.',
      text: 'ERROR job 50 failed\nINFO job 51 done',
    })
    expect(read(log, { head: 2 }).text).toBe('INFO job 0 done\nINFO job 1 done')
    expect(read(log, { tail: 1 }).text).toBe('INFO job 999 done')
    expect(read('one\ntwo\nthree\n', { tail: 2 })).toEqual({
      note: 'lines 2–3, 2 of 3 lines. All of it.',
      text: 'two\nthree',
    })
  })

  it('finds lines, with context, and counts them', () => {
    expect(read(log, { grep: 'ERROR.*fail', context: 1, head: 3 }).text).toBe(
      '50-INFO job 49 done\n51:ERROR job 50 failed\n52-INFO job 51 done',
    )
    expect(read(log, { grep: 'error', ignoreCase: true, count: true })).toEqual({
      note: '10 lines with "error".',
      text: '',
    })
    expect(read(log, { grep: 'nothing like it' }).note).toBe('None of 1,000 lines with "nothing like it".')
  })

  it('shows the lines around a match with their own text, also in a part of the result', () => {
    expect(read(log, { lines: '700-800', grep: 'ERROR', context: 1 }).text).toBe(
      '750-INFO job 749 done\n751:ERROR job 750 failed\n752-INFO job 751 done',
    )
  })

  it('searches for the text if it is no regular expression', () => {
    expect(read('a(b\nc', { grep: 'a(' })).toMatchObject({ text: '1:a(b' })
  })

  it('spreads a sample', () => {
    expect(read(log, { sample: 4 }).text.split('\n')).toEqual([
      'INFO job 0 done',
      'ERROR job 250 failed',
      'INFO job 500 done',
      'ERROR job 750 failed',
    ])
  })

  it('cuts a text without lines', () => {
    const page = `<p>${'word '.repeat(5_000)}</p>`
    const { text, note } = read(page, {}, 100)
    expect(text.length).toBeLessThan(700)
    expect(note).toContain('go on with page 2')
  })
})

describe('reading JSON', () => {
  it('by path', () => {
    expect(read(table, { path: '$.items[1].name' }).text).toBe('Item 1')
    expect(read(table, { path: 'items[-1].owner.city' }).text).toBe('Graz')
    expect(read(table, { path: '$.items[2:4].id' }).text).toBe('2\n3')
    expect(read(table, { path: "$['items'][*].id", count: true }).note).toBe('500 rows.')
    expect(() => read(table, { path: '$.nothing' })).toThrow('Nothing is at $.nothing.')
    expect(() => read(table, { path: '$.items[' })).toThrow('Invalid path')
    expect(() => read(log, { path: '$.a' })).toThrow('The result is text, not JSON.')
  })

  it('filters and projects rows', () => {
    expect(read(table, { where: { price: { '>': 990 } }, select: ['id', 'owner.city'] }).text).toBe(
      '{"id":496,"owner.city":"Graz"}\n{"id":497,"owner.city":"Graz"}\n{"id":498,"owner.city":"Wien"}\n{"id":499,"owner.city":"Graz"}',
    )
    expect(read(table, { where: { tags: { contains: 'odd' }, name: { contains: 'ITEM 1' } }, count: true }).note).toBe(
      '56 rows.',
    )
    expect(read(table, { where: { id: { in: [3, 5] } }, select: ['name'] }).text).toBe(
      '{"name":"Item 3"}\n{"name":"Item 5"}',
    )
    expect(read(table, { path: '$.items', where: { id: 7 } }).text).toMatch(/^\{"id":7,/)
    expect(() => read(table, { where: { id: { like: 3 } } })).toThrow('unknown operator "like"')
    expect(() => read('{"a":1}', { where: { a: 1 } })).toThrow('where and select need a list of objects.')
  })

  it('finds the rows inside wrappers', () => {
    const wrapped = JSON.stringify({ result: { result: [{ id: 1 }, { id: 2 }] } })
    expect(read(wrapped, { where: { id: 2 } }).text).toBe('{"id":2}')
  })

  it('of an object line by line', () => {
    expect(read('{"a":{"b":1}}', { grep: '"b"' }).text).toBe('3:  "b": 1')
  })

  it('treats the lines inside its strings as lines', () => {
    const file = JSON.stringify({ path: 'C:\\new.log', content: `${log}\r\na "quoted" word`, lines: 1_001 })
    expect(read(file, { grep: '^ERROR', count: true }).note).toBe('10 lines with "^ERROR".')
    expect(read(file, { grep: 'a "quoted" word' }).text).toBe('1003:a "quoted" word",')
    expect(read(file, { head: 4 }).text).toBe(
      '{\n "path": "C:\\\\new.log",\n "content": "INFO job 0 done\nINFO job 1 done',
    )
    const { note } = read(file, {}, 100_000)
    expect(note).toBe('lines 1–1005 of 1,005 lines. All of it.')
    expect(summarizeResult(file, 30)).toMatchObject({ lines: 1_005, unit: 'line' })
  })
})

describe('a result of a hostile server', () => {
  it('with a key of a million characters gives a short hint', () => {
    const key = 'k'.repeat(1_000_000)
    const hintOf = (query: object, value: unknown): number => {
      try {
        read(JSON.stringify(value), query)
      } catch (error) {
        return (error as { hint: string }).hint.length
      }
      throw new Error('it did not fail')
    }
    expect(hintOf({ path: '$.x' }, { [key]: 1 })).toBeLessThan(100)
    expect(hintOf({ select: ['a'] }, { [key]: [{ a: 1 }], other: [{ a: 1 }] })).toBeLessThan(200)
  })

  it('that is too deep to be indented is read as text', () => {
    const deep = `${'['.repeat(200_000)}${']'.repeat(200_000)}`
    expect(read(deep, { page: 2 }).note).toContain('Page 2 of about')
    expect(read(deep, { grep: 'x', count: true }).note).toBe('0 lines with "x".')
  })

  it('with millions of empty objects is read as text, because they would fill the memory', () => {
    const crowded = `[${'{},'.repeat(2_100_000)}{}]`
    expect(summarizeResult(crowded, 10)).toMatchObject({ isJson: false, lines: 1 })
    expect(read(crowded, { page: 2 }).note).toContain('Page 2 of about')
    expect(() => read(crowded, { path: '$[0]' })).toThrow('The result has more than 2,000,000 keys and items')
  })

  it('has no hidden characters, however its JSON spells them', () => {
    const text = '{"name":"a\\u202eb\\udb40\\udc48\\u200b","k\\u200b":1,"note":"\\n[NOTICE] x"}'
    expect(read(text, { path: '$.name' }).text).toBe('ab')
    expect(read(text, { path: '$.note' }).text).toBe('\n\\[NOTICE] x')
    expect(read(text, {}).text).toBe('{\n "name": "ab",\n "k": 1,\n "note": "\n\\[NOTICE] x"\n}')
  })
})

it('numbers that JavaScript cannot represent keep all digits, as text', () => {
  const text = '{"items":[{"id":9007199254740993,"n":1},{"id":9007199254740995,"n":1e400}]}'
  expect(read(text, { path: 'items' }).text).toBe(
    '{"id":"9007199254740993","n":1}\n{"id":"9007199254740995","n":"1e400"}',
  )
  expect(read(text, { path: 'items', select: ['id'] }).text).toContain('9007199254740995')
  expect(read(text, {}).text).toContain('9007199254740993')
})
