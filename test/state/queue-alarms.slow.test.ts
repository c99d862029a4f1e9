import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Redis } from 'ioredis'
import { describe, expect, it } from 'vitest'
import { systemClock } from '../../src/core/clock.ts'
import { silentLog } from '../../src/core/log.ts'
import type { Alarms } from '../../src/state/alarms.ts'
import { createQueueAlarms } from '../../src/state/queue-alarms.ts'
import { connectRedis, createRedisStore } from '../../src/state/redis-store.ts'
import { alarmsContract, type OpenAlarms } from '../contract/alarms.ts'
import { redisUrl } from '../redis.ts'

const newPrefix = (): string => `pegboard-test-${randomBytes(6).toString('hex')}`

async function open(prefix = newPrefix()): Promise<OpenAlarms & { readonly redis: Redis; readonly prefix: string }> {
  const redis = await connectRedis(String(redisUrl), silentLog)
  const made: Alarms = createQueueAlarms({
    connection: () => redis,
    prefix,
    name: 'job',
    clock: systemClock,
    log: silentLog,
    onReconnect: () => undefined,
  })
  return {
    alarms: made,
    redis,
    prefix,
    async close() {
      const keys = await redis.keys(`${prefix}:*`)
      if (keys.length > 0) await redis.del(...keys)
      await redis.quit()
    },
  }
}

describe.skipIf(redisUrl === undefined)('by BullMQ', () => {
  alarmsContract('BullMQ', () => open())

  it('rings each alarm in one of two processes, and not under another prefix', async () => {
    const [one, stranger] = [await open(), await open()]
    const other = await open(one.prefix)
    const rung: string[] = []
    for (const [who, { alarms }] of [
      ['one', one],
      ['other', other],
      ['stranger', stranger],
    ] as const)
      await alarms.start(
        async (id) => {
          rung.push(`${who} ${id}`)
          await sleep(20)
        },
        async () => [],
      )
    const at = Date.now() + 1_500
    for (let n = 0; n < 40; n++) await Promise.all([one.alarms.set(`n${n}`, at), other.alarms.set(`n${n}`, at)])
    await expect.poll(() => rung.length, { timeout: 20_000 }).toBeGreaterThanOrEqual(40)
    expect(rung.map((line) => line.split(' ')[1]).sort()).toEqual(Array.from({ length: 40 }, (_, n) => `n${n}`).sort())
    expect(rung.filter((line) => line.startsWith('stranger'))).toEqual([])
    for (const { alarms, close } of [one, other, stranger]) {
      await alarms.stop()
      await close()
    }
  })

  it('rings again for what another process sets during an alarm', async () => {
    const one = await open()
    const other = await open(one.prefix)
    let times = 0
    let go = (): void => undefined
    const held = new Promise<void>((resolve) => {
      go = resolve
    })
    await one.alarms.start(
      async () => {
        if (++times === 1) await held
      },
      async () => [],
    )
    const at = Date.now() + 50
    await one.alarms.set('a', at)
    await expect.poll(() => times).toBe(1)
    await other.alarms.set('a', at)
    go()
    await expect.poll(() => times).toBeGreaterThan(1)
    for (const { alarms, close } of [one, other]) {
      await alarms.stop()
      await close()
    }
  }, 40_000)

  it('leaves nothing of finished alarms, and no connection after stop', async () => {
    const { alarms, close, redis, prefix } = await open()
    const clients = async () => String(await redis.client('LIST')).split('\n').length
    const before = await clients()
    await alarms.start(
      async () => undefined,
      async () => [],
    )
    const at = Date.now() + 500
    await Promise.all(Array.from({ length: 200 }, (_, n) => alarms.set(`n${n}`, at)))
    const left = async () => (await redis.keys(`${prefix}:*`)).map((key) => key.slice(prefix.length + 5))
    await expect
      .poll(async () => (await left()).filter((key) => /^n\d/.test(key)), { timeout: 20_000, interval: 200 })
      .toEqual([])
    expect((await left()).length).toBeLessThan(8)
    expect(await redis.xlen(`${prefix}:job:events`)).toBeLessThan(400)
    await alarms.stop()
    await expect.poll(clients).toBeLessThanOrEqual(before + 1)
    await close()
  })

  it('removes expired entries from the lists by itself', async () => {
    const prefix = newPrefix()
    const redis = await connectRedis(String(redisUrl), silentLog)
    const table = createRedisStore(redis, prefix, systemClock, silentLog).table<number>('short')
    for (let n = 0; n < 10; n++) await table.put({ id: `n${n}`, owner: 'ann', value: n, expiresAt: Date.now() + 50 })
    await sleep(1_200)
    await table.put({ id: 'last', owner: 'ann', value: 1 })
    expect(await redis.zrange(`${prefix}:short:all`, 0, -1)).toEqual(['last'])
    expect(await redis.zrange(`${prefix}:short:all:ann`, 0, -1)).toEqual(['last'])
    await redis.del(...(await redis.keys(`${prefix}:*`)))
    await redis.quit()
  })
})
