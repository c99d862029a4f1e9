import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { type Answer, answerOf, startApp, temporaryFolder } from '../app.ts'
import { callTool, connectTo } from '../client.ts'
import { alive, gone, readPid } from '../process.ts'

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
    meet: tool('Waits until three are here, and says which came.', ({ ms }) => new Promise((done) => {
      const here = (globalThis.slowMet ??= [])
      here.push(() => done({ slept: ms }))
      if (here.length === 3) for (const go of here.splice(0)) go()
    }), ms),
    hold: tool('Waits until it is let go.', () => new Promise((done) => { globalThis.letGo = () => done({ held: true }) })),
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
    callTool(from, { name, arguments: args })
  const call = async (name: string, args: Record<string, unknown> = {}, from = client) =>
    answerOf(await result(name, args, from))
  return { ...started, client, result, call, dir }
}

/** The product with shell and filesystem. */
async function shipped() {
  const dir = temporaryFolder()
  const modules = {
    filesystem: { config: { roots: ['{{workspace}}'] } },
    shell: { config: { enabled: true, sandbox: 'off' } },
  }
  const { app } = await startApp({ exposure: { mode: 'discovery' }, modules }, dir)
  const client = await connectTo(app)
  const result = (name: string, args: object = {}) =>
    client.callTool({ name, arguments: args as Record<string, unknown> }) as Promise<Answer>
  const call = async (name: string, args: object = {}) => answerOf(await result(name, args))
  const shell = (name: string, cmd: string) => call(name, { name: 'shell.bash', params: { cmd } })
  return { app, call, result, shell, dir }
}

describe('run_parallel', () => {
  it('runs all calls in parallel and returns results in order, whatever fails [DIG-60]', async () => {
    const { call } = await rig()
    const answer = await call('run_parallel', {
      actions: [
        { name: 'slow.meet', params: { ms: 2_000 } },
        { name: 'slow.fail', params: { ms: 10 } },
        { name: 'slow__meet', params: { ms: 2_001 } },
        { name: 'slow.nothing' },
        { name: 'slow.meet', params: { ms: 2_002 } },
      ],
    })
    expect(answer).toMatchObject({ total: 5, succeeded: 3, failed: 2 })
    expect(answer.results).toMatchObject([
      { index: 0, name: 'slow.meet', success: true, data: { slept: 2_000 } },
      { index: 1, success: false, error: expect.stringContaining("Tool 'slow.fail' failed: it broke.") },
      { index: 2, success: true, data: { slept: 2_001 } },
      { index: 3, success: false, error: expect.stringContaining("Tool 'slow.nothing' not found") },
      { index: 4, success: true, data: { slept: 2_002 } },
    ])
  })

  it('reports a result that JSON cannot represent like any other failure', async () => {
    const { call } = await rig()
    const { results } = await call('run_parallel', { actions: [{ name: 'slow.round' }, { name: 'slow.quick' }] })
    expect(results).toMatchObject([
      { success: false, code: 'E_INTERNAL', error: expect.stringContaining('cannot be sent as JSON') },
      { success: true, data: 7 },
    ])
  })

  it('rejects more than fifty calls, itself, and a list in which nothing can start', async () => {
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

  it('stops a hanging call at the time limit, and returns the results of all others', async () => {
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

  it('cancels all calls when its client cancels', async () => {
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

  it.each(['legacy', 'modern'] as const)('lets each of its calls ask a question, with a %s client', async (era) => {
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

  it('runs no tool that runs others, counts each call, and records each call', async () => {
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

  it('reports the progress of each finished call', async () => {
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

describe('background_run with its companion tools', () => {
  it('returns an id at once, or the error if the call fails at once [DIG-61]', async () => {
    const { call, result, shell, dir } = await shipped()
    const started = await shell('background_run', 'until [ -e wake ]; do sleep 0.1; done; echo slept')
    writeFileSync(join(dir, 'wake'), '')
    expect(started).toMatchObject({ tool_name: 'shell.bash', status: 'running', task_id: expect.any(String) })
    expect(await call('background_wait', { task_id: started.task_id })).toMatchObject({
      status: 'completed',
      result: { exit_code: 0, stdout: 'slept\n' },
    })
    const missing = await result('background_run', { name: 'filesystem.read', params: { path: 'no-such-file.txt' } })
    expect([missing.isError, missing.content[0].text]).toEqual([
      true,
      expect.stringMatching(/Background task failed immediately: .*no-such-file\.txt/),
    ])
    expect((await call('background_list')).total).toBe(1)
  })

  it('has tasks that the session can check, await, list and cancel [DIG-62]', async () => {
    const { app, call, result, shell, dir } = await shipped()
    const said = async (name: string, args: object) => (await result(name, args)).content[0].text
    const { task_id } = await shell('background_run', 'echo $$ > pid; exec sleep 60')
    const pid = await readPid(join(dir, 'pid'))
    const quick = await shell('background_run', 'sleep 0.5; echo done')
    expect(await call('background_status', { task_id })).toMatchObject({
      task_id,
      tool_name: 'shell.bash',
      status: 'running',
      elapsed_seconds: expect.any(Number),
      started_at: expect.any(String),
    })
    for (const [name, more] of [
      ['background_result', {}],
      ['background_wait', { timeout: 1 }],
    ] as const)
      expect(await call(name, { task_id, ...more }), name).toMatchObject({
        status: 'running',
        hint: expect.any(String),
      })
    expect(await call('background_wait', { task_id: quick.task_id })).toMatchObject({ status: 'completed' })
    const list = await call('background_list')
    expect(list).toMatchObject({ total: 2, running: 1, completed: 1 })
    expect(list.tasks.map(({ status }: Answer) => status)).toEqual(['running', 'completed'])

    const other = await connectTo(app)
    expect(answerOf(await other.callTool({ name: 'background_list', arguments: {} }))).toMatchObject({ total: 0 })
    const stolen = (await other.callTool({ name: 'background_cancel', arguments: { task_id } })) as Answer
    expect(stolen.content[0].text).toContain(`Task '${task_id}' not found.`)
    expect(alive(pid)).toBe(true)

    expect(await call('background_cancel', { task_id })).toMatchObject({ status: 'cancelled' })
    expect(await gone(pid)).toBe(true)
    expect(await said('background_cancel', { task_id })).toContain('Task already cancelled.')
    expect(await said('background_cancel', { task_id: quick.task_id })).toContain('Task already completed.')
    expect(await call('background_result', { task_id: quick.task_id })).toMatchObject({
      result: { stdout: 'done\n' },
      finished_at: expect.any(String),
    })
    expect(await said('background_status', { task_id: 'ffffffffffff' })).toContain("Task 'ffffffffffff' not found.")
    expect(await said('background_wait', { task_id, timeout: 3_601 })).toContain('timeout')
  })
})

describe('background work', () => {
  it('runs a call, answers at once, and returns the result when it is ready', async () => {
    const { call } = await rig()
    const { task_id, status } = await call('background_run', { name: 'slow.hold' })
    expect([status, task_id]).toEqual(['running', expect.stringMatching(/^[0-9a-z]{25}$/)])
    expect(await call('background_result', { task_id })).toMatchObject({
      status: 'running',
      hint: expect.stringContaining('background_wait'),
    })
    expect(await call('background_list')).toMatchObject({ total: 1, running: 1, tasks: [{ task_id }] })
    ;(globalThis as unknown as { letGo(): void }).letGo()
    expect(await call('background_wait', { task_id, timeout: 30 })).toMatchObject({
      status: 'completed',
      tool_name: 'slow.hold',
      result: { held: true },
    })
    expect(await call('background_status', { task_id })).toMatchObject({
      status: 'completed',
      finished_at: expect.any(String),
    })
  })

  it('rejects at once what cannot work', async () => {
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

  it('ends with a result that JSON cannot represent, and frees its slot', async () => {
    const { call, result } = await rig({ execution: { tasks: { maxRunning: 1 } } })
    for (let at = 0; at < 3; at++)
      expect((await result('background_run', { name: 'slow.round' })).content[0]?.text).toContain(
        'E_INTERNAL: Background task failed immediately: The result cannot be sent as JSON.',
      )
    expect(await call('background_list')).toMatchObject({ total: 0, running: 0 })
  })

  it('runs no meta-tool, under any of its names', async () => {
    const { result } = await rig()
    for (const name of ['background_run', 'context_builder.background_run', 'context_builder__run_parallel'])
      expect((await result('background_run', { name, params: { name: 'slow.quick' } })).content[0]?.text).toContain(
        'E_LOOP_DETECTED',
      )
  })

  it('stops cancelled calls, and reports when a call is already over', async () => {
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

  it('reports a cancelled task as ended even if its tool ignores the signal', async () => {
    const { call } = await rig()
    const { task_id } = await call('background_run', { name: 'slow.hang' })
    expect(await call('background_cancel', { task_id })).toMatchObject({ status: 'cancelled' })
  })

  it('reports a task as failed whose tool is gone after a restart', async () => {
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

  it('is visible to its owner only', async () => {
    const { app, call, result } = await rig()
    const { task_id } = await call('background_run', { name: 'slow.sleep', params: { ms: 400 } })
    const other = await connectTo(app)
    expect(await call('background_list', {}, other)).toMatchObject({ total: 0 })
    for (const name of ['background_status', 'background_result', 'background_wait', 'background_cancel'])
      expect((await result(name, { task_id }, other)).content[0]?.text).toContain(`Task '${task_id}' not found.`)
  })

  it('is known after a restart: finished results stay, repeatable calls continue, others are reported as interrupted', async () => {
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

  it('is reported with the next result, once, and in the inbox [DIG-63]', async () => {
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

  it('reveals no path of an unusable state file to clients, and works when the file does', async () => {
    const { result, call, dir, logged } = await rig({ execution: { tasks: { maxRunning: 1 } } })
    mkdirSync(join(dir, 'state', 'state.db'), { recursive: true })
    for (const [name, args] of [
      ['background_run', { name: 'slow.quick' }],
      ['background_list', {}],
    ] as const) {
      const answer = await result(name, args)
      expect(answer.content[0].text).toContain('Stored work cannot be read or written now.')
      expect(JSON.stringify(answer)).not.toContain(dir)
    }
    expect(logged.join()).toContain(join(dir, 'state', 'state.db'))
    rmSync(join(dir, 'state', 'state.db'), { recursive: true })
    expect(await call('background_run', { name: 'slow.quick' })).toMatchObject({ status: 'completed' })
  })

  it('is unavailable if the operator disabled it', async () => {
    const { client, call } = await rig({ exposure: { mode: 'discovery', primitives: false } })
    expect((await client.listTools()).tools).toHaveLength(5)
    expect((await call('background_list')).error.message).toContain("Tool 'background_list' not found.")
  })
})
