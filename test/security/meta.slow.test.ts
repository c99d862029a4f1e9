import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Client } from '@modelcontextprotocol/client'
import { expect, test, vi } from 'vitest'
import { readConfig } from '../../src/config/load-config.ts'
import { localCaller } from '../../src/core/caller.ts'
import { systemClock } from '../../src/core/clock.ts'
import { valueResult } from '../../src/core/tool-result.ts'
import { type Answer, answerOf, startApp, temporaryFolder } from '../app.ts'
import { callTool, connectTo } from '../client.ts'
import { makeTool } from '../tools.ts'
import { hurried } from '../upstream/host.ts'
import { callRoutes, withoutChangingValues } from './call-routes.ts'
import { soonest } from './lag.ts'

vi.setConfig({ testTimeout: 60_000 })

const database = { id: 'database', summary: 'Tables.', origin: 'module', state: 'ready' } as const
const many = { id: 'many', summary: 'Many.', origin: 'module', state: 'ready' } as const
const LATER = { watchers: true, scheduler: true }
const MODES = ['direct', 'discovery'] as const
const blocked = { database: { constraints: { blocked_actions: ['drop_table'] } } }

const call = async (client: Client, name: string, args: Record<string, unknown> = {}): Promise<Answer> =>
  await callTool(client, { name, arguments: args })
const codeOf = (answer: unknown): string => answerOf(answer).error?.code ?? 'ran'

/** A category of two tools, one of which can be blocked; `dropped` counts its forbidden runs. */
async function app(modules: object, mode: (typeof MODES)[number] = 'discovery', more: object = {}) {
  const { app } = await startApp({ exposure: { mode }, execution: LATER, modules, ...more })
  const effects = { dropped: 0 }
  const run = async () => valueResult(++effects.dropped)
  const query = makeTool('database.query_rows', { description: 'Reads the rows of a table.' })
  const drop = makeTool('database.drop_table', { description: 'Drops a whole table.', run })
  app.catalog.set(database, { tools: [query, drop] })
  return { app, effects }
}

/** The same without the tool: the answers for a name that never existed. */
async function without(mode: (typeof MODES)[number]) {
  const { app } = await startApp({ exposure: { mode }, execution: LATER })
  app.catalog.set(database, {
    tools: [makeTool('database.query_rows', { description: 'Reads the rows of a table.' })],
  })
  return app
}

test('META-01: execute_tool reports a blocked action as unknown, and nothing runs', async () => {
  const { app: made, effects } = await app(blocked)
  for (const era of ['legacy', 'modern'] as const) {
    const client = await connectTo(made, era)
    const answer = await call(client, 'execute_tool', { name: 'database.drop_table' })
    expect(answer.isError).toBe(true)
    expect(answer.structuredContent.error).toMatchObject({
      code: 'E_NOT_FOUND',
      message: expect.stringMatching(/^Tool 'database\.drop_table' not found\./),
    })
    await client.close()
  }
  expect(effects.dropped).toBe(0)
  const open = await app({})
  expect(codeOf(await call(await connectTo(open.app), 'execute_tool', { name: 'database.drop_table' }))).toBe('ran')
  expect(open.effects.dropped).toBe(1)
})

const SPELLINGS = [
  'database.drop_table',
  'database__drop_table',
  'database:drop_table',
  'drop_table',
  'DATABASE.DROP_TABLE',
]

test.each(MODES)(
  'META-02: a denied tool is rejected as unknown on every route, in %s mode, and never runs',
  async (mode) => {
    const { app: real, effects } = await app(blocked, mode, { clients: { tiny: { maxNameLength: 20 } } })
    const never = await without(mode)
    for (const era of ['legacy', 'modern'] as const)
      for (const name of ['test-client', 'tiny', 'claude-code']) {
        const denied = await connectTo(real, era, {}, 'default', name)
        const unknown = await connectTo(never, era, {}, 'default', name)
        for (const spelling of SPELLINGS)
          for (const way of callRoutes(spelling)) {
            const [answer, other] = [await callTool(denied, way), await callTool(unknown, way)].map(
              withoutChangingValues,
            )
            expect(answer, `${way.name} ${spelling}`).toContain('E_NOT_FOUND')
            expect(answer, `${way.name} ${spelling}`).toBe(other)
          }
        await Promise.all([denied.close(), unknown.close()])
      }
    expect(effects.dropped).toBe(0)
  },
)

const SHOP = `export default { name: 'shop', description: 'Sells.', tools: {
  buy: { description: 'Buys something for somebody, at once.', effect: 'write', run: () => (globalThis.metaBought = (globalThis.metaBought ?? 0) + 1) },
  wait: { description: 'Takes its time until it is let go.', effect: 'read', internal: true, run: () => new Promise((done) => (globalThis.metaLet = done)) },
} }`

/** Spellings that look like the tool name but differ from it. */
const NEARLY = [
  'Database.Drop_Table',
  'database.drop_table ',
  'database.drop_table\u200b',
  'database..drop_table',
  'database.drop_table\u0000',
  'ｄａｔａｂａｓｅ.ｄｒｏｐ_ｔａｂｌｅ',
]

test('META-03: a name that looks like a forbidden tool is unknown, runs nothing and matches no allow rule', async () => {
  const forbidding = [
    { modules: blocked },
    { modules: {}, policy: { deny: ['database.drop_table'] } },
    { modules: {}, policy: { default: 'block', allow: ['database.query_rows', ...NEARLY.slice(1)] } },
  ]
  for (const { modules, ...more } of forbidding) {
    const { app: served, effects } = await app(modules, 'direct', more)
    const client = await connectTo(served)
    for (const name of NEARLY) {
      expect(codeOf(await call(client, name)), JSON.stringify(name)).toBe('E_NOT_FOUND')
      expect(codeOf(await call(client, 'execute_tool', { name })), JSON.stringify(name)).toBe('E_NOT_FOUND')
    }
    expect((await call(client, 'database.query_rows')).isError).not.toBe(true)
    expect(effects.dropped).toBe(0)
    await client.close()
  }
  // If the tool exists, invisible characters make a different name, too.
  const { app: open, effects } = await app({}, 'direct')
  const client = await connectTo(open)
  for (const name of NEARLY.slice(2)) expect(codeOf(await call(client, name)), JSON.stringify(name)).toBe('E_NOT_FOUND')
  expect(effects.dropped).toBe(0)
  await client.close()
})

test('META-04: a queued, watched or scheduled call of a tool that was denied later is rejected when due, and recorded', async () => {
  const world = globalThis as { metaBought?: number; metaLet?: (value: null) => void }
  const dir = temporaryFolder()
  mkdirSync(join(dir, 'modules'))
  writeFileSync(join(dir, 'modules/shop.mjs'), SHOP)
  const { clock = systemClock } = hurried(10)
  const settings = {
    execution: { ...LATER, maxConcurrent: 1 },
    audit: { enabled: true },
    exposure: { mode: 'discovery' },
  }
  const { app: made } = await startApp(settings, dir, { clock })
  await made.work()
  const client = await connectTo(made)
  // The only call slot is taken.
  const held = made.call({ name: 'shop.wait', input: {}, caller: localCaller, origin: 'setup' })
  await expect.poll(() => world.metaLet).toBeDefined()
  const { task_id } = answerOf(await call(client, 'background_run', { name: 'shop.buy' }))
  const { job_id } = answerOf(await call(client, 'schedule_once', { name: 'shop.buy', when: 'in 20s', label: 'later' }))
  await call(client, 'watch_start', { name: 'shop.buy', interval: 20, label: 'looker' })
  expect(job_id).toBeDefined()

  const machine = { env: { PEGBOARD_STATE_DIR: join(dir, 'state') }, cwd: dir }
  const next = JSON.stringify({ ...settings, policy: { deny: ['shop.buy'] } })
  await made.reload(readConfig(next, join(dir, 'mcp.config.json'), machine).config)
  world.metaLet?.(null)
  await held
  const ended = answerOf(await call(client, 'background_wait', { task_id, timeout: 20 }))
  expect(ended).toMatchObject({ status: 'failed', error: expect.stringContaining("Tool 'shop.buy' not found.") })
  const file = join(dir, 'state/audit.jsonl')
  const denied = (): Answer[] =>
    (existsSync(file) ? readFileSync(file, 'utf8') : '')
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line))
      .filter(({ tool }) => tool === 'shop.buy')
  await expect.poll(() => denied().length).toBe(3)
  for (const row of denied())
    expect(row).toMatchObject({
      event: 'call',
      decision: 'deny',
      reason: 'matched by policy.deny',
      outcome: 'E_NOT_FOUND',
    })
  const { content } = await call(client, 'list_categories')
  expect(JSON.stringify(content)).toContain(
    "Scheduled job later (shop.buy) failed: E_NOT_FOUND: Tool 'shop.buy' not found.",
  )
  expect(world.metaBought).toBeUndefined()
})

test.each(MODES)(
  'META-05: a denied tool looks to every meta-tool, in %s mode, as if it never existed, and is in no count',
  async (mode) => {
    const { app: real } = await app(blocked, mode)
    const other = await without(mode)
    // Waits, because a search before that uses keywords only in one of the two.
    for (const one of [real, other]) await one.indexed()
    const [denied, unknown] = [await connectTo(real), await connectTo(other)]
    const ask = async (name: string, args: Record<string, unknown>) =>
      await Promise.all([denied, unknown].map((client) => call(client, name, args)))
    for (const [name, args] of [
      ['get_tool', { name: 'database.drop_table' }],
      ['browse_category', { category: 'database' }],
      ['list_categories', {}],
      ['list_all_tools', {}],
    ] as const) {
      const [answer, expected] = await ask(name, args)
      expect(answer, name).toEqual(expected)
    }
    // Scores depend on all texts: the order of the others may differ, but not the set.
    for (const query of ['drop a whole table', 'database.drop_table', 'drop_table']) {
      const answers = await ask('search_tools', { query, max_results: 20, detail: 'full' })
      const found = answers
        .map(answerOf)
        .map(({ tools, count }) => [tools.map(({ name }: Answer) => name).sort(), count])
      expect(found[0], query).toEqual(found[1])
    }
    expect(await denied.listTools()).toEqual(await unknown.listTools())
    expect(denied.getInstructions()).toBe(unknown.getInstructions())
  },
)

test('META-07: execute_tool does not run itself or other meta-tools that run tools, under any name', async () => {
  const client = await connectTo((await app({})).app)
  for (const name of ['execute_tool', 'search_tools', 'run_parallel', 'context_builder.execute_tool'])
    expect(codeOf(await call(client, 'execute_tool', { name })), name).toBe('E_LOOP_DETECTED')
})

test('META-09: names of Object.prototype are unknown tools, on every route', async () => {
  const client = await connectTo((await app({})).app)
  for (const name of ['constructor', '__proto__.toString', 'hasOwnProperty', '__proto__', 'toString'])
    for (const [tool, args] of [
      [name, {}],
      ['execute_tool', { name }],
      ['get_tool', { name }],
    ] as const)
      expect(codeOf(await call(client, tool, args)), `${tool} ${name}`).toBe('E_NOT_FOUND')
})

test('META-10: a query of a megabyte is rejected, and a pattern is read as words, both within 50 ms', async () => {
  const { app: made } = await app({})
  made.catalog.set(many, {
    tools: [
      makeTool('many.words', { description: 'Explains what (abb+)+$ is.' }),
      makeTool('many.pattern', { description: 'Explains the pattern (a+)+$ to people.' }),
      makeTool('many.as', { description: `Reads ${'a'.repeat(5_000)}! and no more.` }),
    ],
  })
  await made.indexed()
  const client = await connectTo(made)
  const huge = 'x'.repeat(1024 * 1024)
  for (const [query, expected] of [
    [huge, { error: { code: 'E_VALIDATION', message: expect.stringContaining('(length 1048576)') } }],
    [`short\n${huge}`, { error: { code: 'E_VALIDATION' } }],
    // As a pattern it would take longer than the age of the universe, and match many.as.
    ['(a+)+$', { hint: expect.stringContaining('No close match; these are the nearest.') }],
    ['(abb+)+$', { tools: expect.arrayContaining([expect.objectContaining({ name: 'many.words' })]) }],
    ['pattern (a+)+$', { tools: expect.arrayContaining([expect.objectContaining({ name: 'many.pattern' })]) }],
  ] as const) {
    const took = await soonest(50, async () => {
      const asked = performance.now()
      const answer = await call(client, 'search_tools', { query })
      const took = performance.now() - asked
      expect(answer.structuredContent).toMatchObject(expected)
      return took
    })
    expect(took, query.slice(0, 20)).toBeLessThan(50)
  }
})

/** Serves tools like a third-party server. */
async function serve(
  offered: Readonly<Record<string, readonly object[]>>,
  more: Readonly<Record<string, object>>,
  settings = {},
) {
  const dir = temporaryFolder()
  const script = join(import.meta.dirname, '../fixtures/upstreams/listed.mjs')
  const mcpServers = Object.fromEntries(
    Object.entries(offered).map(([id, tools]) => {
      const file = join(dir, `${id}.tools.json`)
      writeFileSync(file, JSON.stringify({ tools }))
      return [id, { command: process.execPath, args: [script, file], start: 'eager', ...more[id] }]
    }),
  )
  const { app: made } = await startApp({ exposure: { mode: 'direct' }, mcpServers, ...settings }, dir)
  await made.settled(20_000)
  return { app: made, client: await connectTo(made) }
}

test('META-12: a description that repeats popular words 20,000 times does not outrank a matching name, and is cut', async () => {
  const stuffed = ['weather', 'forecast', 'weather forecast'].map((words, n) => ({
    name: `helper${n}`,
    description: `${words} `.repeat(20_000 / words.split(' ').length),
  }))
  const honest = { name: 'weather_forecast', description: 'The weather of tomorrow.' }
  const { app: made, client } = await serve({ a: [honest], b: stuffed }, { b: { trust: 'always' } })
  await made.indexed()
  const { tools: listed } = await client.listTools()
  for (const { name } of stuffed) {
    const { description = '' } = listed.find((tool) => tool.name === `b__${name}`) ?? {}
    expect(description.replace(/\s*\[NOTICE\][^\n]*$/, '').length).toBeLessThanOrEqual(4_096 + '…'.length)
    expect(description.length).toBeGreaterThan(4_000)
  }
  for (const query of ['weather forecast', 'weather_forecast', 'forecast of the weather']) {
    const found = (await call(client, 'search_tools', { query })).structuredContent
    expect(found.tools[0].name, query).toBe('mcp_a.weather_forecast')
  }
})

test('META-13: browse_category rejects impossible pages, and names the categories that the caller sees', async () => {
  const { app: made } = await app({ hello: {}, filesystem: { enabled: false } }, 'discovery', {
    policy: { deny: [{ module: 'todo' }] },
  })
  const client = await connectTo(made)
  const { categories } = answerOf(await call(client, 'list_categories'))
  const ids = categories.map(({ id }: Answer) => id)
  expect(ids).toContain('database')
  expect(ids).not.toContain('todo')
  for (const category of ['databse', 'todo']) {
    const unknown = (await call(client, 'browse_category', { category })).structuredContent.error
    expect(unknown.code).toBe('E_NOT_FOUND')
    expect(unknown.message).toBe(`Category '${category}' not found. Available categories: ${ids.join(', ')}.`)
  }
  const near = (await call(client, 'browse_category', { category: 'databse' })).structuredContent.error
  expect(near.hint).toBe("Did you mean 'database'?")
  for (const bad of [{ page: -1 }, { page_size: 1e9 }, { page: 1.5 }, { page: 'x' }, { pagesize: 5 }])
    expect(codeOf(await call(client, 'browse_category', { category: 'database', ...bad })), JSON.stringify(bad)).toBe(
      'E_VALIDATION',
    )
})

test('META-14: no call adds a server or changes its command, and nothing that it names runs', async () => {
  const dir = temporaryFolder()
  const scripted = join(import.meta.dirname, '../fixtures/upstreams/scripted.mjs')
  const { app: made } = await startApp({ mcpServers: { good: { command: 'node', args: [scripted] } } }, dir)
  const client = await connectTo(made)
  const wanted = join(dir, 'pwn')
  for (const input of [
    { command: 'sh', args: ['-c', `touch ${wanted}`] },
    { server_id: 'new', transport: 'stdio', command: 'sh', args: ['-c', `touch ${wanted}`] },
    { server_id: 'good', command: 'touch', args: [wanted] },
    { server_id: 'good', env: { NODE_OPTIONS: `--require ${wanted}` } },
    { server_id: 'new', url: 'https://host.example/mcp' },
  ])
    for (const [name, args] of [
      ['mcp.connect', { server_id: 'new', ...input }],
      ['execute_tool', { name: 'mcp.connect', params: { server_id: 'new', ...input } }],
    ] as const)
      expect(answerOf(await call(client, name, args)).error, `${name} ${JSON.stringify(input)}`).toMatchObject({
        code: 'E_DENIED_BY_POLICY',
        message: expect.stringContaining('stdio upstreams are added in the config file only'),
      })
  expect(codeOf(await call(client, 'mcp.reconnect', { server_id: 'good', command: 'touch', args: [wanted] }))).toBe(
    'E_VALIDATION',
  )
  expect(existsSync(wanted)).toBe(false)
  expect(answerOf(await call(client, 'mcp.connect', { server_id: 'new' })).error).toMatchObject({
    code: 'E_NOT_FOUND',
    message: 'There is no server "new".',
    hint: 'Servers: good.',
  })
  expect(answerOf(await call(client, 'mcp.list_servers')).total).toBe(1)
})

test('META-17: a destructive tool needs approval, even if its server declares it harmless', async () => {
  const tools = [
    { name: 'delete_all', description: 'Deletes all there is.', annotations: { readOnlyHint: true } },
    { name: 'get_one', description: 'Gets one of them by its name.', annotations: { readOnlyHint: true } },
  ]
  const start = async (policy: object, more: object = {}) =>
    (await serve({ eraser: tools }, { eraser: more }, { policy })).client
  const asksForDestroying = await start({ ask: [{ effects: ['destructive'] }] })
  expect(codeOf(await call(asksForDestroying, 'eraser__delete_all'))).toBe('E_CONFIRMATION_REQUIRED')
  expect((await call(asksForDestroying, 'eraser__get_one')).content[0].text).toBe('get_one ran')
  const letsRead = { default: 'ask', allow: [{ effects: ['read'] }] }
  const doubts = await start(letsRead)
  expect(codeOf(await call(doubts, 'eraser__get_one'))).toBe('E_CONFIRMATION_REQUIRED')
  expect(codeOf(await call(doubts, 'eraser__delete_all'))).toBe('E_CONFIRMATION_REQUIRED')
  const trusts = await start(letsRead, { trustHints: true })
  expect((await call(trusts, 'eraser__get_one')).content[0].text).toBe('get_one ran')
})
