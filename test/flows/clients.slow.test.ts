import { describe, expect, it } from 'vitest'
import { type Answer, answerOf, serveAppOverHttp, startApp } from '../app.ts'
import { callTool, connectOverHttp, connectTo } from '../client.ts'
import { place, serveHttp } from '../process.ts'
import { makeTool } from '../tools.ts'
import { scripted } from '../upstream/host.ts'

const many = { id: 'many', summary: 'many', origin: 'module', state: 'ready' } as const
const FIVE = ['search_tools', 'get_tool', 'execute_tool', 'list_categories', 'browse_category']

async function appWith(settings: Record<string, unknown> = {}, tools = 10) {
  const { exposure, ...others } = settings
  const { app } = await startApp({ exposure: { primitives: false, ...(exposure as object) }, ...others })
  app.catalog.set(many, { tools: Array.from({ length: tools }, (_, n) => makeTool(`many.tool_${n}`)) })
  return app
}
const namesOf = async (client: Awaited<ReturnType<typeof connectTo>>): Promise<string[]> =>
  (await client.listTools()).tools.map(({ name }) => name)

const textOf = async (client: Awaited<ReturnType<typeof connectTo>>, name: string): Promise<string> =>
  ((await client.callTool({ name, arguments: {} })) as Answer).content[0].text

describe.each(['legacy', 'modern'] as const)('clients of the %s era', (era) => {
  const as = (app: Awaited<ReturnType<typeof appWith>>, name: string) => connectTo(app, era, {}, 'default', name)

  it('get no more tools than they support, each client separately, and all run the same ones', async () => {
    const app = await appWith({}, 60)
    const [cursor, other] = [await as(app, 'cursor-vscode'), await as(app, 'other')]
    expect(await namesOf(cursor)).toEqual(FIVE)
    expect((await namesOf(other)).length).toBeGreaterThan(60)
    const status = JSON.parse(
      ((await cursor.readResource({ uri: 'server://status' })).contents[0] as Answer).text as string,
    )
    expect(status.why).toContain('more than the 40 that this client accepts')
    for (const client of [cursor, other]) expect(await textOf(client, 'many__tool_59')).toBe('many.tool_59')
  })

  it('with a small limit get the five meta-tools first, then pinned tools, then those for background work', async () => {
    const pinned = ['many.tool_1', 'many.tool_2']
    const clients = { five: { maxTools: 5 }, six: { maxTools: 6 }, ten: { maxTools: 10 }, twenty: { maxTools: 20 } }
    const app = await appWith({ exposure: { mode: 'discovery', pinned, primitives: true }, clients }, 3)
    const lists = await Promise.all(['five', 'six', 'ten', 'twenty'].map(async (name) => namesOf(await as(app, name))))
    expect(lists.slice(0, 3)).toEqual([FIVE, [...FIVE, 'many__tool_1'], [...FIVE, 'many__tool_1', 'many__tool_2']])
    expect(lists[3]).toHaveLength(era === 'legacy' ? 15 : 14)
    expect(lists[3]?.slice(-2)).toEqual(['many__tool_1', 'many__tool_2'])
  })

  it('can call a tool by the short listed name and by its full name', async () => {
    const app = await appWith({ clients: { tiny: { maxNameLength: 20 } } }, 0)
    app.catalog.set(many, { tools: [makeTool('many.a_name_of_more_than_twenty')] })
    const client = await as(app, 'tiny')
    const listed = await namesOf(client)
    expect(Math.max(...listed.map((name) => name.length))).toBeLessThanOrEqual(20)
    const short = listed.find((name) => name.startsWith('many')) ?? ''
    for (const name of [short, 'many__a_name_of_more_than_twenty', 'many.a_name_of_more_than_twenty'])
      expect(await textOf(client, name), name).toBe('many.a_name_of_more_than_twenty')
  })

  it('with their own tool search are asked to keep the five meta-tools loaded; others are not', async () => {
    const app = await appWith({ exposure: { mode: 'discovery' } })
    const metaFor = async (name: string) => {
      const { tools } = await (await as(app, name)).listTools()
      return new Set(tools.map((tool) => JSON.stringify(tool._meta)))
    }
    expect(await metaFor('claude-code')).toEqual(new Set(['{"anthropic/alwaysLoad":true}']))
    expect(await metaFor('somebody')).toEqual(new Set(['{"anthropic/alwaysLoad":true}']))
    expect(await metaFor('cursor-vscode')).toEqual(new Set([undefined]))
  })

  it('get the beginning and a handle instead of a result that is longer than they support', async () => {
    const { app } = await startApp({
      exposure: { mode: 'direct' },
      mcpServers: { s: scripted() },
      clients: { tiny: { maxResultBytes: 2_000 } },
    })
    await app.settled(20_000)
    const [tiny, other] = [await as(app, 'tiny'), await as(app, 'other')]
    const huge = { name: 's__huge', arguments: { bytes: 5_000 } }
    const kept = (await tiny.callTool(huge)) as Answer
    expect(JSON.stringify(kept).length).toBeLessThan(2_000)
    expect(kept.content[0].text).toMatch(
      /^\[mcp_s\.huge: 5\.0 kB, 1 line, about 969 tokens, above the limit of 2\.0 kB of this client\. Kept as r_/,
    )
    expect(((await other.callTool(huge)) as Answer).content[0].text.length).toBe(5_000)
    expect(((await tiny.callTool({ name: 's__echo', arguments: { text: 'short' } })) as Answer).content[0].text).toBe(
      'short',
    )
  })
})

describe('clients over HTTP', () => {
  it.each(['legacy', 'modern'] as const)('are distinguished by their names, with one token (%s)', async (era) => {
    const tools = Array.from({ length: 45 }, (_, n) => `t${n}: tool`).join(', ')
    const many = `const tool = { description: 'Does nothing, whatever it is given.', effect: 'read', run: () => 1 }
      export default { name: 'many', description: 'Many.', tools: { ${tools} } }`
    const settings = { exposure: { primitives: false }, clients: { searcher: { exposure: { mode: 'discovery' } } } }
    const { url, token } = await serveHttp(place(settings, { 'many.mjs': many }))
    const as = async (name: string): Promise<string[]> => {
      const client = await connectOverHttp(url, token, era, {}, name)
      const names = (await client.listTools()).tools.map((tool) => tool.name)
      await client.close()
      return names
    }
    expect(await as('other')).toContain('many__t44')
    expect(await as('Cursor')).toEqual(FIVE)
    expect(await as('another')).toContain('many__t44')
    // Only its exposure differs from that of unknown clients.
    expect(await as('searcher')).toEqual(FIVE)
  })
})

describe('a client that ignores changed lists', () => {
  it('is not notified of changes, while others are', async () => {
    const app = await appWith({ exposure: { mode: 'direct' } })
    const told: string[] = []
    const clients = await Promise.all(
      ['claude-ai', 'other'].map((name) =>
        connectTo(
          app,
          'legacy',
          { listChanged: { tools: { autoRefresh: false, debounceMs: 0, onChanged: () => void told.push(name) } } },
          'default',
          name,
        ),
      ),
    )
    for (const client of clients) await client.listTools()
    app.catalog.set(many, { tools: [makeTool('many.new_one')] })
    await expect.poll(() => told).toEqual(['other'])
    await new Promise((resolve) => setTimeout(resolve, 300))
    expect(told).toEqual(['other'])
  })
})

describe('clients of the modern era over HTTP', () => {
  it('learn of changes of their own list, although a client with the same token has another one', async () => {
    const settings = {
      exposure: { mode: 'discovery', primitives: false },
      clients: { whole: { exposure: { mode: 'direct' } } },
    }
    const { app } = await startApp(settings)
    app.catalog.set(many, { tools: [makeTool('many.one')] })
    const http = await serveAppOverHttp(app)
    const told: string[] = []
    for (const name of ['few', 'whole']) {
      const onChanged = () => void told.push(name)
      const listChanged = { tools: { autoRefresh: false, debounceMs: 0, onChanged } }
      const client = await connectOverHttp(`${http.url}/mcp`, undefined, 'modern', { listChanged }, name)
      await client.listTools()
    }
    app.catalog.set(many, { tools: [makeTool('many.one', { description: 'Does something else now.' })] })
    await expect.poll(() => told).toEqual(['whole'])
  })
})

describe('the client name', () => {
  it('grants no rights: denied tools do not exist, whatever the name', async () => {
    const app = await appWith({ policy: { deny: ['many.tool_3'] } })
    for (const name of ['claude-code', 'cursor-vscode', 'admin', '*']) {
      const client = await connectTo(app, 'legacy', {}, 'default', name)
      expect(answerOf(await callTool(client, { name: 'many__tool_3', arguments: {} })).error.code, name).toBe(
        'E_NOT_FOUND',
      )
    }
  })
})

describe('client settings', () => {
  it('apply to the next session after a reload', async () => {
    const { app, dir } = await startApp({ exposure: { mode: 'direct', primitives: false } })
    app.catalog.set(many, { tools: Array.from({ length: 10 }, (_, n) => makeTool(`many.tool_${n}`)) })
    const before = await connectTo(app, 'legacy', {}, 'default', 'mine')
    expect(await namesOf(before)).toContain('many__tool_9')
    const { readConfig } = await import('../../src/config/load-config.ts')
    const settings = { exposure: { mode: 'direct', primitives: false }, clients: { mine: { maxTools: 5 } } }
    const { config } = readConfig(JSON.stringify(settings), `${dir}/mcp.config.json`, { env: {}, cwd: dir })
    expect((await app.reload(config)).live).toContain('clients.mine')
    expect(await namesOf(await connectTo(app, 'legacy', {}, 'default', 'mine'))).toEqual(FIVE)
  })
})
