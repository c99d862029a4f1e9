import { expect, it } from 'vitest'
import { createCrowd } from '../../src/core/crowd.ts'

it('a crowd holds who entered and has not left, in no order', () => {
  const crowd = createCrowd<string>()
  const [a, b, c] = ['a', 'b', 'c'].map(crowd.enter)
  if (!a || !b || !c) throw new Error('not entered')
  crowd.leave(a)
  crowd.leave(a)
  crowd.enter('d')
  crowd.leave(c)
  expect(crowd.places.map(({ value }) => value).sort()).toEqual(['b', 'd'])
  crowd.leave(b)
  expect(crowd.places.map(({ value }) => value)).toEqual(['d'])
})
