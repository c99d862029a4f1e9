import { expect, it } from 'vitest'
import { exceedsJsonItems, withoutLargeMembers } from '../../src/core/json-item-count.ts'

const keys = (count: number): string => Array.from({ length: count }, (_, n) => `"k${n}":0`).join()

it('counts keys and items everywhere, and not the content of strings', () => {
  const many = (item: string, count: number): string => `[${Array(count).fill(item).join()}]`
  for (const most of [`{${keys(100)}}`, many('0', 100), many('[]', 100), many('{"a":0}', 50), '['.repeat(101)])
    expect(exceedsJsonItems(most, 100), most.slice(0, 20)).toBe(false)
  for (const more of [`{${keys(203)}}`, many('0', 203), many('[]', 102), many('{"a":0}', 102), '['.repeat(203)])
    expect(exceedsJsonItems(more, 100), more.slice(0, 20)).toBe(true)
  expect(exceedsJsonItems(JSON.stringify({ text: '"a",['.repeat(500), more: '\\",[' }), 100)).toBe(false)
  expect(exceedsJsonItems(`{"never ends:${','.repeat(1_000)}`, 100)).toBe(false)
})

it('removing large members keeps the rest of a text, and fails for unclosed JSON', () => {
  const crowd = `{${keys(1_100)}}`
  expect(withoutLargeMembers(`{"a":{"b":${crowd},"c":[{"d":"}"}],"e":{"f":${crowd}}},"g":1}`)).toEqual({
    text: '{"a":{"b":{},"c":[{"d":"}"}],"e":{}},"g":1}',
    depth: 4,
  })
  expect(withoutLargeMembers('{"a":{}')).toBeUndefined()
  expect(withoutLargeMembers('{"a":"')).toBeUndefined()
})
