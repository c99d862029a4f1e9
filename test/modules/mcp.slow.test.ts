import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import mcp from '../../modules/mcp/index.ts'
import { type Caller, localCaller } from '../../src/core/caller.ts'
import type { PegboardError } from '../../src/core/errors.ts'
import { type Answer, servers as real, startApp, temporaryFolder } from '../app.ts'
import { connectTo } from '../client.ts'
import { keepsTheContract } from '../contract/module.ts'
import { alive } from '../process.ts'

keepsTheContract(mcp)

const scripted = {
  command: 'node',
  args: [join(import.meta.dirname, '../fixtures/upstreams/scripted.mjs')],
  start: 'background',
}

describe('mcp.list_servers', () => {
  it('returns the status of every configured server', async () => {
    const { app } = await startApp({
      mcpServers: {
        'Good one': scripted,
        dead: { command: 'no-such-program-anywhere', start: 'background' },
        off: { command: 'node', disabled: true },
        remote: { url: 'http://127.0.0.1:9/mcp', disabled: true },
      },
    })
    await app.settled(20_000)
    const result = (await app.call({ name: 'mcp.list_servers', input: {}, caller: localCaller })) as Answer
    expect(result.value).toEqual({
      servers: [
        {
          id: 'Good one',
          category: 'mcp_good_one',
          state: 'started',
          tools: expect.any(Number),
          transport: 'stdio',
          era: 'legacy',
          version: '1.0.0',
        },
        {
          id: 'dead',
          category: 'mcp_dead',
          state: 'failing',
          tools: 0,
          transport: 'stdio',
          reason: 'command not found: no-such-program-anywhere',
          next_attempt_ms: expect.any(Number),
        },
        { id: 'off', category: 'mcp_off', state: 'stopped', tools: 0, transport: 'stdio', reason: 'disabled' },
        { id: 'remote', category: 'mcp_remote', state: 'stopped', tools: 0, transport: 'http', reason: 'disabled' },
      ],
      total: 4,
    })
  })

  it('distinguishes an idle server from an unknown one', async () => {
    const dir = temporaryFolder()
    const rests = { ...scripted, start: 'lazy' }
    const learning = await startApp({ mcpServers: { rests } }, dir)
    await learning.app.settled(20_000)
    await learning.app.stop()
    const { app } = await startApp({ mcpServers: { rests, new: { command: 'node', args: ['-e', ''] } } }, dir, {
      connectDelayMs: { cold: 600_000, known: 600_000 },
    })
    const result = (await app.call({ name: 'mcp.list_servers', input: {}, caller: localCaller })) as Answer
    expect(result.value.servers).toEqual([
      expect.objectContaining({ id: 'rests', state: 'known', tools: expect.any(Number), era: 'legacy' }),
      { id: 'new', category: 'mcp_new', state: 'configured', tools: 0, transport: 'stdio' },
    ])
  })

  it('exists only if servers are configured', async () => {
    const { app } = await startApp({})
    const hidden = app.view(localCaller).hidden.get('mcp.list_servers')
    expect(hidden?.reason).toBe('no servers are configured; add some under mcpServers')
    expect(app.view(localCaller).byId.has('mcp.list_servers')).toBe(false)
  })

  it('is empty if the host provides no servers', async () => {
    const run = mcp.tools['list_servers']?.run as (input: unknown, ctx: unknown) => unknown
    expect(run({}, { services: { servers: null } })).toEqual({ servers: [], total: 0 })
  })
})

/** The module with these servers; `call` returns a tool's value or a server's answer; `fails` its error. */
async function open(mcpServers: Record<string, unknown>, settings: Record<string, unknown> = {}) {
  const { app, dir, logged } = await startApp({ mcpServers, ...settings })
  const call = async (action: string, input: unknown = {}, caller: Caller = localCaller): Promise<Answer> => {
    const result = (await app.call({ name: `mcp.${action}`, input, caller })) as Answer
    return result.kind === 'value' ? result.value : result
  }
  const fails = async (action: string, input: unknown = {}, caller: Caller = localCaller): Promise<PegboardError> =>
    await call(action, input, caller).then(
      (value) => {
        throw new Error(`it did not fail: ${JSON.stringify(value)}`)
      },
      (error: PegboardError) => error,
    )
  return { app, dir, logged, call, fails }
}

const cold = { connectDelayMs: { cold: 60_000, known: 60_000 } }
const lazy = (...args: string[]) => ({ ...scripted, args: [...scripted.args, ...args], start: 'lazy' })
const pidIn = (file: string): number => Number(readFileSync(file, 'utf8'))

describe('connections of servers', () => {
  it("are opened on request, and the server's tools then exist under its name [DIG-95]", async () => {
    const { app } = await startApp({ mcpServers: { Fake: lazy() } }, temporaryFolder(), cold)
    const ids = () => app.view(localCaller).tools.map(({ tool }) => tool.id)
    expect(ids()).not.toContain('mcp_fake.echo')
    const connected = (await app.call({
      name: 'mcp.connect',
      input: { server_id: 'Fake' },
      caller: localCaller,
    })) as Answer
    expect(connected.value).toMatchObject({ id: 'Fake', category: 'mcp_fake', state: 'started', transport: 'stdio' })
    expect(ids()).toContain('mcp_fake.echo')
    const echo = (await app.call({ name: 'mcp_fake.echo', input: { text: 'hi' }, caller: localCaller })) as Answer
    expect(echo.result.content).toEqual([{ type: 'text', text: 'hi' }])
  })

  it('cannot be opened to servers that the operator disabled', async () => {
    const { fails } = await open({ off: { ...lazy(), disabled: true } })
    expect(await fails('connect', { server_id: 'off' })).toMatchObject({
      code: 'E_DENIED_BY_POLICY',
      message: 'off is switched off in the configuration.',
      hint: 'The operator sets mcpServers.off.enabled.',
    })
  })

  it('say why they fail', async () => {
    const { fails, call } = await open({ dead: { command: 'no-such-program-anywhere' } })
    expect(await fails('connect', { server_id: 'dead' })).toMatchObject({
      code: 'E_UPSTREAM_UNAVAILABLE',
      message: expect.stringContaining('command not found: no-such-program-anywhere'),
      hint: expect.stringMatching(/^The operator must correct the entry/),
      retryable: false,
    })
    expect(await call('health')).toMatchObject({ healthy: false, servers: [{ id: 'dead', healthy: false }] })
  })

  it('end with their process, and no call restarts it until it is connected', async () => {
    const file = join(temporaryFolder(), 'pid')
    const { call, app } = await open({ fake: lazy('--pid-file', file) })
    await call('connect', { server_id: 'fake' })
    const first = pidIn(file)
    expect(await call('disconnect', { server_id: 'fake' })).toMatchObject({
      state: 'stopped',
      reason: 'it was disconnected',
    })
    expect(alive(first)).toBe(false)
    const echo = () => app.call({ name: 'mcp_fake.echo', input: { text: 'x' }, caller: localCaller })
    await expect(echo()).rejects.toMatchObject({
      code: 'E_TOOL_HIDDEN',
      message: 'mcp_fake.echo is not available: fake is stopped (it was disconnected).',
    })
    expect(await call('disconnect', { server_id: 'mcp_fake' })).toMatchObject({ state: 'stopped' })
    expect(pidIn(file)).toBe(first)
    expect(await call('health')).toMatchObject({ healthy: null, servers: [{ healthy: null, state: 'stopped' }] })
    expect(await call('connect', { server_id: 'fake' })).toMatchObject({ state: 'started' })
    const second = pidIn(file)
    expect(await echo()).toMatchObject({ kind: 'mcp' })
    expect(await call('reconnect', { server_id: 'fake' })).toMatchObject({ state: 'started' })
    expect(pidIn(file)).not.toBe(second)
    expect(alive(second)).toBe(false)
    expect(await echo()).toMatchObject({ kind: 'mcp' })
  })

  it('can be closed only by admins if others use them', async () => {
    const { call, fails } = await open({ fake: lazy() })
    const ann = { ...localCaller, principal: 'ann' }
    expect(await call('connect', { server_id: 'fake' }, ann)).toMatchObject({ state: 'started' })
    for (const action of ['disconnect', 'reconnect'])
      expect(await fails(action, { server_id: 'fake' }, ann)).toMatchObject({
        code: 'E_DENIED_BY_POLICY',
        message: 'fake is shared with other users, so only admins can disconnect it.',
      })
    expect(await call('disconnect', { server_id: 'fake' }, { ...ann, roles: ['admin'] })).toMatchObject({
      state: 'stopped',
    })
  })

  it('report their round-trip time in both eras, without waking idle servers', async () => {
    const modern = { command: 'node', args: [join(import.meta.dirname, '../fixtures/upstreams/modern.mjs')] }
    const { call, fails } = await open({ older: lazy(), newer: modern, resting: lazy() })
    await call('connect', { server_id: 'older' })
    await call('connect', { server_id: 'newer' })
    const { servers, healthy } = await call('health')
    expect(healthy).toBe(true)
    expect(servers.slice(0, 2)).toMatchObject([
      { id: 'older', era: 'legacy', healthy: true, latency_ms: expect.any(Number) },
      { id: 'newer', era: 'modern', healthy: true, latency_ms: expect.any(Number) },
    ])
    expect((await call('health', { server_id: 'mcp_newer' })).servers).toHaveLength(1)
    expect(await fails('health', { server_id: 'no' })).toMatchObject({ code: 'E_NOT_FOUND' })
  })
})

describe("a server's tools, resources and prompts", () => {
  it('are listed by server, page by page', async () => {
    const { call, fails } = await open({ everything: real.everything, fake: lazy() })
    for (const server_id of ['everything', 'fake']) await call('connect', { server_id })
    const { tools, total, truncated } = await call('list_tools', { server_id: 'everything', filter: 'echo' })
    expect({ tools, total, truncated }).toEqual({
      tools: [
        {
          server: 'everything',
          name: 'everything__echo',
          description: 'Echoes back the input string',
          effect: expect.any(String),
        },
      ],
      total: 1,
      truncated: false,
    })
    const all = await call('list_tools')
    expect(new Set(all.tools.map((one: Answer) => one.server))).toEqual(new Set(['everything', 'fake']))
    const second = await call('list_tools', { limit: 1, offset: 1 })
    expect(second).toEqual({ tools: [all.tools[1]], total: all.total, truncated: true })
    expect(await fails('list_tools', { server_id: 'none' })).toMatchObject({ code: 'E_NOT_FOUND' })
  })

  it("are called by server and name, and return the tool's own result", async () => {
    const { app, call, fails } = await open({ everything: real.everything })
    const direct = async (name: string, input: unknown) => await app.call({ name, input, caller: localCaller })
    for (const [tool, input] of [
      ['echo', { message: 'hi' }],
      ['get-structured-content', { location: 'New York' }],
      ['get-tiny-image', {}],
      ['get-annotated-message', { messageType: 'success', includeImage: true }],
    ] as const) {
      const answer = await call('call_tool', { server: 'everything', tool, arguments: input })
      expect(answer, tool).toMatchObject({ kind: 'mcp' })
      expect(answer, tool).toEqual(await direct(`mcp_everything.${tool}`, input))
    }
    for (const tool of ['everything__echo', 'mcp_everything.echo'])
      expect(await call('call_tool', { server: 'mcp_everything', tool, arguments: { message: 'x' } })).toMatchObject({
        result: { content: [{ text: 'Echo: x' }] },
      })
    const refusal = async (work: Promise<unknown>) =>
      await work.then(
        () => undefined,
        ({ code, message, hint }: PegboardError) => ({ code, message, hint }),
      )
    for (const [tool, input] of [
      ['echo', {}],
      ['nothing-like-it', {}],
    ] as const)
      expect(await refusal(call('call_tool', { server: 'everything', tool, arguments: input })), tool).toEqual(
        await refusal(direct(`mcp_everything.${tool}`, input)),
      )
    expect(await fails('call_tool', { server: 'else', tool: 'echo' })).toMatchObject({
      code: 'E_NOT_FOUND',
      hint: 'Servers: everything.',
    })
  })

  it('start an unknown server for a call', async () => {
    const { app } = await startApp({ mcpServers: { fake: lazy() } }, temporaryFolder(), cold)
    const input = { server: 'fake', tool: 'echo', arguments: { text: 'cold' } }
    expect(await app.call({ name: 'mcp.call_tool', input, caller: localCaller })).toMatchObject({
      result: { content: [{ text: 'cold' }] },
    })
  })

  it('reach a client as the tool itself would, including the credentials check', async () => {
    const { app } = await startApp({ mcpServers: { fake: { ...lazy(), start: 'eager' } } })
    await app.settled(20_000)
    const client = await connectTo(app)
    const text = '{"api_key":"k-1","nested":{"password":"p"}}'
    const one = await client.callTool({ name: 'mcp_fake__echo', arguments: { text } })
    const other = await client.callTool({
      name: 'mcp__call_tool',
      arguments: { server: 'fake', tool: 'echo', arguments: { text } },
    })
    expect(other).toEqual(one)
    expect(JSON.stringify(other)).toContain('k-1')
  })

  it.each(['legacy', 'modern'] as const)(
    'ask the person of a client of the %s era, in either era of the server',
    async (era) => {
      const newer = {
        command: 'node',
        args: [join(import.meta.dirname, '../fixtures/upstreams/modern.mjs')],
        start: 'eager',
      }
      const { app } = await startApp({ mcpServers: { older: { ...lazy(), start: 'eager' }, newer } })
      await app.settled(20_000)
      const client = await connectTo(app, era, { capabilities: { elicitation: { form: {} } } })
      let asked = 0
      client.setRequestHandler('elicitation/create', () => {
        asked++
        return { action: 'accept', content: { name: 'Ann' } }
      })
      for (const [server, tool] of [
        ['older', 'ask_person'],
        ['newer', 'greet'],
      ] as const) {
        const direct = (await client.callTool({ name: `mcp_${server}.${tool}`, arguments: {} })) as Answer
        const through = (await client.callTool({ name: 'mcp__call_tool', arguments: { server, tool } })) as Answer
        expect(direct.isError ?? false, `${server} ${JSON.stringify(direct)}`).toBe(false)
        expect(through, server).toEqual(direct)
      }
      expect(asked).toBe(4)
    },
  )

  it('include resources and prompts that can be listed and read', async () => {
    const { call, fails, app } = await open({ everything: real.everything })
    await call('connect', { server_id: 'everything' })
    const { resources, total } = await call('list_resources', { server_id: 'everything' })
    expect(total).toBe(resources.length)
    const listed = resources.find(({ uri }: Answer) => uri !== undefined)
    expect(listed).toMatchObject({ server: 'everything', uri: expect.stringContaining('://') })
    expect(resources.find((one: Answer) => one.uri_template)).toMatchObject({
      uri_template: expect.stringContaining('{'),
    })
    const read = await call('read_resource', { server: 'everything', uri: listed.uri })
    expect(read.contents[0]).toMatchObject({ uri: listed.uri, text: expect.stringMatching(/\S/) })
    const blob = (await app.call({
      name: 'mcp.read_resource',
      input: { server: 'everything', uri: 'demo://resource/dynamic/blob/1' },
      caller: localCaller,
    })) as Answer
    expect(blob.value.contents).toEqual([
      { uri: 'demo://resource/dynamic/blob/1', mime_type: expect.any(String), bytes: expect.any(Number), file: '1' },
    ])
    expect(blob.files).toMatchObject([{ filename: '1', data: expect.any(Uint8Array) }])
    expect(await fails('read_resource', { server: 'everything', uri: 'file:///etc/passwd' })).toMatchObject({
      code: 'E_NOT_FOUND',
      message: 'everything has no resource file:///etc/passwd.',
      hint: 'List the resources of the server to see their URIs.',
    })

    const { prompts } = await call('list_prompts')
    const filled = prompts.find((one: Answer) => /args/.test(one.name))
    expect(filled).toMatchObject({ server: 'everything', arguments: [{ name: 'city' }, { name: 'state' }] })
    const prompt = await call('get_prompt', { server: 'everything', name: filled.name, arguments: { city: 'Ulm' } })
    expect(prompt.messages).toEqual([{ role: 'user', content: { type: 'text', text: expect.stringContaining('Ulm') } }])
    expect(await fails('get_prompt', { server: 'everything', name: 'none' })).toMatchObject({
      code: 'E_NOT_FOUND',
      message: 'everything has no prompt none.',
    })
  })

  it('are limited to the servers of the profile', async () => {
    const { call, fails } = await open(
      { everything: real.everything, fake: lazy() },
      { profiles: { team: { use: ['mcp', 'fake'] }, none: { use: ['mcp'] } } },
    )
    const team = { ...localCaller, profile: 'team' }
    await call('connect', { server_id: 'everything' })
    expect(await call('list_servers', {}, team)).toMatchObject({ servers: [{ id: 'fake' }], total: 1 })
    const known = { code: 'E_NOT_FOUND', message: 'There is no server "everything".', hint: 'Servers: fake.' }
    for (const action of [
      'connect',
      'disconnect',
      'reconnect',
      'health',
      'list_tools',
      'list_resources',
      'list_prompts',
    ])
      expect(await fails(action, { server_id: 'everything' }, team), action).toMatchObject(known)
    const server = 'everything'
    expect(await fails('call_tool', { server, tool: 'echo', arguments: { message: 'x' } }, team)).toMatchObject(known)
    expect(await fails('call_tool', { server: 'fake', tool: 'everything__echo' }, team)).toMatchObject({
      code: 'E_NOT_FOUND',
    })
    expect(
      await fails('read_resource', { server, uri: 'demo://resource/static/document/features.md' }, team),
    ).toMatchObject(known)
    expect(await fails('get_prompt', { server, name: 'simple-prompt' }, team)).toMatchObject(known)
    for (const action of ['list_tools', 'list_resources', 'list_prompts'])
      expect(JSON.stringify(await call(action, {}, team)), action).not.toContain('everything')
    expect(await fails('list_servers', {}, { ...localCaller, profile: 'none' })).toMatchObject({
      code: 'E_TOOL_HIDDEN',
      message: expect.stringContaining('no servers are configured'),
    })
  })
})

describe('services.servers', () => {
  const module_ = (fields: string, run: string): string =>
    `export default { name: 'own', description: 'Looks at servers.', ${fields} tools: { go: {
      description: 'Does something with the servers.', effect: 'read', ${run} } } }`
  const open = async (text: string) => {
    const dir = temporaryFolder()
    mkdirSync(join(dir, 'modules'))
    writeFileSync(join(dir, 'modules', 'own.mjs'), text)
    return (await startApp({ mcpServers: { fake: lazy() } }, dir)).app
  }
  const go = { name: 'own.go', input: {}, caller: localCaller }

  it('lets a read-only module read, and change nothing', async () => {
    for (const action of ['disconnect', 'reconnect', 'connect']) {
      const app = await open(module_('readOnly: true,', `run: (_in, ctx) => ctx.services.servers.${action}('fake')`))
      await expect(app.call(go), action).rejects.toMatchObject({ code: 'E_READ_ONLY_CONTRACT' })
      expect(app.upstreams.status()[0]?.state, action).not.toBe('stopped')
    }
    const app = await open(
      module_('readOnly: true,', `run: (_in, ctx) => ctx.services.servers.list().map((one) => one.id)`),
    )
    expect(((await app.call(go)) as Answer).value).toEqual(['fake'])
  })

  it('gives any module what its caller has, and outside a call only the list, and whether there is any', async () => {
    const app = await open(
      module_('', `run: (_in, ctx) => ctx.services.servers.listTools('fake').some(({ id }) => id === 'mcp_fake.echo')`),
    )
    await app.settled(20_000)
    await app.call({ name: 'mcp.connect', input: { server_id: 'fake' }, caller: localCaller })
    expect(((await app.call(go)) as Answer).value).toBe(true)
    const asking = await open(
      module_('', `available: ({ services }) => services.servers.listTools().length > 0 || 'no', run: () => 1`),
    )
    expect(asking.view(localCaller).hidden.get('own.go')).toMatchObject({
      kind: 'unavailable',
      failure: 'Outside of a call, only services.servers.list() and hasAny() are available.',
    })
  })
})
