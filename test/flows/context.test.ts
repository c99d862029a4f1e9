import { randomUUID } from 'node:crypto'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import type { Client, ClientOptions } from '@modelcontextprotocol/client'
import { describe, expect, it, onTestFinished } from 'vitest'
import { type Caller, localCaller, noOrigin } from '../../src/core/caller.ts'
import { createToolLoop } from '../../src/core/tool-loop.ts'
import { type Answer, answerOf, startApp, type TestApp, temporaryFolder } from '../app.ts'
import { connectTo, type Era } from '../client.ts'
import { redisUrl } from '../redis.ts'

/** The whole product with these drop-ins. */
async function withModules(
  files: Readonly<Record<string, string>>,
  settings: Record<string, unknown> = {},
): Promise<TestApp> {
  const dir = temporaryFolder()
  mkdirSync(join(dir, 'modules'))
  for (const [name, text] of Object.entries(files)) writeFileSync(join(dir, 'modules', name), text)
  return await startApp({ exposure: { mode: 'direct' }, ...settings }, dir)
}

const module_ = (name: string, tools: string): string =>
  `export default { name: '${name}', description: 'A module of a test.', tools: { ${tools} } }\n`
const tool = (name: string, run: string, more = ''): string =>
  `${name}: { description: 'A tool made for a test.', effect: 'read', ${more} run: ${run} },`

const caller = async (client: Client, name: string, args: object = {}): Promise<Answer> =>
  answerOf(await client.callTool({ name, arguments: args as Record<string, unknown> }))

/** A caller with an origin, like the client of a chat platform. */
const chat: Caller = {
  ...localCaller,
  session: 'chat',
  origin: { platform: 'chat', channelId: 'c1', messageId: 'm1', userId: 'u1', userName: 'Ann', guildId: 'g1' },
}
const ask = async (app: TestApp['app'], name: string, input: unknown = {}, as: Caller = chat): Promise<Answer> => {
  const result = await app.surface.call({ name, input, caller: as })
  return result.kind === 'value' ? result.value : result
}

describe('the context of a call', () => {
  it('has every service; a service that is off is null [CTX-23]', async () => {
    const look = `(_input, { services }) => Object.fromEntries(['servers', 'kv', 'messages', 'conversations', 'tasks', 'registry',
      'adapters', 'llm', 'memory', 'loop', 'config'].map((name) => [name, services[name] === null ? null : typeof services[name]]))`
    const { app } = await withModules({ 'm.mjs': module_('m', tool('look', look)) })
    expect(await ask(app, 'm.look')).toMatchInlineSnapshot(`
      {
        "adapters": "object",
        "config": "object",
        "conversations": "object",
        "kv": "object",
        "llm": null,
        "loop": null,
        "memory": "object",
        "messages": "object",
        "registry": "object",
        "servers": "object",
        "tasks": "object",
      }
    `)
    const off = await withModules(
      { 'm.mjs': module_('m', tool('look', look)) },
      { services: { kv: false, messages: false, conversations: false, memory: false } },
    )
    expect(await ask(off.app, 'm.look')).toMatchObject({ kv: null, messages: null, conversations: null, memory: null })
  })

  it('has twenty flat fields for single tools, over the same objects', async () => {
    const flat = `export const name = 'look'
export const description = 'Looks at its context.'
export const run = async (_input, ctx) => {
  await ctx.message_cache.record({ text: 'hello' })
  await ctx.conversation_manager.append(ctx.channel_id, { role: 'user', content: 'hi', message_id: 'x' })
  await ctx.conversation_manager.mark_deleted(ctx.channel_id, 'x')
  const other = ctx.all_adapters
  other.push('mine')
  return {
    keys: Object.keys(ctx),
    texts: [ctx.platform, ctx.channel_id, ctx.message_id, ctx.user_id, ctx.user_name, ctx.guild_id],
    nulls: [ctx.redis, ctx.openrouter, ctx.adapter],
    memory: [Object.keys(ctx.kg_manager), Object.keys(ctx.threadweave)],
    task: await ctx.task_manager.check('none'),
    recent: (await ctx.message_cache.recent('c1')).map((one) => one.text + ' by ' + one.user_name),
    left: await ctx.conversation_manager.get('c1'),
    adapters: [...ctx.adapters_by_name.keys()],
    unknown: ctx.adapters_by_name.get('telegram') === undefined,
    tools: ctx.tool_registry.list().map((one) => one.name).includes('look.look'),
    frozen: Object.isFrozen(ctx.config) && Object.isFrozen(ctx.config.exposure) && ctx.config.exposure.mode,
    kv: await ctx.kv.incr('n'),
    own: ctx.module_config,
  }
}\n`
    const { app } = await withModules({ 'look.mjs': flat }, { modules: { look: { config: { own: 1 } } } })
    const seen = await ask(app, 'look.look')
    expect(seen.keys).toHaveLength(20)
    expect(seen).toMatchObject({
      texts: ['chat', 'c1', 'm1', 'u1', 'Ann', 'g1'],
      nulls: [null, null, null],
      memory: [
        ['add_entity', 'add_relation', 'query', 'neighbors'],
        ['vault_dna', 'read_dna', 'weave', 'unweave', 'shadow_get', 'shadow_set'],
      ],
      task: null,
      recent: ['hello by Ann'],
      left: [],
      adapters: ['mcp'],
      unknown: true,
      tools: true,
      frozen: 'direct',
      kv: 1,
      own: { own: 1 },
    })
    expect((await ask(app, 'look.look')).adapters).toEqual(['mcp'])
  })

  it('has the adapter of its platform, if a module provides one', async () => {
    const telegram = `export default { name: 'platform', description: 'A platform of a test.',
      start({ services }) { this.remove = services.adapters.add({ name: 'telegram', client: { native: true }, send: async (channel, text) => channel + ': ' + text,
        sendFile: async () => null, listServers: async () => [] }) },
      stop() { this.remove() },
      tools: { look: { description: 'A tool made for a test.', effect: 'read', run: (_input, { services }) => services.adapters.current?.name ?? null } } }\n`
    const flat = `export const name = 'look'
export const description = 'Looks at its adapters.'
export const run = async (_input, ctx) => ({
  own: ctx.adapter?.name ?? null,
  all: ctx.all_adapters.map((one) => one.name),
  native: ctx.adapters_by_name.get('telegram')?.client ?? null,
  unknown: ctx.adapters_by_name.get('matrix') === undefined,
  said: (await ctx.adapter?.send(ctx.channel_id, 'hi')) ?? null,
})\n`
    const onTelegram: Caller = { ...chat, origin: { ...noOrigin, platform: 'telegram', channelId: '42' } }
    const { app } = await withModules({ 'flat.mjs': flat, 'platform.mjs': telegram })
    expect(await ask(app, 'flat.look', {}, onTelegram)).toEqual({
      own: 'telegram',
      all: ['mcp', 'telegram'],
      native: { native: true },
      unknown: true,
      said: '42: hi',
    })
    expect(await ask(app, 'platform.look', {}, onTelegram)).toBe('telegram')
    expect(await ask(app, 'platform.look')).toBeNull()
    const without = await withModules({ 'flat.mjs': flat })
    expect(await ask(without.app, 'flat.look', {}, onTelegram)).toMatchObject({ own: null, all: ['mcp'], native: null })
  })

  it('cannot be replaced by arguments [CTX-01]', async () => {
    const { app } = await withModules({
      'm.mjs': module_(
        'm',
        tool('who', '(input, ctx) => ({ input, who: ctx.caller.principal, from: ctx.origin.userId })'),
      ),
      'flat.mjs': `export const name = 'who'\nexport const description = 'Says who asks, flatly.'\nexport const run = (input, ctx) => ({ input, who: ctx.user_id })\n`,
      'bare.mjs': module_('bare', tool('count', 'function () { return { count: arguments.length } }')),
    })
    const client = await connectTo(app)
    const smuggled = { ctx: { caller: { principal: 'root' }, user_id: 'root' }, _ctx: { user_id: 'root' }, env: {} }
    expect(await caller(client, 'm__who', smuggled)).toEqual({ input: {}, who: 'local', from: '' })
    expect(await caller(client, 'flat__who', smuggled)).toEqual({ input: {}, who: 'local' })
    expect(await caller(client, 'bare__count', smuggled)).toEqual({ count: 1 })
    expect(JSON.stringify((await client.listTools()).tools)).not.toMatch(/"_?ctx"/)
  })

  it('is not created for functions with one parameter', async () => {
    const { app } = await withModules({ 'bare.mjs': module_('bare', tool('say', '({ ...rest }) => "one"')) })
    expect(app.catalog.snapshot().byId.get('bare.say')?.takesContext?.()).toBe(false)
    expect(await ask(app, 'bare.say')).toBe('one')
  })

  it('keeps stores of modules separate, also after a restart, and fails only where a store is missing [CTX-10]', async () => {
    const counter = (name: string): string =>
      module_(
        name,
        `${tool('up', '(_input, { services }) => services.kv.incr("n")')}
        ${tool('maybe', '(_input, { services }) => services.kv === null ? "no store" : services.kv.get("n")')}`,
      )
    const files = { 'a.mjs': counter('a'), 'b.mjs': counter('b') }
    const { app, dir } = await withModules(files)
    expect([await ask(app, 'a.up'), await ask(app, 'a.up'), await ask(app, 'b.up')]).toEqual([1, 2, 1])
    await app.stop()
    const again = await startApp({ exposure: { mode: 'direct' } }, dir)
    expect(await ask(again.app, 'a.up')).toBe(3)
    const off = await withModules(files, { services: { kv: false } })
    expect(await ask(off.app, 'a.maybe')).toBe('no store')
    const client = await connectTo(off.app)
    const failed = await client.callTool({ name: 'a__up', arguments: {} })
    expect(failed).toMatchObject({ isError: true, structuredContent: { success: false } })
    const guarded = (await client.callTool({ name: 'b__maybe', arguments: {} })) as Answer
    expect(guarded.content[0].text).toBe('no store')
  })
})

describe.skipIf(redisUrl === undefined)('stores in Redis', () => {
  it('are shared by machines, and report `redis` as backend', async () => {
    const flat = `export const name = 'up'\nexport const description = 'Counts, in Redis.'\nexport const run = (_input, ctx) => (ctx.redis === null ? null : ctx.redis.incr('n'))\n`
    const state = { url: String(redisUrl), prefix: `pegboard-test-${randomUUID()}` }
    const [one, other] = [
      await withModules({ 'c.mjs': flat }, { state }),
      await withModules({ 'c.mjs': flat }, { state }),
    ]
    const counted = await Promise.all([ask(one.app, 'c.up'), ask(other.app, 'c.up'), ask(one.app, 'c.up')])
    expect(counted.sort()).toEqual([1, 2, 3])
    expect(await ask(other.app, 'c.up')).toBe(4)
  })
})

const png = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
  'base64',
)

const sender = `import { Buffer } from 'node:buffer'
export const name = 'all'
export const description = 'Sends four files.'
export const run = (_input, ctx) => {
  ctx.sent_files.push({ data: Buffer.from('${png.toString('base64')}', 'base64'), filename: 'dot.png', mimetype: 'image/png' })
  ctx.sent_files.push({ data: Buffer.from('OggS rest'), filename: 'voice.ogg', mimetype: 'audio/ogg' })
  ctx.sent_files.push(
    { data: Buffer.from('%PDF-1.4 \\xff', 'latin1'), filename: 'page.pdf', mimetype: 'application/pdf' },
    { data: Buffer.alloc(5 * 1024 * 1024, 7), filename: 'big.bin', mimetype: 'application/octet-stream' },
  )
  ctx.sent_files.push({ data: 'some words', filename: 'a.txt', mimetype: 'text/plain' })
  ctx.sent_files.push({ data: '', filename: 'far.mp4', mimetype: 'video/mp4', file_url: 'https://example.com/far.mp4' })
  return { sent: ctx.sent_files.length, indexes: ctx.sent_files.map((file) => file.call_index) }
}\n`

describe('files sent by a tool', () => {
  it.each(['legacy', 'modern'] as const)(
    'are content blocks of the right kind, byte for byte, for a %s client [CTX-21]',
    async (era: Era) => {
      const { app } = await withModules({ 'send.mjs': sender })
      const client = await connectTo(app, era)
      const { content, structuredContent } = (await client.callTool({ name: 'send__all', arguments: {} })) as Answer
      expect(structuredContent).toEqual({ sent: 6, indexes: [0, 0, 0, 0, 0, 0] })
      expect(JSON.parse(content[0].text)).toEqual(structuredContent)
      expect(content.slice(1).map(({ type }: Answer) => type)).toEqual([
        ...['image', 'audio', 'resource', 'resource_link', 'resource', 'resource_link'],
      ])
      const [, image, audio, pdf, big, text, far] = content
      expect([image.mimeType, Buffer.from(image.data, 'base64').equals(png)]).toEqual(['image/png', true])
      expect([audio.mimeType, Buffer.from(audio.data, 'base64').toString()]).toEqual(['audio/ogg', 'OggS rest'])
      expect(pdf.resource).toMatchObject({ mimeType: 'application/pdf', uri: expect.stringMatching(/^sentfile:\/\//) })
      expect(Buffer.from(pdf.resource.blob, 'base64').toString('latin1')).toBe('%PDF-1.4 \xff')
      expect(big).toMatchObject({ name: 'big.bin', mimeType: 'application/octet-stream', size: 5 * 1024 * 1024 })
      const read = (await client.readResource({ uri: big.uri })).contents[0] as Answer
      expect(Buffer.from(read.blob, 'base64').equals(Buffer.alloc(5 * 1024 * 1024, 7))).toBe(true)
      expect(text.resource).toMatchObject({ text: 'some words', mimeType: 'text/plain' })
      expect(((await client.readResource({ uri: text.resource.uri })).contents[0] as Answer).text).toBe('some words')
      expect(far).toMatchObject({ uri: 'https://example.com/far.mp4', name: 'far.mp4', mimeType: 'video/mp4' })
      await expect(client.readResource({ uri: 'sentfile://AAAAAAAAAAAAAAAAAAAAAA' })).rejects.toThrow('not found')
    },
  )

  it('can be read only by their recipients', async () => {
    const { app } = await withModules({ 'send.mjs': sender })
    const uri = app.server.files.keep(chat, { data: 'x', filename: 'x', mimetype: 'text/plain' }) as string
    const another: Caller = { ...chat, session: 'another' }
    expect(app.server.files.read(another, uri)).toBeDefined()
    expect(app.server.files.read({ ...chat, principal: 'bob' }, uri)).toBeUndefined()
    expect(app.server.files.read({ ...chat, profile: 'guild' }, uri)).toBeUndefined()
  })

  it('are recorded in the conversation of their channel', async () => {
    const history = module_('h', tool('get', '(_input, { services }) => services.conversations.get("c1")'))
    const { app } = await withModules({ 'send.mjs': sender, 'h.mjs': history })
    const { callTool } = await import('../../src/server/call-tool.ts')
    await callTool(app.server, { name: 'send__all', input: {}, caller: chat })
    await expect.poll(async () => (await ask(app, 'h.get')).length).toBe(5)
    const entries = await ask(app, 'h.get')
    expect(entries[0]).toMatchObject({ role: 'tool', files: [{ filename: 'dot.png', mimetype: 'image/png' }] })
    expect(app.server.files.read(chat, entries[3].files[0].uri)?.bytes.length).toBe(5 * 1024 * 1024)
  })

  it('are sent as documented', async () => {
    const text = readFileSync(join(import.meta.dirname, '../../docs/guides/tool-context.md'), 'utf8')
    const block = (kind: string): string => new RegExp(`\`\`\`${kind}\\n([\\s\\S]*?)\`\`\``).exec(text)?.[1] ?? ''
    const { services } = JSON.parse(block('json').replace('${OPENAI_API_KEY}', 'sk-test'))
    const { app } = await withModules({ 'chart.mjs': block('js') }, { services })
    const client = await connectTo(app)
    const { content, structuredContent } = (await client.callTool({ name: 'chart__chart', arguments: {} })) as Answer
    expect(structuredContent).toEqual({ drawn: 1 })
    expect(content[1]).toMatchObject({ type: 'image', mimeType: 'image/svg+xml' })
  })

  it('do not break an output schema', async () => {
    const { app } = await withModules({
      'm.mjs': module_(
        'm',
        tool(
          'draw',
          '(_input, ctx) => { ctx.sendFile({ data: "x", filename: "x.txt", mimetype: "text/plain" }); return { done: true } }',
          'output: { type: "object", properties: { done: { type: "boolean" } }, required: ["done"] },',
        ),
      ),
    })
    const client = await connectTo(app)
    await client.listTools()
    const { content, structuredContent } = (await client.callTool({ name: 'm__draw', arguments: {} })) as Answer
    expect(structuredContent).toEqual({ done: true })
    expect(content.map(({ type }: Answer) => type)).toEqual(['text', 'resource'])
  })

  it('are complete for twenty concurrent calls, with the call that sent each [CTX-22]', async () => {
    const send = `async ({ n }, ctx) => {
      await new Promise((resolve) => setTimeout(resolve, (n * 7) % 5))
      ctx.sendFile({ data: String(n), filename: n + '.txt', mimetype: 'text/plain' })
      ctx.injectTool('m.one')
      return n }`
    const { app } = await withModules({
      'm.mjs': module_(
        'm',
        `${tool('one', send, 'input: { type: "object", properties: { n: { type: "integer" } } },')}
         ${tool(
           'all',
           `async (_input, ctx) => {
           const done = await Promise.all(Array.from({ length: 20 }, (_, n) => ctx.call('m.one', { n })))
           for (const one of done) for (const file of one.files) ctx.sendFile(file)
           return { own: done.map((one) => one.files.length), seen: ctx.sentFiles.length, wanted: ctx.injectedTools }
         }`,
         )}`,
      ),
    })
    const result = await app.surface.call({ name: 'm.all', input: {}, caller: chat })
    if (result.kind !== 'value') throw new Error(result.kind)
    expect(result.value).toEqual({ own: Array(20).fill(1), seen: 20, wanted: ['m.one'] })
    expect(result.files.map(({ data }) => Number(data)).sort((a, b) => a - b)).toEqual(
      Array.from({ length: 20 }, (_, n) => n),
    )
    const indexes = result.files.map((file) => [Number(file.data) + 1, (file as Answer).callIndex])
    for (const [expected, index] of indexes) expect(index).toBe(expected)
    expect(app.context.injected.of(chat)).toEqual(['m.one'])

    const other: Caller = { ...chat, session: 'other' }
    const actions = Array.from({ length: 20 }, (_, n) => ({ name: 'm.one', params: { n } }))
    const parallel = await app.surface.call({ name: 'run_parallel', input: { actions }, caller: other })
    if (parallel.kind !== 'value') throw new Error(parallel.kind)
    const sent = parallel.files.map((file) => [(file as Answer).callIndex, file.data])
    expect(sent.sort(([a], [b]) => a - b)).toEqual(Array.from({ length: 20 }, (_, n) => [n, String(n)]))
    expect(app.context.injected.of(other)).toEqual(['m.one'])
  })

  it('can only be appended, after inspection', async () => {
    const flat = (body: string): string =>
      `export const name = 'try'\nexport const description = 'Tries to take something back.'\nexport const run = (_input, ctx) => { ctx.sent_files.push({ data: 'x', filename: 'x', mimetype: 'text/plain' }); ${body}; return 'done' }\n`
    for (const body of [
      'ctx.sent_files.length = 0',
      'ctx.sent_files.pop()',
      'ctx.sent_files[0] = {}',
      'ctx.injected_tools.clear()',
    ]) {
      const { app } = await withModules({ 'a.mjs': flat(body) })
      await expect(ask(app, 'a.try')).rejects.toThrow('only ever appended to')
    }
    const pushed = await withModules({
      'a.mjs': flat('const size = ctx.injected_tools.push("a.try"); if (size !== 1) throw new Error("size " + size)'),
    })
    expect(await ask(pushed.app, 'a.try')).toBe('done')
    const { app } = await withModules({
      'a.mjs': flat('ctx.sent_files.push({ data: 5, filename: "x", mimetype: "y" })'),
    })
    await expect(ask(app, 'a.try')).rejects.toMatchObject({ code: 'E_VALIDATION' })
  })
})

describe('a language model for tools', () => {
  const asks = module_(
    'm',
    tool(
      'think',
      '(_input, { services }) => services.llm === null ? "missing llm client" : services.llm.complete({ system: "Be short.", user: "Hi", maxTokens: 5 })',
    ),
  )
  const lends = async (app: TestApp['app'], era: Era): Promise<{ client: Client; asked: Answer[] }> => {
    const asked: Answer[] = []
    const options: ClientOptions = { capabilities: { sampling: {} } }
    const client = await connectTo(app, era, options)
    client.setRequestHandler('sampling/createMessage', async (request) => {
      asked.push(request.params)
      return { role: 'assistant', content: { type: 'text', text: 'from the client' }, model: 'theirs' }
    })
    return { client, asked }
  }

  it.each(['legacy', 'modern'] as const)(
    'is that of a %s client, then the configured one, then none',
    async (era: Era) => {
      const server = createServer((_req, res) => res.end('{"choices": [{"message": {"content": "from the server"}}]}'))
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
      onTestFinished(() => void server.close())
      const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`
      const { app } = await withModules({ 'm.mjs': asks }, { services: { llm: { baseUrl, model: 'small' } } })
      const { client, asked } = await lends(app, era)
      expect(await caller(client, 'm__think')).toEqual({ text: 'from the client', model: 'theirs' })
      expect(asked[0]).toMatchObject({
        systemPrompt: 'Be short.',
        maxTokens: 5,
        messages: [{ role: 'user', content: { type: 'text', text: 'Hi' } }],
      })
      expect(await caller(await connectTo(app, era), 'm__think')).toEqual({ text: 'from the server', model: 'small' })
      const none = await withModules({ 'm.mjs': asks })
      const silent = (await (await connectTo(none.app, era)).callTool({ name: 'm__think', arguments: {} })) as Answer
      expect(silent.content[0].text).toBe('missing llm client')
    },
  )

  it('is unavailable if the client refuses, and the tool gets an error', async () => {
    const { app } = await withModules({ 'm.mjs': asks })
    const client = await connectTo(app, 'legacy', { capabilities: { sampling: {} } })
    client.setRequestHandler('sampling/createMessage', async () => {
      throw new Error('the person said no')
    })
    expect((await caller(client, 'm__think')).error).toMatchObject({ code: 'E_BACKEND_UNAVAILABLE' })
  })

  it('uses the tool loop of its conversation, if there is one', async () => {
    const { app } = await withModules({
      'm.mjs': module_(
        'm',
        tool('more', '(_input, { services, loop }) => [loop === services.loop, loop.extend(5), loop.limit]'),
      ),
    })
    const { loop } = createToolLoop({ rounds: 4 })
    const result = await app.surface.call({ name: 'm.more', input: {}, caller: chat, loop })
    expect(result).toMatchObject({ value: [true, 5, 9] })
  })
})
