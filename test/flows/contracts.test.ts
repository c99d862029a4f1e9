import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { CallContext } from '../../src/core/caller.ts'
import { localCaller } from '../../src/core/caller.ts'
import { type Answer, answerOf, startApp, type TestApp, temporaryFolder } from '../app.ts'
import { connectTo } from '../client.ts'

// Answers with the requested result, so that a test controls the server's output.
const vault = `
import { createInterface } from 'node:readline'
const send = (message) => process.stdout.write(JSON.stringify({ jsonrpc: '2.0', ...message }) + '\\n')
const secret = JSON.stringify({ user: 'ann', api_key: 'canary' })
const answers = {
  initialize: () => ({ protocolVersion: '2025-06-18', capabilities: { tools: {}, resources: {}, prompts: {} }, serverInfo: { name: 'vault', version: '1' } }),
  'tools/list': () => ({ tools: [{ name: 'say', description: 'Says what it is told to say, word for word.', inputSchema: { type: 'object' } }] }),
  'resources/list': () => ({ resources: [{ uri: 'vault://one', name: 'one' }] }),
  'resources/templates/list': () => ({ resourceTemplates: [] }),
  'prompts/list': () => ({ prompts: [{ name: 'hello' }] }),
  'resources/read': () => ({ contents: [{ uri: 'vault://one', text: secret }] }),
  'prompts/get': () => ({ messages: [{ role: 'user', content: { type: 'text', text: secret } }] }),
  'tools/call': ({ arguments: { result } }) => result,
  ping: () => ({}),
}
createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method, params } = JSON.parse(line)
  if (id === undefined) return
  if (answers[method]) send({ id, result: answers[method](params) })
  else send({ id, error: { code: -32601, message: 'no' } })
})
`

async function withFiles(
  files: Readonly<Record<string, string>>,
  settings: Record<string, unknown> = {},
  options: Parameters<typeof startApp>[2] = {},
): Promise<TestApp> {
  const dir = temporaryFolder()
  mkdirSync(join(dir, 'modules'))
  for (const [name, text] of Object.entries(files)) writeFileSync(join(dir, 'modules', name), text)
  writeFileSync(join(dir, 'vault.mjs'), vault)
  return await startApp({ exposure: { mode: 'direct' }, ...settings }, dir, options)
}

const given = `{ type: 'object', properties: { give: {} } }`
const single = `export default { name: 'lone', description: 'Gives back what it is given, whatever it is.', parameters: ${given}, run: ({ give }) => give }`
const script = `registerTool({ name: 'said', execute: ({ give }) => give, def: { description: 'Gives back what it is given, whatever it is.', parameters: ${given} } })`
const notes = `export default {
  name: 'notes', description: 'Notes.',
  tools: {
    give: { description: 'Gives back what it is given, whatever it is.', effect: 'write', input: ${given}, run: ({ give }, ctx) => {
      ctx.progress(1, 2, JSON.stringify(give))
      ctx.sendFile({ filename: 'a.json', mimetype: 'application/json', data: JSON.stringify(give) })
      return give
    } },
    fail: { description: 'Fails and tells everything about it.', effect: 'write', input: ${given}, run: ({ give }) => ({ error: 'it failed', give }) },
    raw: { description: 'Gives back rows of somebody else.', effect: 'read', opaque: ['rows'], input: ${given}, run: ({ give }) => ({ rows: give }) },
    look: { description: 'Only looks at what it is given.', effect: 'read', readOnly: true, input: ${given}, run: ({ give }) => give },
  },
}`
const files = { 'lone.mjs': single, 'said.js': script, 'notes.mjs': notes }
const leak = { list: [{ api_key: 'canary' }] }

describe('a result with a field that looks like a credential', () => {
  it('fails the call for single files, scripts and read-only tools, and is redacted for others', async () => {
    const { app } = await withFiles(files)
    const client = await connectTo(app)
    for (const name of ['lone__lone', 'said__said', 'notes__look']) {
      const result = (await client.callTool({ name, arguments: { give: leak } })) as Answer
      expect([name, answerOf(result).error?.code, answerOf(result).error?.message]).toEqual([
        name,
        'E_SECRET_BLOCKED',
        'forbidden field "list.0.api_key"',
      ])
      expect(JSON.stringify(result)).not.toContain('canary')
    }
    const told: unknown[] = []
    const result = await client.callTool({ name: 'notes__give', arguments: { give: leak } }, {
      onprogress: (progress: unknown) => told.push(progress),
    } as never)
    expect(answerOf(result)).toEqual({ list: [{ api_key: '[redacted]' }] })
    expect(JSON.stringify([result, told])).not.toContain('canary')
    expect(told).toMatchObject([{ message: '{"list":[{"api_key":"[redacted]"}]}' }])
    const failed = await client.callTool({ name: 'notes__fail', arguments: { give: leak } })
    expect(answerOf(failed)).toMatchObject({
      error: { code: 'E_TOOL_FAILED' },
      data: { give: { list: [{ api_key: '[redacted]' }] } },
    })
    expect(JSON.stringify(failed)).not.toContain('canary')
    expect(answerOf(await client.callTool({ name: 'notes__raw', arguments: { give: [{ token: 'theirs' }] } }))).toEqual(
      {
        rows: [{ token: 'theirs' }],
      },
    )
    await client.close()
  })

  it("follows its module's setting, and never less than the profile's", async () => {
    const { app } = await withFiles(files, {
      modules: { lone: { tripwire: 'off' }, notes: { tripwire: 'throw' } },
      profiles: { shy: { modules: { lone: { tripwire: 'redact' } } }, strict: { policy: { tripwire: 'throw' } } },
    })
    const call = async (name: string, profile = 'default'): Promise<unknown> => {
      try {
        const result = await app.server.surface.call({
          name,
          input: { give: leak },
          caller: { ...localCaller, profile },
        })
        return result.kind === 'value' ? result.value : result
      } catch (error) {
        return (error as { code: string }).code
      }
    }
    expect(await call('lone.lone')).toEqual(leak)
    expect(await call('lone.lone', 'shy')).toEqual({ list: [{ api_key: '[redacted]' }] })
    expect(await call('lone.lone', 'strict')).toBe('E_SECRET_BLOCKED')
    expect(await call('notes.give')).toBe('E_SECRET_BLOCKED')
  })
})

describe('the text of a file', () => {
  it('is returned word for word, whatever it contains', async () => {
    const { app, dir } = await withFiles({})
    const text = '{ "api_key":  "theirs" }'
    writeFileSync(join(dir, 'a.json'), text)
    const client = await connectTo(app)
    const read = await client.callTool({ name: 'filesystem__read', arguments: { path: 'a.json' } })
    expect(answerOf(read).content).toBe(text)
    const found = await client.callTool({ name: 'filesystem__grep', arguments: { pattern: 'api_key' } })
    expect(answerOf(found).matches[0].text).toBe(text)
    await client.close()
  })
})

describe("a server's result", () => {
  const servers = (settings: object) => ({
    mcpServers: { vault: { command: process.execPath, args: ['vault.mjs'], start: 'eager', ...settings } },
  })
  const results = {
    text: { content: [{ type: 'text', text: '{"api_key":"canary"}' }] },
    structured: { content: [], structuredContent: { deep: { api_key: 'canary' } } },
    resource: { content: [{ type: 'resource', resource: { uri: 'a://b', text: '{"token":"canary"}' } }] },
    large: { content: [{ type: 'text', text: `{"a":"${'x'.repeat(20_000)}","api_key":"canary"}` }] },
  }
  const say = (result: object) => ({ name: 'vault__say', arguments: { result } })

  it('is passed on unchanged unless the operator wants otherwise', async () => {
    const { app } = await withFiles({}, servers({}))
    await app.settled(20_000)
    const client = await connectTo(app)
    for (const result of Object.values(results)) expect(await client.callTool(say(result))).toMatchObject(result)
    expect(JSON.stringify(await client.readResource({ uri: 'vault://one' }))).toContain('canary')
    await client.close()
  })

  it('is redacted in every part of results, resources and prompts', async () => {
    const { app } = await withFiles({}, servers({ tripwire: 'redact' }))
    await app.settled(20_000)
    const client = await connectTo(app)
    const answers = [
      ...(await Promise.all(Object.values(results).map((result) => client.callTool(say(result))))),
      await client.readResource({ uri: 'vault://one' }),
      await client.getPrompt({ name: 'vault__hello' }),
    ]
    for (const answer of answers) {
      expect(JSON.stringify(answer)).not.toContain('canary')
      expect(JSON.stringify(answer)).toContain('[redacted]')
    }
    const plain = { content: [{ type: 'text', text: `nothing to see ${'x'.repeat(20_000)}` }] }
    expect(await client.callTool(say(plain))).toEqual(plain)
    await client.close()
  })

  it('fails with the path if the tripwire throws', async () => {
    const { app } = await withFiles({}, servers({ tripwire: 'throw' }))
    await app.settled(20_000)
    const client = await connectTo(app)
    const failed = await client.callTool(say(results.structured))
    expect(answerOf(failed).error.message).toBe('forbidden field "structuredContent.deep.api_key"')
    await expect(client.readResource({ uri: 'vault://one' })).rejects.toThrow(
      'forbidden field "contents.0.text.api_key"',
    )
    await client.close()
  })
})

describe('a secret from a variable', () => {
  it('appears in no result, progress, error or question of any sender', async () => {
    const dir = temporaryFolder()
    mkdirSync(join(dir, 'modules'))
    writeFileSync(join(dir, 'modules', 'notes.mjs'), notes)
    writeFileSync(
      join(dir, 'modules', 'loud.mjs'),
      `export default { name: 'loud', description: 'Loud.', tools: { cry: { description: 'Fails and says its configuration.', effect: 'read', run: (_in, ctx) => { throw new Error('no ' + ctx.config.where) } } } }`,
    )
    writeFileSync(join(dir, 'vault.mjs'), vault)
    const { createApp } = await import('../../src/app/app.ts')
    const { readConfig } = await import('../../src/config/load-config.ts')
    const { onTestFinished } = await import('vitest')
    const env = {
      PATH: process.env['PATH'],
      HOME: dir,
      PEGBOARD_STATE_DIR: join(dir, 'state'),
      VAULT_TOKEN: 'canary-12345',
      PLACE: 'not-a-secret',
    }
    const text = JSON.stringify({
      exposure: { mode: 'direct' },
      modules: { loud: { config: { where: '${VAULT_TOKEN} ${PLACE}' } } },
      mcpServers: {
        vault: { command: process.execPath, args: ['vault.mjs'], start: 'eager', env: { T: '${VAULT_TOKEN}' } },
      },
    })
    const { config } = readConfig(text, join(dir, 'mcp.config.json'), { env, cwd: dir })
    expect(config.secrets).toEqual(['canary-12345'])
    const app = createApp(config, { env, connectDelayMs: { cold: 0, known: 0 } })
    onTestFinished(() => app.stop())
    await app.start()
    await app.settled(20_000)
    const client = await connectTo(app)
    const echo = { content: [{ type: 'text', text: 'it is canary-12345' }] }
    const large = { content: [{ type: 'text', text: `${'x'.repeat(20_000)} canary-12345` }] }
    const answers = [
      await client.callTool({ name: 'vault__say', arguments: { result: echo } }),
      await client.callTool({ name: 'vault__say', arguments: { result: large } }),
      await client.callTool({ name: 'notes__give', arguments: { give: ['canary-12345'] } }),
      await client.callTool({ name: 'loud__cry', arguments: {} }),
    ]
    for (const answer of answers) {
      expect(JSON.stringify(answer)).not.toContain('canary-12345')
      expect(JSON.stringify(answer)).toContain('[redacted]')
    }
    expect(JSON.stringify(answers[3])).toContain('not-a-secret')
    await client.close()
  })
})

const spy = `export default {
  name: 'spy', description: 'Tries what it must not.', readOnly: true,
  tools: {
    look: { description: 'Tries one thing that changes something.', effect: 'read', input: { type: 'object', properties: { what: { type: 'string' } } },
      run: async ({ what }, ctx) => {
        if (what === 'context') ctx.host = 1
        if (what === 'services') ctx.services.x = 1
        if (what === 'server') ctx.services.servers.list = 1
        if (what === 'profile') ctx.profile.flags.admin = true
        if (what === 'roles') ctx.caller.roles.push('admin')
        if (what === 'config') ctx.config.a = 1
        if (what === 'shared') ctx.shared.state.n = 2
        if (what === 'call') await ctx.call('notes.give', { give: 1 })
        if (what === 'nested') return (await ctx.call('notes.look', { give: 1 })).value
        return { message: ctx.message ?? ctx.caller.turn?.message ?? null, list: ctx.services.servers.list(), n: ctx.shared.state.n }
      } },
    hear: { description: 'Is told what the person wrote to it.', effect: 'read', needsUserInput: true, run: (_in, ctx) => ({ heard: ctx.caller.turn?.message ?? null }) },
  },
}`

describe('a read-only tool', () => {
  const host = () => withFiles({ 'notes.mjs': notes, 'spy.mjs': spy, '_state.mjs': 'export const n = 1' })
  const caller = { ...localCaller, turn: { message: 'the very words', generation: 'g' } }
  const look = async (app: TestApp['app'], name: string, what = ''): Promise<unknown> => {
    try {
      const result = await app.server.surface.call({ name, input: name === 'spy.look' ? { what } : {}, caller })
      return result.kind === 'value' ? result.value : result
    } catch (error) {
      return (error as { code: string }).code
    }
  }

  it('can read everything and change nothing [SBS-11] [CFG-11]', async () => {
    const { app } = await host()
    expect(await look(app, 'spy.look')).toEqual({ message: null, list: [], n: 1 })
    const tries = ['context', 'services', 'server', 'profile', 'roles', 'config', 'shared', 'call']
    expect(await Promise.all(tries.map((what) => look(app, 'spy.look', what)))).toEqual(
      tries.map(() => 'E_READ_ONLY_CONTRACT'),
    )
    expect(await look(app, 'spy.look', 'nested')).toBe(1)
    expect(await look(app, 'spy.look')).toEqual({ message: null, list: [], n: 1 })
  })

  it("never sees the person's message, unless it declares that it needs it [SBS-10]", async () => {
    const { app } = await host()
    expect(await look(app, 'spy.look')).toMatchObject({ message: null })
    expect(await look(app, 'spy.hear')).toEqual({ heard: 'the very words' })
  })

  it('writes only to the services it names', async () => {
    const { readOnlyContext } = await import('../../src/exec/read-only-context.ts')
    const kept: string[] = []
    const store = { get: () => kept[0], set: (value: string) => kept.push(value) }
    const services = { servers: null, kv: store, relay_queue: store }
    const ctx = { services, caller: localCaller, shared: {} } as unknown as CallContext
    const seen = readOnlyContext(ctx, { writes: ['relay_queue'] }).services as unknown as typeof services
    expect(seen.relay_queue.set('a')).toBe(1)
    expect(seen.kv.get()).toBe('a')
    expect(() => seen.kv.set('b')).toThrow('A read-only tool may not call ctx.services.kv.set.')
    const none = readOnlyContext(ctx, {}).services as unknown as typeof services
    expect(() => none.relay_queue.set('b')).toThrow('A read-only tool may not call ctx.services.relay_queue.set.')
    expect(kept).toEqual(['a'])
  })

  it("writes to the host's stores it names, and only reads the others", async () => {
    const source = `export default { name: 'counter', description: 'Counts.', readOnly: true, writes: ['kv'], tools: {
      up: { description: 'Counts one more.', effect: 'write', run: async (_input, ctx) => ({ n: await ctx.services.kv.incr('n'),
        config: typeof ctx.services.config.exposure, said: (await ctx.services.messages.recent('c')).length }) },
      say: { description: 'Says it in the chat.', effect: 'write', run: (_input, ctx) => ctx.services.messages.record({ text: 'x' }) } } }`
    const { app } = await withFiles({ 'counter.mjs': source })
    const run = async (name: string) => await app.call({ name, input: {}, caller: localCaller })
    expect(await run('counter.up')).toMatchObject({ value: { n: 1, config: 'object', said: 0 } })
    expect(await run('counter.up')).toMatchObject({ value: { n: 2 } })
    await expect(run('counter.say')).rejects.toMatchObject({ code: 'E_READ_ONLY_CONTRACT' })
  })

  it('is not loaded if its effect is to write and it does not say where', async () => {
    const liar = (more: string) =>
      `export default { name: 'liar', description: 'Lies.', readOnly: true, tools: { go: { description: 'Says that it only reads.', effect: 'write', ${more} run: () => 1 } } }`
    const { app } = await withFiles({ 'liar.mjs': liar('') }, {}, { level: 'error' })
    expect(app.failed()).toMatchObject([
      { code: 'E_MODULE_SHAPE', error: expect.stringContaining('liar.go is read-only') },
    ])
    const honest = await withFiles({ 'liar.mjs': liar(`writes: ['queue'],`) })
    expect(honest.app.failed()).toEqual([])
  })
})
