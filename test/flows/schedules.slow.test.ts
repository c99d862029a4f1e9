import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { type Answer, answerOf, startApp, temporaryFolder } from '../app.ts'
import { connectTo } from '../client.ts'
import { createManualClock } from '../clock.ts'

const START = Date.parse('2026-01-01T00:00:00Z')
const MINUTE = 60_000
const HOUR = 60 * MINUTE

/** The product with its scheduler on a test clock, in a folder that its own tools read and write. */
async function open(clock = createManualClock(START), dir = temporaryFolder(), files: object = {}) {
  const started = await startApp(
    {
      exposure: { mode: 'discovery' },
      execution: { watchers: true, scheduler: true, maxResultTokens: 0 },
      modules: { filesystem: { config: { roots: ['{{workspace}}'] }, ...files } },
    },
    dir,
    { clock },
  )
  await started.app.work()
  const client = await connectTo(started.app)
  /** All notices that arrived with a result. */
  const told: string[] = []
  const result = async (name: string, args: Record<string, unknown> = {}): Promise<Answer> => {
    const answer = (await client.callTool({ name, arguments: args })) as Answer
    for (const { text } of answer.content.slice(1)) told.push(text)
    return answer
  }
  const call = async (name: string, args: Record<string, unknown> = {}) => answerOf(await result(name, args))
  const said = async (name: string, args: Record<string, unknown> = {}) => (await result(name, args)).content[0].text
  /** Advances the clock, and yields to due work meanwhile. */
  const pass = async (ms: number, step = 1_000): Promise<void> => {
    for (let left = ms; left > 0; left -= step) {
      clock.pass(Math.min(step, left))
      await new Promise((done) => setImmediate(done))
    }
  }
  const file = (name: string) => join(dir, name)
  const contents = (name: string) => (existsSync(file(name)) ? readFileSync(file(name), 'utf8') : '')
  return { ...started, client, clock, told, result, call, said, pass, file, contents }
}

/** Appends one letter to a file, which so counts the runs. */
const adds = (path: string) => ({ name: 'filesystem.write', params: { path, content: 'x', append: true } })

describe('schedule_once', () => {
  it('runs a tool once on time, and reports it [DIG-70]', async () => {
    const { call, said, pass, contents, told } = await open()
    const job = await call('schedule_once', { when: 'in 5s', ...adds('once.txt'), label: 'tea' })
    expect(job).toMatchObject({ next_run_at: '2026-01-01T00:00:05.000Z', recurring: false })
    await pass(4_000)
    expect([contents('once.txt'), (await call('schedule_list')).total]).toEqual(['', 1])
    await pass(1_000)
    await expect.poll(() => contents('once.txt')).toBe('x')
    await expect.poll(async () => (await call('schedule_list')).total).toBe(0)
    expect(told).toEqual([expect.stringMatching(/^\[NOTICE\] Scheduled job tea \(filesystem\.write\) gave /)])
    expect(await said('schedule_status', { job_id: job.job_id })).toContain(`Job '${job.job_id}' not found.`)
    await pass(HOUR, MINUTE)
    expect(contents('once.txt')).toBe('x')
  })

  it('accepts both argument forms, ISO times, and one job per label; rejects other words and past times [DIG-70]', async () => {
    const { call, said } = await open()
    const { name, params } = adds('a.txt')
    const first = await call('schedule_once', { when: '2026-01-01T09:30:00Z', name, params, label: 'mine' })
    expect(first.next_run_at).toBe('2026-01-01T09:30:00.000Z')
    const older = await call('schedule_once', {
      when: 'in 2h',
      action: 'filesystem__write',
      args: params,
      name: 'mine',
    })
    expect(older).toMatchObject({ label: 'mine', next_run_at: '2026-01-01T02:00:00.000Z' })
    expect((await call('schedule_list')).jobs).toMatchObject([{ job_id: older.job_id }])
    for (const when of ['tomorrow', 'in 5 bananas', '9:30']) {
      const text = await said('schedule_once', { when, name, params })
      for (const format of ['in 30s', 'T']) expect(text, when).toContain(format)
    }
    expect(await said('schedule_once', { when: '2025-12-31T23:59:00Z', name, params })).toContain(
      "E_SCHEDULE_INVALID: '2025-12-31T23:59:00Z' is in the past.",
    )
    expect(await said('schedule_once', { when: 'in 5s', name: 'filesystem.nothing' })).toContain('not found')
  })
})

describe('schedule_cron', () => {
  it('runs as often as requested, and returns the next run of every fifteen minutes [DIG-71]', async () => {
    const { call, said, pass, contents, clock } = await open()
    const cron = '*/15 * * * *'
    const job = await call('schedule_cron', { cron, ...adds('cron.txt'), max_runs: 2 })
    expect(job).toMatchObject({ recurring: true, next_run_at: '2026-01-01T00:15:00.000Z' })
    await pass(15 * MINUTE, MINUTE)
    await expect.poll(() => contents('cron.txt')).toBe('x')
    await expect.poll(async () => (await call('schedule_status', { job_id: job.job_id })).runs).toBe(1)
    await pass(15 * MINUTE, MINUTE)
    await expect.poll(async () => (await call('schedule_list')).total).toBe(0)
    await pass(HOUR, MINUTE)
    expect(contents('cron.txt')).toBe('xx')

    const times: Array<readonly [string, string]> = []
    for (const minutes of [1, 14, 0.25, 14.5, 0.25, 7, 30, 59, 22, 45]) {
      await pass(minutes * MINUTE, MINUTE)
      const { job_id, next_run_at } = await call('schedule_cron', { cron, ...adds('never.txt') })
      times.push([new Date(clock.now()).toISOString().slice(11, 19), next_run_at.slice(11, 19)])
      await call('schedule_cancel', { job_id })
    }
    expect(times).toEqual([
      ['01:31:00', '01:45:00'],
      ['01:45:00', '02:00:00'],
      ['01:45:15', '02:00:00'],
      ['01:59:45', '02:00:00'],
      ['02:00:00', '02:15:00'],
      ['02:07:00', '02:15:00'],
      ['02:37:00', '02:45:00'],
      ['03:36:00', '03:45:00'],
      ['03:58:00', '04:00:00'],
      ['04:43:00', '04:45:00'],
    ])
    const zoned = await call('schedule_cron', { cron: '0 9 * * 0', timezone: 'Asia/Tokyo', ...adds('never.txt') })
    expect(zoned.next_run_at).toBe('2026-01-04T00:00:00.000Z')
    expect(await said('schedule_cron', { cron: '* * * * * *', ...adds('never.txt') })).toContain('five fields')
    expect(contents('never.txt')).toBe('')
  })
})

describe('jobs', () => {
  it('can be cancelled, are listed with their last result, and are limited to five hundred [DIG-72]', async () => {
    const { call, said, pass, contents } = await open()
    const cancelled = await call('schedule_once', { when: 'in 1m', ...adds('no.txt') })
    expect(await call('schedule_cancel', { job_id: cancelled.job_id })).toMatchObject({ cancelled: true })
    for (const tool of ['schedule_cancel', 'schedule_status'])
      expect(await said(tool, { job_id: 'nobody' })).toContain("Job 'nobody' not found.")
    const read = await call('schedule_cron', { cron: '* * * * *', name: 'filesystem.read', params: { path: 'gone' } })
    await pass(MINUTE)
    await expect
      .poll(() => call('schedule_status', { job_id: read.job_id }))
      .toMatchObject({ runs: 1, last_error: expect.stringContaining('gone'), next_run_at: '2026-01-01T00:02:00.000Z' })
    expect(contents('no.txt')).toBe('')
    for (let n = 1; n < 500; n++) await call('schedule_once', { when: 'in 1d', ...adds('no.txt') })
    expect((await call('schedule_list')).total).toBe(500)
    expect(await said('schedule_once', { when: 'in 1d', ...adds('no.txt') })).toMatch(/500/)
    expect((await call('schedule_list')).total).toBe(500)
  })

  it('survive a restart: a missed run is made up within an hour, or dropped with a notice [DIG-73]', async () => {
    const first = await open()
    const { clock, dir } = first
    await first.call('schedule_once', { when: 'in 1h', ...adds('later.txt') })
    await first.call('schedule_once', { when: 'in 5m', ...adds('missed.txt') })
    await first.call('schedule_once', { when: 'in 10m', ...adds('kept.txt') })
    await first.app.stop()
    clock.pass(30 * MINUTE)
    const second = await open(clock, dir)
    await second.pass(20_000)
    await expect.poll(() => [second.contents('missed.txt'), second.contents('kept.txt')]).toEqual(['x', 'x'])
    expect(second.contents('later.txt')).toBe('')
    await second.call('schedule_once', { when: 'in 5m', ...adds('dropped.txt'), label: 'dropped' })
    await second.app.stop()
    clock.pass(2 * HOUR)
    const third = await open(clock, dir)
    await third.pass(30 * MINUTE, MINUTE)
    await expect.poll(async () => (await third.call('schedule_list')).total).toBe(0)
    expect(third.told.toSorted()).toEqual([
      '[NOTICE] Scheduled job (filesystem.write) was missed and is dropped.',
      '[NOTICE] Scheduled job dropped (filesystem.write) was missed and is dropped.',
    ])
    expect([third.contents('later.txt'), third.contents('dropped.txt')]).toEqual(['', ''])
  })

  it('send reminders to the inbox [DIG-75]', async () => {
    const { client, call, pass, told } = await open()
    const { next_run_at } = await call('remind', { when: 'in 20m', message: 'take the cake out', name: 'cake' })
    expect(next_run_at).toBe('2026-01-01T00:20:00.000Z')
    await pass(19 * MINUTE, MINUTE)
    expect(told).toEqual([])
    await pass(MINUTE)
    const inbox = async () => (await client.readResource({ uri: 'notifications://inbox' })).contents[0] as Answer
    await expect.poll(async () => (await inbox()).text).toContain('take the cake out')
  })
})

describe('watch_start', () => {
  it('polls first after one interval, as often as requested, and is rejected if it could never work [DIG-65]', async () => {
    const { call, said, pass, file } = await open()
    writeFileSync(file('a.txt'), 'a')
    const target = { name: 'filesystem.stat', params: { path: 'a.txt' } }
    const started = await call('watch_start', { ...target, max_checks: 2 })
    const { watcher_id } = started
    expect(started).toMatchObject({ status: 'running', next_check_at: '2026-01-01T00:00:30.000Z' })
    const looks = async () => (await call('watch_history', { watcher_id })).checks.map(({ at }: Answer) => at)
    await pass(29_000)
    expect(await looks()).toEqual([])
    await pass(1_000)
    await expect.poll(looks).toEqual(['2026-01-01T00:00:30.000Z'])
    await pass(30_000)
    await expect.poll(looks).toEqual(['2026-01-01T00:00:30.000Z', '2026-01-01T00:01:00.000Z'])
    // The second run was the last.
    await expect.poll(async () => (await call('watch_list')).running ?? 0).toBe(0)
    const start = (more: object) => said('watch_start', { ...target, ...more })
    expect(await start({ interval: 4 })).toContain('interval: a whole number from 5 to 3600')
    expect(await start({ notify_when: 'often' })).toContain("Invalid notify_when: 'often'. Must be one of: ")
    expect(await start({ notify_when: 'on_threshold' })).toContain('expression')
    expect(await start({ notify_when: 'summary', notify_config: { batch_size: 0 } })).toContain('batch_size')
    expect(await start({ name: 'filesystem.nothing' })).toContain('not found')
    expect(await start({ params: {} })).toContain('Invalid params for filesystem.stat')
  })

  it('reports according to its strategy [DIG-66]', async () => {
    const { call, pass, file, told } = await open()
    const target = { name: 'filesystem.stat', params: { path: 'a.txt' }, interval: 30 }
    const strategies = {
      on_change: {},
      on_error: {},
      on_threshold: { notify_config: { expression: 'result.size > 1' } },
      summary: { notify_config: { batch_size: 2 } },
      always: {},
    }
    const ids: string[] = []
    for (const [notify_when, more] of Object.entries(strategies))
      ids.push((await call('watch_start', { ...target, notify_when, label: notify_when, ...more })).watcher_id)
    const checksOf = (watcher_id: string) => async () => (await call('watch_history', { watcher_id })).checks.length
    // 1, 1, 2, an error, 2
    for (const [at, change] of [
      () => writeFileSync(file('a.txt'), '1'),
      () => undefined,
      () => writeFileSync(file('a.txt'), '22'),
      () => rmSync(file('a.txt')),
      () => writeFileSync(file('a.txt'), '22'),
    ].entries()) {
      change()
      await pass(30_000)
      for (const id of ids) await expect.poll(checksOf(id)).toBe(at + 1)
    }
    await call('watch_list')
    const toldBy = (label: string) =>
      told
        .filter((text) => text.includes(`[WATCHER UPDATE] ${label}`))
        .map((text) => Number(/check (\d+)/.exec(text)?.[1]))
    expect(Object.fromEntries(Object.keys(strategies).map((label) => [label, toldBy(label)]))).toEqual({
      on_change: [3, 4, 5],
      on_error: [4, 5],
      on_threshold: [3, 5],
      summary: [2, 4],
      always: [1, 2, 3, 4, 5],
    })
  })

  it('pauses, and keeps its latest results [DIG-67]', async () => {
    const { call, said, pass, file } = await open()
    writeFileSync(file('a.txt'), 'a')
    const target = { name: 'filesystem.read', params: { path: 'a.txt' }, interval: 10 }
    const { watcher_id } = await call('watch_start', target)
    const checks = async (last_n = 100) => (await call('watch_history', { watcher_id, last_n })).checks.length
    expect(await said('watch_resume', { watcher_id })).toContain('only a paused one can be resumed')
    expect(await call('watch_pause', { watcher_id })).toMatchObject({ status: 'paused' })
    expect(await said('watch_pause', { watcher_id })).toContain('only a running one can be paused')
    await pass(30_000)
    expect(await checks()).toBe(0)
    expect(await call('watch_resume', { watcher_id })).toMatchObject({ status: 'running' })
    for (const n of [1, 2, 3]) {
      await pass(10_000)
      await expect.poll(checks).toBe(n)
    }
    expect(await checks(2)).toBe(2)
    expect(await call('watch_status', { watcher_id })).toMatchObject({
      checks: 3,
      errors: 0,
      next_check_at: '2026-01-01T00:01:10.000Z',
      last_result: expect.stringContaining('a'),
    })
    expect(await call('watch_stop', { watcher_id })).toMatchObject({ status: 'stopped' })
    expect((await call('watch_list')).total).toBe(0)
    for (const tool of ['stop', 'pause', 'resume', 'status', 'history'])
      expect(await said(`watch_${tool}`, { watcher_id }), tool).toContain(`Watcher '${watcher_id}' not found.`)
  })

  it('says in the history that a result is cut, and how to get all of it', async () => {
    const { call, pass, file } = await open()
    writeFileSync(file('a.txt'), 'short')
    const target = { name: 'filesystem.read', params: { path: 'a.txt' }, interval: 10 }
    const { watcher_id } = await call('watch_start', target)
    const history = () => call('watch_history', { watcher_id, last_n: 1 })
    await pass(10_000)
    await expect.poll(async () => (await history()).checks.length).toBe(1)
    expect(await history()).not.toHaveProperty('hint')
    writeFileSync(file('a.txt'), 'long '.repeat(200))
    await pass(10_000)
    await expect.poll(async () => (await history()).checks[0].check).toBe(2)
    const { checks, hint } = await history()
    expect(checks[0].preview).toMatch(/^.{500}…$/)
    expect(hint).toBe(
      'A preview has at most 500 characters of a result, and ends with … if there are more. The rest is not kept. Call filesystem.read for the whole current result.',
    )
  })

  it('continues after a restart, and ends with a warning when its tool is gone [DIG-68]', async () => {
    const first = await open()
    const { clock, dir } = first
    writeFileSync(first.file('a.txt'), 'a')
    const target = { name: 'filesystem.read', params: { path: 'a.txt' }, interval: 10 }
    const { watcher_id } = await first.call('watch_start', target)
    await first.app.stop()
    const second = await open(clock, dir)
    expect((await second.call('watch_list')).watchers).toMatchObject([{ watcher_id, status: 'running' }])
    await second.pass(20_000)
    await expect.poll(async () => (await second.call('watch_status', { watcher_id })).checks).toBeGreaterThan(0)
    await second.app.stop()
    const third = await open(clock, dir, { enabled: false })
    await third.pass(20_000)
    await expect.poll(async () => (await third.call('watch_list')).total).toBe(0)
    expect([...third.logged, ...third.told].join('\n')).toMatch(/filesystem\.read/)
  })
})
