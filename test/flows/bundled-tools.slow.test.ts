import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { type Caller, localCaller } from '../../src/core/caller.ts'
import { toErrorResult, toMcpResult } from '../../src/server/mcp-results.ts'
import { type Answer, answerOf, startApp } from '../app.ts'
import { callsOf, place, talkTo } from '../process.ts'

/** The bundled modules, for callers of several profiles. */
async function start(modules: object, profiles: object) {
  const enabled = { web: { config: { access: 'read' } }, media: { enabled: true }, ...modules }
  const { app } = await startApp({ modules: enabled, profiles })
  const callerOf = (profile: string): Caller => ({ ...localCaller, profile })
  const call = async (profile: string, name: string, input: object = {}): Promise<Answer> => {
    try {
      const caller = callerOf(profile)
      return toMcpResult(await app.surface.call({ name, input, caller }), app.server.files, caller)
    } catch (error) {
      return toErrorResult(error as never, false)
    }
  }
  const names = (profile: string) => app.surface.list(callerOf(profile), 'direct').map(({ name }) => name)
  return { app, callerOf, call, names }
}

it('fetch_url is hidden from a NovelAI profile, and a direct call is rejected [TOM-03, TOM-35]', async () => {
  const { call, names } = await start({}, { novel: { provider: 'NovelAI' }, other: { provider: 'openai' } })
  expect([names('novel').includes('web__fetch_url'), names('other').includes('web__fetch_url')]).toEqual([false, true])
  expect((await call('novel', 'fetch_url', { url: 'http://127.0.0.1:9/' })).content[0].text).toBe(
    'E_TOOL_HIDDEN: web.fetch_url is not available: it is not for novelai. Use another tool until that has changed.',
  )
})

it('generate_image without a backend is neither listed nor found, and reported as unavailable [TOM-14]', async () => {
  const image = { type: 'custom', base_url: 'http://127.0.0.1:9' }
  const { call, names } = await start({}, { some: { modules: { media: { config: { image } } } } })
  const listed = (profile: string) => names(profile).includes('media__generate_image')
  expect([listed('default'), listed('some')]).toEqual([false, true])
  const found = answerOf(await call('default', 'search_tools', { query: 'generate_image picture', max_results: 20 }))
  expect(found.tools.map(({ name }: Answer) => name)).not.toContain('media.generate_image')
  const refused = await call('default', 'execute_tool', { name: 'media.generate_image', params: { prompt: 'a cat' } })
  expect(refused.content[0].text).toMatch(/^E_TOOL_HIDDEN: media\.generate_image is not available: /)
})

it('web_search has the categories of each profile, and rejects others without a request [TOM-12, TOM-13]', async () => {
  const seen: string[] = []
  const server = createServer((request, response) => {
    seen.push(String(request.url))
    response.end('{}')
  }).listen(0, '127.0.0.1')
  onTestFinished(() => void server.close())
  await new Promise((resolve) => server.once('listening', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const web = (search: object) => ({ modules: { web: { config: { access: 'read', search } } } })
  const { app, callerOf, call } = await start(
    {},
    { text: web({ order: ['duckduckgo'], ddg_base_url: url }), all: web({ order: ['searxng'], searxng_url: url }) },
  )
  const before = structuredClone(app.catalog.snapshot().byId.get('web.web_search')?.input.json)
  const categories = (profile: string) =>
    (app.view(callerOf(profile)).byId.get('web.web_search')?.input.json as Answer)?.properties?.category?.enum
  expect(categories('all')).toContain('image')
  expect(categories('text') ?? []).not.toContain('image')
  const refused = await call('text', 'web.web_search', { query: 'cats', category: 'image' })
  expect(refused.isError).toBe(true)
  expect(refused.content[0].text).toMatch(/category/)
  expect(seen).toEqual([])
  expect(app.catalog.snapshot().byId.get('web.web_search')?.input.json).toEqual(before)
})

describe('hidden modules and actions', () => {
  const mcpServers = { off: { command: 'node', disabled: true } }
  const served = async (settings: object) => {
    const call = callsOf(await talkTo(place({ exposure: { mode: 'discovery' }, mcpServers, ...settings })))
    const of = async (name: string, args?: object) => answerOf(await call(name, args))
    return {
      call,
      of,
      found: async () =>
        (await of('search_tools', { query: 'connect to an MCP server', max_results: 20 })).tools
          .map(({ name }: Answer) => name)
          .filter((name: string) => name.startsWith('mcp.')),
      browsed: async () =>
        (await of('browse_category', { category: 'mcp', page_size: 100 })).tools?.map(({ name }: Answer) => name),
      refusal: async (name: string, meta: string) => (await of(meta, { name })).error.code,
    }
  }

  it('are listed by default, hidden ones only if a grant lists them [DIG-27]', async () => {
    const open = await served({})
    expect([(await open.found()).includes('mcp.connect'), (await open.browsed()).includes('mcp.connect')]).toEqual([
      true,
      true,
    ])
    const hidden = await served({ policy: { hidden_modules: ['mcp'] } })
    expect([await hidden.found(), await hidden.browsed()]).toEqual([[], undefined])
    expect((await hidden.of('list_categories')).categories.map(({ id }: Answer) => id)).not.toContain('mcp')
    for (const meta of ['get_tool', 'execute_tool'])
      expect([meta, await hidden.refusal('mcp.connect', meta)]).toEqual([meta, 'E_NOT_FOUND'])
    const grant = [{ module: 'mcp', actions: ['connect'] }]
    const granted = await served({ policy: { hidden_modules: ['mcp'], grant } })
    expect([await granted.found(), await granted.browsed()]).toEqual([['mcp.connect'], ['mcp.connect']])
    expect(await granted.refusal('mcp.disconnect', 'execute_tool')).toBe('E_NOT_FOUND')
  })

  it('can be called by set-up steps anyway [DIG-27]', async () => {
    const database = {
      setup: [
        { action: 'connect', params: { driver: 'sqlite', database: '{{workspace}}/data.db', policy: 'unrestricted' } },
      ],
    }
    const { of, refusal } = await served({
      modules: { database },
      policy: { hidden_actions: [{ module: 'database', actions: ['connect'] }] },
    })
    expect((await of('database.list_tables')).error).toBeUndefined()
    expect((await of('database.list_connections')).connections).toHaveLength(1)
    expect(await refusal('database.connect', 'execute_tool')).toBe('E_NOT_FOUND')
  })
})

it("block_user depends on its profile's flag, and clients are notified when it appears [TOM-05]", async () => {
  const settings = (on: boolean) => ({
    exposure: { mode: 'direct' },
    modules: { moderation: { config: {} } },
    profiles: { default: { flags: { user_blocking_enabled: on } } },
  })
  const at = place(settings(false))
  const talk = await talkTo(at)
  const call = callsOf(talk)
  const listed = async (id: number) => {
    talk.send({ id, method: 'tools/list' })
    return ((await talk.answer(id)) as Answer).result.tools.some(
      ({ name }: Answer) => name === 'moderation__block_user',
    )
  }
  const args = { blocked_user: 'Bob', block_type: 'mute', block_duration_hours: 1, block_reason: 'noise' }
  const meta = { toolctx: { guild_id: 'g1', channel_id: 'c1', channel_members: ['Bob'] } }
  expect(await listed(1)).toBe(false)
  expect((await call('moderation.block_user', args, meta)).content[0].text).toMatch(/^E_TOOL_HIDDEN: /)
  const changes = () => talk.messages.filter(({ method }) => method === 'notifications/tools/list_changed').length
  const before = changes()
  writeFileSync(at.config, JSON.stringify(settings(true)))
  await expect.poll(changes, { timeout: 20_000 }).toBeGreaterThan(before)
  expect(await listed(2)).toBe(true)
  expect((await call('moderation.block_user', args, meta)).content[0].text).toContain('user_block_created_successfully')
})

it('generate_image is offered when a message asks for it, and for four turns after that [TOM-08]', async () => {
  const image = { type: 'custom', base_url: 'http://127.0.0.1:9' }
  const talk = await talkTo(
    place({
      exposure: { mode: 'direct' },
      modules: { media: { config: { image } } },
      profiles: { default: { deliberate: { enabled: true } } },
    }),
  )
  let id = 0
  const offered = async (message?: string) => {
    const own = ++id
    const _meta = message === undefined ? {} : { 'pegboard/message': message }
    talk.send({ id: own, method: 'tools/list', params: { _meta } })
    return ((await talk.answer(own)) as Answer).result.tools.some(
      ({ name }: Answer) => name === 'media__generate_image',
    )
  }
  // Without a message the intent is unknown.
  expect(await offered()).toBe(true)
  expect(await offered("what's the weather")).toBe(false)
  expect(await offered('draw a cat')).toBe(true)
  const next: boolean[] = []
  for (const message of ['is it nice?', 'why?', 'and in Rome?', 'thanks', 'what time is it'])
    next.push(await offered(message))
  expect(next).toEqual([true, true, true, true, false])
})

it('a module with an invalid setting is skipped with a warning that names it, and the others load [DIG-25]', async () => {
  const at = place({ modules: { database: { config: { timeout_seconds: 'x' } }, filesystem: {}, hello: {} } })
  const talk = await talkTo(at)
  const call = callsOf(talk)
  const ids = answerOf(await call('list_categories')).categories.map(({ id }: Answer) => id)
  expect([ids.includes('hello'), ids.includes('filesystem'), ids.includes('database')]).toEqual([true, true, false])
  expect(talk.stderr()).toMatch(/database.*timeout_seconds/)
})

describe('search of the shipped tools without a model', () => {
  const served = async () =>
    callsOf(
      await talkTo(
        place({
          exposure: { mode: 'discovery' },
          search: { embedder: 'none' },
          modules: {
            filesystem: { config: { roots: ['{{workspace}}'] } },
            database: { config: { connections: { default: { driver: 'sqlite', database: ':memory:' } } } },
          },
        }),
      ),
    )
  const hits = async (call: Awaited<ReturnType<typeof served>>, query: string): Promise<[string, number][]> =>
    answerOf(await call('search_tools', { query, max_results: 20 })).tools.map(({ name, relevance }: Answer) => [
      name,
      relevance,
    ])

  it('matches word prefixes, with or without accents [DIG-44]', async () => {
    const call = await served()
    expect((await hits(call, 'lir')).map(([name]) => name)).toContain('filesystem.read')
    const found = await hits(call, 'données')
    expect(found[0]?.[0]).toMatch(/^database\./)
    expect(await hits(call, 'donnees')).toEqual(found)
  })

  it('matches synonyms with a lower score than the word itself [DIG-48]', async () => {
    const call = await served()
    const scoreOf = async (query: string) => new Map(await hits(call, query)).get('filesystem.rm') ?? 0
    const literal = await scoreOf('delete')
    // The tool's own text contains the first of these, only its synonyms the others.
    for (const word of ['erase', 'unlink', 'enlever']) {
      expect([word, (await scoreOf(word)) > 0]).toEqual([word, true])
      expect([word, literal > (await scoreOf(word))]).toEqual([word, true])
    }
  })
})

it('the audit log continues in a second file at 1 KiB, and splits no line [MOR-52]', async () => {
  const at = place({ audit: { enabled: true, maxBytes: 1_024, keep: 20 }, policy: { deny: ['hello.status'] } })
  const call = callsOf(await talkTo(at))
  for (let n = 0; n < 6; n++) {
    await call('hello.say_hello', { name: `Ada ${n}` })
    await call('hello.status')
  }
  const files = () => readdirSync(join(at.dir, 'state')).filter((name) => name.startsWith('audit.jsonl'))
  await expect.poll(() => files().length).toBeGreaterThanOrEqual(2)
  const lines = () =>
    files()
      .filter((name) => /^audit\.jsonl(?:\.\d+)?$/.test(name))
      .flatMap((name) => readFileSync(join(at.dir, 'state', name), 'utf8').split('\n'))
      .filter(Boolean)
  await expect.poll(() => lines().filter((line) => line.includes('"hello.')).length).toBe(12)
  for (const line of lines()) expect(JSON.parse(line)).toBeTypeOf('object')
})
