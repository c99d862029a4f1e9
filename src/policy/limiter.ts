import type { Clock } from '../core/clock.ts'
import type { Caller } from '../core/context.ts'
import type { Tool } from '../core/tool.ts'
import type { RateSetting } from './options.ts'
import { coverer, listOf, spellings } from './rules.ts'

/** How often some tools may be called. */
export interface Rate {
  /** Says which it is, also after a reload. */
  readonly key: string
  /** The setting, for whoever runs into it. */
  readonly setting: string
  readonly perMinute: number
  readonly burst: number
  readonly per: 'principal' | 'profile'
  fits(tool: Tool): boolean
}

export function createRate(settings: RateSetting, setting: string): Rate {
  const { perMinute, per, tools } = settings
  const burst = settings.burst ?? Math.max(1, Math.floor(perMinute))
  const named = coverer(listOf(tools))
  const fits = (tool: Tool): boolean => named(spellings(tool))
  return { key: JSON.stringify([setting, tools, perMinute, burst, per]), setting, perMinute, burst, per, fits }
}

/** Counts calls, with a bucket of tokens for each rate and whose calls are counted together. */
export interface Limiter {
  /** Takes one of every bucket, or of none. @returns the rate that has none left, and when it has again */
  take(
    rates: readonly Rate[],
    tool: Tool,
    caller: Pick<Caller, 'principal' | 'profile'>,
  ): { readonly rate: Rate; readonly retryAfterMs: number } | undefined
  /** Buckets that are not full. */
  readonly size: number
}

interface Bucket {
  /** Calls it is good for, in parts of a minute: thirds are no numbers of a computer. */
  credit: number
  at: number
  readonly rate: Rate
}

const MAX_BUCKETS = 10_000
const MINUTE_MS = 60_000

export function createLimiter(clock: Clock, maxBuckets = MAX_BUCKETS): Limiter {
  const buckets = new Map<string, Bucket>()

  const refill = (bucket: Bucket, now: number): void => {
    const { burst, perMinute } = bucket.rate
    // A clock that was set back takes nothing away.
    bucket.credit = Math.min(burst * MINUTE_MS, bucket.credit + Math.max(0, now - bucket.at) * perMinute)
    bucket.at = now
  }

  /** Full ones say nothing; if none is, the one that was used longest ago goes. */
  function makeRoom(now: number): void {
    for (const [key, bucket] of buckets) {
      refill(bucket, now)
      if (bucket.credit >= bucket.rate.burst * MINUTE_MS) buckets.delete(key)
    }
    const [oldest] = buckets.keys()
    if (buckets.size >= maxBuckets && oldest !== undefined) buckets.delete(oldest)
  }

  return {
    take(rates, tool, { principal, profile }) {
      const now = clock.now()
      const wanted: Array<readonly [string, Bucket]> = []
      for (const rate of rates) {
        if (!rate.fits(tool)) continue
        const key = `${rate.key}\n${rate.per === 'principal' ? principal : profile}`
        const bucket = buckets.get(key) ?? { credit: rate.burst * MINUTE_MS, at: now, rate }
        refill(bucket, now)
        if (bucket.credit < MINUTE_MS)
          return { rate, retryAfterMs: Math.ceil((MINUTE_MS - bucket.credit) / rate.perMinute) }
        wanted.push([key, bucket])
      }
      for (const [key, bucket] of wanted) {
        bucket.credit -= MINUTE_MS
        // Put behind the others, in the order of their use.
        if (!buckets.delete(key) && buckets.size >= maxBuckets) makeRoom(now)
        buckets.set(key, bucket)
      }
      return undefined
    },
    get size() {
      return buckets.size
    },
  }
}
