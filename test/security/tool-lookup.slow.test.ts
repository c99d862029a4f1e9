import { expect, test, vi } from 'vitest'
import { answerOf, startApp } from '../app.ts'
import { callTool, connectTo } from '../client.ts'
import { makeTool } from '../tools.ts'
import { withoutChangingValues } from './call-routes.ts'
import { connectWithToken, startHttpApp } from './http-app.ts'

vi.setConfig({ testTimeout: 120_000 })

/** Tools behind two modules, found and called by a client. */
async function find() {
  const { app } = await startApp({ exposure: { mode: 'discovery' }, execution: { watchers: true, scheduler: true } })
  for (const id of ['sales', 'stock'])
    app.catalog.set(
      { id, summary: 'Tables.', origin: 'module', state: 'ready' },
      { tools: [makeTool(`${id}.read_rows`, { description: 'Reads the rows of a table.' })] },
    )
  const client = await connectTo(app)
  return async (name: string, args: Record<string, unknown>) => {
    const answer = await callTool(client, { name, arguments: args })
    return { answer, text: JSON.stringify(answer), said: answerOf(answer) }
  }
}

/** The maximum length of a hashed text, with the maximum number of separators. */
const COSTLY = `a${'_'.repeat(16_000)}`

test('a crafted name does not slow down any route, in any number', async () => {
  const call = await find()
  const many = Array.from({ length: 20 }, (_, at) => `${COSTLY}${at}`)
  const before = process.cpuUsage()
  const answers = [
    await call(COSTLY, {}),
    await call('execute_tool', { name: COSTLY }),
    await call('run_parallel', { actions: many.map((name) => ({ name })) }),
    await call('request_tool_injection', { tool_names: many }),
    await call('background_run', { name: COSTLY }),
    await call('watch_start', { name: COSTLY, interval: 5 }),
    await call('schedule_once', { name: COSTLY, when: 'in 1h' }),
  ]
  const { user } = process.cpuUsage(before)
  expect(answers.map(({ said }) => said.error?.code ?? said.injected)).toEqual([
    'E_NOT_FOUND',
    'E_NOT_FOUND',
    'E_VALIDATION',
    [],
    'E_NOT_FOUND',
    'E_NOT_FOUND',
    'E_NOT_FOUND',
  ])
  expect(user / 1_000).toBeLessThan(10_000)
})

test('the longest possible tool name still resolves in every spelling', async () => {
  const { app } = await startApp({ exposure: { mode: 'discovery' } })
  const long = `a_${'b_'.repeat(30)}c`
  app.catalog.set(
    { id: 'sales', summary: 'Tables.', origin: 'module', state: 'ready' },
    { tools: [makeTool(`sales.${long}`, { description: 'Reads the rows of a table.' })] },
  )
  const client = await connectTo(app)
  for (const name of [`sales.${long}`, `sales__${long}`, `sales_${long}`, `sales/${long}`, long.toUpperCase()])
    expect((await client.callTool({ name, arguments: {} })).isError ?? false).toBe(false)
})

test('the error for a parameter name of a hundred thousand letters shows only its beginning', async () => {
  const call = await find()
  const key = 'x'.repeat(100_000)
  for (const name of ['search_tools', 'get_tool', 'browse_category', 'list_categories', 'run_parallel']) {
    const { said, text } = await call(name, { [key]: 1 })
    expect(said.error).toMatchObject({
      code: 'E_VALIDATION',
      message: expect.stringContaining(`unknown parameter "${'x'.repeat(80)}…"`),
    })
    expect(text.length).toBeLessThan(2_000)
  }
})

test('an error repeats only the beginning of an argument', async () => {
  const { app } = await startApp({ exposure: { mode: 'discovery' } })
  app.catalog.set(
    { id: 'sales', summary: 'Tables.', origin: 'module', state: 'ready' },
    { tools: [makeTool('sales.read_rows', { description: 'Reads the rows of a table.' })] },
  )
  const client = await connectTo(app)
  const given = { ['k'.repeat(200_000)]: 1 }
  for (const name of ['hello.say_hello', 'sales.read_rows'])
    for (const [tool, args] of [
      [name, given],
      ['execute_tool', { name, params: given }],
      ['run_parallel', { actions: [{ name, params: given }] }],
    ] as const) {
      const text = JSON.stringify(await client.callTool({ name: tool, arguments: args }))
      expect(text).toContain('E_VALIDATION')
      expect(text.length).toBeLessThan(4_000)
    }
})

const anySchema = { '~standard': { version: 1, vendor: 'test', validate: (value: unknown) => ({ value }) } } as const

test.each(['legacy', 'modern'] as const)(
  'a caller with some tools gets the same answers whatever the other tools are, over the %s protocol',
  async (era) => {
    const tokens = [
      { token: 'token-of-the-seller-0123', principal: 'seller', tools: ['sales.*'] },
      { token: 'token-of-the-keeper-0123', principal: 'keeper', tools: ['*'] },
    ]
    /** @param hidden names and texts of tools that only the keeper can use */
    const serve = async (hidden: string) => {
      const served = await startHttpApp({ tokens }, { exposure: { mode: 'discovery' } })
      const words = { aliases: [`${hidden} alias`], tags: [`${hidden}tag`] }
      served.app.catalog.set(
        { id: 'sales', summary: 'Sales.', origin: 'module', state: 'ready' },
        { tools: [makeTool('sales.read_rows', { description: 'Reads the rows of a table.' })] },
      )
      served.app.catalog.set(
        { id: hidden, summary: `A ${hidden}.`, origin: 'module', state: 'ready', notice: `${hidden} notice` },
        {
          tools: [
            makeTool(`${hidden}.read_rows`, { description: `Reads the rows of the ${hidden}fold.`, ...words }),
            makeTool(`${hidden}.drop_rows`, { description: `Drops the rows of the ${hidden}fold.` }),
          ],
        },
      )
      // Until both models have the vectors of all tools, the same query gets another relevance.
      await served.app.indexed()
      const ready = { ranking: 'hybrid', embedded: 'ready', semantic: { state: 'ready' } }
      expect(served.app.searchStatus()).toMatchObject(ready)
      return served
    }
    const queries = [
      'read rows of the zebrafold',
      'zebra.read_rows',
      'zebra',
      'zebrafold',
      'zebratag',
      'rows',
      'use zebra__drop_rows on it',
      'zebrafolt',
      'raed rows',
    ]
    const names = [
      'zebra.read_row',
      'zebra.read_rows',
      'zebra__drop_rows',
      'drop_rows',
      'sales.drop_rows',
      'zebra alias',
      'zebr.read_rows',
    ]
    const asked: readonly (readonly [string, Record<string, unknown>])[] = [
      ...queries.map((query) => ['search_tools', { query, max_results: 20, detail: 'full' }] as const),
      ...names.flatMap(
        (name) =>
          [
            ['get_tool', { name }],
            ['execute_tool', { name }],
            ['run_parallel', { actions: [{ name }] }],
            ['background_run', { name }],
            ['request_tool_injection', { tool_names: [name] }],
            [name, {}],
          ] as const,
      ),
      ...['list_categories', 'list_all_tools', 'list_active_servers'].map((name) => [name, {}] as const),
      ...['zebra', 'zebr', 'mcp_zebra', 'nothing'].map((category) => ['browse_category', { category }] as const),
    ]
    const argument = { name: 'agent_id', value: 'z' }
    const requests = [
      { method: 'tools/list', params: {} },
      { method: 'prompts/list', params: {} },
      { method: 'resources/list', params: {} },
      { method: 'prompts/get', params: { name: 'system_prompt', arguments: { mode: 'text' } } },
      { method: 'completion/complete', params: { ref: { type: 'ref/prompt', name: 'system_prompt' }, argument } },
    ]
    const told = async (url: string, era: 'legacy' | 'modern') => {
      // The result of the first query is known when the second runs.
      const keeper = await connectWithToken(url, 'token-of-the-keeper-0123', era)
      const seller = await connectWithToken(url, 'token-of-the-seller-0123', era)
      const found: unknown[] = []
      const answers: unknown[] = [seller.getInstructions()]
      for (const [name, args] of asked) {
        found.push(await callTool(keeper, { name, arguments: args }))
        answers.push(withoutChangingValues(await callTool(seller, { name, arguments: args })))
      }
      for (const request of requests) answers.push(await seller.request(request as never, anySchema as never))
      return { found: JSON.stringify(found), answers }
    }
    const [one, other] = [await serve('zebra'), await serve('quark')]
    const { found, answers } = await told(one.url, era)
    expect(found).toContain('zebra.drop_rows')
    expect(answers).toEqual((await told(other.url, era)).answers)
    expect(JSON.stringify(answers)).toContain('sales.read_rows')
  },
)
