import { describe, expect, it } from 'vitest'
import { toSchema } from '../../src/core/schema.ts'

const describeErrors = (schema: object, given: unknown): string[] => {
  const parsed = toSchema({ $defs: DEFINITIONS, ...schema }).parse(given)
  return parsed.ok ? [] : parsed.issues.map(({ path, message }) => (path === '' ? message : `${path}: ${message}`))
}
const DEFINITIONS = {
  Card: {
    type: 'object',
    required: ['kind', 'number'],
    properties: { kind: { const: 'card' }, number: { type: 'string' } },
  },
  Iban: {
    type: 'object',
    required: ['kind', 'iban'],
    properties: { kind: { enum: ['iban'] }, iban: { minLength: 15 } },
  },
  Tree: {
    type: 'object',
    properties: { kids: { type: 'array', items: { $ref: '#/$defs/Tree' } }, size: { type: 'integer' } },
  },
}
const object = (properties: object, more: object = {}) => ({ type: 'object', properties, ...more })
const payment = { oneOf: [{ $ref: '#/$defs/Card' }, { $ref: '#/$defs/Iban' }] }
const states = { enum: ['open', 'closed', 'merged'] }
const many = { enum: Array.from({ length: 23 }, (_, n) => `v${n}`) }

describe('an argument that violates a JSON Schema is described with', () => {
  it.each([
    ['its type', { type: 'string' }, 5, ['must be a string, not a number']],
    ['several types', { type: ['integer', 'null'] }, 'x', ['must be a whole number or null, not a string']],
    ['its type, if it has a fraction', { type: 'integer' }, 1.5, ['must be a whole number']],
    ['the allowed values', states, 'x', ['must be "open", "closed" or "merged"']],
    ['the nearest value', states, 'opne', ['must be "open", "closed" or "merged"; did you mean "open"?']],
    [
      'the first of many values',
      many,
      'x',
      [
        'must be "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15", "v16", "v17", "v18", "v19" or one of 3 other values',
      ],
    ],
    ['the only value', { const: 3 }, 4, ['must be 3']],
    ['a minimum', { minimum: 1 }, 0, ['must be at least 1']],
    ['a maximum', { maximum: 9 }, 10, ['must be at most 9']],
    ['an exclusive minimum', { exclusiveMinimum: 0 }, 0, ['must be more than 0']],
    ['an exclusive maximum', { exclusiveMaximum: 1 }, 1, ['must be less than 1']],
    ['a step', { multipleOf: 5 }, 7, ['must be a multiple of 5']],
    ['a minimum length', { minLength: 2 }, 'a', ['must have at least 2 characters']],
    ['a maximum length', { maxLength: 2 }, 'abc', ['must have at most 2 characters']],
    ['an empty text', { minLength: 1 }, '', ['must not be empty']],
    ['a maximum number of entries', { maxItems: 1 }, [1, 2], ['must have at most 1 entry']],
    ['a minimum number of keys', { minProperties: 2 }, { a: 1 }, ['must have at least 2 entries']],
    ['equal entries', { uniqueItems: true }, [1, 1], ['must not have the same entry twice']],
    ['a missing entry', { contains: { const: 1 } }, [2], ['must have an entry that matches {"const":1}']],
    ['a pattern', { pattern: '^[a-z]+$' }, 'A', ['must match /^[a-z]+$/']],
    ['a date', { format: 'date' }, 'yesterday', ['must be a date such as "2026-01-31"']],
    ['an address', { format: 'uri' }, 'x', ['must be an address such as "https://example.com"']],
    ['another format', { format: 'json-pointer' }, 'x', ['must have the format "json-pointer"']],
    ['an excluded value', { not: { const: 1 } }, 1, ['must not match {"const":1}']],
    [
      'a missing field and its type',
      object({ name: { type: 'string' }, state: states, any: {} }, { required: ['name', 'state', 'any'] }),
      {},
      [
        'name: is missing; it must be a string',
        'state: is missing; it must be "open", "closed" or "merged"',
        'any: is missing',
      ],
    ],
    [
      'a field that another one needs',
      object({}, { dependentRequired: { from: ['to'] } }),
      { from: 1 },
      ['to: is missing; it must be set if "from" is set'],
    ],
    [
      'an unknown field and the nearest one',
      object({ page: {}, per_page: {} }, { additionalProperties: false }),
      { pag: 1 },
      ['unknown key "pag"; did you mean "page"?'],
    ],
    [
      'an unknown field and all known ones',
      object({ page: {}, per_page: {} }, { additionalProperties: false }),
      { zoom: 1 },
      ['unknown key "zoom"; known: page, per_page'],
    ],
    [
      'a field where none is allowed',
      object({}, { additionalProperties: false }),
      { a: 1 },
      ['unknown key "a"; no key is allowed'],
    ],
    ['a field that must not be set', object({ a: false }), { a: 1 }, ['a: must not be set']],
    [
      'an unknown field of an inner object',
      object({ filter: object({ color: {} }, { unevaluatedProperties: false }) }),
      { filter: { colour: 1 } },
      ['filter: unknown key "colour"; did you mean "color"?'],
    ],
    [
      'an invalid field, and not as an unknown one',
      { allOf: [object({ a: { type: 'string' } })], unevaluatedProperties: false },
      { a: 1 },
      ['a: must be a string, not a number'],
    ],
    [
      'other fields',
      object({}, { additionalProperties: { type: 'integer' } }),
      { a: 1, b: 'x' },
      ['b: must be a whole number, not a string'],
    ],
    [
      'a name that is not allowed',
      object({}, { propertyNames: { pattern: '^[a-z]+$' } }),
      { A: 1 },
      ['A: is not a valid name: it must match /^[a-z]+$/'],
    ],
    [
      'its place',
      { $ref: '#/$defs/Tree' },
      { kids: [{ size: 1 }, { kids: [{ size: 'x' }] }] },
      ['kids.1.kids.0.size: must be a whole number, not a string'],
    ],
    [
      'a reference beside other keywords',
      { $defs: { Long: { $ref: '#/$defs/Text', minLength: 2 }, Text: { type: 'string' } }, $ref: '#/$defs/Long' },
      'a',
      ['must have at least 2 characters'],
    ],
    [
      'a field called $ref',
      object({ $ref: { type: 'string' } }),
      { $ref: 1 },
      ['$ref: must be a string, not a number'],
    ],
    [
      'a name with a slash',
      object({ 'a/b': { type: 'string' } }),
      { 'a/b': 1 },
      ['a/b: must be a string, not a number'],
    ],
    [
      'all alternatives',
      { anyOf: [{ type: 'string' }, { type: 'null' }] },
      5,
      ['must be a string or null, not a number'],
    ],
    [
      'values and types of alternatives',
      { anyOf: [{ enum: ['auto'] }, { type: 'integer' }] },
      true,
      ['must be "auto" or a whole number, not a boolean'],
    ],
    [
      'the values of all alternatives',
      { anyOf: [states, { const: 'draft' }] },
      'dratf',
      ['must be "open", "closed", "merged" or "draft"; did you mean "draft"?'],
    ],
    ['the alternative that fits best', payment, { kind: 'card' }, ['number: is missing; it must be a string']],
    [
      'the tags of all alternatives',
      payment,
      { kind: 'crad' },
      ['kind: must be "card" or "iban"; did you mean "card"?'],
    ],
    [
      'several matching alternatives',
      { oneOf: [{ type: 'integer' }, { type: 'number' }] },
      5,
      ['matches several alternatives; it must match exactly one'],
    ],
    [
      'a condition',
      { if: object({ a: { const: 2 } }), else: object({ b: { type: 'string' } }, { required: ['b'] }) },
      { a: 1 },
      ['b: is missing; it must be a string'],
    ],
  ])('%s', (_, schema, given, issues) => {
    expect(describeErrors(schema, given)).toEqual(issues)
  })

  it('at most ten places', () => {
    expect(describeErrors({ items: { type: 'string' } }, Array(20_000).fill(1))).toEqual(
      Array.from({ length: 10 }, (_, n) => `${n}: must be a string, not a number`),
    )
  })
})
