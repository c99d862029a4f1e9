import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it, onTestFinished } from 'vitest'
import type { Batch, Driver, Target } from '../../modules/database/driver.ts'
import { createMysql } from '../../modules/database/mysql.ts'
import { createPostgres } from '../../modules/database/postgres.ts'
import type { Log } from '../../src/core/log.ts'
import { makeDatabase, servers, type TestDatabase } from '../databases.ts'
import { startOnDatabase } from './database-app.ts'

const silent = { warn: () => undefined } as unknown as Log
const gone = new Error('no client waits for it any more')
const never = new AbortController().signal

async function open(kind: (typeof servers)[number], maxSessions = 4): Promise<{ driver: Driver; rig: TestDatabase }> {
  const rig = await makeDatabase(kind)
  await rig.exec('CREATE TABLE t (a INTEGER)')
  const target = { ...rig.connection, allowedFunctions: [], busyMs: 1_000, connectMs: 60_000, maxSessions } as unknown
  const driver = await (kind === 'mysql' ? createMysql : createPostgres)(target as Target, silent)
  onTestFinished(() => driver.close())
  return { driver, rig }
}

describe.each(servers)('on %s', (kind) => {
  const asleep = (seconds: number): string => `SELECT ${kind === 'mysql' ? 'SLEEP' : 'pg_sleep'}(${seconds})`
  const work = (sql: readonly string[], more: Partial<Batch> = {}): Batch => ({
    statements: sql.map((one) => ({ sql: one, params: [] })),
    access: 'write',
    continueOnError: true,
    maxRows: 10,
    maxBytes: 10_000,
    timeoutMs: 600_000,
    signal: never,
    principal: 'ann',
    ...more,
  })
  /** Running statements of the driver. */
  const running = async (rig: TestDatabase): Promise<number> => {
    const name = rig.connection['database']
    const [[count] = []] = await rig.rows(
      kind === 'mysql'
        ? `SELECT count(*) FROM information_schema.processlist WHERE db = '${name}' AND info LIKE '%SLEEP(%' AND info NOT LIKE '%processlist%'`
        : `SELECT count(*) FROM pg_stat_activity WHERE datname = '${name}' AND state = 'active' AND query LIKE '%pg_sleep(%'
           AND pid <> pg_backend_pid()`,
    )
    return Number(count)
  }

  it('starts no statement after the one that its caller cancelled', async () => {
    const { driver, rig } = await open(kind)
    const caller = new AbortController()
    const batch = driver.run(
      work([asleep(601), 'INSERT INTO t VALUES (1)', asleep(602), asleep(603)], { signal: caller.signal }),
    )
    await expect.poll(() => running(rig), { timeout: 20_000 }).toBe(1)
    caller.abort(gone)
    await expect(batch).rejects.toBe(gone)
    await expect.poll(() => running(rig), { timeout: 20_000 }).toBe(0)
    expect(await rig.rows('SELECT a FROM t')).toEqual([])
  }, 60_000)

  it('starts no statement after the one that timed out', async () => {
    const { driver, rig } = await open(kind)
    const batch = driver.run(work([asleep(601), 'INSERT INTO t VALUES (1)', asleep(602)], { timeoutMs: 1_000 }))
    await batch.then(
      () => undefined,
      () => undefined,
    )
    await expect.poll(() => running(rig), { timeout: 20_000 }).toBe(0)
    expect(await rig.rows('SELECT a FROM t')).toEqual([])
  }, 60_000)

  it('leaves no statement running, whenever its caller leaves', async () => {
    const { driver, rig } = await open(kind)
    for (let ms = 0; ms < 30; ms++) {
      const caller = new AbortController()
      const call = driver.run(work([asleep(604)], { access: 'read', signal: caller.signal }))
      await sleep(ms)
      caller.abort(gone)
      await expect(call).rejects.toBe(gone)
    }
    await expect.poll(() => running(rig), { timeout: 20_000 }).toBe(0)
  }, 120_000)

  it('starts no statement of a caller that left while all sessions were busy', async () => {
    const { driver, rig } = await open(kind, 1)
    const first = new AbortController()
    const second = new AbortController()
    const one = driver.run(work([asleep(605)], { signal: first.signal }))
    await expect.poll(() => running(rig), { timeout: 20_000 }).toBe(1)
    const other = driver.run(work(['INSERT INTO t VALUES (2)'], { signal: second.signal }))
    second.abort(gone)
    first.abort(gone)
    expect(await Promise.allSettled([one, other])).toEqual([1, 2].map(() => ({ status: 'rejected', reason: gone })))
    expect(await rig.rows('SELECT a FROM t')).toEqual([])
  }, 60_000)

  it('continues for others when the first caller leaves during the login check', async () => {
    const { call, fails } = await startOnDatabase(kind, { policy: 'readonly' })
    const caller = new AbortController()
    const first = fails('list_tables', {}, { signal: caller.signal })
    const other = call('list_tables')
    await sleep(0)
    caller.abort(gone)
    await first
    expect(await other).toMatchObject({ count: 0 })
  }, 60_000)
})
