import { describe, expect, it } from 'vitest'
import { requireSync } from '../../src/loader/require-sync.ts'

/** Gives the value a member `then`. Biome rejects an object literal with this member. */
const withThen = <T extends object>(value: T, then: unknown): T =>
  Object.assign(value, Object.fromEntries([['then', then]]))

describe('requireSync', () => {
  it('returns any result that is not a promise', () => {
    for (const result of [undefined, null, true, 'then', 0, withThen({}, 'later'), ['then']])
      expect(requireSync('available', result)).toBe(result)
  })

  it('rejects a promise, and any other value with a method `then`', () => {
    const then = () => undefined
    for (const result of [
      Promise.resolve(true),
      withThen({}, then),
      withThen(() => undefined, then),
      withThen([], then),
    ])
      expect(() => requireSync('available', result)).toThrow('available returned a promise, but it must be synchronous')
  })

  it('does not call the method `then` of another value, because a query builder would run its query', async () => {
    const ran: string[] = []
    const query = withThen({}, () => ran.push('query'))
    expect(() => requireSync('available', query)).toThrow(TypeError)
    await new Promise(setImmediate)
    expect(ran).toEqual([])
  })
})
