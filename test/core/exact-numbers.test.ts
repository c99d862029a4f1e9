import { describe, expect, it } from 'vitest'
import { withExactNumbers } from '../../src/core/exact-numbers.ts'
import { growth } from '../growth.ts'

describe('numbers that parsing would change', () => {
  it.each([
    ['{"id":9007199254740993}', '{"id":"9007199254740993"}'],
    ['[1e400,-1E+999,1.5e10,-0,12]', '["1e400","-1E+999",1.5e10,-0,12]'],
    ['{"a\\\\":9007199254740993,"\\"9007199254740993":1}', '{"a\\\\":"9007199254740993","\\"9007199254740993":1}'],
    ['{"a":true,"b":false,"c":null,"d":-9007199254740993}', '{"a":true,"b":false,"c":null,"d":"-9007199254740993"}'],
    ['[9007199254740991,0.12345678901234567890]', '[9007199254740991,0.12345678901234567890]'],
    ['{"n":9007199254740993,"s":"\\\\\\"9007199254740993', '{"n":"9007199254740993","s":"\\\\\\"9007199254740993'],
    ['9007199254740993', '"9007199254740993"'],
  ])('become texts, and nothing in a text changes: %s', (json, exact) => expect(withExactNumbers(json)).toBe(exact))

  it.each(['\\"', '"\\', '"', '\\', '1', '1.', '1e1.', '-'])(
    'take time in proportion to the length, also in what is no JSON: %s',
    (part) => {
      expect(
        growth((length) => withExactNumbers(`[9007199254740993,"${part.repeat(length / part.length)}`)),
      ).toBeLessThan(30)
      expect(
        growth((length) => withExactNumbers(`[9007199254740993,${part.repeat(length / part.length)}`)),
      ).toBeLessThan(30)
    },
  )
})
