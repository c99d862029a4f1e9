import { expect, it } from 'vitest'
import { isCrowded, withoutCrowds } from '../../src/core/crowded.ts'

const keys = (count: number): string => Array.from({ length: count }, (_, n) => `"k${n}":0`).join()

it('a text is crowded by keys, wherever they are, and not by what is in its strings', () => {
  expect(isCrowded(`{${keys(100)}}`, 100)).toBe(false)
  expect(isCrowded(`{${keys(101)}}`, 100)).toBe(true)
  expect(isCrowded(`[${Array.from({ length: 101 }, () => '{"a":0}').join()}]`, 100)).toBe(true)
  expect(isCrowded(JSON.stringify({ text: '"a":'.repeat(500), more: '\\":' }), 100)).toBe(false)
  expect(isCrowded(`{"never ends:${':'.repeat(1_000)}`, 100)).toBe(false)
})

it('without its crowds a text is as it was, and what does not end is none', () => {
  const crowd = `{${keys(1_000)}}`
  expect(withoutCrowds(`{"a":{"b":${crowd},"c":[{"d":"}"}],"e":{"f":${crowd}}},"g":1}`)).toEqual({
    text: '{"a":{"b":{},"c":[{"d":"}"}],"e":{}},"g":1}',
    depth: 4,
  })
  expect(withoutCrowds('{"a":{}')).toBeUndefined()
  expect(withoutCrowds('{"a":"')).toBeUndefined()
})
