import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { Client as OlderClient } from '@modelcontextprotocol/sdk/client/index.js'
import { CallToolResultSchema } from '@modelcontextprotocol/sdk/types.js'
import { describe, expect, it, onTestFinished } from 'vitest'
import { localCaller } from '../../src/core/caller.ts'
import { systemClock } from '../../src/core/clock.ts'
import { noRelay } from '../../src/core/tool.ts'
import { callTool } from '../../src/server/call-tool.ts'
import { serveOnStdio } from '../../src/server/serve-stdio.ts'
import { type Answer, answerOf, startApp, temporaryFolder } from '../app.ts'
import { connectTo, StreamTransport } from '../client.ts'

const MODULE = `
const wait = (ms, signal) => new Promise((resolve, reject) => {
  const timer = setTimeout(resolve, ms)
  signal.addEventListener('abort', () => { clearTimeout(timer); reject(signal.reason) })
})
export default { name: 'long', description: 'Takes long.', tools: {
  job: { description: 'Works for so many milliseconds.', effect: 'read', task: 'optional',
    input: { type: 'object', properties: { ms: { type: 'integer' } }, required: ['ms'] },
    run: async ({ ms }, { signal }) => { await wait(ms, signal); return { worked: ms } } },
  only: { description: 'Only runs as a task, for whoever takes them.', effect: 'read', task: 'required', run: async (_, { signal }) => { await wait(80, signal); return 'done' } },
  ask: { description: 'Asks whether it is really wanted.', effect: 'write', task: 'optional',
    run: async (_, { ask }) => (await ask({ message: 'Really?', schema: { type: 'object', properties: { yes: { type: 'boolean' } } } })).action },
  bad: { description: 'Fails after a while.', effect: 'read', context: true, run: async (_, { signal }) => { await wait(200, signal); throw new Error('it went wrong') } },
  here: { description: 'Takes long and wants to be waited for.', effect: 'read', noBackground: true, context: true, run: async (_, { signal }) => { await wait(400, signal); return 'here' } },
  plain: { description: 'Takes four tenths of a second.', effect: 'read', context: true, run: async (_, { signal }) => { await wait(400, signal); return 'plain' } },
} }`

async function rig(settings: object = {}) {
  const dir = temporaryFolder()
  mkdirSync(join(dir, 'modules'))
  writeFileSync(join(dir, 'modules', 'long.js'), MODULE)
  return startApp({ exposure: { mode: 'discovery' }, ...settings }, dir)
}

const TAKES = { elicitation: {}, extensions: { 'io.modelcontextprotocol/tasks': {} } }
const caller = { ...localCaller, era: 'modern', supports: { ...localCaller.supports, elicitation: true } } as const

describe('a slow tool', () => {
  it('runs as a task for clients that support tasks, by name and through execute_tool', async () => {
    const { app } = await rig()
    const relay = { ...noRelay, principal: 'local', clientCapabilities: TAKES }
    const ask = (method: string, taskId: unknown) =>
      app.server.ownTasks(caller).request(method, { taskId }, relay, new AbortController().signal)
    const created = await callTool(app.server, { name: 'long.job', input: { ms: 700 }, caller, relay })
    expect(created).toMatchObject({ resultType: 'task', status: 'working', ttlMs: 3_600_000 })
    expect(created['taskId']).toMatch(/^[0-9a-z]{25}$/)
    expect(await ask('tasks/get', created['taskId'])).toMatchObject({ status: 'working' })
    const client = await connectTo(app, 'modern')
    const call = async (name: string, args: object) =>
      answerOf((await client.callTool({ name, arguments: { ...args } })) as Answer)
    expect(await call('background_list', {})).toMatchObject({ running: 1, tasks: [{ task_id: created['taskId'] }] })
    expect(await call('background_wait', { task_id: created['taskId'] })).toMatchObject({ result: { worked: 700 } })
    expect(await ask('tasks/get', created['taskId'])).toMatchObject({
      status: 'completed',
      result: { structuredContent: { worked: 700 } },
    })
    const { task_id } = await call('background_run', { name: 'long.job', params: { ms: 5_000 } })
    expect(await ask('tasks/get', task_id)).toMatchObject({ status: 'working' })
    expect(await ask('tasks/cancel', task_id)).toEqual({})
    expect(await ask('tasks/get', task_id)).toMatchObject({ status: 'cancelled' })
    await expect(
      app.server
        .ownTasks({ ...caller, principal: 'eve' })
        .request('tasks/get', { taskId: task_id }, relay, new AbortController().signal),
    ).rejects.toMatchObject({ code: -32602 })
    await expect(
      app.server
        .ownTasks({ ...caller, profile: 'other' })
        .request('tasks/get', { taskId: task_id }, relay, new AbortController().signal),
    ).rejects.toMatchObject({ code: -32602 })
  })

  it('has a task that belongs to its session, whatever route another session of the principal takes', async () => {
    const { app } = await rig()
    const relay = { ...noRelay, principal: 'local', task: { ttl: 60_000 } }
    const one = { ...caller, era: 'legacy', session: 'one' } as const
    const created = await callTool(app.server, { name: 'long.ask', input: {}, caller: one, relay })
    const { taskId } = created['task'] as { taskId: string }
    const ask = (method: string, session: string) =>
      app.server.ownTasks({ ...one, session }).request(method, { taskId }, noRelay, new AbortController().signal)
    for (const method of ['tasks/get', 'tasks/cancel', 'tasks/result'])
      await expect(ask(method, 'two')).rejects.toMatchObject({ code: -32602 })
    expect(await ask('tasks/get', 'one')).toMatchObject({ status: 'input_required' })
    expect(await ask('tasks/cancel', 'one')).toEqual({})
  })

  it('is awaited for all other clients, and rejected for clients that require a task it does not offer', async () => {
    const { app } = await rig()
    expect(await callTool(app.server, { name: 'long.job', input: { ms: 5 }, caller })).toMatchObject({
      structuredContent: { worked: 5 },
    })
    await expect(callTool(app.server, { name: 'long.only', input: {}, caller })).rejects.toMatchObject({ code: -32021 })
    const legacy = await connectTo(app)
    expect(await legacy.callTool({ name: 'long__only', arguments: {} })).toMatchObject({ content: [{ text: 'done' }] })
  })

  it('asks through its task, and continues with the answer', async () => {
    const { app } = await rig()
    const relay = {
      ...noRelay,
      principal: 'local',
      clientCapabilities: TAKES,
      request: () => Promise.reject(new Error('not asked here')),
    }
    const signal = new AbortController().signal
    const { taskId } = await callTool(app.server, { name: 'long.ask', input: {}, caller, relay })
    const own = app.server.ownTasks(caller)
    const asked = await own.request('tasks/get', { taskId }, relay, signal)
    expect(asked).toMatchObject({
      status: 'input_required',
      inputRequests: { 'elicitation-1': { params: { message: 'Really?' } } },
    })
    const inputResponses = { 'elicitation-1': { action: 'decline' } }
    expect(await own.request('tasks/update', { taskId, inputResponses }, relay, signal)).toEqual({})
    await new Promise((done) => setTimeout(done, 50))
    expect(await own.request('tasks/get', { taskId }, relay, signal)).toMatchObject({
      status: 'completed',
      result: { content: [{ text: 'decline' }] },
    })
  })
})

describe('a call that should become a task', () => {
  it('is awaited if the task limit is reached, and its outcome is returned', async () => {
    const { app } = await rig({ execution: { tasks: { maxRunning: 1 }, autoBackgroundAfterMs: 50 } })
    const client = await connectTo(app)
    const call = (name: string, args: object) => client.callTool({ name, arguments: { ...args } }) as Promise<Answer>
    await call('background_run', { name: 'long.job', params: { ms: 5_000 } })
    expect((await call('long__plain', {})).content[0]?.text).toBe('plain')
    expect((await call('long__bad', {})).content[0]?.text).toContain('it went wrong')
  })
})

describe("a call that takes longer than the operator's limit", () => {
  it('continues in the background, unless its tool wants to be awaited [CTX-13] [CTX-32]', async () => {
    const { app } = await rig({ execution: { autoBackgroundAfterMs: 150 } })
    const client = await connectTo(app)
    const call = async (name: string, args: object = {}) =>
      (await client.callTool({ name, arguments: { ...args } })) as Answer
    const { task_id, hint } = answerOf(await call('execute_tool', { name: 'long.plain' }))
    expect(hint).toContain('background_wait')
    expect(answerOf(await call('background_wait', { task_id }))).toMatchObject({ status: 'completed' })
    expect(answerOf(await call('long__plain'))).toMatchObject({ status: 'running', tool_name: 'long.plain' })
    expect((await call('long__here')).content[0]?.text).toBe('here')
    const other = await connectTo(app)
    expect(
      ((await other.callTool({ name: 'background_status', arguments: { task_id } })) as Answer).content[0]?.text,
    ).toContain('not found')
  })
})

describe('a call that continues in the background', () => {
  it('can be checked with check_task and awaited with await_result by its owner only [CTX-26]', async () => {
    const { app } = await rig({ execution: { autoBackgroundAfterMs: 150 } })
    const client = await connectTo(app, 'modern')
    const call = async (name: string, args: object = {}) =>
      answerOf((await client.callTool({ name, arguments: { ...args } })) as Answer)
    const { task_id, status } = await call('long__plain')
    expect(status).toBe('running')
    expect(await call('context_builder.check_task', { task_id })).toEqual({ task_id, status: 'running' })
    const eve = { ...caller, principal: 'eve' }
    for (const name of ['check_task', 'await_result', 'background_result']) {
      const refused = (await callTool(app.server, { name, input: { task_id }, caller: eve })) as Answer
      expect([refused.isError, refused.content[0].text]).toEqual([true, expect.stringContaining('E_NOT_FOUND')])
    }
    expect(await call('await_result', { task_id, timeout: 30 })).toMatchObject({ status: 'completed', result: 'plain' })
    expect(await call('check_task', { task_id })).toEqual({ task_id, status: 'completed', result: 'plain' })
  })
})

describe("Pegboard's own tasks", () => {
  it('can be started, checked, listed and cancelled by clients of 2025-11-25, including those of background_run', async () => {
    const { app } = await rig()
    const [up, down] = [new PassThrough(), new PassThrough()]
    serveOnStdio({ host: app.server, clock: systemClock, input: up, output: down })
    const client = new OlderClient({ name: 'older', version: '1' }, { capabilities: {} })
    await client.connect(new StreamTransport(down, up) as never)
    onTestFinished(() => client.close())
    const anything = CallToolResultSchema.partial().loose()
    const request = async (method: string, params: object = {}): Promise<Answer> =>
      client.request({ method, params } as never, anything)
    const job = { name: 'long__job', arguments: { ms: 20_000 } }
    const { task } = await request('tools/call', { ...job, task: { ttl: 60_000 } })
    expect(task).toMatchObject({ status: 'working', taskId: expect.stringMatching(/^[0-9a-z]{25}$/) })
    const { structuredContent } = await request('tools/call', {
      name: 'background_run',
      arguments: { name: 'long.job', params: { ms: 20_000 } },
    })
    const names = async () =>
      (await request('tasks/list')).tasks.map(({ taskId, status }: Answer) => [taskId, status]).sort()
    expect(await names()).toEqual(
      [
        [task.taskId, 'working'],
        [structuredContent.task_id, 'working'],
      ].sort(),
    )
    expect(await request('tasks/cancel', { taskId: structuredContent.task_id })).toMatchObject({ status: 'cancelled' })
    expect(await request('tasks/get', { taskId: task.taskId })).toMatchObject({ status: 'working' })
    await request('tasks/cancel', { taskId: task.taskId })
    expect((await names()).map(([, status]: string[]) => status)).toEqual(['cancelled', 'cancelled'])
  })

  it('notify their subscribers, and only about their own tasks', async () => {
    const { app } = await rig()
    const capabilities = { extensions: { 'io.modelcontextprotocol/tasks': {} } }
    const client = await connectTo(app, 'modern', { capabilities })
    onTestFinished(() => client.close())
    const relay = { ...noRelay, principal: 'local', clientCapabilities: TAKES }
    const begin = async (principal: string) =>
      (await callTool(app.server, { name: 'long.job', input: { ms: 700 }, caller: { ...caller, principal }, relay }))[
        'taskId'
      ]
    const [mine, theirs] = [await begin('local'), await begin('eve')]
    const _meta = {
      'io.modelcontextprotocol/protocolVersion': '2026-07-28',
      'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1' },
      'io.modelcontextprotocol/clientCapabilities': capabilities,
    }
    const listen = { notifications: { taskIds: [mine, theirs] }, _meta }
    await client.transport?.send({
      jsonrpc: '2.0',
      id: 'listens',
      method: 'subscriptions/listen',
      params: listen,
    } as never)
    const { received } = client.transport as unknown as StreamTransport
    const told = () =>
      received.flatMap(({ method, params }) =>
        method === 'notifications/tasks' ? [[params?.['taskId'], params?.['status']]] : [],
      )
    await expect.poll(told).toEqual([
      [mine, 'working'],
      [mine, 'completed'],
    ])
  })
})

const CHAT = `export const said = (globalThis.chatSaid ??= [])
export default { name: 'chat', description: 'A chat platform.', tools: {
  open: { description: 'Opens the platform for others, once.', effect: 'write', context: true, run: (_, ctx) => {
    ctx.services.adapters.add({ name: 'fake', client: null, listServers: async () => [], sendFile: async () => null,
      send: async (channel, text) => { if (channel === 'closed') throw new Error('nobody there'); globalThis.chatSaid.push([channel, text]) } })
    return 'open' } } } }`

describe('the result of a task', () => {
  const chat = async (execution: object = {}) => {
    const dir = temporaryFolder()
    mkdirSync(join(dir, 'modules'))
    writeFileSync(join(dir, 'modules', 'long.js'), MODULE)
    writeFileSync(join(dir, 'modules', 'chat.js'), CHAT)
    const started = await startApp(
      { exposure: { mode: 'discovery' }, execution: { outputChannels: ['fake:room-*', 'fake:closed'], ...execution } },
      dir,
    )
    await started.app.work()
    const client = await connectTo(started.app)
    const result = async (name: string, args: object = {}) =>
      (await client.callTool({ name, arguments: { ...args } })) as Answer
    const call = async (name: string, args: object = {}) => answerOf(await result(name, args))
    await result('chat.open')
    const said = (globalThis as { chatSaid?: string[][] }).chatSaid as string[][]
    said.length = 0
    return { ...started, result, call, said }
  }

  it('is sent to a channel, shortened, and not repeated [CTX-31]', async () => {
    const { call, result, said } = await chat()
    const { task_id } = await call('background_run', { name: 'long.job', params: { ms: 600 } })
    const redirected = await call('redirect_task', { task_id, output_channel: 'fake:room-1', max_chars: 8 })
    expect(redirected).toMatchObject({ status: 'running', output_channel: 'fake:room-1' })
    await expect.poll(() => said).toEqual([['room-1', '{"worke…']])
    expect((await result('list_all_tools')).content).toHaveLength(1)
    await call('redirect_task', { task_id, output_channel: 'fake:room-2' })
    expect(said[1]).toEqual(['room-2', '{"worked":600}'])
  })

  it('is rejected for unknown and closed channels, and reported if a channel fails', async () => {
    const { call, result, said } = await chat()
    const { task_id } = await call('background_run', { name: 'long.job', params: { ms: 500 } })
    const to = async (output_channel: string, id = task_id) =>
      (await result('redirect_task', { task_id: id, output_channel })).content[0].text
    expect(await to('nowhere:1')).toContain("There is no channel 'nowhere:1'.")
    expect(await to('fake:private')).toContain('execution.outputChannels')
    expect(await to('fake:room-1', 'ffffffffffff')).toContain("Task 'ffffffffffff' not found.")
    await to('fake:closed')
    await new Promise((done) => setTimeout(done, 600))
    const { content } = await result('list_all_tools')
    expect([said, content.at(-1).text]).toEqual([[], expect.stringContaining(`[NOTICE] Background task ${task_id}`)])
  })

  it('is sent to a channel when its job is done', async () => {
    const { call, result, said } = await chat({ watchers: true, scheduler: true })
    const job = { when: 'in 1s', name: 'long.job', params: { ms: 1 } }
    expect(await call('schedule_once', { ...job, output_channel: 'fake:room-3' })).toMatchObject({
      output_channel: 'fake:room-3',
    })
    expect((await result('schedule_once', { ...job, output_channel: 'fake:private' })).content[0].text).toContain(
      'execution.outputChannels',
    )
    await expect.poll(() => said).toEqual([['room-3', '{"worked":1}']])
  })
})
