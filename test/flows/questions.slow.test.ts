import type { Client } from '@modelcontextprotocol/client'
import { describe, expect, it } from 'vitest'
import { answerOf, serveAppOverHttp, servers, startApp, type TestApp } from '../app.ts'
import { connectOverHttp, connectTo, postModern } from '../client.ts'
import { modern, scripted } from '../upstream/host.ts'

const TOKEN = 'a-token-for-questions'

async function apart(settings: Record<string, unknown> = {}): Promise<TestApp & { readonly url: string }> {
  const made = await startApp({
    exposure: { mode: 'direct' },
    mcpServers: {
      old: { ...scripted(), start: 'eager', relay: ['elicitation', 'sampling', 'roots'] },
      new: { ...modern(), start: 'eager' },
    },
    ...settings,
  })
  await made.app.settled(20_000)
  const http = await serveAppOverHttp(made.app, { token: TOKEN })
  return { ...made, url: new URL('/mcp', http.url).href }
}

const post = (
  url: string,
  method: string,
  params: Record<string, unknown>,
  capabilities: object = { elicitation: {} },
) => postModern(url, TOKEN, method, params, capabilities)

const yes = { action: 'accept', content: { name: 'Ann' } }
const form = { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] }

describe('a 2025-era server that asks, for a 2026-era client', () => {
  it('gets its answer when the client repeats the call', async () => {
    const { url } = await apart()
    const call = { name: 'old__ask_person', arguments: {} }
    const { result } = await post(url, 'tools/call', call)
    expect(result).toMatchObject({
      resultType: 'input_required',
      inputRequests: {
        'elicitation-1': {
          method: 'elicitation/create',
          params: { message: 'old: Your name?', requestedSchema: form },
        },
      },
    })
    const { requestState } = result
    const again = await post(url, 'tools/call', { ...call, requestState, inputResponses: { 'elicitation-1': yes } })
    expect(JSON.parse(again.result.content[0].text)).toEqual(yes)
  })

  it('can ask through execute_tool', async () => {
    const { url } = await apart({ exposure: { mode: 'discovery' } })
    const call = { name: 'execute_tool', arguments: { name: 'mcp_old.ask_person', params: {} } }
    const { requestState } = (await post(url, 'tools/call', call)).result
    const again = await post(url, 'tools/call', { ...call, requestState, inputResponses: { 'elicitation-1': yes } })
    expect(JSON.parse(again.result.content[0].text)).toEqual(yes)
  })

  it('gets no answer from a client without the capability', async () => {
    const { url } = await apart()
    const call = { name: 'old__ask_person', arguments: {} }
    expect(JSON.parse((await post(url, 'tools/call', call, {})).result.content[0].text)).toEqual({ action: 'cancel' })
    const sampling = await post(url, 'tools/call', { name: 'old__ask_model', arguments: {} }, { elicitation: {} })
    expect(JSON.parse(sampling.result.content[0].text)).toMatchObject({ error: { code: -32603 } })
  })

  it('uses neither slot nor timeout while the person answers', async () => {
    const { url } = await apart({ execution: { timeoutMs: 1_000, maxConcurrent: 1, maxQueued: 0 } })
    const call = { name: 'old__ask_person', arguments: {} }
    const { requestState } = (await post(url, 'tools/call', call)).result
    expect(
      (await post(url, 'tools/call', { name: 'new__echo', arguments: { text: 'x' } })).result.content[0].text,
    ).toBe('x')
    await new Promise((resolve) => setTimeout(resolve, 1_300))
    const again = await post(url, 'tools/call', { ...call, requestState, inputResponses: { 'elicitation-1': yes } })
    expect(JSON.parse(again.result.content[0].text)).toEqual(yes)
    expect(
      (await post(url, 'tools/call', { name: 'new__echo', arguments: { text: 'y' } })).result.content[0].text,
    ).toBe('y')
  })

  it('is cancelled when Pegboard stops, and leaves nothing behind', async () => {
    const { url, app } = await apart()
    await post(url, 'tools/call', { name: 'old__ask_person', arguments: {} })
    await app.stop()
    expect(app.upstreams.status().map(({ state }) => state)).toEqual(['stopped', 'stopped'])
  })
})

describe('a 2025-era server that asks, called by several clients', () => {
  const personOf = async (app: TestApp['app'], name: string): Promise<Client> => {
    const client = await connectTo(app, 'legacy', { capabilities: { elicitation: { form: {} } } })
    client.setRequestHandler('elicitation/create', async () => {
      await new Promise((resolve) => setTimeout(resolve, 100))
      return { action: 'accept', content: { name } }
    })
    return client
  }
  const ask = async (client: Client): Promise<unknown> =>
    JSON.parse(String(textOf(await client.callTool({ name: 'old__ask_person', arguments: {} }))))

  it("gets each client's answer to its own question", async () => {
    const { app } = await apart()
    const [ann, bob, cy] = await Promise.all(['Ann', 'Bob', 'Cy'].map((name) => personOf(app, name)))
    if (!ann || !bob || !cy) throw new Error('no clients')
    await ask(ann)
    expect(await Promise.all([ask(ann), ask(bob), ask(cy), ask(bob)])).toEqual(
      ['Ann', 'Bob', 'Cy', 'Bob'].map((name) => ({ action: 'accept', content: { name } })),
    )
    await Promise.all([ann.close(), bob.close(), cy.close()])
  })

  it('serves others while a person answers, and continues that call afterwards', async () => {
    const { url, app } = await apart()
    const call = { name: 'old__ask_person', arguments: {} }
    const { requestState } = (await post(url, 'tools/call', call)).result
    const program = await connectTo(app)
    const beganAt = performance.now()
    const echo = { name: 'old__echo', arguments: { text: 'x' } }
    expect(textOf(await program.callTool(echo))).toBe('x')
    expect(performance.now() - beganAt).toBeLessThan(10_000)
    const slow = program.callTool({ name: 'old__wait', arguments: { ms: 200 } })
    const again = await post(url, 'tools/call', { ...call, requestState, inputResponses: { 'elicitation-1': yes } })
    expect(JSON.parse(again.result.content[0].text)).toEqual(yes)
    expect(textOf(await slow)).toBe('waited')
    await program.close()
  })
})

describe('an approval', () => {
  it('is valid for these arguments, once', async () => {
    const { url } = await apart({ policy: { ask: ['mcp_new.echo'] } })
    const call = { name: 'new__echo', arguments: { text: 'a' } }
    const { requestState, inputRequests } = (await post(url, 'tools/call', call)).result
    expect(inputRequests['elicitation-1'].params.message).toContain('May mcp_new.echo run?')
    const inputResponses = { 'elicitation-1': { action: 'accept', content: {} } }
    const other = { ...call, arguments: { text: 'b' } }
    expect((await post(url, 'tools/call', { ...other, requestState, inputResponses })).error.code).toBe(-32602)
    // Without the state it is a new call, which needs its own approval.
    expect((await post(url, 'tools/call', { ...call, inputResponses })).result.resultType).toBe('input_required')
    const done = await post(url, 'tools/call', { ...call, requestState, inputResponses })
    expect(done.result.content[0].text).toBe('a')
    expect((await post(url, 'tools/call', { ...call, requestState, inputResponses })).error.code).toBe(-32602)
  })
})

describe('a request state that does not belong to the request', () => {
  it('is rejected before the server sees it, in either era of the server [AUTH-11]', async () => {
    const { url } = await apart()
    for (const [name, key] of [
      ['old__ask_person', 'elicitation-1'],
      ['new__greet', 'name'],
    ] as const) {
      const call = { name, arguments: {} }
      const inputResponses = { [key]: yes }
      const { requestState } = (await post(url, 'tools/call', call)).result
      const at = requestState.length >> 1
      const altered = `${requestState.slice(0, at)}${requestState[at] === 'A' ? 'B' : 'A'}${requestState.slice(at + 1)}`
      for (const wrong of [
        { ...call, requestState: altered },
        { ...call, requestState: 'opaque-1' },
        { ...call, requestState, arguments: { x: 1 } },
        { name: name === 'new__greet' ? 'old__ask_person' : 'new__greet', arguments: {}, requestState },
        { name: 'execute_tool', arguments: { name: call.name }, requestState },
      ])
        expect((await post(url, 'tools/call', { ...wrong, inputResponses })).error).toMatchObject({ code: -32602 })
      // None of these used the state up.
      const done = await post(url, 'tools/call', { ...call, requestState, inputResponses })
      expect(done.result.content[0].text).toContain('Ann')
    }
  })

  it("is the server's state in sealed form; the server gets its own back", async () => {
    const { url } = await apart()
    const { result } = await post(url, 'tools/call', { name: 'new__greet', arguments: {} })
    expect(result.requestState).not.toContain('opaque-1')
    const done = await post(url, 'tools/call', {
      name: 'new__greet',
      arguments: {},
      requestState: result.requestState,
      inputResponses: { name: yes },
    })
    expect(done.result.content[0].text).toBe('Hello Ann, opaque-1')
  })
})

describe('a 2026-era server that asks in its result, for a 2025-era client', () => {
  const people = async (client: Client): Promise<void> => {
    client.setRequestHandler('elicitation/create', () => ({ action: 'accept', content: { name: 'Ann' } }))
  }
  const capabilities = { elicitation: { form: {} } }
  const expectGreetings = async (client: Client): Promise<void> => {
    for (const [name, args] of [
      ['new__greet', {}],
      ['execute_tool', { name: 'mcp_new.greet', params: {} }],
    ] as const)
      expect(textOf(await client.callTool({ name, arguments: args }))).toBe('Hello Ann, opaque-1')
    await client.close()
  }

  it('reaches the person with a request over stdio, by name and through execute_tool', async () => {
    const { app } = await apart()
    const client = await connectTo(app, 'legacy', { capabilities })
    await people(client)
    await expectGreetings(client)
  })

  it('reaches the person with a request over an HTTP session', async () => {
    const { url } = await apart()
    const client = await connectOverHttp(url, TOKEN, 'legacy', { capabilities })
    await people(client)
    await expectGreetings(client)
  })
})

describe('a lazy server with a resource that a 2026-era client subscribed to', () => {
  it('is stopped only after the subscription ends', async () => {
    const { app } = await apart({ mcpServers: { new: { ...modern(), idleStopMs: 1_000 } } })
    const state = () => app.upstreams.status()[0]?.state
    const client = await connectTo(app, 'modern')
    const following = await client.listen({ resourceSubscriptions: ['memo://one'] })
    await expect.poll(state).toBe('ready')
    await new Promise((resolve) => setTimeout(resolve, 2_500))
    expect(state()).toBe('ready')
    await following.close()
    await expect.poll(state).toBe('known')
    await client.close()
  }, 20_000)
})

describe('data of one hop', () => {
  it("is not passed on: a server's public cache hint becomes private [UPS-22]", async () => {
    const { url } = await apart()
    const { result } = await post(url, 'resources/read', { uri: 'memo://one' })
    expect(result).toMatchObject({ cacheScope: 'private', ttlMs: 0 })
    expect(result._meta['io.modelcontextprotocol/serverInfo'].name).toBe('pegboard')
    for (const method of ['tools/list', 'resources/list', 'prompts/list', 'server/discover'])
      expect((await post(url, method, {})).result).toMatchObject({ cacheScope: 'private', ttlMs: expect.any(Number) })
  })

  it('includes the error for a missing resource', async () => {
    const { url } = await apart()
    expect((await post(url, 'resources/read', { uri: 'nowhere://x' })).error).toMatchObject({
      code: -32602,
      data: { uri: 'nowhere://x' },
    })
  })
})

describe('UI resources of servers', () => {
  it('are listed with the tool and shown by get_tool', async () => {
    const fixture = new URL('../fixtures/upstreams/eras.mjs', import.meta.url).pathname
    const { url } = await apart({
      mcpServers: { page: { command: process.execPath, args: [fixture, 'page', 'v2', 'stdio'], start: 'eager' } },
    })
    const ui = { resourceUri: 'ui://page/page' }
    const { tools } = (await post(url, 'tools/list', {})).result
    expect(tools.find(({ name }: { name: string }) => name === 'page__link')._meta).toEqual({ ui })
    const told = await post(url, 'tools/call', { name: 'get_tool', arguments: { name: 'page__link' } })
    expect(answerOf(told.result).ui).toEqual(ui)
    // A page calls tools by their names on its server.
    const echoed = await post(url, 'tools/call', { name: 'echo', arguments: { text: 'from the page' } })
    expect(echoed.result.content[0].text).toBe('page from the page')
    const { result } = await post(url, 'server/discover', {})
    expect(result.capabilities.extensions).toHaveProperty(['io.modelcontextprotocol/ui'])
  })
})

describe('a server that answers calls with tasks', () => {
  const fixture = new URL('../fixtures/upstreams/tasks.mjs', import.meta.url).pathname
  const setup = () => apart({ mcpServers: { t: { command: process.execPath, args: [fixture], start: 'eager' } } })
  const takes = { elicitation: {}, extensions: { 'io.modelcontextprotocol/tasks': {} } }

  it("has them relayed under Pegboard's ids", async () => {
    const { url } = await setup()
    const { result: task } = await post(url, 'tools/call', { name: 't__slow', arguments: {} }, takes)
    expect(task).toMatchObject({ resultType: 'task', status: 'working', ttlMs: 60_000, taskId: expect.any(String) })
    const { taskId } = task
    expect(taskId).not.toContain('slow')
    const get = async () => (await post(url, 'tasks/get', { taskId }, takes)).result
    expect(await get()).toMatchObject({ resultType: 'complete', taskId, status: 'working', ttlMs: 60_000 })
    expect(await get()).toMatchObject({ taskId, status: 'completed', result: { content: [{ text: 'slowly' }] } })
  })

  it('gets the answers its task asks for, and cancellations', async () => {
    const { url } = await setup()
    const begin = async () =>
      (await post(url, 'tools/call', { name: 't__confirm', arguments: {} }, takes)).result.taskId as string
    const taskId = await begin()
    expect((await post(url, 'tasks/get', { taskId }, takes)).result).toMatchObject({
      status: 'input_required',
      inputRequests: { sure: { method: 'elicitation/create' } },
    })
    const inputResponses = { sure: { action: 'accept' } }
    expect((await post(url, 'tasks/update', { taskId, inputResponses }, takes)).result.resultType).toBe('complete')
    expect((await post(url, 'tasks/get', { taskId }, takes)).result).toMatchObject({
      status: 'completed',
      result: { content: [{ text: 'accept' }] },
    })
    const other = await begin()
    expect((await post(url, 'tasks/cancel', { taskId: other }, takes)).result.resultType).toBe('complete')
    expect((await post(url, 'tasks/get', { taskId: other }, takes)).result.status).toBe('cancelled')
  })

  it('runs plain calls for clients without tasks, and an error names what is missing if it cannot', async () => {
    const { url, app } = await setup()
    const plain = await post(url, 'tools/call', { name: 't__slow', arguments: {} })
    expect(plain.result.content[0].text).toBe('at once')
    const required = { requiredCapabilities: { extensions: { 'io.modelcontextprotocol/tasks': {} } } }
    expect((await post(url, 'tools/call', { name: 't__required', arguments: {} })).error).toMatchObject({
      code: -32021,
      data: required,
    })
    expect((await post(url, 'tasks/get', { taskId: 'x' })).error).toMatchObject({ code: -32021, data: required })
    const old = await connectTo(app)
    expect(textOf(await old.callTool({ name: 't__slow', arguments: {} }))).toBe('at once')
    await expect(old.callTool({ name: 't__required', arguments: {} })).rejects.toMatchObject({
      code: -32603,
      data: required,
    })
    await old.close()
  })

  it('returns nothing for an unknown, altered or invented id', async () => {
    const { url } = await setup()
    const { taskId } = (await post(url, 'tools/call', { name: 't__slow', arguments: {} }, takes)).result
    for (const wrong of ['slow:0', 'mcp_t:slow:0', `${taskId}x`, taskId.slice(1)])
      expect((await post(url, 'tasks/get', { taskId: wrong }, takes)).error).toMatchObject({ code: -32602 })
  })
})

describe('a tool that a 2025-era server runs only as a task', () => {
  it('is an ordinary call for clients of either era', async () => {
    const { app } = await startApp({
      exposure: { mode: 'direct' },
      mcpServers: { e: { ...servers.everything, start: 'eager' } },
    })
    await app.settled(20_000)
    for (const era of ['legacy', 'modern'] as const) {
      const client = await connectTo(app, era)
      const { tools } = await client.listTools()
      const tool = tools.find(({ name }) => name === 'e__simulate-research-query')
      expect(tool?.execution).toEqual(era === 'legacy' ? { taskSupport: 'optional' } : undefined)
      const result = await client.callTool({ name: 'e__simulate-research-query', arguments: { topic: 'bees' } })
      expect(textOf(result)).toContain('bees')
      expect(result).not.toHaveProperty('isError')
      expect(result._meta ?? {}).not.toHaveProperty(['io.modelcontextprotocol/related-task'])
      await client.close()
    }
  })
})

const textOf = (result: unknown): unknown => (result as { content: Array<{ text?: string }> }).content[0]?.text
