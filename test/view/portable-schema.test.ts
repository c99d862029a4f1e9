import { describe, expect, it } from 'vitest'
import { hasAlternatives, portableSchema } from '../../src/view/portable-schema.ts'

const object = (properties: Record<string, unknown>, more: Record<string, unknown> = {}) => ({
  type: 'object',
  properties,
  ...more,
})

describe('a schema for clients', () => {
  it('has its references resolved and only widely supported formats [DIG-34]', () => {
    const schema = object(
      {
        home: { $ref: '#/$defs/address', description: 'Where to.' },
        count: { type: 'integer', format: 'int64' },
        when: { type: 'string', format: 'date-time' },
        format: { type: 'string', default: { format: 'int32', $ref: '#/nothing' } },
      },
      { $defs: { address: object({ street: { $ref: '#/$defs/line' } }), line: { type: 'string', format: 'uri' } } },
    )
    const before = JSON.stringify(schema)
    expect(portableSchema(schema)).toEqual(
      object({
        home: { ...object({ street: { type: 'string' } }), description: 'Where to.' },
        count: { type: 'integer' },
        when: { type: 'string', format: 'date-time' },
        format: { type: 'string', default: { format: 'int32', $ref: '#/nothing' } },
      }),
    )
    expect(JSON.stringify(schema)).toBe(before)
  })

  it('keeps recursive definitions, and those with an anchor', () => {
    const node = object({ next: { $ref: '#/$defs/node' }, label: { $ref: '#/$defs/label' } })
    const schema = object(
      { tree: { $ref: '#/$defs/node' } },
      { $defs: { node, label: { type: 'string' }, named: { $anchor: 'here', type: 'number' } } },
    )
    expect(portableSchema(schema)).toEqual(
      object(
        { tree: { $ref: '#/$defs/node' } },
        {
          $defs: {
            node: object({ next: { $ref: '#/$defs/node' }, label: { type: 'string' } }),
            named: { $anchor: 'here', type: 'number' },
          },
        },
      ),
    )
  })

  it('gives every list items, which some clients require, and changes nothing else', () => {
    const schema = object({
      bare: { type: 'array', description: 'Any.' },
      maybe: { type: ['array', 'null'] },
      inner: { type: 'array', items: { type: 'array' } },
      pair: { type: 'array', prefixItems: [{ type: 'string' }] },
      full: { type: 'array', items: { type: 'string' } },
      closed: { type: 'array', prefixItems: [{ type: 'string' }], items: false },
      data: { type: 'object', default: { type: 'array' } },
    })
    const listed = object({
      bare: { type: 'array', description: 'Any.', items: {} },
      maybe: { type: ['array', 'null'], items: {} },
      inner: { type: 'array', items: { type: 'array', items: {} } },
      pair: { type: 'array', prefixItems: [{ type: 'string' }], items: {} },
      full: { type: 'array', items: { type: 'string' } },
      closed: { type: 'array', prefixItems: [{ type: 'string' }], items: false },
      data: { type: 'object', default: { type: 'array' } },
    })
    expect(portableSchema(schema)).toEqual(listed)
    expect(portableSchema(listed)).toBe(listed)
    expect(portableSchema(schema, 'as-is')).toBe(schema)
  })

  it('combines a reference with the keywords beside it', () => {
    const schema = object(
      { a: { $ref: '#/definitions/text', maxLength: 3 } },
      { definitions: { text: { type: 'string' } } },
    )
    expect(portableSchema(schema)).toEqual(object({ a: { maxLength: 3, allOf: [{ type: 'string' }] } }))
  })

  it('keeps references whose expansion would be too large', () => {
    const $defs: Record<string, unknown> = { d0: { type: 'string' } }
    for (let n = 1; n < 20; n++)
      $defs[`d${n}`] = object({ a: { $ref: `#/$defs/d${n - 1}` }, b: { $ref: `#/$defs/d${n - 1}` } })
    const schema = object({ x: { $ref: '#/$defs/d19' } }, { $defs })
    expect(portableSchema(schema)).toBe(schema)
  })

  it('is the same object if nothing changes, and cached otherwise', () => {
    const plain = object({ a: { type: 'string', format: 'email' } })
    expect(portableSchema(plain)).toBe(plain)
    const rare = object({ a: { type: 'string', format: 'byte' } })
    expect(portableSchema(rare)).toBe(portableSchema(rare))
    expect(portableSchema(rare, 'as-is')).toBe(rare)
  })

  it('becomes one object for strict providers', () => {
    const schema = {
      type: 'object',
      properties: { id: { type: 'string' } },
      required: ['id'],
      anyOf: [
        object({ by: { type: 'string' } }, { required: ['by', 'day'] }),
        object({ by: { type: 'number' }, day: { type: 'string' } }, { required: ['day'] }),
      ],
      allOf: [object({ more: { type: 'boolean' } }, { required: ['more'] })],
    }
    expect(hasAlternatives(portableSchema(schema))).toBe(true)
    expect(portableSchema(schema, 'strict')).toEqual(
      object(
        {
          id: { type: 'string' },
          more: { type: 'boolean' },
          by: { anyOf: [{ type: 'string' }, { type: 'number' }] },
          day: { type: 'string' },
        },
        { required: ['id', 'more', 'day'] },
      ),
    )
  })
})
