import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { describe, expect, onTestFinished, test } from 'vitest'
import { type Answer, answerOf, startApp, temporaryFolder } from '../app.ts'
import { connectTo } from '../client.ts'
import { freePort } from '../fleet.ts'

// A Redis for this test only: it can be emptied, filled, stopped or made a replica.

const hasServer = spawnSync('redis-server', ['--version']).status === 0

/** A tool that ends when the test releases it. */
const GATE = `let open
export default {
  name: 'gate',
  description: 'Waits until it is opened.',
  tools: {
    pass: { description: 'Waits.', effect: 'write', input: { type: 'object', properties: {} }, run: () => new Promise((done) => { open = () => done({ is: 'through' }) }) },
    open: { description: 'Opens.', effect: 'write', input: { type: 'object', properties: {} }, run: () => { open(); return { is: 'open' } } },
  },
}`

async function redisServer(...more: readonly string[]) {
  const port = await freePort()
  const child = spawn(
    'redis-server',
    ['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--dir', temporaryFolder(), ...more],
    { stdio: 'ignore' },
  )
  const ended = once(child, 'exit')
  const url = `redis://127.0.0.1:${port}`
  const redis = new Redis(url, { maxRetriesPerRequest: null, retryStrategy: () => 50 })
  redis.on('error', () => undefined)
  onTestFinished(async () => {
    redis.disconnect()
    child.kill('SIGCONT')
    child.kill('SIGKILL')
    await ended
  })
  await redis.ping()
  return { url, redis, child }
}

async function appOn(url: string, more: object = {}) {
  const dir = temporaryFolder()
  mkdirSync(join(dir, 'modules'))
  writeFileSync(join(dir, 'modules', 'gate.mjs'), GATE)
  const settings = { exposure: { mode: 'direct' }, execution: { watchers: true, scheduler: true } }
  const { app, logged } = await startApp({ ...settings, ...more, state: { url } }, dir)
  await app.work()
  const client = await connectTo(app)
  const call = async (name: string, args: object = {}): Promise<Answer> => {
    const answer = (await client.callTool({ name, arguments: args as never }, { timeout: 60_000 })) as Answer
    return answer.isError ? { failed: answer.structuredContent.error.code } : answerOf(answer)
  }
  return { app, dir, logged, call }
}

const tea = { when: 'in 1d', name: 'hello.say_hello', params: { name: 'Tea' }, label: 'tea' }

describe.skipIf(!hasServer)('a Redis', () => {
  test('that is emptied loses no running task: it stays known, and its result is stored', async () => {
    const { url, redis } = await redisServer()
    const { call } = await appOn(url)
    const { task_id } = await call('background_run', { name: 'gate.pass' })
    await redis.flushall()
    expect(await call('background_status', { task_id })).toMatchObject({ status: 'running' })
    await call('gate__open')
    await expect
      .poll(() => call('background_status', { task_id }), { timeout: 20_000 })
      .toMatchObject({ status: 'completed' })
    expect(JSON.stringify(await call('background_result', { task_id }))).toContain('through')
    // Stored in Redis, not only in this process.
    expect(await redis.keys('*:task:doc:*')).toHaveLength(1)
  }, 60_000)

  test.each(['allkeys-lru', 'volatile-ttl'])(
    'that evicts data when it is full (%s) causes a warning',
    async (policy) => {
      const { url } = await redisServer('--maxmemory-policy', policy)
      const { logged } = await appOn(url)
      expect(logged.find((line) => line.includes('Redis deletes stored state'))).toContain(policy)
    },
    60_000,
  )

  test('that is full accepts no new job, says so, and keeps the existing ones', async () => {
    const { url, redis } = await redisServer()
    const { call, logged } = await appOn(url)
    expect(logged.filter((line) => line.includes('throws away'))).toEqual([])
    expect(await call('schedule_once', tea)).toMatchObject({ label: 'tea' })
    await redis.config('SET', 'maxmemory', '1')
    expect(await call('schedule_once', { ...tea, label: 'more tea' })).toEqual({ failed: 'E_STATE_UNAVAILABLE' })
    expect(await call('schedule_list')).toMatchObject({ total: 1, jobs: [{ label: 'tea' }] })
    expect(await call('hello__say_hello', { name: 'Ada' })).toEqual({ message: 'Hello, Ada!' })
    await redis.config('SET', 'maxmemory', '0')
    expect(await call('schedule_once', { ...tea, label: 'more tea' })).toMatchObject({ label: 'more tea' })
  }, 60_000)

  test('that hangs blocks only work that needs it, and continues afterwards', async () => {
    const { url, child } = await redisServer()
    const { call } = await appOn(url)
    expect(await call('schedule_once', tea)).toMatchObject({ label: 'tea' })
    child.kill('SIGSTOP')
    const listing = call('schedule_list')
    expect(await call('hello__say_hello', { name: 'Ada' })).toEqual({ message: 'Hello, Ada!' })
    expect(await listing).toEqual({ failed: 'E_STATE_UNAVAILABLE' })
    child.kill('SIGCONT')
    await expect.poll(() => call('schedule_list'), { timeout: 20_000 }).toMatchObject({ total: 1 })
  }, 60_000)

  test('that became a replica rejects writes, and the error says so', async () => {
    const { url, redis } = await redisServer()
    const { call } = await appOn(url)
    await redis.replicaof('127.0.0.1', '1')
    expect(await call('schedule_once', tea)).toEqual({ failed: 'E_STATE_UNAVAILABLE' })
    await redis.replicaof('NO', 'ONE')
    expect(await call('schedule_once', tea)).toMatchObject({ label: 'tea' })
  }, 60_000)

  test('lets another process run scheduled work only as far as that process allows', async () => {
    const { url } = await redisServer()
    const open = await appOn(url)
    expect(await open.call('schedule_once', { ...tea, when: 'in 2s' })).toMatchObject({ label: 'tea' })
    await open.app.stop()
    const closed = await appOn(url, { policy: { deny: ['hello.*'] }, audit: { enabled: true } })
    await expect.poll(async () => (await closed.call('schedule_list')).total, { timeout: 30_000 }).toBe(0)
    await closed.app.stop()
    const lines = readFileSync(join(closed.dir, 'state', 'audit.jsonl'), 'utf8')
      .trimEnd()
      .split('\n')
    const decided = lines.map((line) => JSON.parse(line)).filter(({ tool }) => tool === 'hello.say_hello')
    expect(decided).toEqual([expect.objectContaining({ decision: 'deny', principal: 'local' })])
  }, 60_000)
})
