import { expect, it } from 'vitest'
import { isRecord } from '../../src/core/is-record.ts'

it('a record is an object that is neither an array nor null', () => {
  expect([{}, { a: 1 }].map(isRecord)).toEqual([true, true])
  expect([[], null, undefined, 'a', 1, true].map(isRecord)).toEqual([false, false, false, false, false, false])
})
