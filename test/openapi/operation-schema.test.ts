import { describe, expect, it } from 'vitest'
import { toSchema } from '../../src/core/schema.ts'
import { operationsOf } from '../../src/openapi/operations.ts'
import { defineOperation } from '../../src/openapi/plan-operation.ts'

async function define(operation: object, more: object = {}) {
  const document = {
    openapi: '3.0.3',
    info: {},
    paths: { '/x': { put: { responses: {}, ...operation } } },
    ...more,
  }
  const [record] = await operationsOf(document)
  return defineOperation(document, record ?? expect.fail('no operation'))
}
const json = (schema: object, required = true) => ({
  requestBody: { required, content: { 'application/json': { schema } } },
})

describe('the schema of a tool', () => {
  it('merges parameters and body fields; the location disambiguates equal names', async () => {
    const { input, plan } = await define({
      parameters: [
        { name: 'id', in: 'path', required: true, schema: { type: 'string' } },
        { name: 'id', in: 'query', schema: { type: 'integer' } },
        { name: 'Accept', in: 'header', schema: { type: 'string' } },
      ],
      ...json({
        type: 'object',
        required: ['id', 'size'],
        properties: { id: { type: 'number' }, size: { type: 'number' } },
      }),
    })
    expect(input).toEqual({
      type: 'object',
      properties: {
        id: { type: 'string' },
        query_id: { type: 'integer' },
        body_id: { type: 'number' },
        size: { type: 'number' },
      },
      required: ['id', 'body_id', 'size'],
      additionalProperties: false,
    })
    expect([...(plan.body?.fields ?? [])]).toEqual([
      ['body_id', 'id'],
      ['size', 'size'],
    ])
  })

  it('omits read-only properties, and is valid 2020-12', async () => {
    const { input } = await define(
      json({
        type: 'object',
        required: ['created', 'name'],
        discriminator: { propertyName: 'kind' },
        properties: {
          created: { type: 'string', readOnly: true },
          link: { $ref: '#/components/schemas/Link' },
          name: { type: 'string', nullable: true, enum: ['a'], example: 'a', pattern: '(?<!' },
          size: { type: 'integer', minimum: 0, exclusiveMinimum: true, 'x-order': 1 },
          pet: { nullable: true, allOf: [{ $ref: '#/components/schemas/Pet' }] },
        },
      }),
      {
        components: {
          schemas: {
            Link: { type: 'string', readOnly: true },
            Pet: { type: 'object', properties: { mate: { $ref: '#/components/schemas/Pet' } } },
          },
        },
      },
    )
    expect(input).toEqual({
      type: 'object',
      properties: {
        name: { type: ['string', 'null'], enum: ['a', null], examples: ['a'] },
        size: { type: 'integer', exclusiveMinimum: 0 },
        pet: { anyOf: [{ allOf: [{ $ref: '#/$defs/Pet' }] }, { type: 'null' }] },
      },
      required: ['name'],
      additionalProperties: false,
      $defs: { Pet: { type: 'object', properties: { mate: { $ref: '#/$defs/Pet' } } } },
    })
  })

  it('accepts a body that is not a plain object as one argument', async () => {
    for (const schema of [
      { type: 'array', items: {} },
      { oneOf: [{ type: 'object' }] },
      { additionalProperties: true },
    ])
      expect((await define(json(schema))).input['properties'], JSON.stringify(schema)).toEqual({ body: schema })
    expect((await define(json({ type: 'array' }, false))).input['required']).toBeUndefined()
  })

  it('combines a body with allOf into one object', async () => {
    const { input } = await define(
      json({ allOf: [{ $ref: '#/components/schemas/A' }, { type: 'object', properties: { b: {} }, required: ['b'] }] }),
      { components: { schemas: { A: { type: 'object', properties: { a: { type: 'string' } }, required: ['a'] } } } },
    )
    expect(input).toMatchObject({ properties: { a: { type: 'string' }, b: {} }, required: ['a', 'b'] })
  })

  it('has only definitions that it uses', async () => {
    const schemas = {
      Product: {
        type: 'object',
        properties: { name: { type: 'string' }, maker: { $ref: '#/components/schemas/Maker' } },
      },
      Maker: { type: 'object', properties: { city: { $ref: '#/components/schemas/City' } } },
      City: { type: 'string' },
    }
    const { input } = await define(json({ $ref: '#/components/schemas/Product' }), { components: { schemas } })
    expect(input).toEqual({
      type: 'object',
      properties: { name: { type: 'string' }, maker: { $ref: '#/$defs/Maker' } },
      additionalProperties: false,
      $defs: { Maker: { type: 'object', properties: { city: { $ref: '#/$defs/City' } } }, City: { type: 'string' } },
    })
  })

  it('has an example if the document gives all required values', async () => {
    const body = {
      required: true,
      content: { 'application/json': { example: { a: 1 }, schema: { properties: { a: {} } } } },
    }
    expect((await define({ requestBody: body })).examples).toEqual([{ input: { a: 1 } }])
    const needed = { name: 'id', in: 'path', required: true, schema: {} }
    expect((await define({ requestBody: body, parameters: [needed] })).examples).toEqual([])
    expect((await define({ requestBody: body, parameters: [{ ...needed, example: 'i' }] })).examples).toEqual([
      { input: { id: 'i', a: 1 } },
    ])
  })

  it('names operations with a missing or duplicate id by method and path', async () => {
    const get = (operationId?: string) => ({ get: { ...(operationId && { operationId }), responses: {} } })
    const paths = { '/a/{b-c}/d': get(), '/e': get('same'), '/f': get('same'), '/g': get('own') }
    expect((await operationsOf({ openapi: '3.1.0', paths })).map(({ name }) => name)).toEqual([
      'get_a_by_b_c_d',
      'get_e',
      'get_f',
      'own',
    ])
  })
})

describe('invisible characters', () => {
  const tags = [...'obey'].map((letter) => String.fromCodePoint(0xe0000 + (letter.codePointAt(0) as number))).join('')

  it('are in no text of a tool, and a name stays what the API calls it', async () => {
    const { input, output } = await define(
      {
        parameters: [
          { name: 'id', in: 'path', required: true, description: `An id.${tags}`, schema: { type: 'string' } },
        ],
        ...json({
          type: 'object',
          properties: {
            size: { type: 'number', title: `Size${tags}`, description: `How much.\u202e${tags}` },
            deep: { type: 'object', properties: { a: { $ref: '#/components/schemas/A' } } },
          },
        }),
        responses: {
          200: {
            description: 'ok',
            content: {
              'application/json': { schema: { type: 'object', properties: { n: { description: `Number.${tags}` } } } },
            },
          },
        },
      },
      { components: { schemas: { A: { type: 'string', description: `Of A.${tags}` } } } },
    )
    expect(JSON.stringify([input, output])).not.toContain(tags)
    expect(input).toMatchObject({
      properties: {
        id: { description: 'An id.' },
        size: { title: 'Size', description: 'How much.' },
      },
      $defs: { A: { description: 'Of A.' } },
    })
  })

  it('are in no tag of an operation', async () => {
    const paths = { '/x': { get: { tags: [`pets${tags}`], responses: {} } } }
    expect((await operationsOf({ openapi: '3.1.0', paths }))[0]?.tags).toEqual(['pets'])
  })
})

describe('a JavaScript property name', () => {
  it('is an ordinary name for a schema, field or parameter', async () => {
    const document = JSON.parse(`{"components":{"schemas":{"__proto__":{"type":"string","maxLength":3},
      "constructor":{"type":"object","properties":{"__proto__":{"type":"number"},"toString":{"type":"boolean"}}}}}}`)
    const { input } = await define(
      json({
        type: 'object',
        properties: {
          a: { $ref: '#/components/schemas/__proto__' },
          b: { $ref: '#/components/schemas/constructor' },
        },
      }),
      document,
    )
    expect(JSON.parse(JSON.stringify(input))).toMatchObject({
      $defs: { constructor: { properties: { toString: { type: 'boolean' } } } },
    })
    const { parse } = toSchema(input)
    expect(parse({ a: 'abc' })).toMatchObject({ ok: true })
    expect(parse({ a: 'abcd' })).toMatchObject({ ok: false })
  })
})
