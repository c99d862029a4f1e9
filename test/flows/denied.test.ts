import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { Tool } from '../../src/core/tool.ts'
import { type Answer, startApp, temporaryFolder } from '../app.ts'
import { callTool, connectTo } from '../client.ts'
import { callRoutes, withoutChangingValues } from '../security/call-routes.ts'
import { makeTool } from '../tools.ts'

const LATER = { watchers: true, scheduler: true }

/** Every route to a server tool, directly or through a tool that calls server tools. */
const waysToServers = (server: string, tool: string): ReturnType<typeof callRoutes> => {
  const params = { server, tool, arguments: { text: 'canary' } }
  const name = 'mcp.call_tool'
  return [
    { name: 'mcp__call_tool', arguments: params },
    { name: 'execute_tool', arguments: { name, params } },
    { name: 'run_parallel', arguments: { actions: [{ name, params }] } },
    ...callRoutes(`mcp_fake.${tool}`),
  ]
}

describe('a tool of a disabled server', () => {
  it('is refused with E_TOOL_DISABLED, unless the caller may not know the server', async () => {
    const { app } = await startApp({
      mcpServers: { calc: { command: 'calc', enabled: false, prefix: 'sums' } },
      profiles: { small: { use: ['hello'] } },
    })
    const client = await connectTo(app)
    for (const name of ['mcp_calc.math', 'calc.math', 'sums__math'])
      expect((await callTool(client, { name: 'execute_tool', arguments: { name } })).structuredContent).toMatchObject({
        error: {
          code: 'E_TOOL_DISABLED',
          message: `'${name}' is not available: the operator disabled the server calc.`,
          hint: 'Use another tool. The operator can enable the server with: pegboard enable calc',
        },
      })
    const small = await connectTo(app, 'legacy', {}, 'small')
    const name = 'mcp_calc.math'
    expect((await callTool(small, { name: 'execute_tool', arguments: { name } })).structuredContent).toMatchObject({
      error: { code: 'E_NOT_FOUND' },
    })
  })
})

describe('a tool of a module that policy denies', () => {
  it('does not change what a search answers', async () => {
    const { app } = await startApp({ policy: { deny: ['zoo.lion'] }, exposure: { mode: 'discovery' } })
    const client = await connectTo(app)
    const gnu = makeTool('zoo.gnu', { description: 'Grazes in the savannah.' })
    const lion = makeTool('zoo.lion', { description: 'Roars at the zebra.', aliases: ['big cat'] })
    const searchWith = async (...tools: readonly Tool[]) => {
      app.catalog.set({ id: 'zoo', summary: 'Animals.', origin: 'module', state: 'ready' }, { tools })
      await app.indexed()
      return withoutChangingValues(await callTool(client, { name: 'search_tools', arguments: { query: 'big cat' } }))
    }
    expect(await searchWith(gnu, lion)).toBe(await searchWith(gnu))
  })
})

describe('a server tool that policy denies', () => {
  const scripted = { command: 'node', args: [join(import.meta.dirname, '../fixtures/upstreams/scripted.mjs')] }
  const open = async (settings: object, server: object = {}, dir = temporaryFolder()) => {
    const fake = { ...scripted, start: 'eager', ...server }
    const { app } = await startApp({ execution: LATER, mcpServers: { fake }, ...settings }, dir)
    await app.settled(20_000)
    return app
  }

  it('is rejected as an unknown name on every route, including the mcp module', async () => {
    const never = await open({}, { deny: ['echo'] })
    for (const policy of [{ deny: ['mcp_fake.echo'] }, { hidden: ['mcp_fake.echo'] }]) {
      const real = await open({ policy })
      for (const era of ['legacy', 'modern'] as const) {
        const [denied, unknown] = [await connectTo(real, era), await connectTo(never, era)]
        for (const tool of ['echo', 'fake__echo', 'ECHO'])
          for (const server of ['fake', 'mcp_fake'])
            for (const call of waysToServers(server, tool)) {
              const [answer, other] = [await callTool(denied, call), await callTool(unknown, call)].map(
                withoutChangingValues,
              )
              const what = `${JSON.stringify(policy)} ${call.name} ${server} ${tool}`
              expect(answer, what).toContain('E_NOT_FOUND')
              expect(answer, what).toBe(other)
            }
      }
    }
  })

  it('is in no list of the mcp module, while the others are', async () => {
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

  it('is not counted in the list of servers', async () => {
    const [denied, unknown] = [
      await connectTo(await open({ policy: { deny: ['mcp_fake.echo'] } })),
      await connectTo(await open({}, { deny: ['echo'] })),
    ]
    const serversFor = async (client: typeof denied) =>
      ((await client.callTool({ name: 'mcp__list_servers', arguments: {} })) as Answer).structuredContent.servers
    expect(await serversFor(denied)).toEqual(await serversFor(unknown))
  })

  it('is not named in the notes about its server', async () => {
    const dir = temporaryFolder()
    const inputSchema = { type: 'object', patternProperties: { '^(?=a)': { type: 'string' } } }
    writeFileSync(
      join(dir, 'tools.json'),
      JSON.stringify({ tools: [{ name: 'ahead', inputSchema }, { name: 'plain' }] }),
    )
    const args = [join(import.meta.dirname, '../fixtures/upstreams/listed.mjs'), join(dir, 'tools.json')]
    const client = await connectTo(await open({ policy: { deny: ['mcp_fake.ahead'] } }, { args }))
    const answer = (await client.callTool({ name: 'mcp__list_servers', arguments: {} })) as Answer
    expect(answer.structuredContent).toEqual({
      servers: [
        {
          id: 'fake',
          category: 'mcp_fake',
          state: 'started',
          tools: 1,
          transport: 'stdio',
          era: 'legacy',
          version: '1.0.0',
        },
      ],
      total: 1,
    })
  })

  it('needs approval, is counted and recorded like a direct call', async () => {
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

  it('cannot be called through a read-only tool', async () => {
    const client = await connectTo(await open({ policy: { maxEffect: 'read' } }))
    const answer = await callTool(client, {
      name: 'mcp__call_tool',
      arguments: { server: 'fake', tool: 'echo', arguments: { text: 'canary' } },
    })
    expect(answer.error.data.code).toBe('E_NOT_FOUND')
  })
})

describe('a module that fails', () => {
  it('reports a code, a short message and an id to clients: no stack, path, address or environment', async () => {
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
})
