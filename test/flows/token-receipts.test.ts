import { readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { toPrometheusText } from '../../src/observe/prometheus.ts'
import { type Answer, startApp, temporaryFolder } from '../app.ts'
import { pegboard } from '../cli/terminal.ts'
import { connectTo } from '../client.ts'
import { appWithResults, handleIn } from '../long-results.ts'
import { makeTool } from '../tools.ts'

const tokensIn = async (client: { readResource(of: { uri: string }): Promise<Answer> }) =>
  JSON.parse((await client.readResource({ uri: 'stats://tokens' })).contents[0].text)

it('a session is told what its tools cost, and what all tools and whole results would have cost', async () => {
  const settings = { telemetry: { prometheus: true } }
  const { app, connection, call, text } = await appWithResults(settings, 'legacy', 'gemini-cli-mcp-client')
  await connection.listTools()
  await connection.callTool({ name: 'search_tools', arguments: { query: 'a log' } })
  await connection.callTool({ name: 'get_tool', arguments: { name: 'big.words' } })
  const handle = handleIn(await text('big.words', { count: 20_000 }))
  await call('read_result', { handle, head: 1 })
  await call('big.fails')
  const { session, tools, counted, estimate_error, total } = await tokensIn(connection)
  expect(session).toEqual(total)
  expect(session).toMatchObject({ sessions: 1, calls: 5, failures: 1 })
  const { menu, search, schemas, results, retries } = session.by
  for (const [tokens, least, most] of [
    [menu, 400, 2_000],
    [search, 50, 1_500],
    [schemas, 40, 400],
    [results, 1_000, 8_000],
    [retries, 20, 300],
  ])
    expect([tokens >= least, tokens <= most, tokens], 'tokens').toEqual([true, true, tokens])
  expect(session.tokens).toBe(menu + search + schemas + results + retries)
  expect(session.direct).toBeGreaterThan(20_000)
  expect([counted, Math.abs(estimate_error) < 0.2]).toEqual([1, true])
  const row = (name: string) => tools.find((one: Answer) => one.name === name)
  expect(row('big.words')).toMatchObject({ calls: 1, by: { search: 0, schemas: 0 } })
  expect(row('big.words').direct).toBeGreaterThan(20_000)
  expect(row('big.fails')).toMatchObject({ calls: 1, failures: 1, by: { results: 0 } })
  expect(row('get_tool')).toMatchObject({ calls: 1, direct: 0 })
  const metrics = toPrometheusText((await app.server.metrics?.collect()) ?? [])
  expect(metrics).toContain(`\npegboard_tokens_total{kind="search"} ${search}\n`)
  expect(metrics).toContain(`\npegboard_tokens_direct_total ${session.direct}\n`)
})

it('where all tools are listed, nothing is saved but long results', async () => {
  const { app } = await startApp({ exposure: { mode: 'direct', primitives: false }, telemetry: { tokens: 'estimate' } })
  const client = await connectTo(app, 'legacy', {}, 'default', 'gemini-cli-mcp-client')
  await client.listTools()
  await client.callTool({ name: 'hello__say_hello', arguments: { name: 'Ada' } })
  const { session, counted } = await tokensIn(client)
  expect(counted).toBe(0)
  // The instructions of Pegboard.
  expect(session.tokens - session.direct).toBeGreaterThan(0)
  expect(session.tokens - session.direct).toBeLessThan(400)
})

it('counts the tools of a server that connects after the client listed tools', async () => {
  const { app } = await startApp({ exposure: { mode: 'discovery' }, telemetry: { tokens: 'estimate' } })
  const client = await connectTo(app)
  await client.listTools()
  const directAfterCall = async (): Promise<number> => {
    await client.callTool({ name: 'execute_tool', arguments: { name: 'hello.version' } })
    return (await tokensIn(client)).session.direct
  }
  await directAfterCall()
  const second = await directAfterCall()
  const third = await directAfterCall()
  const tools = Array.from({ length: 50 }, (_, n) =>
    makeTool(`mcp_late.tool_${n}`, { description: 'word '.repeat(80) }),
  )
  app.catalog.set({ id: 'mcp_late', summary: '', origin: 'upstream', state: 'ready' }, { tools })
  const added = (await directAfterCall()) - third - (third - second)
  // 50 descriptions of 80 words each, and the names and schemas.
  expect(added).toBeGreaterThan(4_000)
  expect(added).toBeLessThan(8_000)
})

it('what a script reads would have cost the model', async () => {
  const { app } = await startApp({ exposure: { mode: 'code' }, telemetry: { tokens: 'estimate' } })
  const client = await connectTo(app)
  await client.listTools()
  const code = 'for (const name of ["Ada", "Bob", "Cy"]) await tools.hello.say_hello({ name }); return 1'
  await client.callTool({ name: 'run_code', arguments: { code } })
  const { session, tools } = await tokensIn(client)
  expect(session.calls).toBe(4)
  const hello = tools.find((one: Answer) => one.name === 'hello.say_hello')
  expect(hello).toMatchObject({ calls: 3, tokens: 0 })
  expect(hello.direct).toBeGreaterThan(10)
})

it('counts are kept by day without content, and pegboard usage shows them by day, tool, client and principal', async () => {
  const dir = temporaryFolder()
  const { app, logged } = await startApp({ exposure: { mode: 'discovery' } }, dir, { level: 'info' })
  await app.work()
  const client = await connectTo(app)
  await client.listTools()
  await client.callTool({ name: 'search_tools', arguments: { query: 'zebra crossing' } })
  await client.callTool({ name: 'execute_tool', arguments: { name: 'hello.say_hello', params: { name: 'Quagga' } } })
  await client.callTool({ name: 'execute_tool', arguments: { name: 'okapi', params: {} } })
  await app.stop()
  expect(logged.map((line) => JSON.parse(line)).find(({ message }) => message === 'session ended')).toMatchObject({
    scope: 'usage',
    client: 'test-client',
    calls: 3,
    failures: 1,
    tokens: expect.any(Number),
    direct_tokens: expect.any(Number),
    saved_percent: expect.any(Number),
  })
  const state = join(dir, 'state')
  for (const name of readdirSync(state).filter((one) => one.startsWith('state.db')))
    expect(readFileSync(join(state, name), 'latin1')).not.toMatch(/zebra|quagga|okapi/i)

  // Where the command looks.
  renameSync(state, join(dir, '.state'))
  const config = join(dir, 'mcp.config.json')
  writeFileSync(config, '{}')
  const usage = async (...args: string[]) =>
    JSON.parse((await pegboard(dir, 'usage', '--json', '--config', config, ...args)).out)
  const today = new Date().toISOString().slice(0, 10)
  expect(await usage()).toMatchObject({ by: 'day', total: { calls: 3, sessions: 1 }, rows: [{ name: today }] })
  expect((await usage('--by', 'tool')).rows.map(({ name }: Answer) => name).sort()).toEqual([
    '(lists of tools)',
    'hello.say_hello',
    'search_tools',
    'unknown',
  ])
  expect((await usage('--by', 'client')).rows).toMatchObject([{ name: 'test-client', calls: 3 }])
  expect((await usage('--by', 'principal')).rows).toMatchObject([{ name: 'local', calls: 3 }])
  expect((await usage('--principal', 'nobody')).rows).toEqual([])
  const { out } = await pegboard(dir, 'usage', '--config', config)
  expect(out).toMatch(/^day +calls +failed +menu +search +schemas +results +retries +tokens +direct +saved\n/)
  expect(out).toMatch(/\nSince \d{4}-\d\d-\d\d, 1 session\. "direct": all results whole, and all tools known when /)
  expect((await pegboard(dir, 'usage', '--by', 'moon', '--config', config)).code).toBe(2)
})

it('nothing is counted with telemetry.tokens off', async () => {
  const { app } = await startApp({ telemetry: { tokens: 'off' } })
  expect(app.usage).toBeUndefined()
  const client = await connectTo(app)
  await client.callTool({ name: 'hello__say_hello', arguments: { name: 'Ada' } })
  await expect(client.readResource({ uri: 'stats://tokens' })).rejects.toThrow(/not found/)
})
