import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, it } from 'vitest'
import { missesFile } from '../../src/app/search-misses.ts'
import { localCaller } from '../../src/core/caller.ts'
import { type Answer, startApp, temporaryFolder } from '../app.ts'
import { connectTo } from '../client.ts'
import { add, serve, sub } from '../listed-server.ts'
import { ask, createClient, KEY, openPage, servePage } from './open-page.ts'

const offering = async (tools: readonly object[], more: object = {}, config: object = {}) =>
  servePage(await serve({ calc: { tools } }, { calc: more }, undefined, { page: true }, config))

it('answers at / with what this is and how to open the page', async () => {
  const { url } = await openPage()
  const answer = await ask(url, '/')
  expect(answer.status).toBe(200)
  expect(answer.text).toBe('This is Pegboard. MCP clients connect to /mcp. To open its page, run: pegboard ui\n')
})

it('serves the built page and its assets with their types', async () => {
  const { url } = await openPage()
  const page = await ask(url, '/ui')
  expect([page.status, page.headers['content-type']]).toEqual([200, 'text/html; charset=utf-8'])
  const script = /src="(\/ui\/assets\/[^"]+\.js)"/.exec(page.text)?.[1] ?? ''
  const asset = await ask(url, script)
  expect([asset.status, asset.headers['content-type']]).toEqual([200, 'text/javascript; charset=utf-8'])
  expect(asset.headers['cache-control']).toBe('public, max-age=31536000, immutable')
})

it('shows what a server costs, and stops and starts it', async () => {
  const page = await offering([add, sub])
  const { get, post } = await createClient(page)
  const row = async () => (await get('servers')).find((one: Answer) => one.id === 'mcp_calc')
  expect(await row()).toMatchObject({ server: 'calc', kind: 'server', state: 'started', tools: 2, transport: 'stdio' })
  expect((await row()).tokens).toBeGreaterThan(10)
  expect((await post('server', { id: 'calc', action: 'disconnect' })).status).toBe(200)
  expect(await row()).toMatchObject({ state: 'stopped', actions: ['connect'] })
  await post('server', { id: 'mcp_calc', action: 'connect' })
  expect(await row()).toMatchObject({ state: 'started', actions: ['restart', 'disconnect'] })
  expect((await get('server?id=calc')).mayTouch).toEqual(expect.any(String))
  const failed = await post('server', { id: 'none', action: 'restart' })
  expect([failed.status, failed.body.code]).toEqual([422, 'E_NOT_FOUND'])
})

it('shows the last lines on stderr without secrets', async () => {
  const page = await servePage(
    await serve(
      { calc: { tools: [add] } },
      {
        calc: {
          command: process.execPath,
          args: [
            '-e',
            'console.error(process.env.KEY, process.argv.join(" ")); setInterval(() => 0, 1e6)',
            '--',
            ...['--token=not-even-long-3', '--password', 'correct-horse-battery', '--level', 'debugging'],
          ],
          env: { KEY: 'sk-very-secret-value-12345' },
        },
      },
      undefined,
      { page: true },
      {},
    ),
  )
  const { get } = await createClient(page)
  await expect.poll(async () => (await get('server?id=calc')).stderr.length).toBeGreaterThan(0)
  const shown = (await get('server?id=calc')).stderr.join()
  for (const secret of ['sk-very-secret-value-12345', 'not-even-long-3', 'correct-horse-battery'])
    expect(shown).not.toContain(secret)
  expect(shown).toContain('--level debugging')
})

it('lists visible and hidden tools, explains one, and runs it', async () => {
  const page = await offering([add, sub], {}, { tools: { 'mcp_calc.subtract': { enabled: false } } })
  const { get, post } = await createClient(page)
  const { tools } = await get('tools')
  const find = (id: string) => tools.find((one: Answer) => one.id === id)
  expect(find('mcp_calc.add').hidden).toBeUndefined()
  expect(find('mcp_calc.subtract').hidden).toEqual(expect.any(String))
  const detail = await get('tool?id=mcp_calc.subtract')
  expect(detail.visible).toBe(false)
  expect(Object.fromEntries(detail.why)).toMatchObject({ Profile: 'default' })
  const tried = (await post('try', { id: 'mcp_calc.add', input: {} })).body
  expect(tried.outcome).toBe('ok')
  const refused = (await post('try', { id: 'mcp_calc.subtract', input: {} })).body
  expect(refused.outcome).toMatch(/^E_/)
})

it('ranks tools with the parts of each score and shows what the model reads', async () => {
  const page = await offering([add, sub])
  await page.app.indexed()
  const { get } = await createClient(page)
  const answer = await get('search?q=add%20two%20numbers&limit=5')
  expect(answer.rows[0].id).toBe('mcp_calc.add')
  expect(Object.keys(answer.rows[0].parts)).toContain('lexical')
  expect(answer.shown).toContain('"name": "mcp_calc.add"')
  expect(answer.tokens).toBeGreaterThan(20)
})

it('remembers calls of clients, and runs one again while its arguments are in memory', async () => {
  const page = await offering([add])
  const { get, post } = await createClient(page)
  const client = await connectTo(page.app)
  await client.callTool({ name: 'mcp_calc__add', arguments: { a: 1 } })
  await client.close()
  const [call] = await get('calls')
  expect(call).toMatchObject({ tool: 'mcp_calc.add', client: 'test-client 1.0.0', principal: 'local', outcome: 'ok' })
  expect(call).toMatchObject({ replayable: true })
  expect(JSON.stringify(call)).not.toContain('"a"')
  expect((await post('replay', { id: call.id })).body.outcome).toBe('ok')
  expect(await get('calls')).toHaveLength(2)
  expect((await post('replay', { id: 'gone' })).body.code).toBe('E_NOT_FOUND')
})

it('names file and line of a bug in a drop-in', async () => {
  const dir = temporaryFolder()
  mkdirSync(join(dir, 'modules'))
  writeFileSync(
    join(dir, 'modules', 'dice.mjs'),
    `import { defineModule } from 'pegboard'
export default defineModule({
  name: 'dice',
  description: 'Rolls dice.',
  tools: { roll: { description: 'Rolls a die.', effect: 'read', run: () => total } },
})
`,
  )
  const page = await servePage(await startApp({ modulesDir: 'modules' }, dir, { page: true }))
  const { get } = await createClient(page)
  await page.app.call({ name: 'dice.roll', input: {}, caller: localCaller }).catch(() => undefined)
  expect((await get('calls'))[0]).toMatchObject({ tool: 'dice.roll', outcome: 'E_INTERNAL', place: 'dice.mjs:5' })
})

it('shows a changed tool as a difference, and refuses to accept another one than was shown', async () => {
  const test = await serve({ calc: { tools: [add] } }, { calc: { trust: 'first-use' } }, undefined, { page: true })
  const page = await servePage(test)
  const { get, post } = await createClient(page)
  // The accepted definition is stored a moment later.
  await expect.poll(() => readdirSync(join(test.dir, 'state/trust'))).not.toEqual([])
  test.offer('calc', { tools: [{ ...add, description: 'Adds three numbers.' }] })
  await test.app.upstreams.refresh('calc')
  const waiting = async () => (await get('review')).find((one: Answer) => one.id === 'calc')?.waiting ?? []
  await expect.poll(async () => (await waiting()).length).toBe(1)
  const [tool] = await waiting()
  expect(tool).toMatchObject({
    name: 'add',
    state: 'changed',
    changes: [{ field: 'description', lines: ['- Adds two numbers.', '+ Adds three numbers.'] }],
  })
  expect((await get('overview')).toReview).toBe(1)
  const stale = await post('review', { server: 'calc', decision: 'accept', shown: { add: 'another' } })
  expect([stale.status, stale.body.code]).toEqual([422, 'E_VALIDATION'])
  expect(await waiting()).toHaveLength(1)
  await post('review', { server: 'calc', decision: 'accept', shown: { add: tool.hash } })
  await expect.poll(() => page.app.view(localCaller).byId.has('mcp_calc.add')).toBe(true)
  expect(readFileSync(join(page.dir, 'pegboard.lock.json'), 'utf8')).toContain(tool.hash)
})

it('counts no tool that was rejected among those that wait for approval', async () => {
  const test = await serve({ calc: { tools: [add] } }, { calc: { trust: 'first-use' } }, undefined, { page: true })
  const { get, post } = await createClient(await servePage(test))
  test.offer('calc', { tools: [{ ...add, description: 'Adds three numbers.' }] })
  await test.app.upstreams.refresh('calc')
  const server = async () => (await get('review')).find((one: Answer) => one.id === 'calc')
  await expect.poll(async () => (await server())?.waiting.length).toBe(1)
  expect((await get('overview')).toReview).toBe(1)
  const [tool] = (await server()).waiting
  await post('review', { server: 'calc', decision: 'reject', shown: { add: tool.hash } })
  expect(await server()).toMatchObject({ waiting: [], rejected: ['add'] })
  await expect.poll(async () => (await get('overview')).toReview).toBe(0)
})

it('lists clients with the tokens that they paid and saved, as pegboard usage counts them', async () => {
  const page = await offering([add, sub], {}, { exposure: { mode: 'discovery' } })
  const { get } = await createClient(page)
  const client = await connectTo(page.app)
  await client.listTools()
  const [row] = await get('clients')
  expect(row).toMatchObject({
    name: 'test-client 1.0.0',
    principal: 'local',
    protocol: '2025',
    mode: 'discovery',
    tools: expect.any(Number),
  })
  expect(row.spent).toBeUndefined()
  await client.callTool({ name: 'search_tools', arguments: { query: 'add two numbers' } })
  // Asking counts what waits to be counted.
  const { total } = (await page.app.usage?.({ by: 'day' })) ?? { total: undefined }
  expect(total).toMatchObject({ calls: 1, tokens: expect.any(Number) })
  const spent = { calls: 1, tokens: total?.tokens, direct: total?.direct }
  expect((await get('clients'))[0].spent).toEqual(spent)
  expect((await get('overview')).spent).toEqual(spent)
  const day = new Date().toISOString().slice(0, 10)
  expect(await get('usage')).toEqual([{ day, failures: 0, ...spent }])
  await client.close()
})

it('lists bearer tokens without their digests, counts what each can use, and revokes one', async () => {
  const page = await offering([add, sub])
  const { get, post } = await createClient(page)
  await page.app.server.tokens.add({
    id: '0123456789ab',
    name: 'ci',
    digest: 'a'.repeat(64),
    principal: 'ci',
    roles: [],
    grants: [{ tools: ['mcp_calc.add'] }],
    createdAt: 1_000,
  })
  const [row] = await get('tokens')
  expect(row).toEqual({
    id: '0123456789ab',
    name: 'ci',
    principal: 'ci',
    roles: [],
    limits: ['mcp_calc.add'],
    tools: 1,
    createdAt: 1_000,
    expired: false,
  })
  await post('revoke', { id: '0123456789ab' })
  expect(await get('tokens')).toEqual([])
})

it('shows planned work of all users, and stops it', async () => {
  const page = await offering([add], {}, { execution: { watchers: true, scheduler: true } })
  await page.app.work()
  const alice = { ...localCaller, principal: 'alice' }
  await page.app.surface.call({
    name: 'schedule_once',
    input: { name: 'mcp_calc.add', when: 'in 1h', label: 'hourly' },
    caller: alice,
  })
  const { get, post } = await createClient(page)
  const [row] = await get('later')
  expect(row).toMatchObject({ kind: 'schedule', owner: 'alice', what: 'hourly', tool: 'mcp_calc.add', stoppable: true })
  await post('stop', { kind: 'schedule', id: row.id })
  expect(await get('later')).toEqual([])
})

it('sends the state and then each change over one stream', async () => {
  const page = await offering([add])
  const gone = new AbortController()
  const response = await fetch(`${page.url}/ui/api/events`, {
    headers: { authorization: `Bearer ${KEY}` },
    signal: gone.signal,
  })
  let text = ''
  const reading = (async () => {
    for await (const part of response.body as unknown as AsyncIterable<Uint8Array>) text += Buffer.from(part)
  })().catch(() => undefined)
  await expect.poll(() => text).toContain('event: tools')
  expect(text).toContain('event: overview')
  await page.app.call({ name: 'mcp_calc.add', input: {}, caller: localCaller })
  await expect.poll(() => text.match(/event: calls\ndata: .*mcp_calc\.add/)).not.toBeNull()
  gone.abort()
  await reading
})

it('disables tools and servers in the configuration file, and names how to undo it', async () => {
  const page = await offering([add, sub])
  const file = join(page.dir, 'mcp.config.json')
  writeFileSync(file, JSON.stringify({ mcpServers: { calc: { command: 'calc' } } }))
  const { post } = await createClient(page)
  const done = await post('switch', { names: ['mcp_calc.add', 'mcp_calc.subtract'], to: 'disabled' })
  expect(done.body).toEqual({ undo: expect.any(String) })
  expect(JSON.parse(readFileSync(file, 'utf8')).tools).toEqual({
    'mcp_calc.add': { enabled: false },
    'mcp_calc.subtract': { enabled: false },
  })
  await post('switch', { names: ['mcp_calc'], to: 'disabled' })
  expect(JSON.parse(readFileSync(file, 'utf8')).mcpServers.calc).toEqual({ command: 'calc', enabled: false })
  expect((await post('switch', { names: ['none'], to: 'disabled' })).body.code).toBe('E_NOT_FOUND')
})

it('shows queries that search answered badly', async () => {
  const page = await offering([add])
  const { get, post } = await createClient(page)
  expect(await get('misses')).toEqual({ recorded: 0, proposals: [], unused: [], before: 0, after: 0 })
  mkdirSync(dirname(missesFile(page.config.dirs.state)), { recursive: true })
  writeFileSync(
    missesFile(page.config.dirs.state),
    `${JSON.stringify({ at: Date.now(), query: 'water the plants' })}\n`,
  )
  expect(await get('misses')).toMatchObject({ recorded: 1, unused: [{ query: 'water the plants', times: 1 }] })
  expect((await post('alias', { tool: 'mcp_calc.add', alias: 'plus' })).body.code).toBe('E_NOT_FOUND')
})

it('writes a proposed alias into the configuration, and only one that it proposed', async () => {
  const tools = [
    { name: 'split_tasks', description: 'Splits a plan into steps.' },
    { name: 'list_groceries', description: 'Lists groceries of the shop.' },
    { name: 'verify_task', description: 'Checks a step of the plan.' },
  ]
  const page = await offering(tools, {}, { search: { embedder: 'none' } })
  const file = join(page.dir, 'mcp.config.json')
  const before = '{\n  // mine\n  "mcpServers": { "calc": { "command": "calc" } }\n}\n'
  writeFileSync(file, before)
  mkdirSync(dirname(missesFile(page.config.dirs.state)), { recursive: true })
  const miss = { at: Date.now(), query: 'jot down groceries', called: 'mcp_calc.split_tasks' }
  writeFileSync(missesFile(page.config.dirs.state), `${JSON.stringify(miss)}\n`)
  const { get, post } = await createClient(page)
  expect(await get('misses')).toMatchObject({
    recorded: 1,
    before: 0,
    after: 1,
    proposals: [
      {
        tool: 'mcp_calc.split_tasks',
        alias: 'jot down groceries',
        setting: 'mcpServers.calc.tools.split_tasks.alias',
        queries: [{ query: 'jot down groceries', after: 1 }],
      },
    ],
  })
  const other = await post('alias', { tool: 'mcp_calc.split_tasks', alias: 'run everything' })
  expect([other.status, other.body.code, readFileSync(file, 'utf8')]).toEqual([422, 'E_NOT_FOUND', before])

  const done = await post('alias', { tool: 'mcp_calc.split_tasks', alias: 'jot down groceries' })
  expect(done.body).toEqual({ undo: expect.any(String) })
  const text = readFileSync(file, 'utf8')
  expect(text).toContain('  // mine\n')
  expect(JSON.parse(text.replace('// mine', ''))).toEqual({
    mcpServers: { calc: { command: 'calc', tools: { split_tasks: { alias: ['jot down groceries'] } } } },
  })
})
