import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { valueResult } from '../../src/core/result.ts'
import { type Answer, startApp, temporaryFolder } from '../app.ts'
import { connectTo } from '../client.ts'
import { place, talkTo } from '../process.ts'
import { makeTool } from '../tools.ts'
import { until } from '../upstream/host.ts'

const database = { id: 'database', summary: 'Tables.', origin: 'module', state: 'ready' } as const

const LATER = { watchers: true, scheduler: true }

/** A category of two tools of which one may be blocked; `dropped` counts what must not happen. */
async function app(blocked: boolean, mode: 'direct' | 'discovery', clients: object = {}) {
  const { app } = await startApp({
    exposure: { mode },
    execution: LATER,
    clients,
    modules: { database: { constraints: blocked ? { blocked_actions: ['drop_table'] } : undefined } },
  })
  const effects = { dropped: 0 }
  const run = async () => valueResult(++effects.dropped)
  const query = makeTool('database.query_rows', { description: 'Reads the rows of a table.' })
  const drop = makeTool('database.drop_table', { description: 'Drops a whole table.', run })
  app.catalog.set(database, { tools: [query, drop] })
  return { app, effects }
}

/** The same without the tool: what a name that never existed looks like. */
async function without(mode: 'direct' | 'discovery') {
  const { app } = await startApp({ exposure: { mode }, execution: LATER })
  const query = makeTool('database.query_rows', { description: 'Reads the rows of a table.' })
  app.catalog.set(database, { tools: [query] })
  return app
}

const SPELLINGS = [
  'database.drop_table',
  'database__drop_table',
  'database:drop_table',
  'drop_table',
  'DATABASE.DROP_TABLE',
]

/** Every way there is to have a tool run. */
const waysTo = (
  name: string,
): ReadonlyArray<{ readonly name: string; readonly arguments: Record<string, unknown> }> => [
  { name, arguments: {} },
  { name: 'execute_tool', arguments: { name, params: {} } },
  { name: 'run_parallel', arguments: { actions: [{ name }, { name: 'database.query_rows' }] } },
  { name: 'background_run', arguments: { name } },
  { name: 'watch_start', arguments: { name, interval: 5 } },
  { name: 'schedule_once', arguments: { name, when: 'in 1h' } },
]
/** An answer without what is new every time. */
const plain = (answer: unknown): string =>
  JSON.stringify(answer)
    .replaceAll(/[0-9a-f]{8}-[0-9a-f-]{27}/g, '<id>')
    .replaceAll(/(_ms\\*":)\d+/g, '$1<ms>')

describe.each(['direct', 'discovery'] as const)('a tool that policy denies, in %s mode', (mode) => {
  it('is refused as an unknown name on every way, and never runs [META-01, META-02]', async () => {
    const { app: real, effects } = await app(true, mode, { tiny: { maxNameLength: 20 } })
    const never = await without(mode)
    for (const era of ['legacy', 'modern'] as const)
      for (const client of ['test-client', 'tiny', 'claude-code']) {
        const [denied, unknown] = [await connectTo(real, era, {}, client), await connectTo(never, era, {}, client)]
        for (const name of SPELLINGS)
          for (const call of waysTo(name)) {
            const [answer, other] = [await denied.callTool(call), await unknown.callTool(call)].map(plain)
            expect(answer, `${call.name} ${name}`).toContain('E_NOT_FOUND')
            expect(answer, `${call.name} ${name}`).toBe(other)
          }
      }
    expect(effects.dropped).toBe(0)
  })

  it('looks as if it never existed to every tool about tools, and counts nowhere [META-05]', async () => {
    const { app: real } = await app(true, mode)
    const other = await without(mode)
    // Before that a search goes by words alone, in whichever of the two is later.
    for (const one of [real, other]) await one.indexed()
    const [denied, unknown] = [await connectTo(real), await connectTo(other)]
    const ask = async (name: string, args: Record<string, unknown>) =>
      await Promise.all(
        [denied, unknown].map((client) => client.callTool({ name, arguments: args }) as Promise<Answer>),
      )
    for (const [name, args] of [
      ['get_tool', { name: 'database.drop_table' }],
      ['browse_category', { category: 'database' }],
      ['list_categories', {}],
    ] as const) {
      const [answer, expected] = await ask(name, args)
      expect(answer, name).toEqual(expected)
    }
    // How well the others fit is weighed against all texts there are: their order may differ, what they are may not.
    for (const query of ['drop a whole table', 'database.drop_table', 'drop_table']) {
      const found = (await ask('search_tools', { query, max_results: 20, detail: 'full' })).map(
        ({ structuredContent: { tools, count } }) => [tools.map(({ name }: Answer) => name).sort(), count],
      )
      expect(found[0], query).toEqual(found[1])
    }
    expect(await denied.listTools()).toEqual(await unknown.listTools())
    expect(denied.getInstructions()).toBe(unknown.getInstructions())
  })
})

/** Every way there is to have a tool of a server run, by itself or by the tool that calls those of servers. */
const waysToServers = (server: string, tool: string): ReturnType<typeof waysTo> => {
  const params = { server, tool, arguments: { text: 'canary' } }
  const name = 'mcp.call_tool'
  return [
    { name: 'mcp__call_tool', arguments: params },
    { name: 'execute_tool', arguments: { name, params } },
    { name: 'run_parallel', arguments: { actions: [{ name, params }] } },
    ...waysTo(`mcp_fake.${tool}`),
  ]
}

describe('a tool of a server that policy denies', () => {
  const scripted = { command: 'node', args: [join(import.meta.dirname, '../fixtures/upstreams/scripted.mjs')] }
  const open = async (settings: object, server: object = {}, dir = temporaryFolder()) => {
    const fake = { ...scripted, start: 'eager', ...server }
    const { app } = await startApp({ execution: LATER, mcpServers: { fake }, ...settings }, dir)
    await app.settled(20_000)
    return app
  }

  it('is refused as an unknown name on every way, that of the module mcp among them [META-01]', async () => {
    const never = await open({}, { deny: ['echo'] })
    for (const policy of [{ deny: ['mcp_fake.echo'] }, { hidden: ['mcp_fake.echo'] }]) {
      const real = await open({ policy })
      for (const era of ['legacy', 'modern'] as const) {
        const [denied, unknown] = [await connectTo(real, era), await connectTo(never, era)]
        for (const tool of ['echo', 'fake__echo', 'ECHO'])
          for (const server of ['fake', 'mcp_fake'])
            for (const call of waysToServers(server, tool)) {
              const [answer, other] = [await denied.callTool(call), await unknown.callTool(call)].map(plain)
              const what = `${JSON.stringify(policy)} ${call.name} ${server} ${tool}`
              expect(answer, what).toContain('E_NOT_FOUND')
              expect(answer, what).toBe(other)
            }
      }
    }
  })

  it('is in no list of the module mcp, and the others are', async () => {
    const [denied, unknown] = [
      await connectTo(await open({ policy: { deny: ['mcp_fake.echo'] } })),
      await connectTo(await open({}, { deny: ['echo'] })),
    ]
    const names = async (client: typeof denied) => {
      const answer = (await client.callTool({ name: 'mcp__list_tools', arguments: { limit: 500 } })) as Answer
      return answer.structuredContent.tools.map(({ name }: Answer) => name).sort()
    }
    expect(await names(denied)).toEqual(await names(unknown))
    expect(await names(denied)).toContain('fake__burst')
  })

  it('is asked about, counted and written down as one that is called by itself', async () => {
    const app = await open({ policy: { ask: ['mcp_fake.echo'] } })
    const client = await connectTo(app)
    const through = {
      name: 'mcp__call_tool',
      arguments: { server: 'fake', tool: 'echo', arguments: { text: 'canary' } },
    }
    const direct = { name: 'fake__echo', arguments: { text: 'canary' } }
    const [one, other] = [await client.callTool(through), await client.callTool(direct)] as [Answer, Answer]
    expect(one.isError).toBe(true)
    expect(JSON.stringify(one)).not.toContain('canary')
    expect(one.structuredContent.error.code).toBe(other.structuredContent.error.code)

    const dir = temporaryFolder()
    const counted = await open(
      {
        tools: { 'mcp_fake.echo': { rate_limit: { per_minute: 1 } } },
        audit: { enabled: true },
      },
      {},
      dir,
    )
    const busy = await connectTo(counted)
    expect((await busy.callTool(through)) as Answer).toMatchObject({ content: [{ text: 'canary' }] })
    for (const call of [through, direct])
      expect(((await busy.callTool(call)) as Answer).structuredContent.error.code, call.name).toBe('E_RATE_LIMITED')
    expect(counted.server.counts('local')).toContainEqual(
      expect.objectContaining({ tool: 'mcp_fake.echo', calls: 3, failures: 2 }),
    )
    await busy.close()
    await counted.stop()
    const written = readFileSync(join(dir, 'state/audit.jsonl'), 'utf8')
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line))
    expect(written.map(({ tool, outcome, depth = 0 }) => `${tool} ${outcome} ${depth}`)).toEqual([
      'mcp_fake.echo ok 1',
      'mcp.call_tool ok 0',
      'mcp_fake.echo E_RATE_LIMITED 1',
      'mcp.call_tool E_RATE_LIMITED 0',
      'mcp_fake.echo E_RATE_LIMITED 0',
    ])
  })

  it('is read-only where everything is: no server is called through it', async () => {
    const client = await connectTo(await open({ policy: { maxEffect: 'read' } }))
    const answer = (await client.callTool({
      name: 'mcp__call_tool',
      arguments: { server: 'fake', tool: 'echo', arguments: { text: 'canary' } },
    })) as Answer
    expect(answer.structuredContent.error.code).toBe('E_NOT_FOUND')
  })
})

describe('names of what every object has', () => {
  it('are unknown tools, on every way [META-09]', async () => {
    const client = await connectTo((await app(false, 'discovery')).app)
    for (const name of ['constructor', '__proto__.toString', 'hasOwnProperty', '__proto__', 'toString'])
      for (const call of [
        { name, arguments: {} },
        { name: 'execute_tool', arguments: { name } },
        { name: 'get_tool', arguments: { name } },
      ])
        expect(((await client.callTool(call)) as Answer).structuredContent.error.code, name).toBe('E_NOT_FOUND')
  })
})

describe('a module that fails', () => {
  it('tells a client a code, a short message and an id: no stack, path, address or environment', async () => {
    const dir = temporaryFolder()
    mkdirSync(join(dir, 'modules'))
    writeFileSync(
      join(dir, 'modules/bad.mjs'),
      `const bug = () => { throw new TypeError('cannot read /home/ann/.ssh/id_rsa of 10.1.2.3') }
       const plain = () => { throw new Error('login at https://ann:hunter2@10.1.2.3/x failed, token=abcdef123456, see /home/ann/log/today.txt\\n    at login (/srv/app/secret.js:1:1)') }
       const tool = (run) => ({ description: 'Fails, whatever it is given.', effect: 'read', run })
       export default { name: 'bad', description: 'Fails.', tools: { bug: tool(bug), plain: tool(plain) } }`,
    )
    const { app, logged } = await startApp({ exposure: { mode: 'direct' } }, dir)
    const client = await connectTo(app)
    for (const [name, code] of [
      ['bad__bug', 'E_INTERNAL'],
      ['bad__plain', 'E_TOOL_FAILED'],
    ]) {
      const answer = (await client.callTool({ name: name ?? '', arguments: {} })) as Answer
      const { error } = answer.structuredContent
      expect(error.code).toBe(code)
      expect(error.message.length).toBeLessThan(200)
      expect(error.correlationId).toMatch(/^[0-9a-f-]{36}$/)
      for (const secret of ['id_rsa', '10.1.2.3', 'hunter2', 'abcdef123456', 'today.txt', 'secret.js', 'at login', dir])
        expect(JSON.stringify(answer), `${name} ${secret}`).not.toContain(secret)
    }
    const line = logged.map((one) => JSON.parse(one)).find(({ outcome }) => outcome === 'E_INTERNAL')
    expect(line).toMatchObject({ tool: 'bad.bug', callId: expect.any(String) })
  })

  it.each([
    ['bug', 'TypeError', 'E_INTERNAL'],
    ['plain', 'Error', 'E_TOOL_FAILED'],
  ])('tells values of the environment neither to a client nor to the log: a %s [OUT-05]', async (_kind, type, code) => {
    const secret = 'sk-from-the-environment-0123456789'
    const configured = 'from-the-configuration-0123456789'
    const here = place(
      { exposure: { mode: 'direct' }, modules: { leaky: { config: { password: '${OTHER}' } } } },
      {
        'leaky.mjs': `export default { name: 'leaky', description: 'Tells what it was given.', tools: { tell: {
          description: 'Fails, and says with what.', effect: 'read',
          run(_input, { config }) { throw new ${type}('no login with ' + process.env.SERVICE_TOKEN + ' or ' + config.password + ' at ' + import.meta.url) } } } }`,
      },
    )
    const { send, answer, stderr } = await talkTo({
      ...here,
      env: { ...here.env, SERVICE_TOKEN: secret, OTHER: configured },
    })
    send({ id: 1, method: 'tools/call', params: { name: 'leaky__tell', arguments: {} } })
    const { result } = (await answer(1)) as Answer
    const { error } = result.structuredContent
    expect(error).toMatchObject({ code, correlationId: expect.stringMatching(/^[0-9a-f-]{36}$/) })
    expect(error.message.length).toBeLessThan(200)
    for (const told of [secret, configured, here.dir]) expect(JSON.stringify(result)).not.toContain(told)
    if (code === 'E_INTERNAL') await until(() => stderr().includes(error.correlationId))
    // The operator learns where it broke, and not with what.
    expect(stderr().includes('leaky.mjs')).toBe(code === 'E_INTERNAL')
    for (const told of [secret, configured]) expect(stderr()).not.toContain(told)
  })
})
