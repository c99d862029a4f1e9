import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { readConfig } from '../../src/config/load-config.ts'
import { type Answer, answerOf, startApp, temporaryFolder } from '../app.ts'
import { callTool, connectTo } from '../client.ts'

const MODULE = `export default { name: 'tick', description: 'Counts.', tools: {
  count: { description: 'One more each time it is called.', effect: 'read', run: () => { globalThis.ticks = (globalThis.ticks ?? 0) + 1; return globalThis.ticks } },
  need: { description: 'Needs a number to work at all.', effect: 'read', input: { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] }, run: ({ n }) => n },
} }`

async function rig(execution: object, dir = temporaryFolder(), more: object = {}) {
  mkdirSync(join(dir, 'modules'), { recursive: true })
  writeFileSync(join(dir, 'modules', 'tick.js'), MODULE)
  const started = await startApp({ exposure: { mode: 'discovery' }, execution, ...more }, dir)
  await started.app.work()
  const client = await connectTo(started.app)
  const result = (name: string, args: Record<string, unknown> = {}) => callTool(client, { name, arguments: args })
  const call = async (name: string, args: Record<string, unknown> = {}) => answerOf(await result(name, args))
  const said = async (name: string, args: Record<string, unknown> = {}) => (await result(name, args)).content[0]?.text
  const names = async () => (await client.listTools()).tools.map(({ name }) => name)
  return { ...started, client, result, call, said, names, dir }
}

describe('watchers', () => {
  it('exist only if the operator enables them [DIG-64]', async () => {
    const off = await rig({})
    expect((await off.names()).filter((name) => name.startsWith('watch_'))).toEqual([])
    expect((await off.call('watch_start', { name: 'tick.count' })).error.message).toContain(
      "Tool 'watch_start' not found.",
    )
    const on = await rig({ watchers: true }, undefined, { exposure: { mode: 'direct' } })
    expect((await on.names()).filter((name) => name.startsWith('watch_'))).toEqual([
      'watch_start',
      'watch_stop',
      'watch_pause',
      'watch_resume',
      'watch_status',
      'watch_list',
      'watch_history',
    ])
    expect((await on.names()).filter((name) => name.startsWith('schedule_'))).toEqual([])
  })

  it('reject at creation what could never work', async () => {
    const { said } = await rig({ watchers: true })
    const start = (more: object) => said('watch_start', { name: 'tick.count', ...more })
    expect(await start({ interval: 4 })).toContain('interval: a whole number from 5 to 3600')
    expect(await start({ notify_when: 'often' })).toContain(
      "Invalid notify_when: 'often'. Must be one of: on_change, on_error, on_threshold, summary, always",
    )
    expect(await start({ notify_when: 'on_threshold' })).toContain('notify_config.expression')
    expect(await start({ notify_when: 'summary', notify_config: { batch_size: 0 } })).toContain('batch_size')
    expect(await start({ name: 'tick.nothing' })).toContain('not found')
    expect(await start({ name: 'tick.need' })).toContain('Invalid params for tick.need')
    expect(await said('watch_status', { watcher_id: 'x' })).toContain("Watcher 'x' not found.")
  })

  it('can be started, paused, resumed, inspected and stopped', async () => {
    const { call, said } = await rig({ watchers: true })
    const { watcher_id, status } = await call('watch_start', { name: 'tick.count', interval: 5, label: 'mine' })
    expect(status).toBe('running')
    expect(await call('watch_list')).toMatchObject({ total: 1, watchers: [{ watcher_id, label: 'mine', interval: 5 }] })
    expect(await said('watch_resume', { watcher_id })).toContain('only a paused one can be resumed')
    expect(await call('watch_pause', { watcher_id })).toMatchObject({ status: 'paused' })
    expect(await said('watch_pause', { watcher_id })).toContain('only a running one can be paused')
    expect(await call('watch_history', { watcher_id, last_n: 2 })).toEqual({ watcher_id, checks: [] })
    await call('watch_resume', { watcher_id })
    const stopped = await call('watch_stop', { watcher_id })
    expect(stopped).toMatchObject({ watcher_id, status: 'stopped' })
    expect(stopped).not.toHaveProperty('next_check_at')
    expect(await call('watch_list')).toMatchObject({ total: 0 })
  })
})

describe('schedules', () => {
  it('need watchers to be enabled, and say so [DIG-69]', async () => {
    const { names, logged } = await rig({ scheduler: true })
    expect((await names()).filter((name) => /schedule|watch|remind/.test(name))).toEqual([])
    expect(logged.join()).toContain('execution.scheduler needs execution.watchers')
  })

  it('accept both ways of naming the tool', async () => {
    const { call, said } = await rig({ watchers: true, scheduler: true })
    const once = await call('schedule_once', { when: 'in 1h', name: 'tick.need', params: { n: 1 }, label: 'a' })
    const older = await call('schedule_once', { when: 'in 1h', action: 'tick__need', args: { n: 2 }, name: 'b' })
    expect([once, older]).toMatchObject([
      { tool_name: 'tick.need', label: 'a', recurring: false, runs: 0 },
      { tool_name: 'tick.need', label: 'b', recurring: false },
    ])
    const cron = await call('schedule_cron', {
      cron: '0 9 * * 1',
      name: 'tick.count',
      timezone: 'Europe/Berlin',
      max_runs: 3,
    })
    expect(cron).toMatchObject({ recurring: true, timezone: 'Europe/Berlin', max_runs: 3 })
    expect(await call('schedule_list')).toMatchObject({ total: 3 })
    expect(await call('schedule_status', { job_id: older.job_id })).toMatchObject({ params: { n: 2 } })
    expect(await call('schedule_cancel', { job_id: once.job_id })).toMatchObject({ cancelled: true })
    expect(await said('schedule_once', { when: 'tomorrow', name: 'tick.count' })).toContain('in 30s')
    expect(await said('schedule_once', { when: 'in 5s', name: 'tick.need' })).toContain('Invalid params for tick.need')
    expect(await said('schedule_cron', { cron: '* * * * * *', name: 'tick.count' })).toContain('five fields')
    expect(await said('schedule_status', { job_id: 'x' })).toContain("Job 'x' not found.")
  })

  it('run after a restart', async () => {
    const dir = temporaryFolder()
    const execution = { watchers: true, scheduler: true }
    const first = await rig(execution, dir)
    await first.call('schedule_once', { when: 'in 1s', name: 'tick.count' })
    await first.app.stop()
    const before = (globalThis as { ticks?: number }).ticks ?? 0
    const second = await rig(execution, dir)
    await new Promise((done) => setTimeout(done, 1_300))
    expect((globalThis as { ticks?: number }).ticks).toBe(before + 1)
    const { content } = await second.result('tick.count')
    expect(content.map(({ text }: { text: string }) => text)).toEqual([
      String(before + 2),
      expect.stringMatching(/^\[NOTICE\] Scheduled job [0-9a-z]{25} \(tick.count\) gave \d+$/),
    ])
  })
})

describe('a tool that needs approval', () => {
  const both = { watchers: true, scheduler: true }

  it('is rejected for watchers and schedules if every call needs approval, with the name of the setting', async () => {
    const { said, call } = await rig(both, temporaryFolder(), { policy: { ask: ['tick.count'] } })
    for (const [name, more] of [
      ['watch_start', {}],
      ['schedule_once', { when: 'in 5s' }],
      ['schedule_cron', { cron: '* * * * *' }],
    ] as const) {
      const text = await said(name, { name: 'tick.count', ...more })
      expect(text).toContain('tick.count needs approval for each call')
      expect(text).toContain('see policy.ask')
    }
    expect([(await call('watch_list')).total, (await call('schedule_list')).total]).toEqual([0, 0])
  })

  it('is rejected at run time if the configuration changed meanwhile [DIG-76]', async () => {
    const { call, app, result, dir } = await rig(both)
    const ticks = () => (globalThis as { ticks?: number }).ticks ?? 0
    await call('schedule_once', { when: 'in 2s', name: 'tick.count', label: 'denied' })
    const before = ticks()
    const { config } = readConfig(
      JSON.stringify({ exposure: { mode: 'discovery' }, execution: both, policy: { deny: ['tick.count'] } }),
      join(dir, 'mcp.config.json'),
      { env: { PATH: process.env.PATH, HOME: dir, PEGBOARD_STATE_DIR: join(dir, 'state') }, cwd: dir },
    )
    expect((await app.reload(config)).live).toContain('policy.deny')
    await new Promise((done) => setTimeout(done, 2_300))
    const { content } = await result('list_all_tools')
    expect(content.at(-1).text).toContain(
      "[NOTICE] Scheduled job denied (tick.count) failed: E_NOT_FOUND: Tool 'tick.count' not found.",
    )
    expect(ticks()).toBe(before)
  })
})

describe('a repeated identical call', () => {
  const TOOLS = `export default { name: 'same', description: 'Does the same.', tools: {
    once: { description: 'Says the same each time it is called.', effect: 'read', input: { type: 'object', properties: { n: { type: 'integer' } } }, run: () => 'same' },
    poll: { description: 'Is there to be called again and again.', effect: 'read', allowRepeat: true, run: () => 'same' } } }`

  it('gets a warning beside its result if enabled, unless its tool is meant for that [CTX-32]', async () => {
    const dir = temporaryFolder()
    mkdirSync(join(dir, 'modules'))
    writeFileSync(join(dir, 'modules', 'same.js'), TOOLS)
    const { app, result } = await rig({ repeatWarning: 3 }, dir)
    const texts = async (name: string, args: Record<string, unknown> = {}) =>
      (await result(name, args)).content.map(({ text }: { text: string }) => text)
    for (let n = 0; n < 2; n++) expect(await texts('same.once', { n: 1 })).toEqual(['same'])
    expect(await texts('same.once', { n: 2 })).toEqual(['same'])
    expect(await texts('same__once', { n: 1 })).toEqual([
      'same',
      'Warning: same.once was called 3 times with the same arguments. Use the earlier results, or try something else.',
    ])
    for (let n = 0; n < 4; n++) expect(await texts('same.poll')).toEqual(['same'])
    const other = await connectTo(app)
    const { content } = (await other.callTool({ name: 'same.once', arguments: { n: 1 } })) as Answer
    expect(content).toHaveLength(1)
  })

  it('gets none by default', async () => {
    const { result } = await rig({})
    for (let n = 0; n < 5; n++) expect((await result('tick.need', { n: 1 })).content).toHaveLength(1)
  })
})
