import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Client } from '@modelcontextprotocol/client'
import { expect, onTestFinished, test } from 'vitest'
import { openDatabase } from '../../src/state/sqlite-driver.ts'
import { type Answer, answerOf, startApp, temporaryFolder } from '../app.ts'
import { connectTo } from '../client.ts'
import { clientOf, fleetRuns, forget, gatewayTo, type Member, startFleet } from '../fleet.ts'
import { fuzzRuns, randomFrom } from '../fuzz.ts'
import { cli, place, run, serveHttp, talkTo } from '../process.ts'
import { redisUrl } from '../redis.ts'
import { canMount, serveOnSmallDisk } from '../small-disk.ts'
import { until } from '../upstream/host.ts'

// Cases of state, storage and several instances, on the whole server. A network file system cannot be mounted here;
// test/state/sqlite-store.slow.test.ts covers it.

/** By hand two hundred: PEGBOARD_FUZZ_RUNS=200. */
const KILLS = fuzzRuns(20)
/** The maximum number of schedules per owner. */
const KILLS_OF_ONE = 5
const random = randomFrom()

test('STA-01: after kills at random moments the state has everything that was acknowledged', async () => {
  for (let killed = 0; killed < KILLS; killed += 2 * KILLS_OF_ONE) await Promise.all([killOften(), killOften()])
}, 900_000)

async function killOften(): Promise<void> {
  const execution = { watchers: true, scheduler: true, maxResultTokens: 0 }
  const where = place({ exposure: { mode: 'direct' }, execution })
  const acknowledged: string[] = []
  for (let kill = 0; kill < KILLS_OF_ONE; kill++) {
    const { child, send, messages } = await talkTo(where)
    const ended = once(child, 'exit')
    let id = 0
    let seen = messages.length
    const ask = (): void => {
      const params = { when: 'in 1d', name: 'hello.say_hello', label: `${kill}, ${++id}` }
      send({ id, method: 'tools/call', params: { name: 'schedule_once', arguments: params } })
    }
    child.stdin?.on('error', () => undefined)
    child.stdout?.on('data', () => {
      for (; seen < messages.length; seen++) {
        const { id: answered, result } = messages[seen] as Answer
        if (result.isError) continue
        acknowledged.push(`${kill}, ${answered}`)
        ask()
      }
    })
    for (let n = 0; n < 4; n++) ask()
    // Not before it has started to write.
    await until(() => id > 4, 60_000)
    await sleep(random() * 100)
    child.kill('SIGKILL')
    await ended
  }
  expect(acknowledged.length).toBeGreaterThanOrEqual(KILLS_OF_ONE)
  const file = openDatabase(join(where.dir, 'state', 'state.db'))
  expect(file.prepare('PRAGMA integrity_check').get()).toMatchObject({ integrity_check: 'ok' })
  file.close()
  const { send, answer, child } = await talkTo(where)
  send({ id: 1, method: 'tools/call', params: { name: 'schedule_list', arguments: {} } })
  const { jobs } = answerOf(((await answer(1)) as Answer).result)
  const kept = new Set(jobs.map(({ label }: Answer) => label))
  expect(acknowledged.filter((label) => !kept.has(label))).toEqual([])
  child.kill('SIGKILL')
}

const evil = {
  command: process.execPath,
  args: [join(import.meta.dirname, '../fixtures/upstreams/evil.mjs')],
  start: 'eager',
}

test.runIf(canMount)(
  'STA-02: on a full disk only work that must be stored is rejected; it works again with free space, which no cache uses',
  async () => {
    const { connect } = await serveOnSmallDisk(':', '1m')
    const { raw, call } = await connect()
    const later = (label: string, why: string) => ({
      when: 'in 1d',
      name: 'disk.wait',
      params: { ms: 1, why },
      label,
    })
    await call('schedule_once', later('before', ''))
    expect(await call('disk__fill')).toEqual({ is: 'full' })
    let refused: Answer = {}
    for (let n = 0; n < 400 && !refused.isError; n++)
      refused = await raw('schedule_once', later(`n${n}`, 'x'.repeat(3_000)))
    expect(refused.structuredContent.error).toMatchObject({ code: 'E_STATE_UNAVAILABLE', retryable: true })
    expect(await call('disk__pid')).toEqual(expect.any(Number))
    expect(await call('disk__free')).toEqual({ is: 'free' })
    await call('schedule_once', later('after', ''))
    // Longer than it takes to store compiled code.
    await sleep(4_500)
    const files: string[] = await call('disk__all')
    expect(files.filter((name) => name.startsWith('cache/code/'))).toEqual([])
    expect(files.filter((name) => name.endsWith('.tmp'))).toEqual([])
    const { jobs }: { jobs: { label: string }[] } = await call('schedule_list')
    expect(jobs.map(({ label }) => label)).toEqual(expect.arrayContaining(['before', 'after']))
    expect(await raw('schedule_once', later('last', 'x'.repeat(3_000)))).not.toMatchObject({ isError: true })
  },
  60_000,
)

test('a start deletes temporary files of a process that was killed during a write, and no others', async () => {
  const where = place({ exposure: { mode: 'direct' } })
  const state = join(where.dir, 'state')
  mkdirSync(join(state, 'manifests'), { recursive: true })
  const old = new Date(Date.now() - 3_600_000)
  const leave = (path: string, at = old): string => {
    writeFileSync(path, 'half')
    utimesSync(path, at, at)
    return path
  }
  const left = [
    leave(join(state, 'documents.json.123-4.tmp')),
    leave(join(state, 'manifests', 'm_s.bin.99-1.tmp')),
    leave(join(where.dir, 'pegboard.lock.json.321.tmp')),
  ]
  const others = [
    leave(join(state, 'manifests', 'm_s.bin.99-2.tmp'), new Date()),
    leave(join(state, 'notes.tmp')),
    leave(join(where.dir, 'mine.json.321.tmp')),
  ]
  await serveHttp(where)
  await expect.poll(() => left.filter(existsSync)).toEqual([])
  expect(others.filter(existsSync)).toEqual(others)
})

test('STA-03: a state file of random bytes is moved aside and reported, and approvals stay unchanged', async () => {
  const dir = temporaryFolder()
  const settings = {
    exposure: { mode: 'direct' },
    execution: { watchers: true, scheduler: true },
    mcpServers: { trusted: evil, waiting: { ...evil, trust: 'review' } },
  }
  const start = async () => {
    const { app, logged } = await startApp(settings, dir)
    await app.work()
    await until(() => app.upstreams.status().every(({ state }) => state === 'ready'))
    const client = await connectTo(app)
    const call = async (name: string, args: object = {}) =>
      answerOf(await client.callTool({ name, arguments: args as never })) as Answer
    const names = (await client.listTools()).tools.map(({ name }) => name)
    return { app, logged, call, has: (server: string) => names.some((name) => name.startsWith(`${server}__`)) }
  }
  const before = await start()
  await before.call('schedule_once', { when: 'in 1d', name: 'hello.say_hello', label: 'tea' })
  expect([before.has('trusted'), before.has('waiting')]).toEqual([true, false])
  expect(await before.call('schedule_list')).toEqual({ jobs: [expect.anything()], total: 1 })
  await before.app.stop()
  const lock = readFileSync(join(dir, 'pegboard.lock.json'), 'utf8')
  const state = join(dir, 'state')
  for (const ending of ['-wal', '-shm']) rmSync(join(state, `state.db${ending}`), { force: true })
  const garbage = randomBytes(20_000)
  writeFileSync(join(state, 'state.db'), garbage)

  const after = await start()
  const aside = readdirSync(state).find((name) => /^state\.db\.corrupt-\d{4}-\d\d-\d\dT/.test(name))
  expect(readFileSync(join(state, String(aside)))).toEqual(garbage)
  const line = after.logged.find((one) => one.includes('the state file is damaged'))
  expect(JSON.parse(String(line))).toMatchObject({ level: 'error', file: join(state, String(aside)) })
  for (const list of ['schedule_list', 'watch_list', 'background_list'])
    expect(await after.call(list)).toMatchObject({
      total: 0,
      note: expect.stringMatching(/^State from before .* was damaged and moved aside/),
    })
  expect([after.has('trusted'), after.has('waiting')]).toEqual([true, false])
  expect(readFileSync(join(dir, 'pegboard.lock.json'), 'utf8')).toBe(lock)
  await after.call('schedule_once', { when: 'in 1d', name: 'hello.say_hello', label: 'tea' })
  await after.app.stop()
  expect((await (await start()).call('schedule_list')) as Answer).toMatchObject({ total: 1, note: expect.any(String) })
}, 60_000)

test('STA-04: a newer state schema is rejected with both versions and stays unchanged; an interrupted migration is repeated', async () => {
  const where = place({ exposure: { mode: 'direct' }, execution: { watchers: true, scheduler: true } })
  const state = join(where.dir, 'state')
  mkdirSync(state, { mode: 0o700 })
  const file = join(state, 'state.db')
  const newer = openDatabase(file)
  newer.exec('CREATE TABLE later (id TEXT); PRAGMA user_version = 7')
  newer.close()
  const before = readFileSync(file)
  const first = await talkTo(where)
  const call = async (talk: Awaited<ReturnType<typeof talkTo>>, id: number, name: string, args: object) => {
    talk.send({ id, method: 'tools/call', params: { name, arguments: args } })
    return ((await talk.answer(id)) as Answer).result
  }
  const later = { when: 'in 1d', name: 'hello.say_hello', label: 'tea' }
  expect((await call(first, 1, 'schedule_once', later)).structuredContent.error.code).toBe('E_STATE')
  expect((await call(first, 2, 'hello__say_hello', {})).isError).not.toBe(true)
  expect(first.stderr()).toContain('it has schema version 7, and this one knows versions up to 1.')
  expect(readFileSync(file)).toEqual(before)
  first.child.kill('SIGKILL')
  await first.ended

  for (const name of readdirSync(state)) if (name.startsWith('state.db')) rmSync(join(state, name))
  // Like a process that was killed between the first statement and the commit.
  const killed = spawn(process.execPath, [
    '--input-type=module',
    '-e',
    `import { createRequire } from 'node:module'
     const Driver = process.getBuiltinModule('node:sqlite')?.DatabaseSync ?? createRequire(${JSON.stringify(cli)})('libsql')
     const database = new Driver(${JSON.stringify(file)})
     database.exec('PRAGMA journal_mode = WAL; BEGIN IMMEDIATE; CREATE TABLE documents (kind TEXT) STRICT; PRAGMA user_version = 1')
     process.kill(process.pid, 'SIGKILL')`,
  ])
  expect((await once(killed, 'exit'))[1]).toBe('SIGKILL')
  const second = await talkTo(where)
  const { job_id } = (await call(second, 1, 'schedule_once', later)).structuredContent
  expect(job_id).toEqual(expect.any(String))
  expect((await call(second, 2, 'schedule_list', {})).structuredContent.total).toBe(1)
}, 60_000)

test('STA-05: a configuration that is truncated while it is watched has no effect, and is reported with line and column', async () => {
  const settings = { exposure: { mode: 'direct' }, modules: { hello: {} } }
  const where = place(settings)
  const whole = JSON.stringify({ ...settings, mcpServers: {} }, null, 2)
  writeFileSync(where.config, whole)
  const { send, answer, stderr } = await talkTo(where)
  let id = 0
  const tools = async (): Promise<string[]> => {
    send({ id: ++id, method: 'tools/list' })
    return ((await answer(id)) as Answer).result.tools.map(({ name }: { name: string }) => name)
  }
  const before = await tools()
  expect(before).toContain('hello__say_hello')
  await sleep(1_000)
  truncateSync(where.config, whole.length - 20)
  await until(() => /line \d+, column \d+/.test(stderr()), 20_000)
  expect(stderr()).toContain('E_CONFIG_SYNTAX')
  expect(await tools()).toEqual(before)
  // Pegboard still watches the file.
  writeFileSync(where.config, JSON.stringify({ ...settings, modules: { hello: { enabled: false } } }))
  await expect.poll(tools, { timeout: 20_000, interval: 500 }).not.toContain('hello__say_hello')
}, 60_000)

const refused = (where: ReturnType<typeof place>) =>
  run(process.execPath, [cli, 'serve', '--http', '--port', '0', '--json', '--config', where.config], {
    env: where.env,
    timeout: 15_000,
  }).then(
    () => ({ stderr: 'it started' }),
    (error: { stderr: string }) => error,
  )

test('STA-07: a second process is rejected for an exclusive folder, and gets it as soon as the first one is killed', async () => {
  const where = place({ state: { exclusive: true } })
  const first = await serveHttp(where)
  const { stderr } = await refused(where)
  expect(stderr).toContain('E_STATE')
  expect(stderr).toContain(`is held by process ${first.child.pid}.`)
  expect(stderr).toContain('state.exclusive')
  // Commands that store nothing still work.
  expect((await run(process.execPath, [cli, 'list', '--config', where.config], { env: where.env })).stdout).toContain(
    'hello',
  )
  const gone = once(first.child, 'exit')
  first.child.kill('SIGKILL')
  await gone
  const second = await serveHttp(where)
  expect((await refused(where)).stderr).toContain(`is held by process ${second.child.pid}.`)
}, 40_000)

test('STA-08: a missing state folder is created private, one that others can write causes a warning, and a file in its place is named', async () => {
  const settings = { exposure: { mode: 'direct' }, execution: { watchers: true, scheduler: true } }
  const planned = async (where: ReturnType<typeof place>) => {
    const { send, answer, stderr } = await talkTo(where)
    const params = { when: 'in 1d', name: 'hello.say_hello' }
    send({ id: 1, method: 'tools/call', params: { name: 'schedule_once', arguments: params } })
    return { result: ((await answer(1)) as Answer).result, stderr }
  }
  const missing = place(settings)
  const state = join(missing.dir, 'state')
  expect((await planned(missing)).result.isError).toBeUndefined()
  expect([statSync(state).mode & 0o777, statSync(join(state, 'state.db')).mode & 0o777]).toEqual([0o700, 0o600])

  const open = place(settings)
  mkdirSync(join(open.dir, 'state'))
  chmodSync(join(open.dir, 'state'), 0o777)
  const warned = await planned(open)
  expect(warned.result.isError).toBeUndefined()
  await until(() => warned.stderr().includes('other users can write to the state folder'))

  const file = place(settings)
  writeFileSync(join(file.dir, 'state'), '')
  const refused = await planned(file)
  expect(refused.result).toMatchObject({ isError: true })
  expect(JSON.stringify(refused.result)).toMatch(/E_STATE.*dirs\.state/)
  // A client gets the setting, not its path.
  expect(JSON.stringify(refused.result)).not.toContain(file.dir)
}, 60_000)

test.skipIf(!canMount)(
  'STA-08: a read-only state folder is reported, and everything that stores nothing works',
  async () => {
    const { connect } = await serveOnSmallDisk('mount -o remount,ro "$STATE"')
    const { call } = await connect()
    await call('schedule_once', { when: 'in 1d', name: 'disk.wait', params: { ms: 1 }, label: 'before' })
    process.kill(await call('disk__pid'), 'SIGTERM')
    const again = await connect()
    for (const name of ['schedule_list', 'background_list', 'remember']) {
      const refused = await again.raw(name)
      expect(refused).toMatchObject({
        isError: true,
        structuredContent: { error: { message: 'Stored work cannot be read or written now.' } },
      })
      expect(JSON.stringify(refused)).toMatch(/E_STATE.*dirs\.state/)
    }
    expect(await again.call('disk__pid')).toEqual(expect.any(Number))
    expect(await again.call('run_parallel', { actions: [{ name: 'disk.pid' }] })).toMatchObject({ succeeded: 1 })
  },
  60_000,
)

const fake = join(import.meta.dirname, '../fixtures/upstreams/evil.mjs')
const names = async (client: Client): Promise<string[]> => (await client.listTools()).tools.map(({ name }) => name)

test.skipIf(!fleetRuns)(
  'STA-09: a decision of a person on one of two machines applies on the other within five seconds',
  async () => {
    const prefix = `pegboard-test-${randomBytes(6).toString('hex')}`
    onTestFinished(() => forget(prefix))
    const token = 'a-token-for-all-of-the-fleet'
    const settings = {
      exposure: { mode: 'direct' },
      mcpServers: { good: { command: process.execPath, args: [fake], start: 'eager', trust: 'review' } },
      state: { url: redisUrl, prefix },
      server: { http: { token } },
    }
    const machines = [place(settings), place(settings)]
    const [a, b] = await Promise.all(machines.map(async (where) => clientOf((await serveHttp(where)).url, 'modern')))
    const review = (...args: string[]) => {
      const [{ config, env }] = machines as [ReturnType<typeof place>]
      return run(process.execPath, [cli, 'review', ...args, '--config', config], { env }).catch(
        (error: { stdout: string; stderr: string }) => error,
      )
    }
    const has = async (client: Client | undefined) => (await names(client as Client)).includes('good__echo')
    await expect.poll(async () => (await review()).stdout, { interval: 500 }).toContain('echo')
    expect([await has(a), await has(b)]).toEqual([false, false])

    await review('good', '--accept')
    await expect.poll(() => has(b)).toBe(true)
    await expect.poll(() => has(a)).toBe(true)
    expect((await b?.callTool({ name: 'good__echo', arguments: { text: 'in' } }))?.isError).not.toBe(true)

    await review('good', 'echo', '--reject')
    await expect.poll(() => has(b)).toBe(false)
    await expect.poll(() => has(a)).toBe(false)
    expect(await b?.callTool({ name: 'good__echo', arguments: { text: 'out' } })).toMatchObject({ isError: true })

    // A server that starts later learns the decision, too, and it overrides its own file.
    const later = place(settings)
    const c = await clientOf((await serveHttp(later)).url, 'modern')
    await expect.poll(async () => (await names(c)).some((name) => name.startsWith('good__'))).toBe(true)
    expect(await has(c)).toBe(false)
  },
  60_000,
)

const WORK = `
import { appendFileSync } from 'node:fs'
import { join } from 'node:path'
export default {
  name: 'work',
  description: 'Things to do.',
  tools: { do: {
    description: 'Works for so many milliseconds, and writes down that it began.',
    input: { type: 'object', properties: { n: { type: 'integer' }, ms: { type: 'integer' } }, required: ['n'] },
    effect: 'write',
    run: ({ n, ms = 0 }) => {
      appendFileSync(join(process.env.HOME, 'runs.txt'), n + '\\n')
      return new Promise((done) => setTimeout(() => done({ n }), ms))
    },
  } },
}`
const SECONDS = 60

test.skipIf(!fleetRuns)(
  'STA-11: without Redis for a minute servers are unready but alive, and scheduled work is delayed but not lost',
  async () => {
    const gateway = await gatewayTo(String(redisUrl))
    const settings = { exposure: { mode: 'direct' }, execution: { watchers: true, scheduler: true } }
    const fleet = await startFleet(2, settings, { 'work.mjs': WORK }, `redis://127.0.0.1:${gateway.port}`)
    const [one, other] = fleet.members as [Member, Member]
    const client = await clientOf(one.url, 'modern')
    const call = async (name: string, args: object = {}) =>
      answerOf(await client.callTool({ name, arguments: args as never })) as Record<string, unknown>
    const status = async (path: string) =>
      Promise.all([one, other].map(({ url }) => fetch(new URL(path, url)).then((answer) => answer.status)))
    const runs = () => readFileSync(join(fleet.place.dir, 'runs.txt'), 'utf8').trim().split('\n').map(Number).sort()

    expect([await status('/health'), await status('/ready')]).toEqual([
      [200, 200],
      [200, 200],
    ])
    const begun = await call('background_run', { name: 'work.do', params: { n: 1, ms: 3_000 } })
    for (const n of [2, 3, 4])
      await call('schedule_once', { when: `in ${n * 5}s`, name: 'work.do', params: { n }, label: `job ${n}` })
    await call('watch_start', { name: 'work.do', params: { n: 5 }, interval: 3_600 })

    await gateway.shut()
    const end = Date.now() + SECONDS * 1_000
    await expect.poll(() => status('/ready')).toEqual([503, 503])
    while (Date.now() < end) {
      expect([await status('/health'), await status('/ready')]).toEqual([
        [200, 200],
        [503, 503],
      ])
      expect(
        await call('run_parallel', { actions: [{ name: 'hello.say_hello', params: { name: 'Ada' } }] }),
      ).toMatchObject({
        succeeded: 1,
      })
      await sleep(4_000)
    }
    expect(runs()).toEqual([1])
    const refused = (await client.callTool({ name: 'schedule_list', arguments: {} })) as Answer
    expect(refused).toMatchObject({ structuredContent: { error: { code: 'E_STATE_UNAVAILABLE', retryable: true } } })

    await gateway.open()
    await expect.poll(() => status('/ready')).toEqual([200, 200])
    await expect.poll(runs, { timeout: 20_000, interval: 250 }).toEqual([1, 2, 3, 4])
    await expect
      .poll(() => call('background_result', { task_id: begun['task_id'] }), { timeout: 20_000 })
      .toMatchObject({ status: 'completed', result: { n: 1 } })
    await expect.poll(async () => (await call('schedule_list'))['total'], { timeout: 20_000 }).toBe(0)
    expect(await call('watch_list')).toMatchObject({ total: 1 })
    await sleep(2_000)
    expect(runs()).toEqual([1, 2, 3, 4])
  },
  150_000,
)
