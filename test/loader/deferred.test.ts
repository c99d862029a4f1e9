import { expect, it } from 'vitest'
import { z as real } from 'zod'
import { toSchema } from '../../src/core/schema.ts'
import { deferred } from '../../src/loader/deferred.ts'

/** Schemas as modules write them, of the real thing or of what stands for it. */
const schemasOf = (z: typeof real) => {
  const path = z.string().min(1).max(9)
  const Row = z.object({ path: path.describe('The file.'), kind: z.enum(['a', 'b']).default('a') })
  return {
    Row,
    wide: z.object({ ...Row.shape, rows: z.array(Row).max(2).optional(), more: z.record(z.string(), z.unknown()) }),
    picked: z.strictObject({ list: z.array(z.string().min(1)).default([]), at: path.default('.') }),
    checked: z.object({ n: z.int().refine((n) => n % 2 === 0, 'must be even') }),
  }
}

const VALUES = [
  {},
  { path: 'a' },
  { path: '' },
  { path: 'a', kind: 'c' },
  { path: 'a', more: {}, rows: [{ path: 'b' }] },
  { path: 'a', more: {}, rows: [{}] },
  { list: ['x'], at: 'y' },
  { n: 1 },
  { n: 2 },
  { unknown: 1 },
  'text',
]

it('says and accepts what the real thing does', () => {
  const given = schemasOf(deferred(() => real))
  for (const [name, schema] of Object.entries(schemasOf(real))) {
    const stand = toSchema(given[name as keyof typeof given])
    expect(stand.json, name).toEqual(toSchema(schema).json)
    for (const value of VALUES) expect(stand.parse(value), name).toEqual(toSchema(schema).parse(value))
  }
})

it('needs the real thing for nothing that was prepared', () => {
  let made = 0
  const z = deferred(() => {
    made++
    return real
  })
  const config = deferred(() => z.strictObject({ root: z.string().optional(), size: z.int().default(3) }), {
    json: () => ({ type: 'object', title: 'config' }),
    empty: { size: 3 },
  })
  const input = deferred(() => z.object({ path: z.string().describe('The file.') }), {
    json: () => ({ type: 'object', title: 'read' }),
  })
  expect(toSchema(config).json).toEqual({ type: 'object', title: 'config' })
  expect(toSchema(config).parse({})).toEqual({ ok: true, value: { size: 3 } })
  expect(toSchema(input).json).toEqual({ type: 'object', title: 'read' })
  expect(made).toBe(0)

  expect(toSchema(config).parse({ root: 'a' })).toEqual({ ok: true, value: { root: 'a', size: 3 } })
  expect(toSchema(input).parse({ path: 'a' })).toEqual({ ok: true, value: { path: 'a' } })
  expect(made).toBe(1)
})

it('gives each who asks a value of its own', () => {
  const config = deferred(() => real.object({ list: real.array(real.string()).default([]) }), {
    json: () => ({}),
    empty: { list: [] },
  })
  const parse = (): { list: string[] } => {
    const parsed = toSchema(config).parse({})
    return (parsed.ok ? parsed.value : undefined) as { list: string[] }
  }
  parse().list.push('x')
  expect(parse()).toEqual({ list: [] })
})

it('answers at once when it is asked to check a value', async () => {
  const { Row } = schemasOf(deferred(() => real))
  expect(Row.safeParse({ path: 'a' })).toEqual({ success: true, data: { path: 'a', kind: 'a' } })
  expect(Row.safeParse({ path: 7 }).success).toBe(false)
  expect(Row.parse({ path: 'b' }).path).toBe('b')
  expect(() => Row.parse({})).toThrow('expected string')
  expect(await Row.parseAsync({ path: 'c' })).toEqual({ path: 'c', kind: 'a' })
  expect(Row.shape.kind.safeParse(undefined).data).toBe('a')
})
