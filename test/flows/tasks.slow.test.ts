import { PassThrough } from 'node:stream'
import { Client as OlderClient } from '@modelcontextprotocol/sdk/client/index.js'
import { SSEClientTransport as OlderSse } from '@modelcontextprotocol/sdk/client/sse.js'
import { StreamableHTTPClientTransport as OlderHttp } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import {
  CallToolResultSchema,
  CreateTaskResultSchema,
  ElicitRequestSchema,
  LoggingMessageNotificationSchema,
  TaskStatusNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js'
import { describe, expect, it, onTestFinished } from 'vitest'
import { systemClock } from '../../src/core/clock.ts'
import { serveOnStdio } from '../../src/server/serve-stdio.ts'
import { type Answer, serveAppOverHttp, servers, startApp, type TestApp } from '../app.ts'
import { connectTo, StreamTransport } from '../client.ts'

const fixture = (file: string, ...args: string[]) => ({
  command: process.execPath,
  args: [new URL(`../fixtures/upstreams/${file}`, import.meta.url).pathname, ...args],
  start: 'eager',
})
const RELATED = 'io.modelcontextprotocol/related-task'
const SUBSCRIPTION = 'io.modelcontextprotocol/subscriptionId'
const TASKS = 'io.modelcontextprotocol/tasks'

async function started(mcpServers: Record<string, unknown>, env = {}): Promise<TestApp['app']> {
  const { app } = await startApp({ exposure: { mode: 'direct' }, mcpServers }, undefined, {
    env: { PATH: process.env['PATH'], ...env },
  })
  await app.settled(20_000)
  return app
}

interface Older {
  readonly client: OlderClient
  readonly asked: Answer[]
  readonly told: Answer[]
  request(method: string, params?: object): Promise<Answer>
  begin(name: string, task?: object): Promise<Answer>
}

function overStdio(app: TestApp['app']): Promise<StreamTransport> {
  const up = new PassThrough()
  const down = new PassThrough()
  const connection = serveOnStdio({ host: app.server, clock: systemClock, input: up, output: down })
  void connection.closed.then(() => down.end())
  return Promise.resolve(new StreamTransport(down, up))
}

const overHttp =
  (make: (url: string) => object) =>
  async (app: TestApp['app']): Promise<object> => {
    const http = await serveAppOverHttp(app)
    return make(http.url)
  }

/** The official client of the older SDK, which supports tasks. */
async function older(
  app: TestApp['app'],
  takesQuestions = true,
  connect: (app: TestApp['app']) => Promise<object> = overStdio,
): Promise<Older> {
  const capabilities = takesQuestions ? { elicitation: {} } : {}
  const client = new OlderClient({ name: 'older', version: '1' }, { capabilities })
  const asked: Answer[] = []
  const told: Answer[] = []
  if (takesQuestions)
    client.setRequestHandler(ElicitRequestSchema, ({ params }) => {
      asked.push(params)
      return { action: 'accept', content: {} }
    })
  client.setNotificationHandler(TaskStatusNotificationSchema, ({ params }) => void told.push(params))
  await client.connect((await connect(app)) as never)
  onTestFinished(() => client.close())
  const anything = CallToolResultSchema.partial().loose()
  const request: Older['request'] = (method, params = {}) => client.request({ method, params } as never, anything)
  return {
    client,
    asked,
    told,
    request,
    begin: async (name, task = { ttl: 60_000 }) =>
      (await client.request({ method: 'tools/call', params: { name, arguments: {}, task } }, CreateTaskResultSchema))
        .task,
  }
}

const textOf = (result: unknown): unknown => (result as { content: Array<{ text?: string }> }).content[0]?.text

describe('tasks of 2025-11-25 servers, for clients of the same revision', () => {
  it('are offered for each tool that supports them, and never required', async () => {
    const { client } = await older(await started({ t: fixture('older-tasks.mjs') }))
    expect(client.getServerCapabilities()?.tasks).toEqual({ list: {}, cancel: {}, requests: { tools: { call: {} } } })
    const { tools } = await client.listTools()
    const listed = tools.filter(({ name }) => name.startsWith('t__'))
    expect(listed.map(({ name, execution }) => [name, execution?.taskSupport])).toEqual([
      ['t__slow', 'optional'],
      ['t__confirm', 'optional'],
      ['t__broken', 'optional'],
      ['t__finish', 'forbidden'],
      ['t__plain', undefined],
      ['t__hasty', 'optional'],
      ['t__talks', 'optional'],
    ])
  })

  it('are announced before any server is connected, because support is learned later', async () => {
    const { app } = await startApp({ exposure: { mode: 'direct' }, mcpServers: { t: fixture('older-tasks.mjs') } })
    const { client, begin, request } = await older(app)
    expect(client.getServerCapabilities()?.tasks).toEqual({ list: {}, cancel: {}, requests: { tools: { call: {} } } })
    await app.settled(20_000)
    const { taskId } = await begin('t__slow')
    expect(await request('tasks/get', { taskId })).toMatchObject({ status: 'working' })
  })

  it.each([
    ['2025-11-25', true],
    ['2025-06-18', false],
    ['2024-11-05', false],
  ])('are announced to clients of %s: %s', async (revision, announced) => {
    const { app } = await startApp({ mcpServers: {} })
    const http = await serveAppOverHttp(app)
    const clientInfo = { name: 'raw', version: '1' }
    const params = { protocolVersion: revision, capabilities: {}, clientInfo }
    const opening = { jsonrpc: '2.0', id: 1, method: 'initialize', params }
    const answer = (await (
      await fetch(new URL('/mcp', http.url), {
        method: 'POST',
        headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
        body: JSON.stringify(opening),
      })
    ).json()) as Answer
    expect('tasks' in answer.result.capabilities).toBe(announced)
    const stdio = await overStdio(app)
    await stdio.start()
    await stdio.send(opening)
    await expect.poll(() => stdio.received).toHaveLength(1)
    expect('tasks' in (stdio.received[0] as Answer).result.capabilities).toBe(announced)
    await stdio.close()
  })

  it.each([
    ['Streamable HTTP', (url: string) => new OlderHttp(new URL('/mcp', url))],
    ['HTTP+SSE', (url: string) => new OlderSse(new URL('/sse', url))],
  ])('can be started, report their status, ask and be awaited over %s', async (_name, make) => {
    const app = await started({ t: fixture('older-tasks.mjs') })
    const { client, asked, told, request, begin } = await older(app, true, overHttp(make))
    expect(client.getServerCapabilities()?.tasks).toBeDefined()
    const { taskId } = await begin('t__slow')
    expect(await request('tasks/get', { taskId })).toMatchObject({ taskId, status: 'working' })
    const waits = request('tasks/result', { taskId })
    await client.callTool({ name: 't__finish', arguments: {} })
    expect(await waits).toMatchObject({ content: [{ text: 'slowly' }], _meta: { [RELATED]: { taskId } } })
    await expect.poll(() => told).toEqual([expect.objectContaining({ taskId, status: 'completed' })])
    const confirm = await begin('t__confirm')
    expect(textOf(await request('tasks/result', { taskId: confirm.taskId }))).toBe('accept')
    expect(asked).toHaveLength(1)
    const cancelled = await begin('t__slow')
    expect(await request('tasks/cancel', { taskId: cancelled.taskId })).toMatchObject({ status: 'cancelled' })
    await expect(begin('t__plain')).rejects.toMatchObject({ code: -32601 })
    expect((await request('tasks/list')).tasks.length).toBeGreaterThan(1)
  })

  it('reveal no secrets in their status', async () => {
    const secret = 'a-secret-of-the-environment-42'
    const careless = fixture('older-tasks.mjs', '--says', `with ${secret}`)
    const { client, request, begin, told } = await older(await started({ t: careless }, { CARELESS_KEY: secret }))
    const { taskId } = await begin('t__slow')
    expect(await request('tasks/get', { taskId })).toMatchObject({ statusMessage: 'with [redacted]' })
    await client.callTool({ name: 't__finish', arguments: {} })
    await expect.poll(() => told).toHaveLength(1)
    expect(told[0]).toMatchObject({ taskId, status: 'completed', statusMessage: 'with [redacted]' })
  })

  it('send notifications before a client has asked for them', async () => {
    const { client, begin, told } = await older(await started({ t: fixture('older-tasks.mjs') }))
    const { taskId } = await begin('t__slow')
    await client.callTool({ name: 't__finish', arguments: {} })
    await expect.poll(() => told).toEqual([expect.objectContaining({ taskId, status: 'completed' })])
  })

  it("can be started, checked, listed and awaited under Pegboard's ids", async () => {
    const { client, request, begin, told } = await older(await started({ t: fixture('older-tasks.mjs') }))
    const task = await begin('t__slow', { ttl: 5_000 })
    expect(task).toMatchObject({ status: 'working', ttl: 5_000, pollInterval: 50 })
    const { taskId } = task
    expect(taskId).not.toContain('slow')
    expect(await request('tasks/get', { taskId })).toMatchObject({ taskId, status: 'working' })
    expect((await request('tasks/list')).tasks).toEqual([expect.objectContaining({ taskId, status: 'working' })])
    const waits = request('tasks/result', { taskId })
    expect(textOf(await client.callTool({ name: 't__finish', arguments: {} }))).toBe('finished')
    const result = await waits
    expect(result).toMatchObject({ content: [{ text: 'slowly' }], _meta: { [RELATED]: { taskId } } })
    expect(await request('tasks/get', { taskId })).toMatchObject({ taskId, status: 'completed' })
    expect(told).toEqual([expect.objectContaining({ taskId, status: 'completed' })])
  })

  it("can be cancelled, and fail with the server's error", async () => {
    const { request, begin } = await older(await started({ t: fixture('older-tasks.mjs') }))
    const { taskId } = await begin('t__slow', { ttl: 5_000 })
    expect(await request('tasks/cancel', { taskId })).toMatchObject({ taskId, status: 'cancelled' })
    await expect(request('tasks/cancel', { taskId })).rejects.toMatchObject({ code: -32602 })
    const broken = await begin('t__broken')
    await expect(request('tasks/result', { taskId: broken.taskId })).rejects.toMatchObject({ code: -32050 })
  })

  it('ask only the client that waits for them, whatever else runs', async () => {
    const app = await started({ t: fixture('older-tasks.mjs') })
    const [ann, bob] = [await older(app), await older(app)]
    const { taskId } = await ann.begin('t__confirm')
    const bobs = await bob.begin('t__slow')
    const waits = bob.request('tasks/result', { taskId: bobs.taskId })
    expect(textOf(await ann.request('tasks/result', { taskId }))).toBe('accept')
    expect(ann.asked).toEqual([expect.objectContaining({ message: 't: Sure?', _meta: { [RELATED]: { taskId } } })])
    expect(bob.asked).toEqual([])
    await ann.client.callTool({ name: 't__finish', arguments: {} })
    expect(textOf(await waits)).toBe('slowly')
  })

  it('send log messages to the client that waits for them, with its task id', async () => {
    const app = await started({ t: fixture('older-tasks.mjs') })
    const [ann, bob] = [await older(app), await older(app)]
    const heard: unknown[][] = [[], []]
    for (const [n, { client }] of [ann, bob].entries()) {
      client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) => void heard[n]?.push(params))
      await client.setLoggingLevel('debug')
    }
    const slow = await bob.begin('t__slow')
    const waits = bob.request('tasks/result', { taskId: slow.taskId })
    const { taskId } = await ann.begin('t__talks')
    expect(textOf(await ann.request('tasks/result', { taskId }))).toBe('talked')
    expect(heard).toEqual([[{ level: 'info', data: 'hm', logger: 't', _meta: { [RELATED]: { taskId } } }], []])
    await bob.client.callTool({ name: 't__finish', arguments: {} })
    await waits
  })

  it('are rejected for tools without task support, and for unknown ids', async () => {
    const { request, begin, client } = await older(await started({ t: fixture('older-tasks.mjs') }))
    await expect(begin('t__plain')).rejects.toMatchObject({ code: -32601 })
    for (const taskId of ['slow-0', 'mcp_t:slow-0', 'x.y'])
      await expect(request('tasks/get', { taskId })).rejects.toMatchObject({ code: -32602 })
    // All can be called without a task, even one that its server runs only as a task.
    expect(textOf(await client.callTool({ name: 't__confirm', arguments: {} }))).toBe('accept')
    expect(textOf(await client.callTool({ name: 't__plain', arguments: {} }))).toBe('at once')
  })

  it('of the official reference server work with the official client, including its question', async () => {
    const { client, asked } = await older(await started({ e: { ...servers.everything, start: 'eager' } }))
    await client.listTools()
    const call = { name: 'e__simulate-research-query', arguments: { topic: 'bees', ambiguous: true } }
    const kinds: string[] = []
    let result: unknown
    for await (const message of client.experimental.tasks.callToolStream(call)) {
      kinds.push(message.type)
      if (message.type === 'error') throw message.error
      if (message.type === 'result') result = message.result
    }
    expect(kinds[0]).toBe('taskCreated')
    expect(kinds.at(-1)).toBe('result')
    expect(textOf(result)).toContain('bees')
    expect(asked).toHaveLength(1)
  }, 30_000)
})

describe('tasks of 2025-11-25 servers, for 2026-era clients with the extension', () => {
  const capabilities = { elicitation: { form: {} }, extensions: { [TASKS]: {} } }
  const newer = async (app: TestApp['app']) => {
    const client = await connectTo(app, 'modern', { capabilities })
    onTestFinished(() => client.close())
    const received = (client.transport as unknown as StreamTransport).received as Answer[]
    let id = 1_000
    /** Raw messages, because the client does not support task results. */
    const start = async (mine: string, method: string, params: object): Promise<void> => {
      const _meta = {
        'io.modelcontextprotocol/protocolVersion': '2026-07-28',
        'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1' },
        'io.modelcontextprotocol/clientCapabilities': capabilities,
      }
      await client.transport?.send({ jsonrpc: '2.0', id: mine, method, params: { ...params, _meta } } as never)
    }
    const request = async (method: string, params: object): Promise<Answer> => {
      const mine = `raw-${++id}`
      await start(mine, method, params)
      for (;;) {
        const found = received.find((one: Answer) => one.id === mine)
        if (found) return found
        await new Promise((resolve) => setTimeout(resolve, 5))
      }
    }
    return Object.assign(request, { start, received })
  }

  /** Notifications of a subscription over HTTP. */
  async function subscribed(app: TestApp['app'], taskIds: readonly string[]): Promise<Answer[]> {
    const http = await serveAppOverHttp(app)
    const abort = new AbortController()
    onTestFinished(async () => {
      abort.abort()
      await http.close()
    })
    const _meta = {
      'io.modelcontextprotocol/protocolVersion': '2026-07-28',
      'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1' },
      'io.modelcontextprotocol/clientCapabilities': capabilities,
    }
    const method = 'subscriptions/listen'
    const response = await fetch(new URL('/mcp', http.url), {
      method: 'POST',
      signal: abort.signal,
      headers: {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        'mcp-protocol-version': '2026-07-28',
        'mcp-method': method,
      },
      body: JSON.stringify({ jsonrpc: '2.0', id: 'listens', method, params: { notifications: { taskIds }, _meta } }),
    })
    const told: Answer[] = []
    void (async () => {
      let text = ''
      for await (const chunk of response.body ?? []) {
        text += Buffer.from(chunk).toString()
        const events = text.split('\n\n')
        text = events.pop() ?? ''
        for (const event of events) {
          const data = /^data: (.*)$/m.exec(event)?.[1]
          if (data) told.push(JSON.parse(data))
        }
      }
    })().catch(() => undefined)
    return told
  }

  it('can be started, checked and completed with the result included', async () => {
    const request = await newer(await started({ t: fixture('older-tasks.mjs') }))
    const { result: task } = await request('tools/call', { name: 't__slow', arguments: {} })
    expect(task).toMatchObject({ resultType: 'task', status: 'working', ttlMs: 60_000, pollIntervalMs: 50 })
    const { taskId } = task
    expect((await request('tasks/get', { taskId })).result).toMatchObject({ taskId, status: 'working' })
    await request('tools/call', { name: 't__finish', arguments: {} })
    expect((await request('tasks/get', { taskId })).result).toMatchObject({
      resultType: 'complete',
      taskId,
      status: 'completed',
      ttlMs: 60_000,
      result: { content: [{ text: 'slowly' }] },
    })
  })

  it('link their result by their own id, and not in its _meta', async () => {
    const request = await newer(await started({ t: fixture('older-tasks.mjs') }))
    const { taskId } = (await request('tools/call', { name: 't__slow', arguments: {} })).result
    await request('tools/call', { name: 't__finish', arguments: {} })
    const { result } = (await request('tasks/get', { taskId })).result
    expect(result).toEqual({ content: [{ type: 'text', text: 'slowly' }] })
  })

  it('are not mentioned in the _meta of an immediate result, nor for clients without task support', async () => {
    const app = await started({ t: fixture('older-tasks.mjs') })
    const plain = { content: [{ type: 'text', text: 'hastily' }] }
    const request = await newer(app)
    const { result } = await request('tools/call', { name: 't__hasty', arguments: {} })
    expect([result.content, result._meta?.[RELATED]]).toEqual([plain.content, undefined])
    const { client, begin, request: olderRequest } = await older(app)
    expect(await client.callTool({ name: 't__hasty', arguments: {} })).toEqual(plain)
    const { taskId } = await begin('t__hasty')
    expect(await olderRequest('tasks/result', { taskId })).toEqual({ ...plain, _meta: { [RELATED]: { taskId } } })
  })

  it('can be cancelled after their end without effect, and not if unknown', async () => {
    const request = await newer(await started({ t: fixture('older-tasks.mjs') }))
    const { taskId } = (await request('tools/call', { name: 't__slow', arguments: {} })).result
    await request('tools/call', { name: 't__finish', arguments: {} })
    const { result } = await request('tasks/cancel', { taskId })
    expect(result.resultType).toBe('complete')
    expect(result).not.toHaveProperty('status')
    expect((await request('tasks/get', { taskId })).result.status).toBe('completed')
    expect((await request('tasks/cancel', { taskId: 'nobody-knows-it' })).error.code).toBe(-32602)
  })

  it('report what they ask for, and continue when answered', async () => {
    const request = await newer(await started({ t: fixture('older-tasks.mjs') }))
    const { taskId } = (await request('tools/call', { name: 't__confirm', arguments: {} })).result
    const { result: asks } = await request('tasks/get', { taskId })
    expect(asks).toMatchObject({
      status: 'input_required',
      inputRequests: { 'elicitation-1': { method: 'elicitation/create', params: { message: 't: Sure?' } } },
    })
    expect(JSON.stringify(asks.inputRequests)).not.toContain(RELATED)
    const inputResponses = { 'elicitation-1': { action: 'decline' } }
    expect((await request('tasks/update', { taskId, inputResponses })).result).toEqual({
      resultType: 'complete',
      _meta: expect.anything(),
    })
    await expect
      .poll(async () => (await request('tasks/get', { taskId })).result)
      .toMatchObject({ status: 'completed', result: { content: [{ text: 'decline' }] } })
  })

  it('notify their subscribers, over stdio and HTTP', async () => {
    const app = await started({ t: fixture('older-tasks.mjs'), n: fixture('tasks.mjs') })
    const request = await newer(app)
    const begin = async (name: string): Promise<string> =>
      (await request('tools/call', { name, arguments: {} })).result.taskId
    const [old, fresh] = [await begin('t__slow'), await begin('n__slow')]
    const told = await subscribed(app, [old, fresh, 'not-a-task'])
    await expect.poll(() => told.map(({ method }) => method)).toContain('notifications/tasks')
    expect(told[0]).toMatchObject({
      method: 'notifications/subscriptions/acknowledged',
      params: { notifications: { taskIds: [old, fresh, 'not-a-task'] } },
    })
    await request('tools/call', { name: 't__finish', arguments: {} })
    const heard = (taskId: string) =>
      told.filter(({ params }) => params.taskId === taskId).map(({ params }) => [params.status, params.result])
    const done = ['completed', { content: [{ type: 'text', text: 'slowly' }] }]
    await expect.poll(() => [heard(old).at(-1), heard(fresh).at(-1)]).toMatchObject([done, done])
    expect(heard(old)[0]?.[0]).toBe('working')
    expect(new Set(told.slice(1).map(({ params }) => params._meta[SUBSCRIPTION]))).toEqual(new Set(['listens']))
    // The same on stdio.
    const listens = await newer(app)
    await listens.start('listens', 'subscriptions/listen', { notifications: { taskIds: [old] } })
    await expect
      .poll(() => listens.received.filter(({ method }) => method?.startsWith('notifications/')))
      .toMatchObject([
        { method: 'notifications/subscriptions/acknowledged', params: { notifications: { taskIds: [old] } } },
        { method: 'notifications/tasks', params: { taskId: old, status: 'completed' } },
      ])
  }, 20_000)

  it('of the official reference server ask and get answers', async () => {
    const request = await newer(await started({ e: { ...servers.everything, start: 'eager' } }))
    const call = { name: 'e__simulate-research-query', arguments: { topic: 'bees', ambiguous: true } }
    const { taskId } = (await request('tools/call', call)).result
    const get = async () => (await request('tasks/get', { taskId })).result
    await expect.poll(async () => (await get()).status).toBe('input_required')
    const [[key, question]] = Object.entries((await get()).inputRequests) as [[string, Answer]]
    expect(question.params.message).toContain('bees')
    const interpretation = question.params.requestedSchema.properties.interpretation
    const answer = { action: 'accept', content: { interpretation: (interpretation.enum ?? ['technical'])[0] } }
    await request('tasks/update', { taskId, inputResponses: { [key]: answer } })
    await expect.poll(async () => (await get()).status).toBe('completed')
    expect(textOf((await get()).result)).toContain('bees')
  }, 30_000)

  it("can be cancelled, and fail with the server's error", async () => {
    const request = await newer(await started({ t: fixture('older-tasks.mjs') }))
    const { taskId } = (await request('tools/call', { name: 't__slow', arguments: {} })).result
    expect((await request('tasks/cancel', { taskId })).result.resultType).toBe('complete')
    expect((await request('tasks/get', { taskId })).result.status).toBe('cancelled')
    const broken = (await request('tools/call', { name: 't__broken', arguments: {} })).result.taskId
    expect((await request('tasks/get', { taskId: broken })).result).toMatchObject({
      status: 'failed',
      error: { code: -32050, message: 'it broke' },
    })
  })
})

describe('tasks of 2026-era servers, for clients of 2025-11-25', () => {
  it('can be started, checked and awaited', async () => {
    const { client, request, begin } = await older(await started({ t: fixture('tasks.mjs') }))
    expect(client.getServerCapabilities()?.tasks).toBeDefined()
    const task = await begin('t__slow')
    expect(task).toMatchObject({ status: 'working', ttl: 60_000 })
    const { taskId } = task
    expect(await request('tasks/result', { taskId })).toMatchObject({
      content: [{ text: 'slowly' }],
      _meta: { [RELATED]: { taskId } },
    })
    expect(await request('tasks/get', { taskId })).not.toHaveProperty('result')
    expect((await request('tasks/list')).tasks).toHaveLength(1)
  })

  it('ask with a request while their result is awaited', async () => {
    const app = await started({ t: fixture('tasks.mjs') })
    const { asked, request, begin } = await older(app)
    const { taskId } = await begin('t__confirm')
    expect(textOf(await request('tasks/result', { taskId }))).toBe('accept')
    expect(asked).toEqual([
      expect.objectContaining({ message: expect.stringMatching(/^\w+: Sure\?$/), _meta: { [RELATED]: { taskId } } }),
    ])
    const mute = await older(app, false)
    const other = await mute.begin('t__confirm')
    expect(textOf(await mute.request('tasks/result', { taskId: other.taskId }))).toBe('cancel')
  })

  it('can be cancelled', async () => {
    const { request, begin } = await older(await started({ t: fixture('tasks.mjs') }))
    const { taskId } = await begin('t__confirm')
    expect(await request('tasks/cancel', { taskId })).toMatchObject({ taskId, status: 'cancelled' })
    await expect(request('tasks/result', { taskId })).rejects.toMatchObject({ code: -32603 })
  })

  it('exist even if the server finished at once', async () => {
    const { request, begin } = await older(await started({ t: fixture('tasks.mjs') }))
    const task = await begin('t__quick', { ttl: 1_000 })
    expect(task).toMatchObject({ status: 'completed', ttl: 1_000 })
    const { taskId } = task
    expect(textOf(await request('tasks/result', { taskId }))).toBe('at once')
    expect((await request('tasks/get', { taskId })).status).toBe('completed')
  })
})
