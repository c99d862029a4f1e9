import { describe, expect, it } from 'vitest'
import { JsoncError, parseJsonc } from '../../src/config/jsonc.ts'

function failure(text: string): JsoncError {
  try {
    parseJsonc(text)
  } catch (error) {
    if (error instanceof JsoncError) return error
    throw error
  }
  throw new Error(`accepted: ${text}`)
}

describe('parseJsonc', () => {
  it('parses everything that JSON.parse parses', () => {
    const text = JSON.stringify({
      a: [1, -2.5e3, 0, true, false, null, 'é "q" \\ \n \u2028'],
      b: { c: {} },
      'd e': [],
    })
    expect(parseJsonc(text).value).toEqual(JSON.parse(text))
  })

  it('allows comments, trailing commas and a byte order mark', () => {
    const text = '\ufeff// top\n{ "a": 1, /* why */ "b": [1, 2,], // end\n "url": "http://x//y", }\n// done'
    expect(parseJsonc(text).value).toEqual({ a: 1, b: [1, 2], url: 'http://x//y' })
  })

  it('knows the line of every key and item', () => {
    const { lines } = parseJsonc('{\n "a": {\n\n  "b": 1 },\n "c": [\n  1,\n  {"d": 2}]\n}')
    expect(Object.fromEntries(lines)).toEqual({ a: 2, 'a.b': 4, c: 5, 'c.0': 6, 'c.1': 7, 'c.1.d': 7 })
  })

  it.each([
    ['', 1, 1, 'expected a value but found the end of the file'],
    ['{', 1, 2, 'expected "}" but found the end of the file'],
    ['{\n  "a": 1\n  "b": 2\n}', 3, 3, 'expected "," but found """'],
    ['{"a" 1}', 1, 6, 'expected ":" but found "1"'],
    ["{'a': 1}", 1, 2, '"\'" is not allowed here; keys and strings need double quotes'],
    ['{a: 1}', 1, 2, '"a" is not allowed here; keys and strings need double quotes'],
    ['{"a": nope}', 1, 7, '"n" is not allowed here; keys and strings need double quotes'],
    ['{"a": "x\ny"}', 1, 7, 'a string is not closed'],
    ['{"a": "\\x"}', 1, 7, 'a string has an unknown escape'],
    ['{"a": "\\u12"}', 1, 7, 'a string has an incomplete \\u escape'],
    ['{"a": "\t"}', 1, 7, 'a string has a line break or control character'],
    ['{"a": 1.}', 1, 7, 'a number is not valid'],
    ['{"a": 1} 2', 1, 10, 'expected the end of the file but found "2"'],
    ['{"a": 1, "a": 2}', 1, 10, 'the key "a" is given twice'],
    ['{"__proto__": {}}', 1, 2, '"__proto__" cannot be a key'],
    ['{ /* open', 1, 3, 'a comment is not closed'],
    ['{"a": ,}', 1, 7, 'expected a value but found ","'],
  ])('reports where %j is wrong', (text, line, column, message) => {
    expect(failure(text)).toMatchObject({ line, column, message })
  })

  it('rejects an integer that would be rounded, with its position', () => {
    for (const number of ['1234567890123456789', '-9007199254740993', '1e30'])
      expect(() => parseJsonc(`{\n "chat": ${number}}`)).toThrow('an integer beyond 2^53 would be rounded')
    expect(parseJsonc('[9007199254740991, 0.1, 1e-9]').value).toEqual([9007199254740991, 0.1, 1e-9])
  })

  it('shows no unquoted secret in an error', () => {
    for (const text of ['{"apiKey": sk-live-1}', '{"a": 1 "sk-live-1"}', '{"a": 1} sk-live-1'])
      expect(failure(text).message).not.toContain('sk-')
  })

  it('rejects excessive nesting instead of overflowing', () => {
    expect(failure('['.repeat(100_000)).message).toBe('nested more than 100 deep')
  })
})
