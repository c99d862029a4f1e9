import { expect, it } from 'vitest'
import { parseDocument } from '../../src/openapi/parse-document.ts'

it('reads JSON and YAML', async () => {
  expect(await parseDocument('{"a": 1}')).toEqual({ a: 1 })
  expect(await parseDocument('\uFEFF{"a": 1}')).toEqual({ a: 1 })
  expect(await parseDocument('a: &x {b: 1}\nc: {<<: *x, d: 2}\n')).toEqual({ a: { b: 1 }, c: { b: 1, d: 2 } })
  expect(await parseDocument(`{"a": "${'x'.repeat(100_000)}"}`)).toEqual({ a: 'x'.repeat(100_000) })
})

it.each([
  ['a: [', 'it is neither JSON nor YAML: '],
  ['&a [*a]', 'it has more than 3000000 parts'],
  [
    `{${Array.from({ length: 110_000 }, (_, n) => `"name${n}":1`).join(',')}}`,
    'it has more than 100000 different names',
  ],
])('rejects an unusable document: %#', async (text, why) => {
  await expect(parseDocument(text)).rejects.toThrow(why)
})

it('gives up on a document that takes minutes, and lets other work continue', async () => {
  const keys = Array.from({ length: 100_000 }, (_, n) => `k${n}: v\n`).join('')
  let longest = 0
  let last = performance.now()
  const beat = setInterval(() => {
    longest = Math.max(longest, performance.now() - last)
    last = performance.now()
  }, 20)
  await expect(parseDocument(keys, 3_000)).rejects.toThrow('it takes longer than 3 s to read')
  clearInterval(beat)
  expect(longest).toBeLessThan(1_500)
})
