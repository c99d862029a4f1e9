import { expect, it } from 'vitest'
import { createFew } from '../../src/core/few.ts'

it('a map of few keys finds what was set last, and nothing that was deleted', () => {
  const few = createFew<string, number>()
  for (const [at, key] of ['a', 'b', 'c'].entries()) few.set(key, at)
  few.set('b', 7)
  few.delete('a')
  few.delete('a')
  expect([few.get('a'), few.get('b'), few.get('c')]).toEqual([undefined, 7, 2])
  expect([...few.keys].sort()).toEqual(['b', 'c'])
  few.delete('c')
  expect([few.keys, few.values]).toEqual([['b'], [7]])
})
