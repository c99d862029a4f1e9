import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { toSchema } from '../../src/core/schema.ts'

describe('a schema', () => {
  it('from zod publishes JSON Schema and validates with zod, including defaults', () => {
    const schema = toSchema(z.object({ days: z.int().max(10).default(3) }))
    expect(schema.json).toMatchObject({
      type: 'object',
      properties: { days: { type: 'integer', default: 3, maximum: 10 } },
    })
    expect(schema.json.$schema).toBeUndefined()
    expect(schema.parse({})).toEqual({ ok: true, value: { days: 3 } })
    expect(schema.parse({ days: 'x' })).toMatchObject({ ok: false, issues: [{ path: 'days' }] })
  })

  it('from JSON Schema reports the path of an error', () => {
    const schema = toSchema({
      type: 'object',
      properties: { list: { type: 'array', items: { type: 'string' } } },
      required: ['list'],
    })
    expect(schema.parse({ list: ['a'] })).toEqual({ ok: true, value: { list: ['a'] } })
    expect(schema.parse({ list: ['a', 5] })).toMatchObject({ ok: false, issues: [{ path: 'list.1' }] })
    expect(schema.parse({})).toMatchObject({ ok: false })
  })

  it('from two owners with the same $id is not mixed up', () => {
    const loose = toSchema({ $id: 'urn:same', type: 'object' })
    const strict = toSchema({ $id: 'urn:same', type: 'object', required: ['a'] })
    expect(loose.parse({}).ok).toBe(true)
    expect(strict.parse({}).ok).toBe(false)
  })

  it('from anything else is rejected', () => {
    expect(() => toSchema('string')).toThrow('expected a zod')
    expect(() => toSchema(null)).toThrow('expected a zod')
  })
})
