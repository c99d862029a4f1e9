import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readdirSync, rmSync, truncateSync, utimesSync } from 'node:fs'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { describe, expect, onTestFinished, test } from 'vitest'
import { systemClock } from '../../src/core/clock.ts'
import { createLog } from '../../src/core/log.ts'
import { checkBearer, toBearerToken } from '../../src/server/bearer-tokens.ts'
import { createSharedTokenStore, createToken } from '../../src/server/token-store.ts'
import { createCommonClock } from '../../src/state/common-clock.ts'
import { createRedisState, type SharedState } from '../../src/state/shared-state.ts'
import { openDatabase } from '../../src/state/sqlite-driver.ts'
import { type Answer, answerOf, startApp, temporaryFolder } from '../app.ts'
import { connectTo } from '../client.ts'
import { createManualClock } from '../clock.ts'
import { forget } from '../fleet.ts'
import { place, talkTo } from '../process.ts'
import { redisUrl } from '../redis.ts'
import { until } from '../upstream/host.ts'

// Stored data may come from another version, from a neighbour on the same Redis, or be damaged.

const settings = { exposure: { mode: 'direct' }, execution: { watchers: true, scheduler: true } }
/** As if it had been idle for a minute. */
const age = (file: string): void => utimesSync(file, Date.now() / 1_000 - 60, Date.now() / 1_000 - 60)
const OWNER = '["local","default"]'

async function appOn(dir: string, more: object = {}) {
  const { app, logged } = await startApp({ ...settings, ...more }, dir)
  await app.work()
  const client = await connectTo(app)
  const call = async (name: string, args: object = {}): Promise<Answer> => {
    const answer = (await client.callTool({ name, arguments: args as never })) as Answer
    return answer.isError ? answer.content[0].text : answerOf(answer)
  }
  return { app, logged, call }
}

const CALLER = '"caller":{"principal":"local","profile":"default","roles":[],"era":"legacy"}'
test.each([
  ['job', 'text cut off', `{"nextAt":1,${CALLER}`],
  ['job', 'null', 'null'],
  ['job', 'a time that is none', `{"nextAt":"soon","createdAt":1,"runs":0,"maxRuns":0,${CALLER}}`],
  ['job', 'nobody it is for', '{"nextAt":1,"createdAt":1,"runs":0,"maxRuns":0}'],
  ['watcher', 'text cut off', '{"nextAt'],
  [
    'watcher',
    'no history',
    `{"nextAt":1,"createdAt":1,"checks":0,"intervalMs":1000,"tool":"hello.say_hello",${CALLER}}`,
  ],
  ['task', 'text cut off', '{"status":"run'],
  ['task', 'null', 'null'],
  ['notice', 'text cut off', '"tea i'],
  ['notice', 'a number', '5'],
])(
  'an unreadable %s (%s) stays unchanged and prevents nothing else',
  async (kind, _what, value) => {
    const dir = temporaryFolder()
    const before = await appOn(dir)
    const tea = { when: 'in 1s', name: 'hello.say_hello', params: { name: 'Tea' }, label: 'tea' }
    expect(await before.call('schedule_once', tea)).toMatchObject({ label: 'tea' })
    await before.app.stop()
    const database = openDatabase(join(dir, 'state', 'state.db'))
    const insert = database.prepare('INSERT INTO documents VALUES (?, ?, ?, ?, 999, NULL)')
    insert.run(kind, 'odd', kind === 'task' ? '["local","default",""]' : OWNER, value)
    database.close()

    const { call, logged } = await appOn(dir)
    await expect.poll(async () => (await call('schedule_list')).total, { timeout: 20_000 }).toBe(0)
    for (const list of ['schedule_list', 'watch_list', 'background_list'])
      expect(await call(list)).toMatchObject({ total: 0 })
    expect(await call('background_run', { name: 'hello.say_hello', params: { name: 'Ada' } })).toMatchObject({
      status: 'completed',
    })
    const said = logged.map((line) => JSON.parse(line)).filter(({ message }) => /cannot be read/.test(message))
    expect(said).toEqual([expect.objectContaining({ level: 'error', kind, id: 'odd' })])
    const file = openDatabase(join(dir, 'state', 'state.db'))
    expect(file.prepare("SELECT value FROM documents WHERE id = 'odd'").get()).toMatchObject({ value })
    file.close()
  },
  60_000,
)

test.each([
  ['is empty while its log is not', (file: string) => truncateSync(file)],
  ['is gone while its log is not', (file: string) => rmSync(file)],
  ['was emptied long ago', (file: string) => [truncateSync(file), rmSync(`${file}-wal`), age(file)]],
  ['lost the log that held all of it', (file: string) => [rmSync(`${file}-wal`), age(file)]],
])(
  'a state file that %s is reported, and its data is kept',
  async (_how, harm) => {
    const where = place(settings)
    const plan = async () => {
      const { send, answer, child, stderr } = await talkTo(where)
      send({ id: 1, method: 'tools/call', params: { name: 'schedule_list', arguments: {} } })
      const tea = { when: 'in 1d', name: 'hello.say_hello', params: { name: 'Tea' }, label: 'tea' }
      send({ id: 2, method: 'tools/call', params: { name: 'schedule_once', arguments: tea } })
      const { result } = (await answer(1)) as Answer
      await answer(2)
      const ended = once(child, 'exit')
      child.kill('SIGKILL')
      await ended
      return { listed: answerOf(result), said: stderr() }
    }
    expect((await plan()).listed).toEqual({ jobs: [], total: 0 })
    harm(join(where.dir, 'state', 'state.db'))
    const { listed, said } = await plan()
    expect(listed).toMatchObject({
      total: 0,
      note: expect.stringMatching(/^State from before .* was damaged and moved aside/),
    })
    expect(said).toContain('the state file is empty, but it had data before: scheduled work is lost')
    expect(readdirSync(join(where.dir, 'state')).filter((name) => name.startsWith('state.db.corrupt-'))).not.toEqual([])
    // The new file is complete.
    expect((await plan()).listed).toMatchObject({ total: 1, jobs: [{ label: 'tea' }] })
  },
  60_000,
)

describe.skipIf(redisUrl === undefined)('on a Redis that another program uses', () => {
  function neighbour() {
    const prefix = `pegboard-test-${randomBytes(6).toString('hex')}`
    const redis = new Redis(String(redisUrl))
    onTestFinished(async () => {
      redis.disconnect()
      await forget(prefix)
    })
    return { prefix, redis, state: { state: { url: String(redisUrl), prefix } } }
  }
  const put = (redis: Redis, key: string, id: string, value: string, owner = OWNER) =>
    redis
      .multi()
      .hset(`${key}:doc:${id}`, 'owner', owner, 'value', value, 'revision', '9', 'order', '9')
      .zadd(`${key}:all`, 9, id)
      .zadd(`${key}:all:${owner}`, 9, id)
      .exec()

  test('foreign rows and keys of another type hide none of ours', async () => {
    const { prefix, redis, state } = neighbour()
    const { call, logged } = await appOn(temporaryFolder(), state)
    await put(redis, `${prefix}:job`, 'odd', 'garbage')
    await redis.set(`${prefix}:job:doc:other`, 'a string')
    await redis.multi().zadd(`${prefix}:job:all`, 1, 'other').zadd(`${prefix}:job:all:${OWNER}`, 1, 'other').exec()
    const tea = { when: 'in 1d', name: 'hello.say_hello', params: { name: 'Tea' }, label: 'tea' }
    expect(await call('schedule_once', tea)).toMatchObject({ label: 'tea' })
    expect(await call('schedule_list')).toMatchObject({ total: 1, jobs: [{ label: 'tea' }] })
    expect(await redis.get(`${prefix}:job:doc:other`)).toBe('a string')
    expect(logged.filter((line) => /cannot be read/.test(line)).length).toBe(2)
  }, 60_000)

  test('foreign members in the expiry list block no write', async () => {
    const { prefix, redis, state } = neighbour()
    const { call } = await appOn(temporaryFolder(), state)
    for (const member of ['garbage', '5', '{}', '[1,2]', '["one"]'])
      await redis.zadd(`${prefix}:notice:all:ends`, 0, member)
    await redis.zadd(`${prefix}:job:all:ends`, 0, 'garbage')
    const tea = { when: 'in 1d', name: 'hello.say_hello', params: { name: 'Tea' }, label: 'tea' }
    expect(await call('schedule_once', tea)).toMatchObject({ label: 'tea' })
    expect(await redis.zcard(`${prefix}:job:all:ends`)).toBe(0)
  }, 60_000)

  test('foreign messages on our channel are ignored', async () => {
    const { prefix, redis, state } = neighbour()
    const uncaught: unknown[] = []
    const note = (error: unknown): void => void uncaught.push(error)
    const others = process.listeners('uncaughtException')
    process.removeAllListeners('uncaughtException').on('uncaughtException', note)
    onTestFinished(() => {
      process.removeListener('uncaughtException', note)
      for (const other of others) process.on('uncaughtException', other)
    })
    const { call, logged } = await appOn(temporaryFolder(), state)
    const said = ['garbage', '5', 'null', '[]', '["x"]', '["x","session","garbage"]', '["x","ask","null"]']
    for (const topic of [
      'ask',
      'session',
      'injected',
      'flag',
      'answered',
      'redirected',
      'cancelled',
      'notice',
      'approval',
    ])
      for (const text of ['null', '5', '"word"', '{}', '[null]'])
        said.push(JSON.stringify(['x', topic, text]), JSON.stringify(['x', topic, JSON.parse(text)]))
    for (const one of said) await redis.publish(`${prefix}:said`, one)
    await redis.publish(`${prefix}:said`, 'last word')
    await until(() => logged.some((line) => /cannot be parsed.*last wor/.test(line)))
    expect(uncaught).toEqual([])
    expect(await call('background_run', { name: 'hello.say_hello', params: { name: 'Ada' } })).toMatchObject({
      status: 'completed',
    })
  }, 60_000)

  test('a message whose listener throws does not stop later messages', async () => {
    const { prefix } = neighbour()
    const [one, other] = [0, 1].map(() =>
      createRedisState(
        String(redisUrl),
        prefix,
        createCommonClock(systemClock),
        createLog(() => undefined),
      ),
    ) as [SharedState, SharedState]
    onTestFinished(() => Promise.all([one.close(), other.close()]).then(() => undefined))
    await Promise.all([one.open(), other.open()])
    const heard: string[] = []
    one.subscribe('word', (text) => {
      if (text === 'bad') throw new Error('not what was expected')
      heard.push(text)
    })
    for (const text of ['bad', 'good', 'bad', 'better']) other.publish('word', text)
    await until(() => heard.length === 2)
    expect(heard).toEqual(['good', 'better'])
  })

  test.each(['""', '"AA=="', 'null', '5', '{}', 'garbage'])(
    'a key of %s signs nothing: a server that finds it does not start',
    async (value) => {
      const { prefix, redis } = neighbour()
      await put(redis, `${prefix}:secret`, 'key', value, '')
      const shared = createRedisState(
        String(redisUrl),
        prefix,
        createCommonClock(systemClock),
        createLog(() => undefined),
      )
      onTestFinished(() => shared.close())
      await expect(shared.open()).rejects.toMatchObject({ code: expect.stringMatching(/^E_STATE/) })
      expect(() => shared.key()).toThrow('not connected')
    },
  )

  test('an emptied Redis is reported, and servers that know its key store it again', async () => {
    const { prefix, redis } = neighbour()
    const logged: string[] = []
    const clock = createManualClock(Date.now())
    const open = async (time: typeof systemClock) => {
      const log = createLog((line) => logged.push(line), 'warn')
      const shared = createRedisState(String(redisUrl), prefix, createCommonClock(time), log)
      onTestFinished(() => shared.close())
      await shared.open()
      return shared
    }
    const one = await open(clock)
    await forget(prefix)
    clock.pass(60_000)
    await until(() => logged.some((line) => /Redis has lost its data/.test(line)))
    await expect.poll(() => redis.exists(`${prefix}:secret:doc:key`)).toBe(1)
    expect((await open(systemClock)).key()).toEqual(one.key())
  }, 30_000)

  test('an invalid token grants no access, and valid ones can still be used and revoked', async () => {
    const { prefix, redis } = neighbour()
    const clock = createCommonClock(systemClock)
    const log = createLog(() => undefined)
    const shared = createRedisState(String(redisUrl), prefix, clock, log)
    await shared.open()
    onTestFinished(() => shared.close())
    const tokens = createSharedTokenStore(shared, clock, log)
    for (const [n, value] of ['{"id":"a","digest":"00"}', '{"id":"b"}', 'null', '5', 'garbage'].entries())
      await put(redis, `${prefix}:token`, `odd${n}`, value, '')
    await tokens.open()
    const { token, stored: kept } = createToken({ name: 'ci', principal: 'ci', roles: [], createdAt: 1 })
    await tokens.add(kept)
    const bearer = () => checkBearer(token, tokens.valid(true).map(toBearerToken))?.principal
    expect(bearer()).toBe('ci')
    expect(await tokens.remove(kept.id)).toBe(true)
    expect(bearer()).toBe(undefined)
  }, 30_000)
})
