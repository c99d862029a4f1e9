import { randomBytes } from 'node:crypto'
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { type Answer, answerOf, startApp, temporaryFolder } from '../app.ts'
import { connectTo } from '../client.ts'
import { until } from '../upstream/host.ts'

const evil = {
  command: process.execPath,
  args: [join(import.meta.dirname, '../fixtures/upstreams/evil.mjs')],
  start: 'eager',
}

it('a state file of random bytes is put aside and told of; what was approved stays, and nothing more [STA-03]', async () => {
  const dir = temporaryFolder()
  const settings = {
    exposure: { mode: 'direct' },
    execution: { watchers: true, scheduler: true },
    mcpServers: { trusted: evil, waiting: { ...evil, trust: 'review' } },
  }
  const start = async () => {
    const { app, logged } = await startApp(settings, dir)
    await app.work()
    await until(() => app.upstreams.status().every(({ state }) => state === 'ready'), 15_000)
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
      note: expect.stringMatching(/^What was kept before .* was damaged and is put aside/),
    })
  expect([after.has('trusted'), after.has('waiting')]).toEqual([true, false])
  expect(readFileSync(join(dir, 'pegboard.lock.json'), 'utf8')).toBe(lock)
  await after.call('schedule_once', { when: 'in 1d', name: 'hello.say_hello', label: 'tea' })
  await after.app.stop()
  expect((await (await start()).call('schedule_list')) as Answer).toMatchObject({ total: 1, note: expect.any(String) })
}, 60_000)
