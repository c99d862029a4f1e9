import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { describe, expect, test } from 'vitest'
import { answerOf } from '../app.ts'
import { heldMiB } from '../memory.ts'
import { TOKEN } from '../server/echo.ts'
import { connectWithToken, type HttpApp, startHttpApp } from './http-app.ts'

const ANN = 'the-token-that-ann-comes-with'
const EVE = 'the-token-that-eve-comes-with'
const tokens = [
  { token: ANN, principal: 'ann' },
  { token: EVE, principal: 'eve' },
]
const call = (who: Client, name: string, input: object = {}) => who.callTool({ name, arguments: { ...input } })

describe.each(['legacy', 'modern'] as const)('over %s', (era) => {
  test('R13: a task, watcher or job of another principal gets the same answer as one that never existed', async () => {
    const server = await startHttpApp(
      { tokens },
      { exposure: { mode: 'discovery' }, execution: { watchers: true, scheduler: true } },
    )
    const [ann, eve] = [await connectWithToken(server.url, ANN, era), await connectWithToken(server.url, EVE, era)]
    const begun = async (name: string, input: object) => answerOf(await call(ann, name, input))
    const { task_id } = await begun('background_run', { name: 'probe.wait' })
    const { watcher_id } = await begun('watch_start', { name: 'probe.echo', params: {}, interval: 3_600 })
    const { job_id } = await begun('schedule_once', { name: 'probe.echo', params: {}, when: 'in 1h' })
    const named = await begun('schedule_once', { name: 'probe.echo', params: {}, when: 'in 1h', label: 'tea' })
    // 25 characters of 36: 128 bits.
    for (const id of [task_id, watcher_id, job_id, named.job_id]) expect(id).toMatch(/^[0-9a-z]{25}$/)
    const tools = {
      background_status: { task_id },
      background_result: { task_id },
      background_wait: { task_id, timeout: 1 },
      background_cancel: { task_id },
      watch_status: { watcher_id },
      watch_history: { watcher_id },
      watch_pause: { watcher_id },
      watch_stop: { watcher_id },
      schedule_status: { job_id },
      schedule_cancel: { job_id },
    }
    for (const [name, input] of Object.entries(tools)) {
      const [[key, id]] = Object.entries(input) as [[string, string]]
      const never = id.replaceAll(/./g, (digit) => (digit === 'f' ? '0' : 'f'))
      const [theirs, none] = await Promise.all([id, never].map((one) => call(eve, name, { ...input, [key]: one })))
      expect([name, theirs?.isError]).toEqual([name, true])
      expect(JSON.stringify(theirs).replaceAll(id, 'ID'), name).toBe(JSON.stringify(none).replaceAll(never, 'ID'))
    }
    for (const name of ['background_list', 'watch_list', 'schedule_list'])
      expect(JSON.stringify(await call(eve, name)), name).not.toMatch(new RegExp(`${task_id}|${watcher_id}|${job_id}`))
    // None of that ended or changed her own.
    expect((await begun('background_status', { task_id })).status).toBe('running')
    expect((await begun('watch_status', { watcher_id })).status).toBe('running')
    expect((await begun('schedule_status', { job_id })).job_id).toBe(job_id)
  })
})

test("R13: ids come from the system's random generator: no two are equal, and none follows from another", async () => {
  const server = await startHttpApp({ tokens }, { exposure: { mode: 'discovery' } })
  const ann = await connectWithToken(server.url, ANN)
  const ids: string[] = []
  for (let n = 0; n < 20; n++) ids.push(answerOf(await call(ann, 'background_run', { name: 'probe.wait' })).task_id)
  expect(new Set(ids).size).toBe(20)
  // Counters and times would share a prefix.
  expect(new Set(ids.map((id) => id.slice(0, 4))).size).toBeGreaterThan(15)
})

test('R13: the description of a tool that returns a handle states its lifetime', async () => {
  const tasks = { resultTtlMs: 7_200_000 }
  const server = await startHttpApp(
    { tokens },
    { exposure: { mode: 'direct' }, execution: { watchers: true, scheduler: true, tasks } },
  )
  const { tools } = await (await connectWithToken(server.url, ANN)).listTools()
  const about = (name: string) => tools.find((tool) => tool.name === name)?.description
  expect(about('background_run')).toContain('kept 120 min after the end')
  expect(about('watch_start')).toContain('lasts until watch_stop, or until the tool is gone')
  expect(about('schedule_once')).toContain('ends with the run')
  expect(about('schedule_cron')).toContain('lasts until max_runs or schedule_cancel')
})

test('R79: ended sessions with calls, failures and lists leave nothing behind', async () => {
  const server = await startHttpApp({ tokens: [{ token: ANN, principal: 'ann' }] })
  const timers = () => process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length
  const listeners = () => process.eventNames().reduce((sum, name) => sum + process.listenerCount(name), 0)
  // Bounded caches are full after this.
  await rounds(server, 150)
  const before = { held: heldMiB(), timers: timers(), listeners: listeners() }
  await rounds(server, 120)
  expect(server.sessions()).toEqual({ streamable: 0, sse: 0 })
  expect(listeners()).toBe(before.listeners)
  expect(timers()).toBeLessThanOrEqual(before.timers + 5)
  // Less than one text per session.
  await expect.poll(() => heldMiB() - before.held).toBeLessThan(1)
}, 240_000)

async function rounds(server: HttpApp, count: number): Promise<void> {
  for (let n = 0; n < count; n++) {
    const token = n % 2 === 0 ? TOKEN : ANN
    const who = new Client(
      { name: 'held-test', version: '1' },
      { versionNegotiation: { mode: n % 3 === 0 ? { pin: '2026-07-28' } : 'legacy' } },
    )
    const transport = new StreamableHTTPClientTransport(new URL('/mcp', server.url), {
      requestInit: { headers: { authorization: `Bearer ${token}` } },
    })
    await who.connect(transport)
    await who.listTools()
    await call(who, 'probe__echo', { text: 'x'.repeat(10_000), n })
    await call(who, `probe__none${n}`).catch(() => undefined)
    await who.readResource({ uri: `doc://none/${n}` }).catch(() => undefined)
    await transport.terminateSession()
    await who.close()
  }
  // Only the test holds these.
  server.logged.length = 0
}
