import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { type Answer, answerOf, startApp, temporaryFolder } from '../app.ts'
import { connectTo } from '../client.ts'

const MODULE = `
const tool = (description, run, more = {}) => ({ description, effect: 'read', run, ...more })
const ms = { input: { type: 'object', properties: { ms: { type: 'integer' } }, required: ['ms'] }, context: true }
export default {
  name: 'slow',
  description: 'Things that take their time.',
  tools: {
    sleep: tool('Sleeps for so many milliseconds, and says so.', ({ ms }, { signal }) => new Promise((resolve, reject) => {
      const timer = setTimeout(() => resolve({ slept: ms }), ms)
      signal.addEventListener('abort', () => { clearTimeout(timer); globalThis.slowAborted = (globalThis.slowAborted ?? 0) + 1; reject(new Error('stopped')) })
    }), ms),
    fail: tool('Fails after so many milliseconds, always.', async ({ ms }) => { await new Promise((done) => setTimeout(done, ms)); throw new Error('it broke') }, ms),
    pay: tool('Takes money once.', () => new Promise(() => undefined), { effect: 'write' }),
    quick: tool('Answers at once, with a number.', () => 7),
    hang: tool('Never answers, and hears nothing.', () => new Promise(() => undefined)),
    ask: tool('Asks its person for a yes.', async (_, ctx) => (await ctx.ask({ message: 'Really?', schema: { type: 'object', properties: { yes: { type: 'boolean' } } } })).action, { effect: 'write' }),
    round: tool('Gives something that leads back to itself.', () => { const round = {}; round.round = round; return round }),
  },
}`

async function rig(settings: Record<string, unknown> = {}, dir = temporaryFolder()) {
  mkdirSync(join(dir, 'modules'), { recursive: true })
  writeFileSync(join(dir, 'modules', 'slow.js'), MODULE)
  const started = await startApp({ exposure: { mode: 'discovery' }, ...settings }, dir)
  const client = await connectTo(started.app)
  const result = (name: string, args: Record<string, unknown> = {}, from = client) =>
    from.callTool({ name, arguments: args }) as Promise<Answer>
  const call = async (name: string, args: Record<string, unknown> = {}, from = client) =>
    answerOf(await result(name, args, from))
  return { ...started, client, result, call, dir }
}

describe('run_parallel', () => {
  it('runs all at once and answers in order, whatever fails [DIG-60]', async () => {
    const { call } = await rig()
    const began = performance.now()
    const answer = await call('run_parallel', {
      actions: [
        { name: 'slow.sleep', params: { ms: 2_000 } },
        { name: 'slow.fail', params: { ms: 10 } },
        { name: 'slow__sleep', params: { ms: 2_001 } },
        { name: 'slow.nothing' },
        { name: 'slow.sleep', params: { ms: 2_002 } },
      ],
    })
    expect(performance.now() - began).toBeLessThan(5_500)
    expect(answer).toMatchObject({ total: 5, succeeded: 3, failed: 2 })
    expect(answer.results).toMatchObject([
      { index: 0, name: 'slow.sleep', success: true, data: { slept: 2_000 } },
      { index: 1, success: false, error: expect.stringContaining("Tool 'slow.fail' failed: it broke.") },
      { index: 2, success: true, data: { slept: 2_001 } },
      { index: 3, success: false, error: expect.stringContaining("Tool 'slow.nothing' not found") },
      { index: 4, success: true, data: { slept: 2_002 } },
    ])
  })

  it('tells of a result that JSON cannot say as of any that failed', async () => {
    const { call } = await rig()
    const { results } = await call('run_parallel', { actions: [{ name: 'slow.round' }, { name: 'slow.quick' }] })
    expect(results).toMatchObject([
      { success: false, code: 'E_INTERNAL', error: expect.stringContaining('cannot be sent as JSON') },
      { success: true, data: 7 },
    ])
  })

  it('refuses more than fifty, itself, and a list of which nothing can begin', async () => {
    const { result } = await rig()
    const said = async (actions: unknown) => (await result('run_parallel', { actions })).content[0]?.text
    expect(await said(Array.from({ length: 51 }, () => ({ name: 'slow.quick' })))).toContain('a list of 1 to 50')
    expect(await said([{ name: 'run_parallel', params: { actions: [] } }])).toContain(
      'All 1 parallel action(s) failed before execution.',
    )
    expect(await said([{ name: 'slow.sleep', params: { ms: 'long' } }, { name: 'nobody' }])).toContain(
      'All 2 parallel action(s) failed before execution.',
    )
  })

  it('ends one that hangs at the time limit, and has the results of all others', async () => {
    const { call } = await rig({ execution: { timeoutMs: 1_500 } })
    const actions = [
      { name: 'slow.hang' },
      ...Array.from({ length: 49 }, (_, n) => ({ name: 'slow.sleep', params: { ms: 700 + n } })),
    ]
    const { succeeded, failed, results } = await call('run_parallel', { actions })
    expect([succeeded, failed]).toEqual([49, 1])
    expect(results[0]).toMatchObject({ success: false, code: 'E_TIMEOUT' })
    expect(results[49]).toMatchObject({ index: 49, data: { slept: 748 } })
  })

  it('ends all when its client no longer wants it', async () => {
    const { client } = await rig()
    const before = (globalThis as { slowAborted?: number }).slowAborted ?? 0
    const gone = new AbortController()
    const actions = Array.from({ length: 5 }, () => ({ name: 'slow.sleep', params: { ms: 60_000 } }))
    const called = client.callTool({ name: 'run_parallel', arguments: { actions } }, { signal: gone.signal })
    called.catch(() => undefined)
    await new Promise((done) => setTimeout(done, 200))
    gone.abort()
    await expect.poll(() => (globalThis as { slowAborted?: number }).slowAborted).toBe(before + 5)
  })

  it.each(['legacy', 'modern'] as const)('lets each of its calls ask, of a %s client', async (era) => {
    const { app } = await rig()
    const able = await connectTo(app, era, { capabilities: { elicitation: {} } })
    let asked = 0
    able.setRequestHandler('elicitation/create', async () => {
      asked++
      return { action: 'accept', content: { yes: true } }
    })
    const answer = (from: typeof able) =>
      from.callTool({
        name: 'run_parallel',
        arguments: { actions: [{ name: 'slow.ask' }, { name: 'slow.quick' }, { name: 'slow.ask' }] },
      })
    expect(answerOf(await answer(able))).toMatchObject({
      succeeded: 3,
      results: [{ data: 'accept' }, { data: 7 }, { data: 'accept' }],
    })
    expect(asked).toBe(2)
    const unable = await connectTo(app, era)
    const told = answerOf(await answer(unable))
    expect(told).toMatchObject({
      succeeded: 1,
      failed: 2,
      results: [{ code: 'E_CANNOT_ASK' }, { success: true }, { code: 'E_CANNOT_ASK' }],
    })
  })

  it('runs no tool that runs others, counts each of its calls, and has each written down', async () => {
    const dir = temporaryFolder()
    const { call } = await rig(
      { policy: { rateLimits: [{ tools: 'slow.quick', perMinute: 2 }] }, audit: { enabled: true } },
      dir,
    )
    const nested = ['run_parallel', 'execute_tool', 'background_run'].map((name) => ({ name, params: {} }))
    const quick = Array.from({ length: 3 }, () => ({ name: 'slow.quick' }))
    const { results } = await call('run_parallel', { actions: [...nested, ...quick] })
    expect(results.map(({ code = 'ok' }: Answer) => code)).toEqual([
      'E_LOOP_DETECTED',
      'E_LOOP_DETECTED',
      'E_LOOP_DETECTED',
      'ok',
      'ok',
      'E_RATE_LIMITED',
    ])
    const lines = async () => {
      const { readFileSync, existsSync } = await import('node:fs')
      const file = join(dir, 'state', 'audit.jsonl')
      return existsSync(file)
        ? readFileSync(file, 'utf8')
            .split('\n')
            .filter((line) => line.includes('"slow.quick"')).length
        : 0
    }
    await expect.poll(lines).toBeGreaterThanOrEqual(3)
  })

  it('tells of each that is done, to who listens', async () => {
    const { client } = await rig()
    const told: unknown[] = []
    await client.callTool(
      { name: 'run_parallel', arguments: { actions: [{ name: 'slow.quick' }, { name: 'slow.quick' }] } },
      { onprogress: ({ progress, total }) => told.push([progress, total]) },
    )
    expect(told).toEqual([
      [1, 2],
      [2, 2],
    ])
  })
})

describe('the background', () => {
  it('takes a call, answers at once, and gives the result when it is there [DIG-61] [DIG-62]', async () => {
    const { call } = await rig()
    const began = performance.now()
    const { task_id, status } = await call('background_run', { name: 'slow.sleep', params: { ms: 3_000 } })
    expect(performance.now() - began).toBeLessThan(2_900)
    expect([status, task_id]).toEqual(['running', expect.stringMatching(/^[0-9a-z]{25}$/)])
    expect(await call('background_result', { task_id })).toMatchObject({
      status: 'running',
      hint: expect.stringContaining('background_wait'),
    })
    expect(await call('background_list')).toMatchObject({ total: 1, running: 1, tasks: [{ task_id }] })
    expect(await call('background_wait', { task_id, timeout: 30 })).toMatchObject({
      status: 'completed',
      tool_name: 'slow.sleep',
      result: { slept: 3_000 },
    })
    expect(await call('background_status', { task_id })).toMatchObject({
      status: 'completed',
      finished_at: expect.any(String),
    })
  })

  it('says at once what cannot work', async () => {
    const { result, call } = await rig()
    for (const [params, why] of [
      [{ name: 'slow.fail', params: { ms: 5 } }, 'it broke'],
      [{ name: 'slow.sleep', params: {} }, 'Invalid params for slow.sleep'],
      [{ name: 'nobody.there' }, 'not found'],
    ] as const) {
      const { isError, content } = await result('background_run', params)
      expect([isError, content[0]?.text]).toEqual([
        true,
        expect.stringContaining('Background task failed immediately: '),
      ])
      expect(content[0]?.text).toContain(why)
    }
    expect(await call('background_list')).toMatchObject({ total: 0 })
  })

  it('ends with a result that JSON cannot say too, and keeps no place for it', async () => {
    const { call, result } = await rig({ execution: { tasks: { maxRunning: 1 } } })
    for (let at = 0; at < 3; at++)
      expect((await result('background_run', { name: 'slow.round' })).content[0]?.text).toContain(
        'E_INTERNAL: Background task failed immediately: The result cannot be sent as JSON.',
      )
    expect(await call('background_list')).toMatchObject({ total: 0, running: 0 })
  })

  it('runs no tool about tools, by its longer name neither', async () => {
    const { result } = await rig()
    for (const name of ['background_run', 'context_builder.background_run', 'context_builder__run_parallel'])
      expect((await result('background_run', { name, params: { name: 'slow.quick' } })).content[0]?.text).toContain(
        'E_LOOP_DETECTED',
      )
  })

  it('ends what is cancelled, and says so of what is over', async () => {
    const { call, result } = await rig()
    const { task_id } = await call('background_run', { name: 'slow.sleep', params: { ms: 60_000 } })
    const before = (globalThis as { slowAborted?: number }).slowAborted ?? 0
    expect(await call('background_cancel', { task_id })).toMatchObject({ status: 'cancelled' })
    expect((globalThis as { slowAborted?: number }).slowAborted).toBe(before + 1)
    expect((await result('background_cancel', { task_id })).content[0]?.text).toContain('Task already cancelled.')
    expect((await result('background_status', { task_id: 'ffffffffffff' })).content[0]?.text).toContain(
      "Task 'ffffffffffff' not found.",
    )
  })

  it('says that it ended what was cancelled though its tool hears nothing of that', async () => {
    const { call } = await rig()
    const { task_id } = await call('background_run', { name: 'slow.hang' })
    const began = performance.now()
    expect(await call('background_cancel', { task_id })).toMatchObject({ status: 'cancelled' })
    expect(performance.now() - began).toBeLessThan(15_000)
  })

  it('says of a task whose tool is gone after a restart that it failed', async () => {
    const dir = temporaryFolder()
    const first = await rig({}, dir)
    const before = await connectTo(first.app, 'modern')
    const { task_id } = await first.call('background_run', { name: 'slow.sleep', params: { ms: 30_000 } }, before)
    await first.app.stop()
    rmSync(join(dir, 'modules', 'slow.js'))
    const { app } = await startApp({ exposure: { mode: 'discovery' } }, dir)
    await app.work()
    const after = await connectTo(app, 'modern')
    const wait = { name: 'background_wait', arguments: { task_id, timeout: 10 } }
    expect(answerOf(await after.callTool(wait))).toMatchObject({
      status: 'failed',
      error: expect.stringContaining("E_NOT_FOUND: Tool 'slow.sleep' not found."),
    })
  })

  it("is nobody else's", async () => {
    const { app, call, result } = await rig()
    const { task_id } = await call('background_run', { name: 'slow.sleep', params: { ms: 400 } })
    const other = await connectTo(app)
    expect(await call('background_list', {}, other)).toMatchObject({ total: 0 })
    for (const name of ['background_status', 'background_result', 'background_wait', 'background_cancel'])
      expect((await result(name, { task_id }, other)).content[0]?.text).toContain(`Task '${task_id}' not found.`)
  })

  it('knows after a restart what was done, goes on with what may be done twice, and says what was not done', async () => {
    const dir = temporaryFolder()
    const first = await rig({}, dir)
    const before = await connectTo(first.app, 'modern')
    const done = await first.call('background_run', { name: 'slow.quick' }, before)
    const open = await first.call('background_run', { name: 'slow.sleep', params: { ms: 900 } }, before)
    const paid = await first.call('background_run', { name: 'slow.pay' }, before)
    await first.app.stop()
    const second = await rig({}, dir)
    await second.app.work()
    const after = await connectTo(second.app, 'modern')
    expect(await second.call('background_result', { task_id: done.task_id }, after)).toMatchObject({
      status: 'completed',
      result: 7,
    })
    expect(await second.call('background_result', { task_id: paid.task_id }, after)).toMatchObject({
      status: 'interrupted',
      error: expect.stringContaining('E_SHUTTING_DOWN'),
    })
    expect(await second.call('background_wait', { task_id: open.task_id }, after)).toMatchObject({
      status: 'completed',
      result: { slept: 900 },
    })
  })

  it('tells of what is over with the next result, once, and in the inbox [DIG-63]', async () => {
    const { app, client, result, call } = await rig()
    const texts = async (from = client) =>
      (await result('slow.quick', {}, from)).content.map(({ text }: { text: string }) => text)
    const other = await connectTo(app)
    const { task_id } = await call('background_run', { name: 'slow.sleep', params: { ms: 400 } })
    await call('background_wait', { task_id })
    await call('background_run', { name: 'slow.sleep', params: { ms: 401 } })
    await new Promise((done) => setTimeout(done, 500))
    expect(await texts(other)).toEqual(['7'])
    const [own, notice, ...more] = await texts()
    expect([own, more]).toEqual(['7', []])
    expect(notice).toMatch(
      /^\[NOTICE\] Background task [0-9a-z]{25} \(slow.sleep\) completed after 0\.\d s: {"slept":401}$/,
    )
    expect(await texts()).toEqual(['7'])
    await call('background_run', { name: 'slow.sleep', params: { ms: 310 } })
    await new Promise((done) => setTimeout(done, 400))
    const read = async () =>
      JSON.parse(((await client.readResource({ uri: 'notifications://inbox' })).contents[0] as Answer).text)
    expect(await read()).toEqual({ notices: [expect.stringContaining('{"slept":310}')] })
    expect(await read()).toEqual({ notices: [] })
    expect(await texts()).toEqual(['7'])
  })

  it('tells no client where a state file lies that cannot be used, and works when it can', async () => {
    const { result, call, dir, logged } = await rig({ execution: { tasks: { maxRunning: 1 } } })
    mkdirSync(join(dir, 'state', 'state.db'), { recursive: true })
    for (const [name, args] of [
      ['background_run', { name: 'slow.quick' }],
      ['background_list', {}],
    ] as const) {
      const answer = await result(name, args)
      expect(answer.content[0].text).toContain('What is kept for later cannot be read or written now.')
      expect(JSON.stringify(answer)).not.toContain(dir)
    }
    expect(logged.join()).toContain(join(dir, 'state', 'state.db'))
    rmSync(join(dir, 'state', 'state.db'), { recursive: true })
    expect(await call('background_run', { name: 'slow.quick' })).toMatchObject({ status: 'completed' })
  })

  it('is not there where the operator does not want it', async () => {
    const { client, result } = await rig({ exposure: { mode: 'discovery', primitives: false } })
    expect((await client.listTools()).tools).toHaveLength(5)
    expect((await result('background_list')).content[0]?.text).toContain("Tool 'background_list' not found.")
  })
})
