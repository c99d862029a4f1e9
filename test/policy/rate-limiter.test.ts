import { describe, expect, it } from 'vitest'
import { createRateLimit, createRateLimiter } from '../../src/policy/rate-limiter.ts'
import { createManualClock } from '../clock.ts'
import { makeTool } from '../tools.ts'

const ann = { principal: 'ann', profile: 'work' }
const bob = { principal: 'bob', profile: 'work' }
const tool = makeTool('web.search')

describe('a rate limit', () => {
  it('allows a burst, then one call per share of a minute', () => {
    const clock = createManualClock()
    const limiter = createRateLimiter(clock)
    const rates = [createRateLimit({ tools: 'web.*', perMinute: 2, per: 'principal' }, 'policy.rateLimits[0]')]
    const take = () => limiter.take(rates, tool, ann)?.retryAfterMs
    expect([take(), take(), take()]).toEqual([undefined, undefined, 30_000])
    clock.pass(10_000)
    expect(take()).toBe(20_000)
    clock.pass(20_000)
    expect([take(), take()]).toEqual([undefined, 30_000])
    clock.pass(3_600_000)
    expect([take(), take(), take()]).toEqual([undefined, undefined, 30_000])
  })

  it('has a burst that is larger or smaller than the calls of a minute', () => {
    const limiter = createRateLimiter(createManualClock())
    const take = (perMinute: number, burst: number) => {
      const rates = [createRateLimit({ tools: 'web.*', perMinute, burst, per: 'principal' }, 'policy.rateLimits[0]')]
      return Array.from({ length: 4 }, () => limiter.take(rates, tool, ann)?.retryAfterMs)
    }
    expect(take(60, 2)).toEqual([undefined, undefined, 1_000, 1_000])
    expect(take(2, 3)).toEqual([undefined, undefined, undefined, 30_000])
  })

  it('counts each principal separately, or all of a profile together', () => {
    const limiter = createRateLimiter(createManualClock())
    const each = [createRateLimit({ tools: ['web.search'], perMinute: 1, per: 'principal' }, 'a')]
    const all = [createRateLimit({ tools: ['web.search'], perMinute: 1, per: 'profile' }, 'b')]
    expect(
      [each, each, all, all].map((rates, at) => limiter.take(rates, tool, at % 2 ? bob : ann)?.rate.setting),
    ).toEqual([undefined, undefined, undefined, 'b'])
  })

  it('takes a token from all limits or none, and leaves other tools alone', () => {
    const limiter = createRateLimiter(createManualClock())
    const rates = [
      createRateLimit({ tools: '*', perMinute: 60, burst: 2, per: 'principal' }, 'all'),
      createRateLimit({ tools: 'web.search', perMinute: 1, per: 'principal' }, 'one'),
    ]
    const take = (id: string) => limiter.take(rates, makeTool(id), ann)?.rate.setting
    expect([take('web.search'), take('web.search'), take('web.get'), take('web.get')]).toEqual([
      undefined,
      'one',
      undefined,
      'all',
    ])
  })

  it('has a bounded number of buckets, dropping full ones first', () => {
    const clock = createManualClock()
    const limiter = createRateLimiter(clock, 100)
    const rates = [createRateLimit({ tools: '*', perMinute: 60, per: 'principal' }, 'all')]
    for (let n = 0; n < 1_000; n++) limiter.take(rates, tool, { principal: `p${n}`, profile: '' })
    expect(limiter.size).toBe(100)
    clock.pass(60_000)
    limiter.take(rates, tool, ann)
    expect(limiter.size).toBe(1)
  })
})
