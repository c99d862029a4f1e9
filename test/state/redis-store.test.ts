import { randomBytes } from 'node:crypto'
import { describe } from 'vitest'
import { systemClock } from '../../src/core/clock.ts'
import { silentLog } from '../../src/core/log.ts'
import { connectRedis, createRedisStore } from '../../src/state/redis-store.ts'
import { storeContract } from '../contract/store.ts'
import { redisUrl } from '../redis.ts'

describe.skipIf(redisUrl === undefined)('in Redis', () => {
  storeContract(
    'Redis',
    async () => {
      const prefix = `pegboard-test-${randomBytes(6).toString('hex')}`
      const redis = await connectRedis(String(redisUrl), silentLog)
      const store = createRedisStore(redis, prefix, systemClock, silentLog)
      return {
        store,
        async close() {
          const keys = await redis.keys(`${prefix}:*`)
          if (keys.length > 0) await redis.del(...keys)
          await store.close()
        },
      }
    },
    'real',
  )
})
