import { describe, expect, it } from 'vitest'
import { createCatalog } from '../../src/catalog/catalog.ts'
import { localCaller } from '../../src/core/caller.ts'
import { createLog } from '../../src/core/log.ts'
import { toSchema } from '../../src/core/schema.ts'
import type { Tool } from '../../src/core/tool.ts'
import { createPolicy } from '../../src/policy/policy.ts'
import { findWidening } from '../../src/view/assemble-tools.ts'
import { createViews } from '../../src/view/views.ts'
import { makeTool } from '../tools.ts'
import { sameRules } from '../view-rules.ts'

const base = {
  type: 'object',
  properties: {
    query: { type: 'string', maxLength: 100 },
    category: { type: 'string', enum: ['text', 'image', 'video'] },
    count: { type: 'integer', minimum: 1, maximum: 20 },
    score: { type: ['number', 'null'] },
    tags: { type: 'array', items: { type: 'string', enum: ['a', 'b'] } },
    where: {
      type: 'object',
      properties: { city: { type: 'string' } },
      required: ['city'],
      additionalProperties: false,
    },
    any: {},
    either: { anyOf: [{ type: 'string' }, { type: 'array', items: { type: 'string' } }] },
    free: { type: 'object' },
    code: { type: 'string', pattern: '^[a-z]+$' },
  },
  required: ['query'],
  additionalProperties: false,
}
const { properties } = base
const changed = (change: object): object => ({ ...base, properties: { ...properties, ...change } })
const without = (name: keyof typeof properties): object => {
  const { [name]: _left, ...rest } = properties
  return { ...base, properties: rest }
}

describe('a variant of a schema', () => {
  it.each<[string, object]>([
    ['the same', structuredClone(base)],
    ['other words', changed({ query: { type: 'string', maxLength: 100, description: 'What to find.' } })],
    ['fewer parameters', without('category')],
    ['fewer values', changed({ category: { type: 'string', enum: ['text'] } })],
    ['one value', changed({ category: { const: 'image' } })],
    ['values of a free text', changed({ code: { enum: ['abc'] } })],
    ['closer bounds', changed({ count: { type: 'integer', minimum: 2, maximum: 10 } })],
    ['one of two types', changed({ score: { type: 'number' } })],
    ['whole numbers for numbers', changed({ score: { type: 'integer' } })],
    ['one of two forms', changed({ either: { type: 'string' } })],
    ['two forms of what was free', changed({ any: { anyOf: [{ type: 'string' }, { type: 'number' }] } })],
    ['more said of a free object', changed({ free: { type: 'object', properties: { a: { type: 'string' } } } })],
    ['fewer definitions', { ...base, $defs: {} }],
    ['more that is required', { ...base, required: ['query', 'category'] }],
  ])('may have %s', (_what, variant) => expect(findWidening(base, variant)).toBeUndefined())

  it.each<[string, object]>([
    ['new_one is a parameter that the tool does not have', changed({ new_one: { type: 'string' } })],
    [
      'category has the value "papers", which the tool does not have',
      changed({ category: { type: 'string', enum: ['text', 'papers'] } }),
    ],
    ['category is no longer one of 3 values', changed({ category: { type: 'string' } })],
    ['query has another type (number, not string)', changed({ query: { type: 'number' } })],
    ['query has another type (any, not string)', changed({ query: {} })],
    ['query has another maxLength', changed({ query: { type: 'string', maxLength: 200 } })],
    ['query has another maxLength', changed({ query: { type: 'string' } })],
    ['count has another minimum', changed({ count: { type: 'integer', minimum: 0, maximum: 20 } })],
    [
      'score has another type (number, null, string, not number, null)',
      changed({ score: { type: ['number', 'null', 'string'] } }),
    ],
    ['code has another pattern', changed({ code: { type: 'string', pattern: '.*' } })],
    [
      'tags[] has the value "c", which the tool does not have',
      changed({ tags: { type: 'array', items: { type: 'string', enum: ['a', 'c'] } } }),
    ],
    [
      'where.zip is a parameter that the tool does not have',
      changed({ where: { ...properties.where, properties: { city: { type: 'string' }, zip: { type: 'string' } } } }),
    ],
    [
      'where.city is no longer required',
      changed({ where: { type: 'object', properties: { city: { type: 'string' } }, additionalProperties: false } }),
    ],
    [
      'where takes further parameters',
      changed({ where: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] } }),
    ],
    [
      'either has an alternative that the tool does not have',
      changed({ either: { anyOf: [{ type: 'string' }, { type: 'number' }] } }),
    ],
    [
      'query has another type (number, not string)',
      changed({ query: { anyOf: [{ type: 'string', maxLength: 9 }, { type: 'number' }] } }),
    ],
    ['query is no longer required', { ...base, required: [] }],
    ['query is no longer required', { ...without('query'), required: [] }],
    ['the whole takes further parameters', { ...base, additionalProperties: true }],
    ['query has another $ref, which cannot be compared', changed({ query: { $ref: '#/$defs/q' } })],
    ['the whole has another type (any, not object)', {}],
  ])('may not: %s', (why, variant) => expect(findWidening(base, variant)).toBe(why))
})

describe('an assembled tool', () => {
  const input = toSchema(base)
  const shown = (change: Partial<Tool>) => {
    const catalog = createCatalog()
    catalog.set(
      { id: 'm', summary: 'm', origin: 'module', state: 'ready' },
      { tools: [makeTool('m.fine'), makeTool('m.a', { input, ...change })] },
    )
    const logged: string[] = []
    const views = createViews({
      catalog,
      rulesOf: sameRules(createPolicy()),
      log: createLog((line) => logged.push(line), 'warn'),
    })
    return { view: views.viewFor(localCaller), logged, catalog, views }
  }

  it('that would accept more for a caller is hidden from it, and the log says why', () => {
    const wide = toSchema(changed({ shell: { type: 'string' } }))
    const { view, logged } = shown({ assemble: () => ({ description: 'Takes more than it should.', input: wide }) })
    expect(view.tools.map(({ tool }) => tool.id)).toEqual(['m.fine'])
    expect(view.hidden.get('m.a')).toMatchObject({ stage: 'assembly', reason: 'its assembly check failed' })
    expect(JSON.parse(logged[0] ?? '')).toMatchObject({
      tool: 'm.a',
      error: expect.stringContaining('accepts more than the tool: shell is a parameter that the tool does not have'),
    })
  })

  it('is compared once for each of its variants', () => {
    let reads = 0
    const narrow = toSchema(without('category'))
    const counted = {
      parse: narrow.parse,
      get json() {
        reads++
        return narrow.json
      },
    }
    const { views, catalog } = shown({ assemble: () => ({ description: 'Takes less than it could.', input: counted }) })
    for (let n = 0; n < 5; n++) {
      catalog.touch()
      expect(views.viewFor(localCaller).byId.has('m.a')).toBe(true)
    }
    expect(reads).toBe(1)
  })

  it('without a description is hidden', () => {
    const { view } = shown({ assemble: () => ({ input }) as never })
    expect(view.hidden.get('m.a')?.failure).toBe('assemble returned no description')
  })
})
