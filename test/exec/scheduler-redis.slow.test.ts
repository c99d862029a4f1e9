import { randomBytes } from 'node:crypto'
import { expect, it, onTestFinished } from 'vitest'
import { localCaller } from '../../src/core/caller.ts'
import { systemClock } from '../../src/core/clock.ts'
import { PegboardError } from '../../src/core/errors.ts'
import { silentLog } from '../../src/core/log.ts'
import { valueResult } from '../../src/core/tool-result.ts'
import { createInbox } from '../../src/exec/inbox.ts'
import { createProcessHeartbeat } from '../../src/exec/process-heartbeat.ts'
import { createScheduler } from '../../src/exec/scheduler.ts'
import { createCommonClock } from '../../src/state/common-clock.ts'
import { connectRedis } from '../../src/state/redis-store.ts'
import { createRedisState } from '../../src/state/shared-state.ts'
import { redisUrl } from '../redis.ts'

it.skipIf(redisUrl === undefined)(
  'due jobs run in another process on the same Redis if this one lacks their tool, each once',
  async () => {
    const prefix = `pegboard-test-${randomBytes(6).toString('hex')}`
    onTestFinished(async () => {
      const redis = await connectRedis(String(redisUrl), silentLog)
      const keys = await redis.keys(`${prefix}:*`)
      if (keys.length > 0) await redis.del(...keys)
      redis.disconnect()
    })
    const done: string[] = []
    let asked = 0
    const process = async (lacking: boolean) => {
      const clock = createCommonClock(systemClock)
      const shared = createRedisState(String(redisUrl), prefix, clock, silentLog)
      await shared.open()
      const instance = createProcessHeartbeat(shared, clock, silentLog)
      const schedule = createScheduler({
        lookUpRights: ({ roles }) => ({ roles }),
        lacksTool: () => lacking,
        hasInvalidServer: () => false,
        isIdempotent: () => false,
        store: shared.store(),
        clock,
        log: silentLog,
        inbox: createInbox(shared, clock, silentLog),
        instance,
        delivery: { send: async () => undefined },
        graceMs: 60_000,
        key: shared.key,
        alarms: shared.alarms('job'),
        call: async ({ name, input }) => {
          asked++
          if (lacking) throw new PegboardError('E_NOT_FOUND', `Tool '${name}' not found.`)
          done.push(String((input as { n: number }).n))
          return valueResult('done')
        },
      })
      onTestFinished(async () => {
        await schedule.stop()
        await instance.leave()
        instance.stop()
        await shared.close()
      })
      await instance.join()
      await schedule.start()
      return schedule
    }
    const without = await process(true)
    await process(false)
    const wanted = Array.from({ length: 12 }, (_, n) => String(n))
    for (const n of wanted) await without.add(localCaller, { tool: 'a.b', params: { n }, when: 'in 1s' })
    await expect.poll(() => [...done].sort(), { timeout: 45_000 }).toEqual([...wanted].sort())
    await expect.poll(async () => await without.list(localCaller)).toEqual([])
    // At most one extra request per job arrives here.
    expect(asked).toBeGreaterThan(12)
    expect(asked).toBeLessThanOrEqual(24)
    expect(done).toHaveLength(12)
  },
  90_000,
)
