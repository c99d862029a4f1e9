import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Client } from '@modelcontextprotocol/client'
import { describe, expect, it, vi } from 'vitest'
import type { App } from '../../src/app/app.ts'
import { readConfig } from '../../src/config/load-config.ts'
import { type Answer, answerOf, serveAppOverHttp, startApp, temporaryFolder } from '../app.ts'
import { callTool, connectOverHttp, connectTo } from '../client.ts'
import { ask, initialize, modern, open, readUntil } from '../server/echo.ts'
import { scripted } from '../upstream/host.ts'

const TOKEN = 'the-token-of-the-operator'
const ANN = 'ann-has-this-token-for-work'
const BOB = 'bob-has-this-token-for-home'

/** Returns the caller that a tool sees; accepts any argument. */
const WHO = `export default {
  name: 'who',
  description: 'Tells who asks.',
  tools: {
    asks: {
      description: 'Tells who asks, and from where.',
      effect: 'read',
      input: { type: 'object', properties: {}, additionalProperties: true },
      run: (input, ctx) => ({
        input, origin: ctx.origin, profile: ctx.profile.id, principal: ctx.caller.principal, roles: ctx.caller.roles,
        provider: ctx.profile.provider, turn: ctx.caller.turn ?? null,
      }),
    },
  },
}`

async function gateway(settings: Record<string, unknown> = {}, modules: Record<string, string> = {}) {
  const dir = temporaryFolder()
  mkdirSync(join(dir, 'modules'))
  for (const [file, text] of Object.entries({ 'who.mjs': WHO, ...modules }))
    writeFileSync(join(dir, 'modules', file), text)
  return await startApp({ exposure: { mode: 'direct', primitives: false }, ...settings }, dir)
}

const tokens = [
  { token: ANN, principal: 'ann', profile: 'work', roles: ['admin'] },
  { token: BOB, principal: 'bob' },
]
async function listen(app: App, http: Record<string, unknown> = {}, profile?: string): Promise<string> {
  const { url } = await serveAppOverHttp(
    app,
    { token: TOKEN, tokens, ...http },
    profile === undefined ? {} : { profile },
  )
  return url
}

const bearer = (token: string) => ({ authorization: `Bearer ${token}` })

const asks = async (
  client: Client,
  meta?: Record<string, unknown>,
  input: Record<string, unknown> = {},
): Promise<Answer> =>
  answerOf(await client.callTool({ name: 'who__asks', arguments: input, ...(meta ? { _meta: meta } : {}) }))
const names = async (client: Client, meta?: Record<string, unknown>): Promise<string[]> =>
  (await client.listTools(meta ? { _meta: meta } : undefined)).tools.map(({ name }) => name)

const HELLO = ['hello__say_hello', 'hello__greet_many', 'hello__status']
const TWO = { profiles: { work: { use: ['who'] }, home: { use: ['hello'] } } }

describe('the profile of a client', () => {
  it('is that of the command line over stdio, and over HTTP if the address names none', async () => {
    const { app } = await gateway(TWO)
    const client = await connectTo(app, 'legacy', {}, 'work')
    expect(await names(client)).toEqual(['who__asks'])
    const url = await listen(app, {}, 'home')
    expect(await names(await connectOverHttp(`${url}/mcp`, TOKEN, 'legacy'))).toEqual(HELLO)
  })

  it.each(['legacy', 'modern'] as const)('is named in the address, for %s clients', async (era) => {
    const { app } = await gateway(TWO)
    const url = await listen(app)
    expect(await names(await connectOverHttp(`${url}/mcp/work`, TOKEN, era))).toEqual(['who__asks'])
    expect(await names(await connectOverHttp(`${url}/mcp/home`, TOKEN, era))).not.toContain('who__asks')
    expect(await names(await connectOverHttp(`${url}/mcp`, TOKEN, era))).toContain('who__asks')
  })

  it('that does not exist is not found, and clients without a token cannot tell which exist', async () => {
    const { app } = await gateway(TWO)
    const url = await listen(app)
    const post = (path: string, token?: string) =>
      ask(url, { path, body: initialize, ...(token === undefined ? { anonymous: true } : { headers: bearer(token) }) })
    expect(await post('/mcp/nobody', TOKEN)).toMatchObject({ status: 404, json: { error: { message: 'Not found' } } })
    expect([(await post('/mcp/work')).text, (await post('/mcp/work')).status]).toEqual([
      (await post('/mcp/nobody')).text,
      401,
    ])
    expect((await post('/mcp/work/more', TOKEN)).status).toBe(404)
    expect((await post('/health/work', TOKEN)).status).toBe(404)
  })

  it('is that of its token, which opens no other address', async () => {
    const { app } = await gateway(TWO)
    const url = await listen(app)
    const ann = await asks(await connectOverHttp(`${url}/mcp`, ANN, 'modern'))
    expect(ann).toMatchObject({ profile: 'work', principal: 'ann', roles: ['admin'] })
    expect((await asks(await connectOverHttp(`${url}/mcp/work`, ANN, 'legacy'))).profile).toBe('work')
    for (const path of ['/mcp/home', '/mcp/default', '/mcp/nobody', '/sse/home'])
      expect(
        (
          await ask(url, {
            path,
            headers: bearer(ANN),
            ...(path.startsWith('/sse') ? { method: 'GET' } : { body: initialize }),
          })
        ).status,
      ).toBe(403)
    expect((await asks(await connectOverHttp(`${url}/mcp/work`, BOB, 'modern'))).principal).toBe('bob')
  })

  it('stays with a session, which no other profile or principal can use', async () => {
    const { app } = await gateway(TWO)
    const url = await listen(app)
    const { headers } = await ask(url, { path: '/mcp/work', headers: bearer(BOB), body: initialize })
    const session = { 'mcp-session-id': String(headers['mcp-session-id']) }
    const list = { jsonrpc: '2.0', id: 1, method: 'tools/list' }
    const status = async (path: string, token: string) =>
      (await ask(url, { path, headers: { ...bearer(token), ...session }, body: list })).status
    expect(await status('/mcp/work', BOB)).toBe(200)
    expect([await status('/mcp/home', BOB), await status('/mcp', BOB), await status('/mcp/work', TOKEN)]).toEqual([
      404, 404, 404,
    ])
    // The same profile, with a token that has other rights.
    expect(await status('/mcp/work', ANN)).toBe(404)
  })

  it('is named in the address of the older transport too', async () => {
    const { app } = await gateway(TWO)
    const url = await listen(app)
    const stream = await open(url, { method: 'GET', path: '/sse/work', headers: bearer(BOB) })
    const path = /data: (\S+)/.exec(await readUntil(stream, (text) => text.includes('\n\n')))?.[1] ?? ''
    expect(path).toMatch(/^\/messages\/work\?sessionId=/)
    const post = (body: object) => ask(url, { path, headers: bearer(BOB), body })
    expect((await post(initialize)).status).toBe(202)
    await post({ jsonrpc: '2.0', method: 'notifications/initialized' })
    await post({ jsonrpc: '2.0', id: 5, method: 'tools/list' })
    const listed = await readUntil(stream, (text) => text.includes('"id":5'))
    expect(listed).toContain('who__asks')
    expect(listed).not.toContain('hello__greet')
    expect(
      (await ask(url, { path: path.replace('/work', '/home'), headers: bearer(BOB), body: initialize })).status,
    ).toBe(404)
    stream.destroy()
  })

  it.each(['legacy', 'modern'] as const)(
    'can change with each request of trusted %s clients, also by guild',
    async (era) => {
      const { app } = await gateway({ ...TWO, server: { trustMeta: 'all' } })
      const client = await connectTo(app, era)
      expect(await names(client, { guild_id: 'work' })).toEqual(['who__asks'])
      expect(await names(client, { guild_id: 'home' })).toEqual(HELLO)
      expect(await names(client, { 'pegboard/profile': 'nobody' })).toEqual([])
      expect(await asks(client, { guild_id: 'work', provider: 'openai' })).toMatchObject({
        profile: 'work',
        provider: 'openai',
        origin: { guildId: 'work' },
      })
      expect((await asks(client, { guild_id: 'a guild of no profile' })).origin.guildId).toBe('a guild of no profile')
      expect((await asks(client)).origin.guildId).toBe('')
      const refused = await callTool(client, { name: 'who__asks', arguments: {}, _meta: { profile: 'home' } })
      expect(JSON.stringify(refused)).toContain('E_NOT_FOUND')
      const url = await listen(app)
      const remote = await connectOverHttp(`${url}/mcp`, TOKEN, era)
      expect(await names(remote, { profile: 'work' })).toEqual(['who__asks'])
      expect(await names(await connectOverHttp(`${url}/mcp`, ANN, era), { profile: 'home' })).toEqual(['who__asks'])
    },
  )
})

describe('the origin of a request', () => {
  it.each(['legacy', 'modern'] as const)(
    'is that of the request, then of the profile, then mcp, for %s clients [CTX-04]',
    async (era) => {
      const { app } = await gateway({ profiles: { chat: { platform: 'discord' } } })
      const chat = await connectTo(app, era, {}, 'chat')
      expect((await asks(chat, { platform: 'matrix' })).origin.platform).toBe('matrix')
      expect((await asks(chat)).origin.platform).toBe('discord')
      expect((await asks(await connectTo(app, era))).origin.platform).toBe('mcp')
    },
  )

  it.each(['legacy', 'modern'] as const)('includes channel, message and user for %s clients', async (era) => {
    const { app } = await gateway()
    const client = await connectTo(app, era)
    const said = {
      channel_id: 'c1',
      message_id: 'm1',
      user_id: 'u1',
      user_name: 'Ann',
      message: 'hi',
      deliberate: 'on',
    }
    const { origin, turn } = await asks(client, { toolctx: said })
    expect(origin).toEqual({
      platform: 'mcp',
      channelId: 'c1',
      messageId: 'm1',
      userId: 'u1',
      userName: 'Ann',
      guildId: '',
    })
    expect(turn).toEqual({ message: 'hi', deliberate: 'on' })
    expect((await asks(client)).turn).toBeNull()
  })

  it.each(['legacy', 'modern'] as const)(
    'cannot override the name of its token, for %s clients [CTX-06]',
    async (era) => {
      const { app } = await gateway({ ...TWO, server: { trustMeta: 'all' } })
      const url = await listen(app)
      const client = await connectOverHttp(`${url}/mcp/work`, BOB, era)
      const { origin, principal } = await asks(client, { user_id: 'root', user_name: 'Root', channel_id: 'c1' })
      expect(principal).toBe('bob')
      expect(origin).toMatchObject({ userId: 'bob', userName: 'bob', channelId: 'c1' })
      expect((await asks(client)).origin.userId).toBe('bob')
    },
  )

  it.each(['legacy', 'modern'] as const)('cannot be set by arguments, for %s clients', async (era) => {
    const { app } = await gateway({ ...TWO, server: { trustMeta: 'all' } })
    const client = await connectTo(app, era)
    const forged = {
      ctx: { origin: { userId: 'root' }, caller: { principal: 'root' }, profile: { id: 'home' } },
      _ctx: { profile: 'home' },
      _meta: { profile: 'home', user_id: 'root', 'pegboard/user_id': 'root' },
      toolctx: { profile: 'home', user_id: 'root' },
      profile: 'home',
      user_id: 'root',
      platform: 'forged',
    }
    const { input, ...context } = await asks(client, undefined, forged)
    const { ctx: _context, _ctx: _same, ...others } = forged
    expect(input).toEqual(others)
    expect(context).toEqual(await asks(client).then(({ input: _none, ...same }) => same))
    const through = answerOf(
      await client.callTool({
        name: 'execute_tool',
        arguments: { name: 'who.asks', params: forged, _meta: forged._meta },
      }),
    )
    expect(JSON.stringify(through.data?.origin ?? through)).not.toContain('root')
  })

  it.each(['legacy', 'modern'] as const)('is not passed on to servers, for %s clients', async (era) => {
    const { app } = await gateway({ mcpServers: { s: scripted() } })
    await app.settled(20_000)
    const client = await connectTo(app, era)
    const meta = { user_id: 'u1', 'pegboard/message': 'secret', toolctx: { channel_id: 'c' }, traceparent: '00-1' }
    const result = (await client.callTool({ name: 's__get_meta', arguments: {}, _meta: meta })) as Answer
    expect(result.content[0].text).toContain('00-1')
    expect(result.content[0].text).not.toMatch(/u1|secret|channel_id/)
  })
})

const BLOCK = `export default {
  name: 'people',
  description: 'Blocks people.',
  tools: {
    block_user: { description: 'Blocks a person.', effect: 'write', needs: { flags: ['user_blocking_enabled'] }, run: () => 'blocked' },
  },
}`
const WEB = { modules: { web: { config: { access: 'read' } } } }
const READS = ['web__web_search', 'web__fetch_url', 'web__extract']
const WITHOUT_READER = ['web__web_search', 'web__extract']

describe('a configuration change', () => {
  it('enables a flag for connected clients, which are notified', async () => {
    const settings = (on: boolean) => ({
      exposure: { mode: 'direct', primitives: false },
      profiles: { chat: { flags: { user_blocking_enabled: on }, use: ['people'] } },
      loader: { importTimeoutMs: 60_000 },
      search: { embedderOptions: { queryTimeoutMs: 60_000 } },
    })
    const { app, dir } = await gateway(settings(false), { 'people.mjs': BLOCK })
    const url = await listen(app)
    const old = await connectTo(app, 'legacy', {}, 'chat')
    const heard: string[] = []
    old.fallbackNotificationHandler = async ({ method }) => void heard.push(method)
    const call = async () => JSON.stringify(await old.callTool({ name: 'people__block_user', arguments: {} }))
    expect(await names(old)).toEqual([])
    expect(await call()).toContain('E_TOOL_HIDDEN')
    const request = modern('sub', 'subscriptions/listen', { notifications: { toolsListChanged: true } })
    const listening = (path: string) => open(url, { ...request, path, headers: { ...request.headers, ...bearer(BOB) } })
    const [stream, other] = [await listening('/mcp/chat'), await listening('/mcp')]
    await readUntil(stream, (text) => text.includes('acknowledged'))
    let told = ''
    other.setEncoding('utf8').on('data', (text) => (told += text))
    const { config } = readConfig(JSON.stringify(settings(true)), join(dir, 'mcp.config.json'), {
      env: { PEGBOARD_STATE_DIR: join(dir, 'state') },
      cwd: dir,
    })
    expect(await app.reload(config)).toEqual({ live: ['profiles.chat'], restart: [] })
    expect(await readUntil(stream, (text) => text.includes('list_changed'))).toContain(
      'notifications/tools/list_changed',
    )
    await vi.waitFor(() => expect(heard).toEqual(['notifications/tools/list_changed']), { timeout: 15_000 })
    expect(await names(old)).toEqual(['people__block_user'])
    expect(await call()).toContain('blocked')
    // Clients whose list is unchanged get no notification.
    expect(told).not.toContain('list_changed')
    stream.destroy()
    other.destroy()
  })

  it('that removes a profile leaves its clients with nothing', async () => {
    const { app, dir } = await gateway(TWO)
    const client = await connectTo(app, 'legacy', {}, 'work')
    const url = await listen(app)
    const { config } = readConfig('{"exposure":{"mode":"direct","primitives":false}}', join(dir, 'mcp.config.json'), {
      env: { PEGBOARD_STATE_DIR: join(dir, 'state') },
      cwd: dir,
    })
    await app.reload(config)
    expect(await names(client)).toEqual([])
    expect(JSON.stringify(await callTool(client, { name: 'who__asks', arguments: {} }))).toContain(
      'There are no tools now. The operator of Pegboard decides what this client can use.',
    )
    expect((await ask(url, { path: '/mcp/work', headers: bearer(BOB), body: initialize })).status).toBe(404)
  })
})

describe("a profile's own server", () => {
  const listed = (file: string, ...tools: string[]) => {
    writeFileSync(file, JSON.stringify({ tools: tools.map((name) => ({ name, description: `Does ${name}.` })) }))
    return {
      command: process.execPath,
      args: [fileURLToPath(new URL('../fixtures/upstreams/listed.mjs', import.meta.url)), file],
      trust: 'always',
      start: 'eager',
    }
  }

  it('replaces the bundled tool in its profile while it has tools, for two guilds on one connection too [TOM-34] [TOM-36] [CTX-07]', async () => {
    const file = join(temporaryFolder(), 'tools.json')
    const { app } = await gateway({
      ...WEB,
      server: { instructions: 'Read with {url_fetch_tool}.', trustMeta: 'all' },
      profiles: {
        a: { use: ['web'], mcpServers: { far: { ...listed(file, 'scrape'), type: 'url_fetcher' } } },
        b: { use: ['web'] },
        c: { use: ['hello'] },
      },
    })
    const searches = async (client: Client) =>
      /use (\S+)\. The text/.exec(
        (await client.listTools()).tools.find(({ name }) => name === 'web__web_search')?.description ?? '',
      )?.[1]
    await app.settled(20_000)
    const [a, b] = [await connectTo(app, 'legacy', {}, 'a'), await connectTo(app, 'modern', {}, 'b')]
    expect(await names(a)).toEqual(['far__scrape', ...WITHOUT_READER])
    expect(a.getInstructions()).toContain('Read with far__scrape.')
    expect(b.getInstructions()).toContain('Read with web__fetch_url.')
    const c = await connectTo(app, 'legacy', {}, 'c')
    expect(c.getInstructions()).toContain('Read with a tool that reads web pages, if you have one.')
    const prompted = async (client: Client) =>
      (
        (await client.getPrompt({ name: 'system_prompt', arguments: { user_prompt: 'Use {url_fetch_tool}.' } }))
          .messages[0] as Answer
      ).content.text
    expect(await prompted(a)).toContain('far__scrape')
    expect(await names(b)).toEqual(READS)
    expect([await searches(a), await searches(b)]).toEqual(['far__scrape', 'web__fetch_url'])
    for (const era of ['legacy', 'modern'] as const) {
      const bot = await connectTo(app, era)
      expect(await names(bot, { guild_id: 'a' })).toEqual(['far__scrape', ...WITHOUT_READER])
      expect(await names(bot, { guild_id: 'b' })).toEqual(READS)
    }
    listed(file)
    await vi.waitFor(async () => expect(await names(a)).toEqual(READS), { timeout: 10_000 })
    expect(await searches(a)).toBe('web__fetch_url')
  })

  it('has a tool dropped, with a warning, if another one has its name [TOM-33]', async () => {
    const file = join(temporaryFolder(), 'tools.json')
    const { app, logged } = await gateway({
      ...WEB,
      profiles: { a: { use: ['web'], mcpServers: { far: listed(file, 'web_search', 'fine') } }, b: { use: ['web'] } },
    })
    await app.settled(20_000)
    expect(await names(await connectTo(app, 'legacy', {}, 'a'))).toEqual(['far__fine', ...READS])
    expect(await names(await connectTo(app, 'modern', {}, 'a'))).toContain('far__fine')
    expect(await names(await connectTo(app, 'legacy', {}, 'b'))).toEqual(READS)
    expect(logged.map((line) => JSON.parse(line))).toMatchObject([
      { level: 'warn', tool: 'mcp_far.web_search', profile: 'a' },
    ])
  })
})
