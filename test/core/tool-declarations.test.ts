import { describe, expect, it } from 'vitest'
import { type DeclaredTool, declareTools } from '../../src/core/tool-declarations.ts'
import { stripTypes } from '../../src/loader/strip-types.ts'

const declare = (input: DeclaredTool['input'], more: Partial<DeclaredTool> = {}): string =>
  declareTools([{ id: 'files.read', about: '', input, ...more }])

/** What is left without types: nothing, if the text is one declaration. @throws SourceError for invalid syntax */
const codeIn = async (text: string): Promise<string> => (await stripTypes(text)).trim()

describe('declarations of tools in TypeScript', () => {
  it('group tools by owner, with a comment and types for arguments and result', async () => {
    const text = declareTools([
      {
        id: 'files.read',
        about: 'Reads a file.',
        input: {
          type: 'object',
          properties: { limit: { type: 'integer', description: 'Lines.' }, path: { type: 'string' } },
          required: ['path'],
        },
        output: { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] },
      },
      { id: 'my-server.list-all', about: '', input: { type: 'object' } },
      { id: 'files.stat', about: '', input: { type: 'object', properties: { mode: { enum: ['a', 1, null] } } } },
    ])
    expect(text).toBe(
      `declare const tools: {
  files: {
    /** Reads a file. */ read(args: { path: string; /** Lines. */ limit?: number }): Promise<{ text: string }>;
    stat(args?: { mode?: "a" | 1 | null }): Promise<any>;
  };
  "my-server": {
    "list-all"(args?: Record<string, unknown>): Promise<any>;
  };
};`,
    )
    expect(await codeIn(text)).toBe('')
  })

  it('follow references, alternatives, lists and nested objects', () => {
    expect(
      declare({
        type: 'object',
        $defs: { Point: { type: 'object', properties: { x: { type: 'number' } }, required: ['x'] } },
        properties: {
          at: { $ref: '#/$defs/Point' },
          either: { anyOf: [{ type: 'string' }, { type: 'array', items: { type: 'integer' } }] },
          maybe: { type: ['string', 'null'] },
          labels: { type: 'object', additionalProperties: { type: 'string' } },
        },
        required: ['at', 'either', 'maybe', 'labels'],
      }),
    ).toContain(
      'read(args: { at: { x: number }; either: string | Array<number>; maybe: string | null; labels: Record<string, string> })',
    )
  })

  it('end at a definition that contains itself', async () => {
    const node = { type: 'object', properties: { next: { $ref: '#/$defs/Node' } }, required: ['next'] }
    const text = declare({ type: 'object', $defs: { Node: node }, properties: { first: { $ref: '#/$defs/Node' } } })
    expect(text.length).toBeLessThan(300)
    expect(await codeIn(text)).toBe('')
  })

  it('shorten long ones, but keep every required parameter', () => {
    const names = Array.from({ length: 100 }, (_, n) => `parameter${n}`)
    const properties = Object.fromEntries(
      names.map((name) => [
        name,
        { type: 'object', description: 'x'.repeat(200), properties: { inner: { type: 'string' } } },
      ]),
    )
    const text = declare({ type: 'object', properties, required: names })
    expect(names.filter((name) => !text.includes(`${name}: `))).toEqual([])
    expect(text).not.toContain('xxx')
  })

  it('hold names and texts of a server that try to leave them', async () => {
    const text = declare(
      {
        type: 'object',
        properties: { 'a"; }; evil(': { type: 'string', description: '*/ } }; import("x"); /*\n// new line' } },
      },
      { about: 'First */ line\nsecond' },
    )
    expect(await codeIn(text)).toBe('')
    expect(text.split('\n')).toHaveLength(5)
  })

  it.each(['anyOf', 'allOf', 'oneOf'])('end soon at a definition that names itself 900 times: %s', async (keyword) => {
    const many = { [keyword]: Array.from({ length: 900 }, () => ({ $ref: '#/$defs/Many' })) }
    const text = declare({ type: 'object', $defs: { Many: many }, properties: { first: { $ref: '#/$defs/Many' } } })
    expect(text.length).toBeLessThan(20_000)
    expect(await codeIn(text)).toBe('')
  })

  it('are no longer than what a model reads, whatever names and values a server has', async () => {
    const long = 'x'.repeat(190_000)
    const values = Array.from({ length: 900 }, (_, n) => `value ${n}${'y'.repeat(180)}`)
    const schemas = [
      { type: 'object', properties: { [long]: { type: 'string' } }, required: [long] },
      { type: 'object', properties: { a: { const: long } }, required: ['a'] },
      { type: 'object', properties: { a: { enum: values } }, required: ['a'] },
      {
        type: 'object',
        $defs: { Long: { const: 'z'.repeat(7_000) } },
        properties: Object.fromEntries(values.map((value) => [value, { $ref: '#/$defs/Long' }])),
        required: values,
      },
    ]
    for (const schema of schemas) {
      const text = declare(schema, { output: schema })
      expect(text.length).toBeLessThan(20_000)
      expect(await codeIn(text)).toBe('')
    }
  })
})
