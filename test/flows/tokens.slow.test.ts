import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Client } from '@modelcontextprotocol/client'
import { describe, expect, it } from 'vitest'
import type { Grant } from '../../src/core/caller.ts'
import { createToken } from '../../src/server/token-store.ts'
import { answerOf, temporaryFolder } from '../app.ts'
import { LISTED } from '../listed-server.ts'
import { serve } from '../modules/web-servers.ts'
import { cli, place, serveHttp } from '../process.ts'
import { connectWithToken, countRuns, type HttpApp, startHttpApp } from '../security/http-app.ts'
import { ask, call, initialize, modern, open, TOKEN } from '../server/echo.ts'

const LATER = { execution: { watchers: true, scheduler: true } }

/** A created token, as its bearer has it. */
async function made(to: HttpApp, grants: readonly Grant[] | undefined, more: object = {}) {
  const { token, stored: kept } = createToken({
    name: 'ann',
    principal: 'ann',
    roles: ['auditor'],
    createdAt: Date.now(),
    ...(grants ? { grants } : {}),
    ...more,
  })
  await to.app.server.tokens.add(kept)
  return { token, id: kept.id, headers: { authorization: `Bearer ${token}` } }
}

const probes = async (of: Client): Promise<string[]> =>
  (await of.listTools()).tools.map(({ name }) => name).filter((name) => name.startsWith('probe'))
const told = async (work: Promise<unknown>): Promise<string> =>
  JSON.stringify(await work.catch((error: unknown) => (error as Error).message))

describe.each(['legacy', 'modern'] as const)('a token for some tools, of a %s client', (era) => {
  it('sees and may call only those, on every route', async () => {
    const server = await startHttpApp({}, LATER)
    const { token } = await made(server, [{ tools: ['probe.*'], effect: 'read' }])
    const ann = await connectWithToken(server.url, token, era)
    expect(await probes(ann)).toEqual(['probe__echo', 'probe__wait', 'probe__runs', 'probe__who'])
    expect((await ann.listTools()).tools.map(({ name }) => name)).not.toContain('filesystem__read')
    expect(answerOf(await ann.callTool({ name: 'probe__who', arguments: {} }))).toMatchObject({
      principal: 'ann',
      roles: ['auditor'],
    })
    const denied = [
      told(ann.callTool({ name: 'probe__note', arguments: {} })),
      told(ann.callTool({ name: 'probe.note', arguments: {} })),
      told(ann.callTool({ name: 'run_parallel', arguments: { actions: [{ name: 'probe.note', params: {} }] } })),
      told(ann.callTool({ name: 'background_run', arguments: { name: 'probe.note', params: {} } })),
      told(ann.callTool({ name: 'schedule_once', arguments: { when: 'in 1h', name: 'probe.note' } })),
      told(ann.callTool({ name: 'watch_start', arguments: { name: 'probe.note', interval: 60 } })),
      told(ann.callTool({ name: 'filesystem__read', arguments: { path: 'x' } })),
    ]
    for (const one of await Promise.all(denied)) expect(one).toMatch(/no tool|unknown tool|E_NOT_FOUND/i)
    expect(await countRuns(server)).toBe(0)
  })

  it('finds nothing else in search, and runs nothing else through execute_tool', async () => {
    const server = await startHttpApp({}, { exposure: { mode: 'discovery' } })
    const { token } = await made(server, [{ tools: ['probe.echo'] }])
    const ann = await connectWithToken(server.url, token, era)
    const found = await ann.callTool({ name: 'search_tools', arguments: { query: 'writes something down' } })
    expect(JSON.stringify(found)).not.toContain('note')
    expect(await told(ann.callTool({ name: 'get_tool', arguments: { name: 'probe.note' } }))).toMatch(
      /no tool|E_NOT_FOUND/i,
    )
    expect(await told(ann.callTool({ name: 'execute_tool', arguments: { name: 'probe.note', params: {} } }))).toMatch(
      /no tool|E_NOT_FOUND/i,
    )
    expect(
      answerOf(await ann.callTool({ name: 'execute_tool', arguments: { name: 'probe.echo', params: { x: 1 } } })),
    ).toMatchObject({ success: true, data: { x: 1 } })
    expect(await countRuns(server)).toBe(1)
  })
})

it('shares neither view nor session with another token of its principal', async () => {
  const server = await startHttpApp()
  const [reader, writer] = [await made(server, [{ effect: 'read' }]), await made(server, undefined)]
  expect(await probes(await connectWithToken(server.url, writer.token))).toContain('probe__drop')
  expect(await probes(await connectWithToken(server.url, reader.token))).not.toContain('probe__note')
  const { headers } = await ask(server.url, { anonymous: true, headers: writer.headers, body: initialize })
  const stolen = { ...reader.headers, 'mcp-session-id': String(headers['mcp-session-id']) }
  const answer = await ask(server.url, { anonymous: true, headers: stolen, body: call(1, 'probe__note') })
  expect([answer.status, await countRuns(server)]).toEqual([404, 0])
})

it('learns only of its own tools that wait for a review, and gets no command that only the operator can run', async () => {
  const dir = temporaryFolder()
  const tools = ['add', 'subtract', 'divide'].map((name) => ({ name, description: `Can ${name} numbers.` }))
  writeFileSync(join(dir, 'calc.tools.json'), JSON.stringify({ tools }))
  const calc = {
    command: process.execPath,
    args: [LISTED, join(dir, 'calc.tools.json')],
    start: 'background',
    trust: 'review',
  }
  const server = await startHttpApp({}, { mcpServers: { calc } }, { dir })
  await server.app.settled(20_000)
  const told = async (token: string) => {
    const of = await connectWithToken(server.url, token, 'legacy')
    const { structuredContent } = await of.callTool({ name: 'list_categories', arguments: {} })
    const { categories } = structuredContent as { categories: Array<{ id: string; notice?: string }> }
    const notice = categories.find(({ id }) => id === 'mcp_calc')?.notice
    const [instructions] = /Some tools are hidden.*/.exec(of.getInstructions() ?? '') ?? []
    return { notice, instructions }
  }
  const hidden = 'Some tools are hidden until the operator reviews them. Tell the user: '
  const all = '3 tools wait for a review: pegboard review calc'
  expect(await told(TOKEN)).toEqual({ notice: all, instructions: `${hidden}${all}.` })
  const two = await made(server, [{ tools: ['calc.add', 'calc.divide', 'probe.*'] }])
  const own = '2 tools of mcp_calc wait for a review by the operator'
  expect(await told(two.token)).toEqual({ notice: own, instructions: `${hidden}${own}.` })
  const none = await made(server, [{ tools: ['calc.other', 'probe.*'] }])
  expect(await told(none.token)).toEqual({ notice: undefined, instructions: undefined })
})

it('can be limited in the configuration in the same way', async () => {
  const token = 'a-token-of-the-file'
  const server = await startHttpApp({
    tokens: [{ token, principal: 'bob', tools: ['probe.drop', 'probe.echo'], effect: 'write' }],
  })
  expect(await probes(await connectWithToken(server.url, token))).toEqual(['probe__echo'])
})

describe('a revoked token', () => {
  it('gets 401, and its open streams, calls and sessions end within seconds', async () => {
    const server = await startHttpApp()
    const ann = await made(server, undefined)
    const other = await made(server, undefined, { name: 'other', principal: 'other' })
    const as = { anonymous: true, headers: ann.headers }
    const { headers } = await ask(server.url, { ...as, body: initialize })
    const session = { ...ann.headers, 'mcp-session-id': String(headers['mcp-session-id']) }
    const listen = modern('sub', 'subscriptions/listen', { notifications: { toolsListChanged: true } })
    const streams = await Promise.all([
      open(server.url, { anonymous: true, method: 'GET', headers: session }),
      open(server.url, { ...as, method: 'GET', path: '/sse' }),
      open(server.url, { ...listen, anonymous: true, headers: { ...listen.headers, ...ann.headers } }),
    ])
    const kept = await open(server.url, { anonymous: true, headers: other.headers, method: 'GET', path: '/sse' })
    const waiting = ask(server.url, { anonymous: true, headers: session, body: call(1, 'probe__wait') })
    const ended = [...streams, waiting].map((one) =>
      one instanceof Promise
        ? one.then(
            ({ json }) => json.error?.message,
            () => 'cut',
          )
        : new Promise((resolve) => one.resume().once('close', () => resolve('cut'))),
    )
    expect(streams.map(({ statusCode }) => statusCode)).toEqual([200, 200, 200])
    await expect.poll(() => server.sessions()).toEqual({ streamable: 1, sse: 2 })
    expect(await server.app.server.tokens.remove(ann.id)).toBe(true)
    expect(await Promise.all(ended)).toEqual([
      'cut',
      'cut',
      'cut',
      expect.stringMatching(/^cut$|The session has ended/),
    ])
    await expect.poll(() => server.sessions()).toEqual({ streamable: 0, sse: 1 })
    const answer = await ask(server.url, { anonymous: true, headers: session, body: call(2, 'probe__echo') })
    expect([answer.status, answer.headers['www-authenticate']]).toEqual([
      401,
      'Bearer realm="pegboard", error="invalid_token"',
    ])
    expect(kept.destroyed).toBe(false)
    kept.destroy()
  })

  it('stops its background work: downloads and commands', async () => {
    const origin = await serve((_request, answer) => {
      const drip = setInterval(() => answer.write('x'), 100)
      answer.once('close', () => clearInterval(drip))
    })
    const modules = {
      http: { config: { access: 'write', allow_private_hosts: true } },
      shell: { config: { enabled: true, sandbox: 'off' } },
    }
    const server = await startHttpApp({}, { modules })
    const ann = await made(server, undefined)
    const hers = await connectWithToken(server.url, ann.token)
    const begin = async (name: string, args: Record<string, unknown>) =>
      answerOf(await hers.callTool({ name, arguments: args })) as { task_id: string; download_id: string }
    const command = await begin('shell__background_run', { command: 'sleep 600', shell: true })
    const download = await begin('http__download', { url: origin, destination: 'a.bin' })
    await server.app.server.tokens.remove(ann.id)
    await new Promise((resolve) => setTimeout(resolve, 7_000))
    const again = await connectWithToken(server.url, (await made(server, undefined)).token)
    const now = async (name: string, args: Record<string, unknown>) => told(again.callTool({ name, arguments: args }))
    expect(await now('shell__task_status', { task_id: command.task_id })).toContain('"status":"killed"')
    expect(await now('http__download_status', { download_id: download.download_id })).toContain('"status":"cancelled"')
  }, 60_000)

  it('stops its planned work, which is rejected when due', async () => {
    const server = await startHttpApp({}, LATER)
    await server.app.work()
    const ann = await made(server, [{ tools: ['probe.*'] }])
    const client1 = await connectWithToken(server.url, ann.token)
    await client1.callTool({ name: 'schedule_once', arguments: { when: 'in 2s', name: 'probe.note', label: 'one' } })
    await server.app.server.tokens.remove(ann.id)
    const again = await made(server, [{ tools: ['probe.*'] }])
    const heard = await connectWithToken(server.url, again.token)
    await expect
      .poll(async () => told(heard.callTool({ name: 'schedule_list', arguments: {} })), {
        timeout: 20_000,
        interval: 500,
      })
      .toContain('E_OWNER_GONE: Pegboard does nothing for \\"ann\\" now: its token was revoked or has expired.')
    expect(await countRuns(server)).toBe(0)
  }, 60_000)

  it('is noticed by a running server without a restart', async () => {
    const where = place()
    const run = async (...words: string[]): Promise<string> =>
      (
        await promisify(execFile)(process.execPath, [cli, 'token', ...words, '--json'], {
          env: where.env,
          cwd: where.dir,
        })
      ).stdout
    const { url, token: own } = await serveHttp(where)
    const status = async (token: string): Promise<number> =>
      (await ask(url, { anonymous: true, headers: { authorization: `Bearer ${token}` }, body: initialize })).status
    const { token } = JSON.parse(await run('create', 'ci')) as { token: string }
    expect([await status(token), await status(own), await status(`${token}x`)]).toEqual([200, 200, 401])
    await run('revoke', 'ci')
    await expect.poll(() => status(token)).toBe(401)
    expect(await status(own)).toBe(200)
  }, 60_000)
})

it('that has expired gets 401 and its streams end', async () => {
  const server = await startHttpApp()
  const ann = await made(server, undefined, { expiresAt: Date.now() + 2_500 })
  const stream = await open(server.url, { anonymous: true, headers: ann.headers, method: 'GET', path: '/sse' })
  expect(stream.statusCode).toBe(200)
  await new Promise((resolve) => stream.resume().once('close', resolve))
  expect((await ask(server.url, { anonymous: true, headers: ann.headers, body: initialize })).status).toBe(401)
})

it('that was created allows a public server to start; without any it does not start', async () => {
  const where = place({ server: { http: { host: '0.0.0.0' } } })
  const serve = () =>
    promisify(execFile)(process.execPath, [cli, 'serve', '--http', '--port', '0', '--config', where.config], {
      env: where.env,
      timeout: 30_000,
    }).catch((error: { stderr: string }) => error)
  expect((await serve()).stderr).toContain('E_CONFIG_AUTH: server.http.auth is "token", but no token is set.')
  await promisify(execFile)(
    process.execPath,
    [cli, 'token', 'create', 'ci', '--config', join(where.dir, 'mcp.config.json')],
    {
      env: where.env,
    },
  )
  const { url } = await serveHttp(where)
  expect((await fetch(new URL('/health', url))).status).toBe(200)
}, 60_000)
