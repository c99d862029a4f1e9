import type { Caller } from '../core/caller.ts'
import type { Clock } from '../core/clock.ts'
import type { Tool } from '../core/tool.ts'
import type { RateSetting } from './policy-options.ts'
import { createSpellingMatcher, listOf, listSpellings } from './policy-rules.ts'

/** How often some tools may be called. */
export interface RateLimit {
  /** Identifies the limit, also after a configuration reload. */
  readonly key: string
  /** The setting with this limit, which errors name. */
  readonly setting: string
  readonly perMinute: number
  readonly burst: number
  readonly per: 'principal' | 'profile'
  matches(tool: Tool): boolean
}

export function createRateLimit(settings: RateSetting, setting: string): RateLimit {
  const { perMinute, per, tools } = settings
  const burst = settings.burst ?? Math.max(1, Math.floor(perMinute))
  const matchesName = createSpellingMatcher(listOf(tools))
  const matches = (tool: Tool): boolean => matchesName(listSpellings(tool))
  return { key: JSON.stringify([setting, settings]), setting, perMinute, burst, per, matches }
}

interface Bucket {
  /** In 1/60,000 of a token: each millisecond adds `perMinute` of these, so rounding errors do not add up. */
  credit: number
  /** Time of the last refill, in milliseconds since the epoch. */
  refilledAt: number
  readonly rate: RateLimit
}

const MAX_BUCKETS = 10_000
const MINUTE_MS = 60_000

/** Rate limiter with a token bucket for each limit and group of calls. */
export function createRateLimiter(clock: Clock, maxBuckets = MAX_BUCKETS) {
  const buckets = new Map<string, Bucket>()

  const refill = (bucket: Bucket, now: number): void => {
    const { burst, perMinute } = bucket.rate
    // Setting the clock back removes no tokens.
    bucket.credit = Math.min(burst * MINUTE_MS, bucket.credit + Math.max(0, now - bucket.refilledAt) * perMinute)
    bucket.refilledAt = now
  }

  /** Removes full buckets, because a new bucket is full, too. If there is none, removes the least recently used one. */
  function makeRoom(now: number): void {
    for (const [key, bucket] of buckets) {
      refill(bucket, now)
      if (bucket.credit >= bucket.rate.burst * MINUTE_MS) buckets.delete(key)
    }
    const [oldest] = buckets.keys()
    if (buckets.size >= maxBuckets && oldest !== undefined) buckets.delete(oldest)
  }

  return {
    /**
     * Takes a token from every bucket, or from none.
     * @returns the limit that is exhausted, and when a token is available again
     */
    take(
      rates: readonly RateLimit[],
      tool: Tool,
      { principal, profile }: Pick<Caller, 'principal' | 'profile'>,
    ): { readonly rate: RateLimit; readonly retryAfterMs: number } | undefined {
      const now = clock.now()
      const matching: Array<readonly [string, Bucket]> = []
      for (const rate of rates) {
        if (!rate.matches(tool)) continue
        const key = `${rate.key}\n${rate.per === 'principal' ? principal : profile}`
        const bucket = buckets.get(key) ?? { credit: rate.burst * MINUTE_MS, refilledAt: now, rate }
        refill(bucket, now)
        if (bucket.credit < MINUTE_MS)
          return { rate, retryAfterMs: Math.ceil((MINUTE_MS - bucket.credit) / rate.perMinute) }
        matching.push([key, bucket])
      }
      for (const [key, bucket] of matching) {
        bucket.credit -= MINUTE_MS
        // Reinserted at the end, so that the map is ordered by last use.
        if (!buckets.delete(key) && buckets.size >= maxBuckets) makeRoom(now)
        buckets.set(key, bucket)
      }
      return undefined
    },
    /** Number of remembered buckets, full or not. */
    get size(): number {
      return buckets.size
    },
  }
}
