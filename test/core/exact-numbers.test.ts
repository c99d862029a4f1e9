import { describe, expect, it } from 'vitest'
import { withExactNumbers } from '../../src/core/exact-numbers.ts'
import { growth } from '../measure-growth.ts'

describe('numbers that parsing would change', () => {
  it.each([
    ['{"id":9007199254740993}', '{"id":"9007199254740993"}'],
    ['[1e400,-1E+999,1.5e10,-0,12]', '["1e400","-1E+999",1.5e10,-0,12]'],
    ['{"a\\\\":9007199254740993,"\\"9007199254740993":1}', '{"a\\\\":"9007199254740993","\\"9007199254740993":1}'],
    ['{"a":true,"b":false,"c":null,"d":-9007199254740993}', '{"a":true,"b":false,"c":null,"d":"-9007199254740993"}'],
    ['[9007199254740991,0.12345678901234567890]', '[9007199254740991,0.12345678901234567890]'],
    ['{"n":9007199254740993,"s":"\\\\\\"9007199254740993', '{"n":"9007199254740993","s":"\\\\\\"9007199254740993'],
    ['9007199254740993', '"9007199254740993"'],
  ])('become strings, and texts stay unchanged: %s', (json, exact) => expect(withExactNumbers(json)).toBe(exact))

  it.each(['\\"', '"\\', '"', '\\', '1', '1.', '1e1.', '-'])(
    'are found in linear time, also in invalid JSON: %s',
    async (part) => {
      expect(
        await growth((length) => withExactNumbers(`[9007199254740993,"${part.repeat(length / part.length)}`)),
      ).toBeLessThan(30)
      expect(
        await growth((length) => withExactNumbers(`[9007199254740993,${part.repeat(length / part.length)}`)),
      ).toBeLessThan(30)
    },
  )
})
