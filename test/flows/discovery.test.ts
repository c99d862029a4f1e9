import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { localCaller } from '../../src/core/caller.ts'
import { type Answer, answerOf, servers, startApp, temporaryFolder } from '../app.ts'
import { callTool, connectTo } from '../client.ts'
import { makeTool } from '../tools.ts'

/**
 * A client of the bundled modules in discovery mode; `call` returns the structured answer, `result` the whole result.
 */
async function discovery(settings: Record<string, unknown> = {}) {
  const dir = temporaryFolder()
  writeFileSync(join(dir, 'file.txt'), 'file contents...')
  const { modules, ...others } = settings as { modules?: Record<string, object> }
  const filesystem = { config: { roots: ['{{workspace}}'] }, ...modules?.filesystem }
  const started = await startApp(
    { exposure: { mode: 'discovery' }, ...others, modules: { ...modules, filesystem } },
    dir,
  )
  const client = await connectTo(started.app)
  const result = (name: string, args: Record<string, unknown> = {}) => callTool(client, { name, arguments: args })
  const call = async (name: string, args: Record<string, unknown> = {}) => answerOf(await result(name, args))
  const names = async (): Promise<string[]> => (await client.listTools()).tools.map((tool) => tool.name)
  return { ...started, client, result, call, names, dir }
}

const many = { id: 'many', summary: 'many', origin: 'module', state: 'ready' } as const
const METAS = ['search_tools', 'get_tool', 'execute_tool', 'list_categories', 'browse_category']

// Converters to zod 3, such as Mastra's, read `{ type: 'object' }` as an object without keys and drop its content.
const OPEN = { type: 'object', properties: {}, additionalProperties: true }

it('the arguments of a tool run by a meta-tool may be anything', async () => {
  const { app } = await startApp({
    exposure: { mode: 'discovery' },
    execution: { watchers: true, scheduler: true },
  })
  const { tools } = await (await connectTo(app)).listTools()
  const objects = JSON.stringify(tools.map(({ inputSchema }) => inputSchema.properties)).match(
    /"params":\{[^}]*\}[^}]*\}/g,
  )
  expect(tools.find(({ name }) => name === 'execute_tool')?.inputSchema.properties).toMatchObject({ params: OPEN })
  expect([...new Set(objects)]).toEqual([`"params":${JSON.stringify(OPEN)}`])
})

describe('exposure', () => {
  it('lists five tools directly if they fit, under the names of the example [DIG-01]', async () => {
    const { names } = await discovery({
      exposure: { contextWindow: 131_000, estimator: 'flat', primitives: false },
      modules: {
        hello: { constraints: { allowed_actions: ['greet'] } },
        filesystem: { constraints: { allowed_actions: ['read', 'ls', 'find', 'grep'] } },
      },
    })
    expect((await names()).sort()).toEqual([
      'filesystem__find',
      'filesystem__grep',
      'filesystem__ls',
      'filesystem__read',
      'hello__greet',
    ])
  })

  it("keeps a session's mode when tools are added, and decides again for the next session [DIG-04]", async () => {
    const { app, client, names } = await discovery({
      exposure: { contextWindow: 24_000, estimator: 'flat', share: 0.2, primitives: false },
    })
    expect(await names()).toContain('filesystem__read')
    app.catalog.set(many, { tools: Array.from({ length: 40 }, (_, n) => makeTool(`many.tool_${n}`)) })
    expect(await names()).toContain('many__tool_39')
    const next = await connectTo(app)
    expect((await next.listTools()).tools.map(({ name }) => name)).toEqual(METAS)
    const status = async (from: typeof next) =>
      JSON.parse(((await from.readResource({ uri: 'server://status' })).contents[0] as Answer).text)
    expect((await status(next)).tool_injection).toBe('discovery')
    expect((await status(client)).tool_injection).toBe('direct')
  })

  it('counts the tools of servers like any other [DIG-06]', async () => {
    const { app } = await discovery({
      exposure: { contextWindow: 8_192, estimator: 'flat', primitives: false },
      modules: { filesystem: { enabled: false } },
    })
    expect(app.explainExposure(localCaller).mode).toBe('direct')
    app.catalog.set(
      { id: 'mcp_fake', summary: 'fake', origin: 'upstream', state: 'ready' },
      { tools: Array.from({ length: 40 }, (_, n) => makeTool(`mcp_fake.t${n}`, { origin: 'upstream' })) },
    )
    expect(app.explainExposure(localCaller).mode).toBe('discovery')
  })

  it('lists five meta-tools instead of thirty tools for a small window [DIG-02]', async () => {
    const { app, names } = await discovery({ exposure: { contextWindow: 8_192, estimator: 'flat', primitives: false } })
    app.catalog.set(many, { tools: Array.from({ length: 30 }, (_, n) => makeTool(`many.tool_${n}`)) })
    expect(await names()).toEqual(METAS)
  })

  it('can be forced: direct lists sixty, compact lists them with open schemas [DIG-05]', async () => {
    const direct = await discovery({ exposure: { mode: 'direct', contextWindow: 1_000 } })
    direct.app.catalog.set(many, { tools: Array.from({ length: 60 }, (_, n) => makeTool(`many.tool_${n}`)) })
    expect((await direct.names()).filter((name) => name.startsWith('many__'))).toHaveLength(60)
    const { client, call } = await discovery({ exposure: { mode: 'compact' } })
    const { tools } = await client.listTools()
    expect(tools.find(({ name }) => name === 'filesystem__read')?.inputSchema).toEqual(OPEN)
    expect((await call('get_tool', { name: 'filesystem__read' })).parameters.properties).toHaveProperty('path')
  })
})

describe('the way from a request to a result', () => {
  it('leads through list, browse, get and execute [DIG-16]', async () => {
    const { call } = await discovery()
    expect((await call('list_categories')).categories.map(({ id }: Answer) => id)).toEqual(['filesystem', 'hello'])
    const page = await call('browse_category', { category: 'filesystem', page: 1 })
    expect(page.tools.map(({ name }: Answer) => name)).toContain('filesystem.read')
    const tool = await call('get_tool', { name: 'filesystem.read' })
    expect(tool.parameters.required).toEqual(['path'])
    expect(await call('execute_tool', { name: 'filesystem.read', params: { path: 'file.txt' } })).toMatchObject({
      success: true,
    })
  })
})

describe('search_tools', () => {
  it('ranks the intended tool first, and respects its limits [DIG-10]', async () => {
    const { call, result } = await discovery()
    const found = await call('search_tools', { query: 'read a file' })
    expect(found.tools[0]).toMatchObject({ name: 'filesystem.read', risk_level: 'low' })
    expect(found.tools[0].params_summary).toMatch(/^path: str, /)
    expect((await call('search_tools', { query: 'read a file', max_results: 1 })).count).toBe(1)
    for (const max_results of [0, 21])
      expect((await result('search_tools', { query: 'x', max_results })).structuredContent.error.code).toBe(
        'E_VALIDATION',
      )
  })

  it('understands French without a model [DIG-47]', async () => {
    const { call } = await discovery()
    expect((await call('search_tools', { query: 'lire un fichier' })).tools[0].name).toBe('filesystem.read')
  })

  it('shows tools of every category and says so if nothing matches', async () => {
    const { result } = await discovery()
    const answer = await result('search_tools', { query: 'zyxwvut qqqq' })
    expect(answer.isError).toBeUndefined()
    const { tools, hint } = answer.structuredContent
    expect(tools.map(({ name }: Answer) => name.split('.')[0]).slice(0, 2)).toEqual(['filesystem', 'hello'])
    expect(tools).toHaveLength(5)
    expect(hint).toBe('No close match; these are the nearest. Try other words, or list_categories.')
  })

  it('returns nothing only to a caller who sees no tool', async () => {
    const { call } = await discovery({ policy: { deny: ['*'] } })
    expect(await call('search_tools', { query: 'read a file' })).toEqual({
      tools: [],
      count: 0,
      query: 'read a file',
      hint: 'There are no tools.',
    })
  })

  it('never shows what constraints hide [DIG-21]', async () => {
    const { call } = await discovery({
      modules: { filesystem: { constraints: { allowed_actions: ['read', 'ls', 'find', 'grep'] } } },
    })
    expect(JSON.stringify(await call('search_tools', { query: 'write a file', max_results: 20 }))).not.toContain(
      'filesystem.write',
    )
    for (const [name, args] of [
      ['execute_tool', { name: 'filesystem.write', params: { path: 'x', content: 'y' } }],
      ['get_tool', { name: 'filesystem.write' }],
      ['filesystem__write', { path: 'x', content: 'y' }],
    ] as const)
      expect((await call(name, args)).error.code, name).toBe('E_NOT_FOUND')
  })
})

describe('get_tool', () => {
  it('returns schema, examples and side effects [DIG-11]', async () => {
    const { call, result } = await discovery()
    const tool = await call('get_tool', { name: 'filesystem.read' })
    expect(tool.parameters.properties.path.type).toBe('string')
    expect(tool.examples.length).toBeGreaterThan(0)
    expect(Array.isArray(tool.side_effects)).toBe(true)
    expect((await result('get_tool', { name: 'filesystem.raed' })).structuredContent.error.message).toBe(
      "Tool 'filesystem.raed' not found. Did you mean 'filesystem.read'?",
    )
  })
})

describe('execute_tool', () => {
  it('wraps a result, and names missing parameters [DIG-12]', async () => {
    const { call, result, app } = await discovery()
    expect((await call('execute_tool', { name: 'filesystem.read', params: { path: 'file.txt' } })).data.content).toBe(
      'file contents...',
    )
    const missing = await result('execute_tool', { name: 'filesystem.read', params: {} })
    expect(missing.isError).toBe(true)
    expect(missing.structuredContent).toMatchObject({ success: false, error: { code: 'E_VALIDATION' } })
    expect(missing.structuredContent.error.message).toContain('path')
    expect(app.surface.metaNames).toContain('execute_tool')
  })

  it('refuses to run a meta-tool, and says once what to do', async () => {
    const { result } = await discovery()
    const refused = await result('execute_tool', { name: 'search_tools', params: { query: 'files' } })
    expect(refused.structuredContent.error).toMatchObject({
      code: 'E_LOOP_DETECTED',
      message: 'execute_tool cannot run search_tools.',
      hint: 'Call the tool directly.',
    })
  })

  it('suggests similar names, and resolves unambiguous ones [DIG-18]', async () => {
    const { app, call, result } = await discovery()
    const wrong = await result('execute_tool', { name: 'filesystem.raed', params: { path: 'file.txt' } })
    expect(wrong.structuredContent.error.message).toContain("Did you mean 'filesystem.read'?")
    expect((await call('execute_tool', { name: 'filesystem_read', params: { path: 'file.txt' } })).success).toBe(true)
    app.catalog.set(many, { tools: [makeTool('many.status')] })
    const unclear = await result('execute_tool', { name: 'status' })
    expect(unclear.structuredContent.error.message).toBe("'status' could be hello.status or many.status.")
  })
})

describe('a tool that is not listed', () => {
  it('runs when called by name, with the same checks [DIG-17]', async () => {
    const { call } = await discovery({ policy: { deny: ['filesystem.write'] } })
    const through = await call('execute_tool', { name: 'filesystem.read', params: { path: 'file.txt' } })
    for (const name of ['filesystem.read', 'filesystem__read'])
      expect(await call(name, { path: 'file.txt' })).toEqual(through.data)
    expect((await call('filesystem.write', { path: 'x', content: 'y' })).error.code).toBe('E_NOT_FOUND')
  })
})

describe('list_categories and browse_category', () => {
  it('omit categories without a visible tool [DIG-13]', async () => {
    const { call } = await discovery({ modules: { hello: { constraints: { blocked_actions: ['*'] } } } })
    expect(await call('list_categories')).toMatchObject({ categories: [{ id: 'filesystem' }], total_categories: 1 })
  })

  it('list every tool once over all pages [DIG-14]', async () => {
    const { call } = await discovery()
    const first = await call('browse_category', { category: 'filesystem', page_size: 2 })
    expect(first.total_pages).toBe(Math.ceil(first.total_tools / 2))
    const all: string[] = []
    for (let page = 1; page <= first.total_pages; page++)
      all.push(
        ...(await call('browse_category', { category: 'filesystem', page, page_size: 2 })).tools.map(
          ({ name }: Answer) => name,
        ),
      )
    expect(new Set(all).size).toBe(first.total_tools)
    expect((await call('browse_category', { category: 'filesystem', page: 99 })).tools).toEqual([])
  })
})

describe('bad arguments', () => {
  it('are rejected with advice, and nothing runs', async () => {
    const { result } = await discovery()
    const cases: Array<[Record<string, unknown>, string, RegExp]> = [
      [{ path: 5 }, 'E_VALIDATION', /path/],
      [{ path: 'file.txt', pth: 1 }, 'E_VALIDATION', /pth.*path/s],
      [JSON.parse('{"path":"file.txt","__proto__":{"x":1}}'), 'E_VALIDATION', /forbidden key "__proto__"/],
      [{ path: 'file.txt', limit: JSON.parse('12345678901234567890') }, 'E_INT_PRECISION', /limit/],
      [{ path: '../outside.txt' }, 'E_PATH_OUTSIDE_ROOT', /outside/],
    ]
    for (const [params, code, message] of cases) {
      const answer = await result('execute_tool', { name: 'filesystem.read', params })
      expect(answer.isError, JSON.stringify(params)).toBe(true)
      expect(answer.structuredContent.error.code).toBe(code)
      expect(answer.structuredContent.error.message).toMatch(message)
      expect(answer.content[0].text.startsWith(`${code}: `)).toBe(true)
      expect(answer.structuredContent.error.hint.length).toBeGreaterThan(10)
    }
  })
})

describe('blocked actions', () => {
  it('are in no list, and an unknown action only causes a warning [DIG-22]', async () => {
    const { call, logged } = await discovery({
      modules: { filesystem: { constraints: { blocked_actions: ['write', 'drop_table'] } } },
    })
    const page = await call('browse_category', { category: 'filesystem' })
    expect(page.tools.map(({ name }: Answer) => name)).not.toContain('filesystem.write')
    expect(logged.join('\n')).toContain('"action":"drop_table"')
    expect(logged.join('\n')).not.toContain('"action":"write"')
  })
})

describe('annotations', () => {
  it("follow from the tool's declared effect", async () => {
    const { client } = await discovery({ exposure: { mode: 'direct' } })
    const { tools } = await client.listTools()
    const hints = (name: string) => tools.find((tool) => tool.name === name)?.annotations
    expect(hints('filesystem__read')).toMatchObject({ readOnlyHint: true, destructiveHint: false })
    expect(hints('filesystem__write')).toMatchObject({ readOnlyHint: false })
  })
})

describe('hello', () => {
  it('greets, and says that it works [DIG-90]', async () => {
    const { call } = await discovery()
    const { greeted } = await call('hello.status')
    expect((await call('hello.say_hello', { name: 'Ada' })).message).toBe('Hello, Ada!')
    expect(await call('hello.status')).toMatchObject({ ok: true, greeted: greeted + 1 })
  })
})

describe('modules and servers', () => {
  it('form one list for a client [TOM-01]', async () => {
    const { app, names } = await discovery({ exposure: { mode: 'direct' }, mcpServers: { thinking: servers.thinking } })
    await app.settled(20_000)
    expect(await names()).toEqual(expect.arrayContaining(['hello__say_hello', 'thinking__sequentialthinking']))
  })
})

describe('set-up steps', () => {
  it('run even if the client may not call their tools [DIG-23]', async () => {
    const dir = temporaryFolder()
    mkdirSync(join(dir, 'modules'))
    writeFileSync(
      join(dir, 'modules/store.mjs'),
      `let opened = 'nothing'
export default { name: 'store', description: 'Keeps tables.', tools: {
  connect: { description: 'Opens a database file.', effect: 'write', input: { type: 'object', properties: { database: { type: 'string' } } }, run({ database }) { opened = database; return opened } },
  list_tables: { description: 'Lists the tables.', effect: 'read', run: () => ({ opened }) },
} }`,
    )
    const store = {
      setup: [{ action: 'connect', params: { database: '{{workspace}}/data.db' } }],
      constraints: { allowed_actions: ['list_tables'] },
    }
    const { app } = await startApp({ modules: { store } }, dir)
    const client = await connectTo(app)
    expect(answerOf(await client.callTool({ name: 'store.list_tables', arguments: {} }))).toEqual({
      opened: join(dir, 'data.db'),
    })
    expect(
      answerOf(
        await client.callTool({
          name: 'execute_tool',
          arguments: { name: 'store.connect', params: { database: 'x' } },
        }),
      ).error.code,
    ).toBe('E_NOT_FOUND')
  })
})

describe('scripts that register themselves', () => {
  it('may return text, objects or errors, or throw [SBS-07, SBS-08]', async () => {
    const dir = temporaryFolder()
    mkdirSync(join(dir, 'modules'))
    const register = (name: string, body: string) =>
      `registerTool({ name: '${name}', execute(args, env) { ${body} }, def: { type: 'function', function: { name: '${name}', description: 'A tool of a script.', parameters: { type: 'object', properties: {} } } } })\n`
    writeFileSync(
      join(dir, 'modules/script.js'),
      register('as_text', "return 'plain'") +
        register('as_object', 'return { n: 1 }') +
        register('as_error', "return { error: 'no such sub' }") +
        register('as_throw', "throw new Error('disk on fire')"),
    )
    const { app } = await startApp({}, dir)
    const client = await connectTo(app)
    const execute = (name: string) => client.callTool({ name: 'execute_tool', arguments: { name } }) as Promise<Answer>
    expect((await execute('as_text')).structuredContent).toEqual({ success: true, data: 'plain' })
    expect(((await client.callTool({ name: 'as_text', arguments: {} })) as Answer).content).toEqual([
      { type: 'text', text: 'plain' },
    ])
    expect((await execute('as_object')).structuredContent).toEqual({ success: true, data: { n: 1 } })
    for (const [name, message] of [
      ['as_error', 'no such sub'],
      ['as_throw', 'disk on fire'],
      ['as_nothing', "Tool 'as_nothing' not found."],
    ] as const) {
      const failed = await execute(name)
      expect(failed.isError).toBe(true)
      expect(failed.structuredContent.error.message).toContain(message)
    }
  })
})
