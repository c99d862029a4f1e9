import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { describeSettingError } from '../../src/core/setting-error.ts'

const SECRET = 'hunter2-hunter2'
const said = (schema: z.ZodType, given: unknown) => {
  const { error } = schema.safeParse(given)
  return error?.issues.map((issue) => describeSettingError(issue, given)).join('; ')
}
const rule = z.union([z.literal(false), z.strictObject({ q: z.string() })])

describe('the description of a setting error', () => {
  it.each([
    ['must be a string, not a number', z.string(), 5],
    ['is missing; it must be a string', z.string(), undefined],
    ['must be a number, not a string', z.number(), SECRET],
    ['must be a whole number', z.int(), 1.5],
    ['must be a number, not a string', z.int(), SECRET],
    ['must be true or false, not null', z.boolean(), null],
    ['must be an object, not a list', z.record(z.string(), z.string()), []],
    ['must be an object, not a string', z.strictObject({}), SECRET],
    ['must be a list, not an object', z.array(z.string()), {}],
    ['must be "auto", "ask" or "block"', z.enum(['auto', 'ask', 'block']), SECRET],
    ['must be "auto", not a number', z.enum(['auto']), 5],
    ['must be a string or a list, not a number', z.union([z.string(), z.array(z.string())]), 3],
    ['must be "a", "b", true or false, not a number', z.union([z.enum(['a', 'b']), z.boolean()]), 3],
    ['q: must be a string, not a number', rule, { q: 2 }],
    ['must be false or an object, not a string', rule, 'x'],
    ['must be at least 1', z.int().min(1), 0],
    ['must be more than 0', z.number().gt(0), 0],
    ['must be at most 1', z.number().max(1), 2],
    ['must have at least 16 characters', z.string().min(16), 'short'],
    ['must not be empty', z.string().min(1), ''],
    ['must have at most 1 entry', z.array(z.string()).max(1), ['a', 'b']],
    ['must have at most 2 entries', z.array(z.string()).max(2), ['a', 'b', 'c']],
    ['must be an address such as "https://example.com"', z.url(), SECRET],
    ['must match /^[a-z]+$/', z.string().regex(/^[a-z]+$/), SECRET],
    ['is not a valid name: it must match /^[a-z]+$/', z.record(z.string().regex(/^[a-z]+$/), z.int()), { A: 1 }],
    ['unknown key "b"', z.strictObject({ a: z.int() }), { a: 1, b: SECRET }],
    ['must be a sentence', z.string({ error: 'must be a sentence' }), 5],
  ] as const)('%s', (words, schema, given) => {
    expect(said(schema, given)).toBe(words)
    expect(words).not.toContain(SECRET)
  })
})
