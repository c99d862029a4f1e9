import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Client } from '@modelcontextprotocol/client'
import { describe, expect, it } from 'vitest'
import { type Caller, localCaller } from '../../src/core/caller.ts'
import { createToolLoop } from '../../src/core/tool-loop.ts'
import { type Answer, answerOf, serveAppOverHttp, startApp, type TestApp, temporaryFolder } from '../app.ts'
import { callTool, connectOverHttp, connectTo, type Era } from '../client.ts'
import { callsOf, place, talkTo } from '../process.ts'
import { makeTool } from '../tools.ts'

const discovery = (settings: Record<string, unknown> = {}, dir = temporaryFolder()): Promise<TestApp> =>
  startApp(
    {
      exposure: { mode: 'discovery', primitives: false },
      modules: { filesystem: { config: { roots: ['{{workspace}}'] } } },
      ...settings,
    },
    dir,
  )
const TOKEN = 'a-token-for-context-tools'
const admin = { profiles: { default: { flags: { admin: true } } } }

const call = async (client: Client, name: string, args: object = {}): Promise<Answer> =>
  answerOf(await callTool(client, { name, arguments: args as Record<string, unknown> }))
const names = async (client: Client): Promise<string[]> => (await client.listTools()).tools.map(({ name }) => name)
const FIVE = ['search_tools', 'get_tool', 'execute_tool', 'list_categories', 'browse_category']

describe('context tools', () => {
  it('are not listed, and run by name, as context_builder tools, and through execute_tool', async () => {
    const { app } = await discovery()
    const client = await connectTo(app)
    expect(await names(client)).toEqual(FIVE)
    const total = (await call(client, 'list_all_tools')).total
    expect(total).toBeGreaterThan(5)
    for (const name of ['context_builder.list_all_tools', 'context_builder__list_all_tools'])
      expect((await call(client, name)).total).toBe(total)
    for (const name of ['list_all_tools', 'context_builder.list_all_tools', 'context_builder__list_all_tools'])
      expect((await call(client, 'execute_tool', { name })).data.total, name).toBe(total)
    expect((await call(client, 'context_builder.list_categories')).total_tools).toBe(total)
    const looped = await call(client, 'execute_tool', { name: 'context_builder.execute_tool' })
    expect(looped.error.code).toBe('E_LOOP_DETECTED')
    expect((await call(client, 'list_all_tools', { page: 1 })).error.code).toBe('E_VALIDATION')
  })

  it('are not listed, except request_tool_injection where lists can change', async () => {
    const { app } = await discovery({ exposure: { mode: 'discovery' } })
    const listed = async (era: 'legacy' | 'modern') => (await names(await connectTo(app, era))).slice(-1)
    expect(await listed('legacy')).toEqual(['request_tool_injection'])
    expect(await listed('modern')).not.toEqual(['request_tool_injection'])
  })

  it('exist in direct mode, and are not listed there', async () => {
    const { app } = await discovery({ exposure: { mode: 'direct', primitives: false } })
    const client = await connectTo(app)
    expect((await names(client)).filter((name) => app.surface.metaNames.includes(name))).toEqual([])
    expect((await call(client, 'list_all_tools')).total).toBe((await names(client)).length)
  })

  it('have names that no module can take', async () => {
    const { app } = await discovery()
    expect(() =>
      app.catalog.set(
        { id: 'm', summary: 'm', origin: 'module', state: 'ready' },
        { tools: [makeTool('m.x', { name: 'check_task' })] },
      ),
    ).toThrow('the name of a built-in tool')
  })
})

describe('list_all_tools', () => {
  it('returns all pages of browse_category, and nothing hidden [CTX-24]', async () => {
    const { app } = await discovery({ policy: { deny: ['filesystem.write'] } })
    const client = await connectTo(app)
    const browsed: Answer[] = []
    for (const { id } of (await call(client, 'list_categories')).categories)
      for (let page = 1, pages = 1; page <= pages; page++) {
        const shown = await call(client, 'browse_category', { category: id, page, page_size: 3 })
        pages = shown.total_pages
        browsed.push(...shown.tools)
      }
    const { tools, total } = await call(client, 'list_all_tools')
    expect(tools).toEqual(browsed.map(({ name, description }) => ({ name, description })))
    expect(total).toBe(browsed.length)
    expect(JSON.stringify(tools)).not.toContain('filesystem.write"')
  })
})

const saying = (word: string): string =>
  `export default { name: 'm', description: 'A module of a test.', tools: { say: { description: 'Says the word ${word}.', effect: 'read', run: () => '${word}' } } }\n`

describe('reload_tools', () => {
  it('reads changed files, keeps the previous version of a broken one, and is for admins [CTX-25]', async () => {
    const dir = temporaryFolder()
    const file = join(dir, 'modules', 'm.mjs')
    mkdirSync(join(dir, 'modules'))
    writeFileSync(file, saying('one'))
    const { app } = await discovery(admin, dir)
    const client = await connectTo(app)
    const described = async () => (await call(client, 'get_tool', { name: 'm.say' })).description
    expect(await described()).toBe('Says the word one.')
    writeFileSync(file, saying('two'))
    expect(await call(client, 'reload_tools')).toMatchObject({ loaded: expect.any(Number), failed: [] })
    expect(await described()).toBe('Says the word two.')
    writeFileSync(file, 'export default {{\n')
    const { data: broken } = await call(client, 'execute_tool', { name: 'context_builder.reload_tools' })
    expect(broken.failed).toMatchObject([{ file: 'm.mjs', code: 'E_MODULE_LOAD' }])
    expect(broken.failed[0].error).not.toContain(dir)
    expect(await described()).toBe('Says the word two.')

    const others = await connectTo((await discovery()).app)
    for (const name of ['reload_tools', 'set_turn', 'set_flag'])
      expect((await call(others, name)).error.code, name).toBe('E_NOT_FOUND')
    const result = await (await discovery()).app.server.surface
      .call({ name: 'reload_tools', input: {}, caller: { ...localCaller, roles: ['admin'] } })
      .catch((error: unknown) => error)
    expect(result).toMatchObject({ kind: 'value', value: { failed: [] } })
  })
})

/** A single-tool file, which gets the flat context with the registry. */
const META_TOOLS = `const tool = (name, run, more) => ({ name, description: 'A tool about tools, made for a test.', parameters: { type: 'object', properties: { n: {} } }, run, ...more })
export const tools = [
  tool('list_all_tools', (_, { tool_registry }) => tool_registry.list().map(({ name, description }) => ({ name, description }))),
  tool('show', ({ n }, { tool_registry }) => tool_registry.get(n)),
  tool('reload_tools', async (_, { tool_registry }) => tool_registry.reload()),
  tool('inject', ({ n }, { tool_registry }) => tool_registry.inject(n)),
  tool('keys', (_, { tool_registry }) => {
    for (const entry of tool_registry.list()) try { entry.name = 'mine' } catch {}
    return Object.keys(tool_registry).sort()
  }),
  tool('look_only', async (_, { tool_registry }) => {
    const seen = tool_registry.list().length > 0
    await tool_registry.reload()
    return seen
  }, { readOnly: true }),
]
`

describe('the registry in the context of a tool', () => {
  it('lists, reloads and injects like the tools, and changes no tool [CTX-15]', async () => {
    const at = place({ ...admin, exposure: { mode: 'discovery', primitives: false } })
    writeFileSync(join(at.dir, 'modules/own.mjs'), META_TOOLS)
    writeFileSync(join(at.dir, 'modules/m.mjs'), saying('one'))
    const talk = await talkTo(at)
    const said = callsOf(talk)
    const ask = async (name: string, n?: unknown) => {
      const answer = answerOf(await said('execute_tool', { name: `own.${name}`, params: n === undefined ? {} : { n } }))
      return answer.success ? answer.data : answer.error.message
    }
    const all = answerOf(await said('context_builder.list_all_tools')).tools as Answer[]
    expect(all.map(({ name }) => name)).toContain('m.say')
    const own = (await ask('list_all_tools')) as Answer[]
    expect(own.map(({ name }) => name)).toEqual(all.map(({ name }) => name))
    // The meta-tool returns the first sentence of each.
    for (const [at, { description }] of all.entries()) expect(own[at].description.startsWith(description)).toBe(true)
    expect(await ask('show', 'm__say')).toMatchObject({
      name: 'm.say',
      description: 'Says the word one.',
      effect: 'read',
    })
    expect(await ask('show', 'm.nothing')).toBeNull()

    writeFileSync(join(at.dir, 'modules/m.mjs'), saying('two'))
    writeFileSync(join(at.dir, 'modules/broken.mjs'), 'export default {{\n')
    expect(await ask('reload_tools')).toMatchObject({
      loaded: expect.any(Number),
      failed: [{ file: 'broken.mjs', code: 'E_MODULE_LOAD' }],
    })
    expect((await ask('show', 'm.say')).description).toBe('Says the word two.')

    expect(await ask('inject', ['m.say', 'm.nothing'])).toEqual({
      injected: ['m.say'],
      unknown: ['m.nothing'],
      already: [],
    })
    talk.send({ id: 1, method: 'tools/list' })
    const { tools } = ((await talk.answer(1)) as Answer).result
    expect(tools.map(({ name }: Answer) => name)).toContain('m__say')

    expect(await ask('keys')).toEqual(['get', 'inject', 'list', 'reload'])
    expect((await ask('show', 'm.say')).name).toBe('m.say')
    expect(await ask('look_only')).toMatch(/read-only/)
    expect((await ask('list_all_tools')).map(({ name }: Answer) => name)).toContain('m.say')
  })

  it('reloads only for admins [CTX-15]', async () => {
    const at = place({ exposure: { mode: 'discovery' } })
    writeFileSync(join(at.dir, 'modules/own.mjs'), META_TOOLS)
    const answer = answerOf(await callsOf(await talkTo(at))('execute_tool', { name: 'own.reload_tools' }))
    expect(answer).toMatchObject({ success: false, error: { code: 'E_TOOL_HIDDEN' } })
  })
})

describe('run_text', () => {
  it('runs the calls in a text in order, and returns results and the rest [DIG-39]', async () => {
    const { app } = await discovery()
    const client = await connectTo(app)
    const text = [
      'I write it down first.',
      '<tool_call>{"name": "filesystem.write", "arguments": {"path": "a.txt", "content": "one"}}</tool_call>',
      '<tool_call>{"name": "execute_tool", "arguments": {"name": "filesystem.read", "params": {"path": "a.txt"}}}</tool_call>',
      '<tool_call>{"name": "nobody.there", "arguments": {}}</tool_call>',
      '<tool_call>{"name": "search_tools", "arguments": {"query": "greet somebody"}}</tool_call>',
    ].join('\n')
    const answer = await call(client, 'context_builder.run_text', { text })
    expect(answer.text).toBe('I write it down first.')
    expect(answer.calls.map(({ name }: Answer) => name)).toEqual([
      'filesystem.write',
      'execute_tool',
      'nobody.there',
      'search_tools',
    ])
    expect(answer.calls[0]).toMatchObject({
      arguments: { path: 'a.txt', content: 'one' },
      result: { success: true },
    })
    expect(JSON.stringify(answer.calls[1].result)).toContain('one')
    expect(answer.calls[2].result).toMatchObject({ success: false, code: 'E_NOT_FOUND' })
    expect(JSON.stringify(answer.calls[3].result)).toContain('hello.greet')
    expect(await call(client, 'run_text', { text: 'Plain words {and braces}.' })).toEqual({
      calls: [],
      text: 'Plain words {and braces}.',
    })
  })

  it('does not run itself, and denied tools stay denied', async () => {
    const { app } = await discovery({ policy: { deny: ['hello.greet'] } })
    const client = await connectTo(app)
    const resultOf = async (name: string, args: object): Promise<Answer> => {
      const text = `<tool_call>${JSON.stringify({ name, arguments: args })}</tool_call>`
      return (await call(client, 'run_text', { text })).calls[0].result
    }
    expect((await resultOf('context_builder.run_text', { text: 'x' })).code).toBe('E_LOOP_DETECTED')
    const params = { name: 'context_builder__run_text', params: { text: 'x' } }
    expect((await resultOf('execute_tool', params)).code).toBe('E_LOOP_DETECTED')
    expect((await resultOf('hello.greet', { name: 'Ann' })).code).toBe('E_NOT_FOUND')
    const many = '<tool_call>{"name":"hello.greet","arguments":{}}</tool_call>\n'.repeat(51)
    expect((await call(client, 'run_text', { text: many })).error.code).toBe('E_VALIDATION')
  })
})

describe('check_task', () => {
  it('reports a background task to its owner only', async () => {
    const { app } = await discovery({ exposure: { mode: 'discovery' } })
    const [client, other] = [await connectTo(app), await connectTo(app)]
    const { task_id } = await call(client, 'background_run', { name: 'hello.greet', params: { name: 'Ann' } })
    await expect.poll(async () => (await call(client, 'check_task', { task_id })).status).toBe('completed')
    expect(JSON.stringify((await call(client, 'check_task', { task_id })).result)).toContain('Ann')
    const unknown = { code: 'E_NOT_FOUND', message: `Unknown task: '${task_id}'.` }
    expect((await call(other, 'check_task', { task_id })).error).toMatchObject(unknown)
    expect((await call(client, 'check_task', { task_id: 't1' })).error.code).toBe('E_NOT_FOUND')
  })
})

describe('list_active_servers', () => {
  it('asks every adapter, even if one fails [CTX-18, CTX-27]', async () => {
    const { app } = await discovery()
    const adapters = app.context.servicesOf(localCaller).adapters
    const fake = { send: async () => null, sendFile: async () => null, client: null }
    adapters?.add({ ...fake, name: 'guilds', listServers: async () => [{ id: 'g1', name: 'Guild', rooms: 3 }] })
    const remove = adapters?.add({
      ...fake,
      name: 'broken',
      listServers() {
        throw new Error('no connection to 10.1.2.3')
      },
    })
    expect(() => adapters?.add({ ...fake, name: 'guilds', listServers: async () => [] })).toThrow('an adapter called')
    const [client, other] = [await connectTo(app), await connectTo(app, 'modern')]
    const { adapters: shown } = await call(client, 'list_active_servers')
    expect(shown).toMatchObject([
      { adapter: 'mcp', servers: [{ name: 'test-client', version: '1.0.0', current: true }, { era: 'modern' }] },
      { adapter: 'guilds', servers: [{ id: 'g1', name: 'Guild', rooms: 3 }] },
      { adapter: 'broken', error: 'no connection to <address>' },
    ])
    remove?.()
    await other.close()
    await expect
      .poll(async () =>
        (await call(client, 'list_active_servers')).adapters.map(({ servers }: Answer) => servers.length),
      )
      .toEqual([1, 1])
  })

  it('names clients that can receive messages', async () => {
    const dir = temporaryFolder()
    mkdirSync(join(dir, 'modules'))
    const tell = `export default { name: 'm', description: 'A module of a test.', tools: {
      tell: { description: 'Tells a client something.', effect: 'write', input: { type: 'object', properties: { channel: { type: 'string' } } },
        run: ({ channel = '' }, { services }) => services.adapters.current.send(channel, 'hello') },
      file: { description: 'Sends a client a file.', effect: 'write',
        run: (_input, { services }) => services.adapters.get('mcp').sendFile('', { data: 'words', filename: 'a.txt', mimetype: 'text/plain' }) } } }\n`
    writeFileSync(join(dir, 'modules', 'm.mjs'), tell)
    const { app } = await discovery({}, dir)
    const [client, other] = [await connectTo(app), await connectTo(app)]
    const heard = new Map<Client, unknown[]>([
      [client, []],
      [other, []],
    ])
    for (const [one, list] of heard)
      one.setNotificationHandler('notifications/message', ({ params }) => void list.push(params.data))
    expect(await call(client, 'm__tell')).toEqual({ told: 1 })
    const [{ servers }] = (await call(client, 'list_active_servers')).adapters
    await call(client, 'm__tell', { channel: servers.find(({ current }: Answer) => !current).id })
    const { uri } = await call(client, 'm__file')
    await expect.poll(() => [...heard.values()]).toMatchObject([['hello', { type: 'file', uri }], ['hello']])
    expect(((await other.readResource({ uri })).contents[0] as Answer).text).toBe('words')
    expect((await call(client, 'm__tell', { channel: 'nobody' })).error.code).toBe('E_NOT_FOUND')
  })
})

describe('request_tool_injection', () => {
  it('lists a tool beside the meta-tools and says so, and rejects unknown and blocked ones [CTX-20, CTX-28]', async () => {
    const { app } = await discovery({ policy: { deny: ['filesystem.write'] } })
    const [client, other] = [await connectTo(app), await connectTo(app)]
    const told: Client[] = []
    for (const one of [client, other])
      one.setNotificationHandler('notifications/tools/list_changed', () => void told.push(one))
    const answer = await call(client, 'request_tool_injection', {
      tool_names: ['filesystem.read', 'nonsense', 'filesystem.write'],
    })
    expect(answer).toEqual({ injected: ['filesystem.read'], unknown: ['nonsense', 'filesystem.write'], already: [] })
    expect(await names(client)).toEqual([...FIVE, 'filesystem__read'])
    expect(await names(other)).toEqual(FIVE)
    await expect.poll(() => told).toEqual([client])
    expect(await call(client, 'request_tool_injection', { tool_names: 'filesystem__read' })).toMatchObject({
      injected: [],
      already: ['filesystem.read'],
    })
    expect(await call(client, 'clear_injected_tools')).toEqual({ cleared: 1 })
    expect(await names(client)).toEqual(FIVE)
    await expect.poll(() => told).toEqual([client, client])
    expect((await call(client, 'request_tool_injection', { tool_names: [] })).error.code).toBe('E_VALIDATION')
  })

  it('changes no list of a client without sessions: search ranks the tool first instead', async () => {
    const { app } = await discovery()
    await app.indexed()
    const client = await connectTo(app, 'modern')
    const first = async () => (await call(client, 'search_tools', { query: 'read a file' })).tools[0].name
    expect(await first()).toBe('filesystem.read')
    const { tools } = await call(client, 'search_tools', { query: 'read a file' })
    const last = tools.at(-1).name
    expect(await call(client, 'request_tool_injection', { tool_names: [last] })).toMatchObject({ injected: [last] })
    expect(await first()).toBe(last)
    expect(await names(client)).toEqual(FIVE)
  })

  it('applies to one session over HTTP, and files sent there can be read by its principal in any era', async () => {
    const { app } = await discovery()
    const http = await serveAppOverHttp(app, { token: TOKEN })
    const connect = (era: Era): Promise<Client> => connectOverHttp(`${http.url}/mcp`, TOKEN, era, {}, 'test')
    const [one, other, newer] = [await connect('legacy'), await connect('legacy'), await connect('modern')]
    const told: string[] = []
    one.setNotificationHandler('notifications/tools/list_changed', () => void told.push('one'))
    other.setNotificationHandler('notifications/tools/list_changed', () => void told.push('other'))
    await call(one, 'request_tool_injection', { tool_names: ['filesystem.read'] })
    await expect.poll(() => told).toEqual(['one'])
    expect(await names(one)).toEqual([...FIVE, 'filesystem__read'])
    expect([await names(other), await names(newer)]).toEqual([FIVE, FIVE])
    const [{ servers }] = (await call(newer, 'list_active_servers')).adapters
    expect(servers.map(({ name }: Answer) => name)).toEqual(['test', 'test'])
    const file = { data: 'words', filename: 'a.txt', mimetype: 'text/plain' }
    const uri = app.server.files.keep(localCaller, file) as string
    expect(((await newer.readResource({ uri })).contents[0] as Answer).text).toBe('words')
    const foreign = app.server.files.keep({ ...localCaller, principal: 'somebody else' }, file) as string
    await expect(newer.readResource({ uri: foreign })).rejects.toThrow('not found')
  })

  it('ends with the answer it was requested for', async () => {
    const { app } = await discovery()
    const turn = (generation: string): Caller => ({ ...localCaller, session: 's', turn: { generation } })
    const as = (caller: Caller, name: string, input: object = {}) => app.surface.call({ name, input, caller })
    await as(turn('g1'), 'request_tool_injection', { tool_names: ['filesystem.read'] })
    await as(turn('g1'), 'list_categories')
    expect(app.surface.list(turn('g1'), 'discovery').at(-1)?.name).toBe('filesystem__read')
    await as(turn('g2'), 'list_categories')
    expect(app.surface.list(turn('g2'), 'discovery').at(-1)?.name).toBe('browse_category')
  })
})

describe('extend_tool_loop', () => {
  it("extends Pegboard's own tool loop within its limits, and says that a client's loop cannot be extended [CTX-29]", async () => {
    const { app } = await discovery()
    const { loop } = createToolLoop({ rounds: 4, max: 12 })
    const extend = async (input: object) =>
      (await app.surface.call({ name: 'extend_tool_loop', input, caller: localCaller, loop })) as Answer
    expect((await extend({})).value).toMatchObject({ extended: 5, limit: 9 })
    expect((await extend({ rounds: 50 })).value).toMatchObject({ extended: 3, limit: 12, max: 12 })
    const client = await connectTo(app)
    expect(await call(client, 'extend_tool_loop', { rounds: 5 })).toMatchObject({ extended: 0, limit: null })
  })
})

describe('retrieve_tool_call_log', () => {
  it('returns the calls of this session in order, without secrets [CTX-30]', async () => {
    const dir = temporaryFolder()
    writeFileSync(join(dir, 'a.txt'), 'words')
    const { app } = await discovery({}, dir)
    const [client, other] = [await connectTo(app), await connectTo(app)]
    await call(client, 'execute_tool', { name: 'filesystem.read', params: { path: 'a.txt' } })
    await call(client, 'filesystem__read', { path: 'none.txt', api_key: 'sk-1' })
    const { records } = await call(client, 'retrieve_tool_call_log')
    expect(records).toMatchObject([
      { tool: 'filesystem.read', args: { path: 'a.txt' }, success: true, order_index: 1, round_number: null },
      { tool: 'filesystem__read', args: { api_key: '<removed>' }, success: false, order_index: 2 },
    ])
    expect(records[1].result.code).toBe('E_VALIDATION')
    expect(records[0]).toMatchObject({ record_id: expect.any(String), duration_ms: expect.any(Number) })
    expect(new Date(records[0].start).getTime()).toBeLessThanOrEqual(new Date(records[0].end).getTime())
    expect(JSON.stringify(records)).not.toContain('sk-1')
    expect((await call(client, 'retrieve_tool_call_log', { limit: 1 })).records).toHaveLength(1)
    expect((await call(other, 'retrieve_tool_call_log')).records).toEqual([])
  })

  it('keeps only the latest calls, and none if disabled', async () => {
    const few = await connectTo((await discovery({ services: { callLog: 2 } })).app)
    for (let n = 0; n < 3; n++) await call(few, 'hello__greet', { name: `n${n}` })
    const { records } = await call(few, 'retrieve_tool_call_log')
    expect(records.map(({ order_index }: Answer) => order_index)).toEqual([2, 3])
    const none = await connectTo((await discovery({ services: { callLog: 0 } })).app)
    await call(none, 'hello__greet', { name: 'x' })
    expect(await call(none, 'retrieve_tool_call_log')).toEqual({
      records: [],
      note: 'Calls are not recorded: services.callLog is 0.',
    })
  })
})

describe('set_turn and set_flag', () => {
  it('set for a session what its client cannot send with requests', async () => {
    const dir = temporaryFolder()
    mkdirSync(join(dir, 'modules'))
    writeFileSync(
      join(dir, 'modules', 'm.mjs'),
      `export default { name: 'm', description: 'A module of a test.', tools: {
        turn: { description: 'Says what the turn is.', effect: 'read', run: (_input, ctx) => ({ turn: ctx.caller.turn ?? null }) },
        flagged: { description: 'Is there with a flag.', effect: 'read', needs: { flags: ['special'] }, run: () => 'yes' } } }\n`,
    )
    const { app } = await discovery(admin, dir)
    const [client, other] = [await connectTo(app), await connectTo(app)]
    await call(client, 'set_turn', { message: 'please read', deliberate: 'on', generation_id: 'g1' })
    expect(await call(client, 'm__turn')).toEqual({
      turn: { message: 'please read', deliberate: 'on', generation: 'g1' },
    })
    expect(await call(other, 'm__turn')).toEqual({ turn: null })
    await call(client, 'set_turn')
    expect(await call(client, 'm__turn')).toEqual({ turn: null })
    expect((await call(client, 'm__flagged')).error.code).toBe('E_TOOL_HIDDEN')
    expect(await call(client, 'set_flag', { flag: 'special', value: true })).toMatchObject({ profile: 'default' })
    const said = (await client.callTool({ name: 'm__flagged', arguments: {} })) as Answer
    expect(said.content[0].text).toBe('yes')
    await call(client, 'set_flag', { flag: 'special', value: false })
    expect((await call(client, 'm__flagged')).error.code).toBe('E_TOOL_HIDDEN')
  })
})
