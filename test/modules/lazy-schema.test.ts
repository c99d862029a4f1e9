import { z } from 'pegboard'
import { describe, expect, it, vi } from 'vitest'
import { lazySchema } from '../../modules/_lazy-schema.ts'
import contacts from '../../modules/contacts/index.ts'
import filesystem from '../../modules/filesystem/index.ts'
import mcp from '../../modules/mcp/index.ts'
import moderation from '../../modules/moderation/index.ts'
import plan from '../../modules/plan/index.ts'
import todo from '../../modules/todo/index.ts'
import { toSchema } from '../../src/core/schema.ts'

const createPerson = () =>
  z.object({ name: z.string().min(1).describe('Their name.'), age: z.int().default(30) }).describe('A person.')

describe('a lazy schema', () => {
  it('is created once, by the first check or conversion to JSON Schema', () => {
    const create = vi.fn(createPerson)
    const schema = toSchema(lazySchema(create))
    expect(create).not.toHaveBeenCalled()
    expect(schema.parse({ name: 'Ada' })).toEqual({ ok: true, value: { name: 'Ada', age: 30 } })
    expect(JSON.stringify(schema.json)).toBe(JSON.stringify(toSchema(createPerson()).json))
    expect(create).toHaveBeenCalledOnce()
  })

  it('reports the same errors as the schema itself', () => {
    const wrong = { name: '', age: 'old' }
    expect(toSchema(lazySchema(createPerson)).parse(wrong)).toEqual(toSchema(createPerson()).parse(wrong))
  })

  it.each([contacts, filesystem, mcp, moderation, plan, todo])(
    'describes the parameters and results of $name, which every start loads',
    ({ tools }) => {
      for (const { input, output } of Object.values(tools))
        for (const schema of [input, output]) if (schema !== undefined) expect(schema).toBeInstanceOf(z.ZodLazy)
    },
  )
})
