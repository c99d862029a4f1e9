import { expect, it } from 'vitest'
import { isCrowded, withoutCrowds } from '../../src/core/crowded.ts'

const keys = (count: number): string => Array.from({ length: count }, (_, n) => `"k${n}":0`).join()

it('a text is crowded by keys and items, wherever they are, and not by what is in its strings', () => {
  const many = (item: string, count: number): string => `[${Array(count).fill(item).join()}]`
  for (const most of [`{${keys(100)}}`, many('0', 100), many('[]', 100), many('{"a":0}', 50), '['.repeat(101)])
    expect(isCrowded(most, 100), most.slice(0, 20)).toBe(false)
  for (const more of [`{${keys(203)}}`, many('0', 203), many('[]', 102), many('{"a":0}', 102), '['.repeat(203)])
    expect(isCrowded(more, 100), more.slice(0, 20)).toBe(true)
  expect(isCrowded(JSON.stringify({ text: '"a",['.repeat(500), more: '\\",[' }), 100)).toBe(false)
  expect(isCrowded(`{"never ends:${','.repeat(1_000)}`, 100)).toBe(false)
})

it('without its crowds a text is as it was, and what does not end is none', () => {
  const crowd = `{${keys(1_100)}}`
  expect(withoutCrowds(`{"a":{"b":${crowd},"c":[{"d":"}"}],"e":{"f":${crowd}}},"g":1}`)).toEqual({
    text: '{"a":{"b":{},"c":[{"d":"}"}],"e":{}},"g":1}',
    depth: 4,
  })
  expect(withoutCrowds('{"a":{}')).toBeUndefined()
  expect(withoutCrowds('{"a":"')).toBeUndefined()
})
