import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { editJson } from '../../src/setup/edit-json.ts'

describe('editJson', () => {
  it('sets and removes values, and keeps comments, order and indentation', () => {
    const text = `{
    // The servers.
    "mcpServers": {
        "a": { "command": "a" }, // first
        "b": { "command": "b" }
    },
    "other": [1,2,   3]
}
`
    expect(
      editJson(text, [
        { path: ['mcpServers', 'b'], value: undefined },
        { path: ['mcpServers', 'pegboard'], value: { command: 'pegboard' } },
      ]),
    ).toBe(`{
    // The servers.
    "mcpServers": {
        "a": { "command": "a" }, // first
        "pegboard": {
            "command": "pegboard"
        }
    },
    "other": [1,2,   3]
}
`)
  })

  it('keeps tabs, Windows line ends and a byte order mark', () => {
    expect(editJson('\ufeff{\r\n\t"a": 1\r\n}\r\n', [{ path: ['b'], value: [2] }])).toBe(
      '\ufeff{\r\n\t"a": 1,\r\n\t"b": [\r\n\t\t2\r\n\t]\r\n}\r\n',
    )
  })

  it('creates the objects of a path, also in an empty file', () => {
    expect(editJson('', [{ path: ['mcpServers', 'a'], value: { url: 'http://a' } }])).toBe(`{
  "mcpServers": {
    "a": {
      "url": "http://a"
    }
  }
}
`)
  })

  it('changes nothing when it removes what is not there', () => {
    expect(editJson('{"a":{}}', [{ path: ['b', 'c'], value: undefined }])).toBe('{"a":{}}')
  })

  it('keeps the comments of neighbours', () => {
    const text = `{
  "a": 1, // one
  // about b
  "b": 2 // two
  // the end
}`
    expect(editJson(text, [{ path: ['c'], value: 3 }])).toBe(`{
  "a": 1, // one
  // about b
  "b": 2, // two
  "c": 3
  // the end
}`)
    expect(editJson(text, [{ path: ['a'], value: undefined }])).toBe(`{
  // about b
  "b": 2 // two
  // the end
}`)
    expect(editJson(text, [{ path: ['b'], value: undefined }])).toBe(`{
  "a": 1 // one
  // about b
  // the end
}`)
  })

  it('keeps trailing commas, and edits lists', () => {
    expect(editJson('{\n  "a": [\n    1,\n    2,\n  ],\n}', [{ path: ['a', 2], value: 3 }])).toBe(
      '{\n  "a": [\n    1,\n    2,\n    3,\n  ],\n}',
    )
    expect(editJson('{"a": [1, 2, 3]}', [{ path: ['a', 1], value: undefined }])).toBe('{"a": [1, 3]}')
    expect(editJson('{"a": [1, 2]}', [{ path: ['a', 1], value: undefined }])).toBe('{"a": [1]}')
    expect(editJson('{\n  "a": {\n    "b": 1\n  }\n}', [{ path: ['a', 'b'], value: undefined }])).toBe(
      '{\n  "a": {}\n}',
    )
    expect(editJson('{ // nothing yet\n}', [{ path: ['a'], value: 1 }])).toBe('{ // nothing yet\n  "a": 1\n}')
  })

  it('changes made-up files in any order without touching other values', () => {
    const json = fc.jsonValue({ maxDepth: 2 }).filter((value) => !JSON.stringify(value).includes('"__proto__"'))
    fc.assert(
      fc.property(
        fc.dictionary(fc.constantFrom('a', 'b', 'c', 'd'), json),
        fc.array(fc.tuple(fc.constantFrom('a', 'b', 'c', 'd'), fc.option(json, { nil: undefined }))),
        fc.constantFrom(undefined, 2, '\t'),
        (start, steps, indent) => {
          const expected: Record<string, unknown> = { ...start }
          for (const [key, value] of steps)
            if (value === undefined) delete expected[key]
            else expected[key] = value
          const edited = editJson(
            JSON.stringify(start, null, indent),
            steps.map(([key, value]) => ({ path: [key], value })),
          )
          expect(JSON.parse(edited)).toEqual(JSON.parse(JSON.stringify(expected)))
        },
      ),
      { numRuns: 200 },
    )
  })

  it('keeps integers that JavaScript would round', () => {
    expect(editJson('{"id":9007199254740993}', [{ path: ['a'], value: 1 }])).toBe('{"id":9007199254740993, "a": 1}')
  })

  it.each([
    ['{"a": ', 'The file is not valid JSON at line 1, column 7: expected a value but found the end of the file.'],
    ['{"a": 1, "a": 2}', 'The file is not valid JSON at line 1, column 10: the key "a" is given twice.'],
    ['{"__proto__": {}}', 'The file is not valid JSON at line 1, column 2: "__proto__" cannot be a key.'],
    ['[]', '"a" cannot be set: it is not in an object.'],
    ['{"a": "text"}', '"b" cannot be set: it is not in an object.'],
  ])('refuses %s', (text, message) => {
    expect(() => editJson(text, [{ path: ['a', 'b'], value: 1 }])).toThrow(
      expect.objectContaining({ code: 'E_EDIT_SYNTAX', message }),
    )
  })
})
