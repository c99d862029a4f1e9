import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { countTokens } from 'gpt-tokenizer/encoding/o200k_base'
import { describe, expect, it } from 'vitest'
import { type Answer, answerOf, servers, startApp, temporaryFolder } from '../app.ts'
import { callTool, connectTo, type Era, type StreamTransport } from '../client.ts'

for (const era of ['legacy', 'modern'] as Era[]) {
  describe(`a ${era} client in discovery mode`, () => {
    it('finds, reads and runs a tool of a real server', async () => {
      const dir = temporaryFolder()
      const { app } = await startApp(
        {
          exposure: { mode: 'discovery', primitives: false },
          mcpServers: { memory: servers.memory(join(dir, 'memory.json')), thinking: servers.thinking },
        },
        dir,
      )
      await app.settled(20_000)
      const client = await connectTo(app, era)

      const { tools } = await client.listTools()
      expect(tools.map((tool) => tool.name)).toEqual([
        'search_tools',
        'get_tool',
        'execute_tool',
        'list_categories',
        'browse_category',
      ])
      expect(tools[0]?.description).toContain('memory 9')

      const found = answerOf(
        await client.callTool({
          name: 'search_tools',
          arguments: { query: 'create new entities in the knowledge graph' },
        }),
      )
      expect(found.tools[0].name).toBe('mcp_memory.create_entities')
      const schema = answerOf(await client.callTool({ name: 'get_tool', arguments: { name: found.tools[0].name } }))
      expect(schema.parameters.properties).toHaveProperty('entities')

      const entity = { name: 'Ada', entityType: 'person', observations: ['wrote the first program'] }
      const made = await client.callTool({
        name: 'execute_tool',
        arguments: { name: 'mcp_memory.create_entities', params: { entities: [entity] } },
      })
      expect(made.isError).toBeFalsy()
      expect(made.structuredContent).toEqual({ entities: [entity] })
      // Not listed, but callable by any spelling.
      const read = await client.callTool({ name: 'memory__read_graph', arguments: {} })
      expect(read.structuredContent).toMatchObject({ entities: [entity] })
      await client.close()
    })
  })
}

describe('a dead server', () => {
  it('delays nothing, and its error says what is wrong', async () => {
    const { app } = await startApp({
      mcpServers: { dead: { command: 'no-such-program-anywhere' }, thinking: servers.thinking },
    })
    const client = await connectTo(app)
    await app.settled(20_000)
    const categories = answerOf(await client.callTool({ name: 'list_categories', arguments: {} }))
    expect(categories.categories).toContainEqual(
      expect.objectContaining({ id: 'mcp_dead', state: 'failing', tool_count: 0 }),
    )
    expect(categories.categories).toContainEqual(expect.objectContaining({ id: 'mcp_thinking', tool_count: 1 }))
    const called = (await client.callTool({ name: 'execute_tool', arguments: { name: 'dead.anything' } })) as Answer
    expect(called.structuredContent.error.code).toBe('E_UPSTREAM_UNAVAILABLE')
    await client.close()
  })
})

describe('a server that was never connected', () => {
  const asleep = (mcpServers: object) =>
    startApp({ exposure: { mode: 'discovery' }, mcpServers }, temporaryFolder(), {
      connectDelayMs: { cold: 600_000, known: 600_000 },
    })

  it.each([
    ['execute_tool', { name: 'thinking.sequentialthinking' }],
    ['get_tool', { name: 'mcp_thinking.sequentialthinking' }],
    ['thinking__sequentialthinking', {}],
  ])('is started and awaited by %s', async (name, args) => {
    const { app } = await asleep({ thinking: servers.thinking, dead: { command: 'no-such-program-anywhere' } })
    const client = await connectTo(app)
    const step = { thought: 'x', nextThoughtNeeded: false, thoughtNumber: 1, totalThoughts: 1 }
    const input = name === 'get_tool' ? args : name === 'execute_tool' ? { ...args, params: { params: step } } : step
    const answer = (await client.callTool({ name, arguments: input })) as Answer
    expect(answer.isError).toBeFalsy()
    expect(JSON.stringify(answer.structuredContent)).toContain(
      name === 'get_tool' ? 'nextThoughtNeeded' : '"thoughtNumber":1',
    )
    // No call needed the other server.
    expect(app.upstreams.status().map(({ state }) => state)).toEqual(['ready', 'configured'])
    await client.close()
  })

  it.each(['execute_tool', 'get_tool'])(
    'that cannot start is reported as failing by %s, with the reason',
    async (name) => {
      const { app } = await asleep({ dead: { command: 'no-such-program-anywhere' } })
      const client = await connectTo(app)
      const answer = (await client.callTool({ name, arguments: { name: 'dead.anything' } })) as Answer
      expect(answer.structuredContent.error.code).toBe('E_UPSTREAM_UNAVAILABLE')
      expect(answer.structuredContent.error.message).toContain('command not found')
      expect(answer.structuredContent.error.hint).toMatch(/^The operator must correct the entry/)
      expect(answer.structuredContent.error.retryable).toBe(false)
      await client.close()
    },
  )

  it('is connected as soon as the first list is sent', async () => {
    const { app } = await asleep({ thinking: servers.thinking })
    expect(app.upstreams.status()[0]?.state).toBe('configured')
    app.warm()
    await app.settled(20_000)
    expect(app.upstreams.status()[0]?.state).toBe('ready')
  })

  it('is connected when planned work begins, at most three seconds later', async () => {
    const fake = join(import.meta.dirname, '../../bench/fake-upstream.mjs')
    const { app } = await asleep({ quick: { command: 'node', args: [fake, '--tools', '5'] } })
    app.warm()
    await app.work()
    expect(app.upstreams.status()[0]?.state).toBe('ready')
  })
})

describe('a server whose tools change', () => {
  it('is read again, and clients are notified and find the new tool [DIG-98]', async () => {
    const fixture = join(import.meta.dirname, '../fixtures/conformance-server.mjs')
    const { app } = await startApp({
      exposure: { mode: 'direct' },
      mcpServers: { fixture: { command: 'node', args: [fixture], trust: 'always' } },
    })
    await app.settled(20_000)
    const client = await connectTo(app)
    const { received } = client.transport as unknown as StreamTransport
    const names = async () => (await client.listTools()).tools.map(({ name }) => name)
    expect(await names()).not.toContain('fixture__test_fleeting')
    await client.callTool({ name: 'fixture__test_trigger_tool_change', arguments: {} })
    for (
      let tries = 0;
      tries < 200 && !received.some(({ method }) => method === 'notifications/tools/list_changed');
      tries++
    )
      await sleep(20)
    expect(await names()).toContain('fixture__test_fleeting')
    const found = answerOf(await client.callTool({ name: 'search_tools', arguments: { query: 'fleeting' } }))
    expect(found.tools[0].name).toBe('mcp_fixture.test_fleeting')
    await client.close()
  })
})

describe('images, resources and prompts of a real server', () => {
  it('are passed on unchanged [DIG-97]', async () => {
    const { app } = await startApp({ exposure: { mode: 'direct' }, mcpServers: { everything: servers.everything } })
    await app.settled(20_000)
    const client = await connectTo(app)
    const { tools } = await client.listTools()
    expect(tools.map((tool) => tool.name)).toContain('everything__get-tiny-image')
    const image = await client.callTool({ name: 'everything__get-tiny-image', arguments: {} })
    expect(image.content).toContainEqual(expect.objectContaining({ type: 'image', mimeType: 'image/png' }))

    const { resources } = await client.listResources()
    expect(resources.length).toBeGreaterThan(0)
    const first = resources[0] as { uri: string }
    const { contents } = await client.readResource({ uri: first.uri })
    expect(contents[0]?.uri).toBe(first.uri)

    const { prompts } = await client.listPrompts()
    expect(prompts.map((prompt) => prompt.name)).toContain('everything__simple-prompt')
    const prompt = await client.getPrompt({ name: 'everything__simple-prompt' })
    expect(prompt.messages[0]?.role).toBe('user')
    await client.close()
  })

  it('pass on every progress notification', async () => {
    const { app } = await startApp({ exposure: { mode: 'direct' }, mcpServers: { everything: servers.everything } })
    await app.settled(20_000)
    const client = await connectTo(app)
    await client.callTool(
      { name: 'everything__trigger-long-running-operation', arguments: { duration: 0.4, steps: 4 } },
      { onprogress: () => undefined },
    )
    // Read from the wire, because the SDK's client may drop the last one.
    const { received } = client.transport as unknown as StreamTransport
    const progress = received
      .filter(({ method }) => method === 'notifications/progress')
      .map(({ params }) => params?.progress)
    expect(progress).toEqual([1, 2, 3, 4])
    await client.close()
  })
})

describe('a server started by a call', () => {
  it('has its resources, templates and prompts at once', async () => {
    const { app } = await startApp({ mcpServers: { everything: servers.everything } }, temporaryFolder(), {
      connectDelayMs: { cold: 60_000, known: 60_000 },
    })
    const client = await connectTo(app)
    await client.callTool({
      name: 'execute_tool',
      arguments: { name: 'mcp_everything.echo', params: { message: 'x' } },
    })
    const { resources } = await client.listResources()
    const uri = 'demo://resource/static/document/features.md'
    expect(resources.map((one) => one.uri)).toContain(uri)
    expect((await client.listResourceTemplates()).resourceTemplates.map((one) => one.uriTemplate)).toContain(
      'demo://resource/dynamic/text/{resourceId}',
    )
    expect((await client.listPrompts()).prompts.map(({ name }) => name)).toContain('everything__args-prompt')
    expect((await client.readResource({ uri })).contents).toHaveLength(1)
  })
})

describe('ten unknown servers and a small window', () => {
  it('start in discovery mode, and the client can ask why', async () => {
    const dir = temporaryFolder()
    const silent = join(dir, 'silent.mjs')
    writeFileSync(silent, 'process.stdin.resume()')
    const mcpServers = Object.fromEntries(
      Array.from({ length: 10 }, (_, n) => [`cold${n}`, { command: 'node', args: [silent, String(n)] }]),
    )
    const { app } = await startApp({ exposure: { contextWindow: 8_192, primitives: false }, mcpServers }, dir)
    const client = await connectTo(app)
    const { tools } = await client.listTools()
    expect(tools.map((tool) => tool.name)).toEqual([
      'search_tools',
      'get_tool',
      'execute_tool',
      'list_categories',
      'browse_category',
    ])
    const nothing = answerOf(await client.callTool({ name: 'search_tools', arguments: { query: 'qqqq zzzz' } }))
    expect(nothing.hint).toMatch(/^Still connecting: mcp_cold0, /)
    const cold = answerOf(await client.callTool({ name: 'browse_category', arguments: { category: 'cold3' } }))
    expect(['connecting', 'configured']).toContain(cold.state)
    const listed = answerOf(await client.callTool({ name: 'list_categories', arguments: {} }))
    expect(listed.tool_injection).toBe('discovery')
    // It is for operators, and a model would pay for it.
    expect(listed).not.toHaveProperty('why')
    const { contents } = await client.readResource({ uri: 'server://status' })
    expect((contents[0] as Answer).text).toContain('10 servers never seen, counted as 20 tools each')
    await client.close()
  })
})

const scripted = (...args: string[]) => ({
  command: 'node',
  args: [join(import.meta.dirname, '../fixtures/upstreams/scripted.mjs'), ...args],
})

describe('the state of servers', () => {
  it('is shown in list_categories: configured, known, started, and failing with reason and next attempt', async () => {
    const dir = temporaryFolder()
    const known = scripted('--say', 'known')
    const learning = await startApp({ mcpServers: { rests: known } }, dir)
    await learning.app.settled(20_000)
    await learning.app.stop()
    const { app } = await startApp(
      {
        mcpServers: {
          rests: known,
          runs: { ...scripted(), start: 'eager' },
          hangs: scripted('--silent'),
          fails: { command: process.execPath, args: ['-e', 'console.error("Error: no licence"); process.exit(2)'] },
        },
      },
      dir,
    )
    const client = await connectTo(app)
    const { upstreams } = app
    const stateOf = (id: string) => upstreams.status().find((one) => one.id === id)?.state
    for (let tries = 0; tries < 500 && !(stateOf('runs') === 'ready' && stateOf('fails') === 'failing'); tries++)
      await sleep(20)
    const { categories } = answerOf(await client.callTool({ name: 'list_categories', arguments: {} }))
    const shown = Object.fromEntries(
      categories
        .filter(({ id }: Answer) => id.startsWith('mcp_'))
        .map(({ id, summary: _s, tool_count: _c, ...rest }: Answer) => [id, rest]),
    )
    expect(shown).toEqual({
      mcp_rests: { state: 'known' },
      mcp_runs: { state: 'started' },
      mcp_hangs: { state: 'configured' },
      mcp_fails: {
        state: 'failing',
        reason: 'it exited with code 2: Error: no licence',
        retry_in_ms: expect.any(Number),
      },
    })
    expect(categories.find(({ id }: Answer) => id === 'filesystem')).not.toHaveProperty('state')
    await client.close()
  })

  it('changes when a server is killed, and a call starts it again [DIG-96]', async () => {
    const { app } = await startApp({ mcpServers: { fake: { ...scripted(), start: 'background' } } })
    await app.settled(20_000)
    const client = await connectTo(app)
    const fake = async () =>
      answerOf(await client.callTool({ name: 'list_categories', arguments: {} })).categories.find(
        ({ id }: Answer) => id === 'mcp_fake',
      )
    const call = async (name: string, params = {}) =>
      (await client.callTool({ name: 'execute_tool', arguments: { name: `mcp_fake.${name}`, params } })) as Answer
    expect(await fake()).toMatchObject({ state: 'started' })
    process.kill(Number((await call('get_pid')).content[0].text), 'SIGKILL')
    for (let tries = 0; tries < 200 && (await fake()).state === 'started'; tries++) await sleep(5)
    expect(await fake()).toMatchObject({
      state: 'failing',
      reason: 'disconnected: it was killed by SIGKILL',
      retry_in_ms: expect.any(Number),
    })
    expect((await call('echo', { text: 'again' })).content[0].text).toBe('again')
    expect(await fake()).toMatchObject({ state: 'started' })
    await client.close()
  })
})

describe('an idle server', () => {
  it('has everything it offers listed and found from disk, in either era of the client, without being started', async () => {
    const dir = temporaryFolder()
    const fixture = join(import.meta.dirname, '../fixtures/upstreams/eras.mjs')
    const ages = ['raw', 'v1', 'v2']
    const mcpServers = Object.fromEntries(
      ages.map((age) => [age, { command: 'node', args: [fixture, age, age, 'stdio'] }]),
    )
    const learning = await startApp({ exposure: { mode: 'direct' }, mcpServers }, dir)
    await learning.app.settled(20_000)
    await learning.app.stop()
    const { app } = await startApp({ exposure: { mode: 'direct' }, mcpServers }, dir)
    for (const era of ['legacy', 'modern'] as const) {
      const client = await connectTo(app, era)
      const tools = (await client.listTools()).tools.map(({ name }) => name)
      const resources = (await client.listResources()).resources.map(({ uri }) => uri)
      const templates = (await client.listResourceTemplates()).resourceTemplates.map(({ uriTemplate }) => uriTemplate)
      const prompts = (await client.listPrompts()).prompts.map(({ name }) => name)
      for (const age of ages) {
        expect(tools).toContain(`${age}__echo`)
        expect(resources).toContain(`${age}://one`)
        expect(templates).toContain(`${age}://all/{id}`)
        expect(prompts).toContain(`${age}__hello`)
      }
      const found = answerOf(await client.callTool({ name: 'search_tools', arguments: { query: 'does echo' } }))
      expect(found.tools.map(({ name }: Answer) => name)).toContain('mcp_v2.echo')
      await client.close()
    }
    expect(app.upstreams.status().map(({ state, era, version }) => [state, era, version])).toEqual([
      ['known', 'legacy', '1.0.0'],
      ['known', 'legacy', '1.0.0'],
      ['known', 'modern', '1.0.0'],
    ])
    const client = await connectTo(app)
    expect((await client.readResource({ uri: 'v2://one' })).contents).toHaveLength(1)
    expect((await client.getPrompt({ name: 'raw__hello', arguments: { who: 'Bob' } })).messages).toHaveLength(1)
    expect(app.upstreams.status().map(({ state }) => state)).toEqual(['ready', 'known', 'ready'])
    await client.close()
  })
})

describe('the start-up time of an idle server', () => {
  it('is shown with its tools until it is started, within the token limit of an answer', async () => {
    const dir = temporaryFolder()
    // Every hit must be one of the server's tools.
    const settings = { mcpServers: { s: scripted() }, autoload: false, exposure: { mode: 'discovery' } }
    const learning = await startApp(settings, dir)
    await learning.app.settled(20_000)
    await learning.app.stop()
    const { app } = await startApp(settings, dir)
    const client = await connectTo(app)
    const getTool = async () => answerOf(await client.callTool({ name: 'get_tool', arguments: { name: 'mcp_s.echo' } }))
    const query = 'change the tools; hang; echo; count the lists'
    const cold = answerOf(await client.callTool({ name: 'search_tools', arguments: { query } }))
    expect(cold.tools).toHaveLength(5)
    for (const hit of cold.tools) expect(hit).not.toHaveProperty('starts_in_ms')
    expect(countTokens(JSON.stringify(cold))).toBeLessThanOrEqual(300)
    expect(String((await getTool()).starts_in_ms)).toMatch(/^[1-9]\d?0*$/)
    await client.callTool({ name: 'execute_tool', arguments: { name: 'mcp_s.echo', params: { text: 'wake' } } })
    expect(await getTool()).not.toHaveProperty('starts_in_ms')
    await client.close()
  })
})

describe('a tool added since the lists were read', () => {
  it('is found by the first call of it, and unknown names cause a new read once a minute [DIG-19]', async () => {
    const { app } = await startApp({ exposure: { mode: 'direct' }, mcpServers: { fake: scripted() } })
    await app.settled(20_000)
    const client = await connectTo(app)
    const call = async (name: string) => await callTool(client, { name, arguments: {} })
    await call('fake__add_silently')
    expect((await call('fake__appeared')).content[0].text).toBe('appeared')
    const lists = (await call('fake__count_lists')).content[0].text
    for (const name of ['fake__nothing', 'fake__nowhere'])
      expect((await call(name)).error.data.code).toBe('E_NOT_FOUND')
    expect((await call('fake__count_lists')).content[0].text).toBe(lists)
    await client.close()
  })
})
