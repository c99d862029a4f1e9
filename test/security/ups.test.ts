import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { expect, onTestFinished, test } from 'vitest'
import type { Clock } from '../../src/core/clock.ts'
import { openTokenStore } from '../../src/upstream/oauth/open.ts'
import { type Answer, startApp, temporaryFolder } from '../app.ts'
import { connectTo, type StreamTransport } from '../client.ts'
import { createManualClock } from '../clock.ts'
import { heldMiB } from '../memory.ts'
import { place, serveHttp, talkTo } from '../process.ts'
import { answers, evil, names, said, scene, stateOf, statusOf } from '../scene.ts'
import { alive, hurried, scripted, until, withHttpServer } from '../upstream/host.ts'
import { loginAt, withRig } from '../upstream/oauth/rig.ts'
import { soonest } from './lag.ts'

const changes = (client: Client): number =>
  (client.transport as unknown as StreamTransport).received.filter(
    ({ method }) => method === 'notifications/tools/list_changed',
  ).length

test('UPS-01: a server that answers nothing, or none of its lists, delays nobody and is called failing within 30 s', async () => {
  const { app } = await startApp({
    exposure: { mode: 'direct' },
    mcpServers: { hung: evil('--hang-start'), listless: evil('--hang-list'), good: evil() },
  })
  const asked = performance.now()
  const client = await connectTo(app)
  await client.listTools()
  await until(() => stateOf(app, 'good') === 'ready', 10_000)
  while (stateOf(app, 'hung') !== 'failing' || stateOf(app, 'listless') !== 'failing') {
    const result = (await client.callTool({ name: 'good__echo', arguments: { text: 'meanwhile' } })) as Answer
    expect(said(result)).toBe('meanwhile')
    expect(performance.now() - asked).toBeLessThan(60_000)
    await sleep(200)
  }
  expect(statusOf(app, 'hung')?.reason).toBe('no answer within 30 s')
  expect(statusOf(app, 'listless')?.reason).toBe('listless did not answer tools/list within 15000 ms')
  const called = (await client.callTool({ name: 'hung__echo', arguments: {} })) as Answer
  expect(called.structuredContent.error).toMatchObject({
    code: 'E_UPSTREAM_UNAVAILABLE',
    message: "mcp_hung is failing (no answer within 30 s), so 'hung__echo' is not there.",
  })
  await client.close()
}, 90_000)

test('UPS-01: with a server that never answers Pegboard is ready within 2 s', async () => {
  const where = place({
    exposure: { mode: 'direct' },
    mcpServers: { hung: { ...evil('--hang-start'), start: 'eager' } },
  })
  const took = await soonest(2_000, async () => {
    const began = performance.now()
    const talk = await talkTo(where)
    talk.send({ id: 1, method: 'tools/list' })
    const { tools } = ((await talk.answer(1)) as Answer).result
    const took = performance.now() - began
    expect(tools.map(({ name }: { name: string }) => name)).toContain('filesystem__read')
    talk.child.kill('SIGKILL')
    return took
  })
  expect(took).toBeLessThan(2_000)
})

test('UPS-01: it is called failing when 30 s are over, and not before', async () => {
  const clock = createManualClock(Date.now())
  const { app } = await startApp({ mcpServers: { hung: evil('--hang-start') } }, undefined, { clock })
  await app.work()
  await until(() => {
    clock.pass(1)
    return stateOf(app, 'hung') === 'connecting'
  }, 10_000)
  clock.pass(29_000)
  expect(stateOf(app, 'hung')).toBe('connecting')
  clock.pass(1_000)
  expect(statusOf(app, 'hung')).toMatchObject({
    state: 'failing',
    reason: 'no answer within 30 s',
  })
})

test('UPS-02: a call that hangs ends on time, its server is told, and what it answers later is nobody’s', async () => {
  const here = await scene(evil())
  // On time: its limit is one second.
  let times = 0
  const took = await soonest(
    1_250,
    async () => {
      const asked = performance.now()
      const [result] = await Promise.all([here.bad('hang_late'), here.beside()])
      const took = performance.now() - asked
      expect(took).toBeGreaterThan(990)
      expect(result.structuredContent.error).toMatchObject({ code: 'E_TIMEOUT', retryable: true })
      expect(said(result)).toBe(
        'E_TIMEOUT: mcp_bad.hang_late took longer than 1000 ms. Ask for less, or raise mcpServers.bad.timeoutMs.',
      )
      const cancelled = JSON.parse(said(await here.bad('get_cancelled'))) as string[]
      expect(cancelled.map((one) => /^(cancelled|timed out)$/.test(one))).toEqual(Array(++times).fill(true))
      return took
    },
    3,
  )
  expect(took).toBeLessThan(1_250)
  for (let n = 0; n < 20; n++) expect(said(await here.bad('echo', { text: `after ${n}` }))).toBe(`after ${n}`)
  const { received } = here.client.transport as unknown as StreamTransport
  expect(JSON.stringify(received)).not.toContain('too late')
})

test('UPS-03: progress every second keeps no call alive beyond its limit', async () => {
  const here = await scene({ ...evil(), timeoutMs: 3_500 })
  const took = await soonest(
    4_000,
    async () => {
      const asked = performance.now()
      const progress: number[] = []
      const [result] = await Promise.all([
        here.client.callTool(
          { name: 'bad__hang_reporting', arguments: { ms: 1_000 } },
          { timeout: 19_000, resetTimeoutOnProgress: true, onprogress: ({ progress: at }) => progress.push(at) },
        ) as Promise<Answer>,
        here.beside(),
      ])
      const took = performance.now() - asked
      expect(took).toBeGreaterThan(3_490)
      expect(result.structuredContent.error).toMatchObject({ code: 'E_TIMEOUT', retryable: true })
      expect(progress).toEqual([1, 2, 3])
      return took
    },
    3,
  )
  expect(took).toBeLessThan(4_000)
  expect(said(await here.bad('get_cancelled'))).toMatch(/^\["(cancelled|timed out)"\]$/)
})

test('UPS-04: a server that exits or is killed in a call fails all its calls within a second, and the next one starts it again', async () => {
  const exits = await scene({ ...evil(), timeoutMs: 10_000 })
  const killed = await scene({ ...evil(), timeoutMs: 10_000 })
  for (const [here, end, reason] of [
    [exits, () => exits.bad('crash'), 'it exited with code 1'],
    [killed, async (pid: number): Promise<Answer> => void process.kill(pid, 'SIGKILL'), 'it was ended by SIGKILL'],
  ] as const) {
    const took = await soonest(
      1_000,
      async () => {
        const pid = Number(said(await here.bad('get_pid')))
        const hanging = Array.from({ length: 10 }, () => here.bad('hang'))
        await here.beside()
        const asked = performance.now()
        const ended = await end(pid)
        const results = [...(await Promise.all(hanging)), ...(ended === undefined ? [] : [ended])]
        const took = performance.now() - asked
        for (const result of results) {
          expect(said(result)).toContain(`E_UPSTREAM_UNAVAILABLE: bad is not connected: ${reason}. `)
          expect(result.structuredContent.error.retryable).toBe(true)
        }
        expect(said(await here.bad('echo', { text: 'again' }))).toBe('again')
        expect(Number(said(await here.bad('get_pid')))).not.toBe(pid)
        await here.beside()
        return took
      },
      3,
    )
    expect(took).toBeLessThan(1_000)
  }
})

test('UPS-05: half a line of a server that died is never joined to what its successor says', async () => {
  const here = await scene(evil())
  expect(said(await here.bad('half_line'))).toMatch(
    /^E_UPSTREAM_UNAVAILABLE: bad is not connected: it exited with code 1\. /,
  )
  expect(said(await here.bad('echo', { text: 'whole' }))).toBe('whole')
})

test('UPS-06: banners, colours, HTML and JSON that is not MCP are left out, and counted: a server that prints nothing else is ended', async () => {
  const here = await scene({ ...evil('--noise'), timeoutMs: 10_000 })
  expect(said(await here.bad('echo', { text: 'through the noise' }))).toBe('through the noise')
  expect(said(await here.bad('noise'))).toBe('said')
  expect(said(await here.bad('echo', { text: 'next' }))).toBe('next')
  expect(said(await here.bad('noise_for_ever'))).toContain('bad is not connected: it prints things that are not MCP: ')
  await here.beside()
  await answers(here)
})

test('UPS-08: a line of eleven megabytes is too large, and hurts no other call of its server', async () => {
  const here = await scene({ ...evil(), timeoutMs: 10_000 })
  for (const bytes of [10_000_000, 11 * 1024 * 1024]) {
    const [long, short] = await Promise.all([
      here.bad('long_line', { bytes }),
      here.bad('echo', { text: 'short' }),
      here.beside(),
    ])
    expect(long.structuredContent.error).toMatchObject({ code: 'E_TOO_LARGE', retryable: false })
    expect(said(long)).toContain('execution.maxResultBytes')
    expect(said(short)).toBe('short')
    expect(said(await here.bad('echo', { text: 'and after' }))).toBe('and after')
  }
  expect(here.logged.join()).not.toContain('disconnected')
})

test('UPS-10: a thousand list_changed in a second make us read the list at most twice, and tell the client at most once, when it changed', async () => {
  const same = await scene(evil())
  const lists = async () => Number(said(await same.bad('get_lists')))
  const before = await lists()
  await same.bad('flood_lists', { count: 1_000 })
  await sleep(1_500)
  expect((await lists()) - before).toBeLessThanOrEqual(2)
  expect(changes(same.client)).toBe(0)
  const other = await scene({ ...scripted(), start: 'background', trust: 'always' })
  const had = Number(said(await other.bad('count_lists')))
  const told = changes(other.client)
  await other.bad('change_tools', { times: 1_000 })
  await until(() => changes(other.client) > told, 10_000)
  await sleep(1_500)
  expect(Number(said(await other.bad('count_lists'))) - had).toBeLessThanOrEqual(2)
  expect(changes(other.client)).toBe(told + 1)
  expect(await names(other.client)).toContain('bad__appeared')
})

test('UPS-12: pages without end, and a page that names itself, are cut with a warning, and what came is kept', async () => {
  const here = await scene(evil('--fresh-cursors'))
  expect((await names(here.client)).filter((name) => name.startsWith('bad__')).length).toBe(50)
  expect(here.logged.join()).toContain('tools/list was cut at 50 pages')
  const again = await scene(evil('--same-cursor'))
  expect(again.logged.join()).toContain('tools/list was cut at a page it repeats')
  expect(said(await again.bad('echo', { text: 'kept' }))).toBe('kept')
})

test('UPS-13: sampling, elicitation and roots that the operator switched off reach no client, and the call goes on', async () => {
  const { app } = await startApp({
    exposure: { mode: 'direct' },
    mcpServers: { asks: { ...scripted(), start: 'eager', relay: [] } },
  })
  await app.settled(10_000)
  const client = await connectTo(app, 'legacy', { capabilities: { elicitation: {}, sampling: {}, roots: {} } })
  const reached: string[] = []
  for (const method of ['elicitation/create', 'sampling/createMessage', 'roots/list'] as const)
    client.setRequestHandler(method, () => {
      reached.push(method)
      return {} as never
    })
  for (const tool of ['ask_person', 'ask_model', 'ask_roots']) {
    const result = (await client.callTool({ name: `asks__${tool}`, arguments: {} })) as Answer
    expect(result.isError).toBeFalsy()
    expect(JSON.parse(said(result))).toMatchObject({ error: { code: -32601 } })
  }
  expect(reached).toEqual([])
  await client.close()
})

test('UPS-15: a server and what it started are gone after it is disconnected, left out of the configuration, or we end', async () => {
  const settings = (mcpServers: object) => ({ exposure: { mode: 'direct' }, mcpServers })
  const server = { ...scripted(), start: 'eager' }
  const where = place(settings({ a: server, b: server, c: server }))
  const { child, send, answer } = await talkTo(where)
  let id = 0
  const call = async (name: string, args: object = {}): Promise<Answer> => {
    send({ id: ++id, method: 'tools/call', params: { name, arguments: args } })
    return ((await answer(id)) as Answer).result
  }
  const pids: Record<string, readonly number[]> = {}
  for (const one of ['a', 'b', 'c']) {
    const file = join(where.dir, one)
    await call(`${one}__start_grandchild`, { file })
    pids[one] = [Number(said(await call(`${one}__get_pid`))), Number(readFileSync(file, 'utf8'))]
  }
  expect(Object.values(pids).flat().map(alive)).toEqual(Array(6).fill(true))
  const gone = (one: string) => until(() => !pids[one]?.some(alive), 10_000)
  await call('mcp__disconnect', { server_id: 'a' })
  await gone('a')
  expect([...(pids['b'] ?? []), ...(pids['c'] ?? [])].map(alive)).toEqual(Array(4).fill(true))
  // The files are followed once the first list is out.
  send({ id: ++id, method: 'tools/list' })
  await answer(id)
  await sleep(500)
  writeFileSync(where.config, JSON.stringify(settings({ c: server })))
  await gone('b')
  expect(pids['c']?.map(alive)).toEqual([true, true])
  const ended = once(child, 'exit')
  child.kill('SIGTERM')
  expect(await ended).toEqual([0, null])
  await gone('c')
})

test('UPS-17: a server sees a short list of our environment and what its entry names, and none of our secrets', async () => {
  const where = place({
    exposure: { mode: 'direct' },
    mcpServers: { s: { ...scripted(), start: 'eager', env: { GIVEN: 'yes' } } },
  })
  const secrets = { AWS_SECRET_ACCESS_KEY: 'aws-secret', GITHUB_TOKEN: 'github-secret', NODE_EXTRA_CA_CERTS: '/ca' }
  const { send, answer } = await talkTo({ ...where, env: { ...where.env, ...secrets } })
  send({ id: 1, method: 'tools/call', params: { name: 's__get_environment', arguments: {} } })
  const seen = JSON.parse(said(((await answer(1)) as Answer).result))
  expect(seen).toMatchObject({ GIVEN: 'yes', HOME: where.dir })
  const allowed = /^(PATH|HOME|USER|LOGNAME|SHELL|TERM|LANG|LC_\w+|TZ|TMPDIR|GIVEN|PWD|SHLVL|_|PEGBOARD_CHILD)$/
  expect(Object.keys(seen).filter((name) => !allowed.test(name))).toEqual([])
  expect(JSON.stringify(seen)).not.toMatch(/aws-secret|github-secret/)
})

test('UPS-19: arguments that mean something to a shell are passed as they are, and a missing program stops no other server', async () => {
  const dir = temporaryFolder()
  const args = ['; touch x', '$(touch y)', '`touch z`', '&& touch w']
  const { app } = await startApp(
    {
      exposure: { mode: 'direct' },
      mcpServers: {
        s: { ...scripted(...args), cwd: dir, start: 'eager' },
        gone: { command: 'no-such-program-anywhere', start: 'eager' },
      },
    },
    dir,
  )
  await until(() => stateOf(app, 's') === 'ready' && stateOf(app, 'gone') === 'failing', 10_000)
  const client = await connectTo(app)
  const got = (await client.callTool({ name: 's__get_arguments', arguments: {} })) as Answer
  expect(JSON.parse(said(got))).toEqual(args)
  expect(['x', 'y', 'z', 'w'].filter((name) => existsSync(join(dir, name)))).toEqual([])
  expect(statusOf(app, 'gone')?.reason).toBe('command not found: no-such-program-anywhere')
  const called = (await client.callTool({ name: 'gone__anything', arguments: {} })) as Answer
  expect(called.structuredContent.error.code).toBe('E_UPSTREAM_UNAVAILABLE')
  await client.close()
})

test('UPS-20: a program is taken from the absolute folders of PATH or by its full path, never from the folder it starts in', async () => {
  const dir = temporaryFolder()
  const script = `#!/bin/sh\ntouch ${join(dir, 'ran')}\n`
  for (const name of ['server', 'node', 'only-here']) writeFileSync(join(dir, name), script, { mode: 0o755 })
  const full = { ...scripted('x'), cwd: dir, start: 'eager' }
  const { app } = await startApp(
    {
      modules: { filesystem: { config: { roots: ['{{workspace}}'] } } },
      mcpServers: {
        relative: { command: './server', start: 'eager' },
        below: { command: 'bin/server', start: 'eager' },
        bare: { command: 'only-here', start: 'eager' },
        own: { command: 'only-here', start: 'eager', env: { PATH: ':.:' } },
        shadowed: { ...full, command: 'node', args: [...full.args] },
      },
    },
    dir,
    { env: { PATH: `:.:./bin:${process.env['PATH']}:`, HOME: dir, PEGBOARD_STATE_DIR: join(dir, 'state') } },
  )
  await until(() => stateOf(app, 'shadowed') === 'ready', 10_000)
  await app.settled(10_000)
  const reasonOf = (id: string): string => `${statusOf(app, id)?.reason}`
  expect(reasonOf('relative')).toMatch(/^command "\.\/server" is relative; give its full path/)
  expect(reasonOf('below')).toMatch(/^command "bin\/server" is relative/)
  expect(reasonOf('bare')).toBe('command not found: only-here')
  expect(reasonOf('own')).toBe('command not found: only-here')
  expect(existsSync(join(dir, 'ran'))).toBe(false)
})

test('UPS-11: a server that says its list has changed whenever it is listed is read at most 12 times in 60 s', async () => {
  const file = join(temporaryFolder(), 'lists.txt')
  const fixture = join(import.meta.dirname, '../fixtures/upstreams/restless.mjs')
  const where = place({
    exposure: { mode: 'direct' },
    mcpServers: { restless: { command: process.execPath, args: [fixture, file], start: 'eager', trust: 'always' } },
  })
  const talk = await talkTo(where)
  talk.send({ id: 1, method: 'tools/list' })
  await talk.answer(1)
  const lists = (): number[] => (existsSync(file) ? readFileSync(file, 'utf8').trim().split('\n').map(Number) : [])
  await until(() => lists().length > 0, 10_000)
  const told = () => talk.messages.filter(({ method }) => method === 'notifications/tools/list_changed').length
  // Start-up is not what is measured.
  await sleep(2_000)
  const [cpu, before] = [cpuMs(talk.child.pid), told()]
  await sleep(60_000)
  expect(cpuMs(talk.child.pid) - cpu).toBeLessThan(0.05 * 60_000)
  const [first = 0] = lists()
  expect(lists().filter((at) => at < first + 60_000).length).toBeLessThanOrEqual(12)
  expect(told() - before).toBeLessThanOrEqual(12)
  talk.send({ id: 2, method: 'tools/call', params: { name: 'restless__stays', arguments: {} } })
  expect(((await talk.answer(2)) as Answer).result.content).toEqual([{ type: 'text', text: 'stays' }])
}, 90_000)

/** What a process has used of the processor so far. */
function cpuMs(pid: number | undefined): number {
  const time = execFileSync('ps', ['-o', 'time=', '-p', String(pid)], { encoding: 'utf8' }).trim()
  return time.split(':').reduce((sum, part) => sum * 60 + Number(part), 0) * 1_000
}

test('UPS-21: a redirect to an inner address is refused, and a server that wants 20 s of peace gets them', async () => {
  await withHttpServer(evil('--http'), /port (\d+)/, async (port) => {
    const url = `http://127.0.0.1:${port}`
    const fail = (kind: string, more = '') => fetch(`${url}/fault?kind=${kind}${more}`, { method: 'POST' })
    const seen = async () => (await (await fetch(`${url}/seen`)).json()) as { path: string; at: number }[]
    const here = await scene({ url: `${url}/mcp`, start: 'background' })
    for (const kind of ['redirect', 'redirect_keeping']) {
      await fail(kind)
      expect(said(await here.bad('echo', { text: 'x' }))).toMatch(
        /^E_REDIRECT_BLOCKED: bad: it redirects to another address \(HTTP 30[27]\), which is not followed\. /,
      )
      await answers(here)
    }
    expect((await seen()).map(({ path }) => path)).not.toContain('internal')
    await here.app.stop()

    await fail('503_twenty', '&times=9999&every=1')
    const { app } = await startApp({ mcpServers: { busy: { url: `${url}/mcp`, start: 'background' } } })
    await until(() => stateOf(app, 'busy') === 'failing', 10_000)
    expect(statusOf(app, 'busy')?.reason).toBe('HTTP 503')
    const refusedAt = (await seen()).at(-1)?.at as number
    const before = (await seen()).length
    await fail('none')
    await until(() => stateOf(app, 'busy') === 'ready', 40_000)
    expect(((await seen())[before]?.at as number) - refusedAt).toBeGreaterThanOrEqual(20_000)
  })
}, 60_000)

/** Pegboard in front of a server at which Ann and Bob log in for themselves, with a client of each. */
async function loggedIn(upstream: string) {
  const tokens = ['ann', 'bob'].map((principal) => ({ principal, token: `a-long-token-for-${principal}` }))
  const where = place({
    exposure: { mode: 'direct' },
    server: { http: { tokens } },
    mcpServers: { web: { url: upstream, auth: { perPrincipal: true }, start: 'eager' } },
  })
  const state = String(where.env['PEGBOARD_STATE_DIR'])
  const store = await openTokenStore(state, where.env, () => undefined)
  for (const { principal } of tokens) await loginAt(upstream, store, { auth: { perPrincipal: true } }, {}, principal)
  const { url } = await serveHttp(where)
  return await Promise.all(
    tokens.map(async ({ principal, token }) => {
      const client = new Client({ name: principal, version: '1' })
      const headers = { authorization: `Bearer ${token}` }
      await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }))
      onTestFinished(() => client.close())
      return { principal, client }
    }),
  )
}

type LoggedIn = Awaited<ReturnType<typeof loggedIn>>[number]

test.each([
  ['private', ['ann'], 2],
  ['public', ['ann', 'bob'], 1],
] as const)(
  'UPS-22: what a server lists as %s for one principal is seen by %j, and each reads with the login of its own',
  async (cacheScope, see, lists) => {
    await withRig(
      async ({ server }) => {
        const clients = await loggedIn(server.url)
        const listing = async (tool: string) => {
          const all = await Promise.all(
            clients.map(async ({ principal, client }) => ((await names(client)).includes(tool) ? [principal] : [])),
          )
          return all.flat()
        }
        await expect.poll(() => listing('web__who'), { timeout: 15_000 }).toEqual(['ann', 'bob'])
        await expect.poll(() => listing('web__secret'), { timeout: 15_000 }).toEqual(see)
        expect(server.lists()).toBe(lists)
        for (let round = 0; round < 3; round++)
          for (const { principal, client } of clients) {
            const who = (await client.callTool({ name: 'web__who', arguments: {} })) as Answer
            expect(/ann|bob/.exec(JSON.stringify(who))?.[0]).toBe(principal)
          }
      },
      { resource: { cacheScope } },
    )
  },
  40_000,
)

test.each([
  ['no cacheScope', [{ ttlMs: -1 }]],
  [
    'public on one page and private on the next',
    [
      { cacheScope: 'public', ttlMs: 60_000 },
      { cacheScope: 'private', ttlMs: -1 },
    ],
  ],
] as const)(
  'UPS-23: a list with %s and a TTL of −1 is private and stale, and nothing of it is served to a revoked login',
  async (_what, pages) => {
    await withRig(
      async ({ server }) => {
        const [ann, bob] = (await loggedIn(server.url)) as [LoggedIn, LoggedIn]
        await expect.poll(() => names(ann.client), { timeout: 15_000 }).toContain('web__secret')
        await expect.poll(() => names(bob.client), { timeout: 15_000 }).toContain('web__who')
        expect(await names(bob.client)).not.toContain('web__secret')
        const call = async ({ client }: LoggedIn, name: string) =>
          JSON.stringify(await client.callTool({ name, arguments: {} }).catch((error: unknown) => ({ error })))
        const tokensBefore = server.tokens.length
        expect(await call(bob, 'web__secret')).not.toContain('"ann"')
        expect(server.tokens.length - tokensBefore).toBeLessThanOrEqual(2)
        // Read again without being told: what it says is stale at once.
        const lists = server.lists()
        await expect.poll(() => server.lists(), { timeout: 8_000 }).toBeGreaterThan(lists)
        // Ann's list is the one that was read first; Bob's login goes on.
        server.refusedAccounts.add('ann')
        const revokedAt = performance.now()
        await expect.poll(() => names(ann.client), { timeout: 10_000 }).not.toContain('web__who')
        expect(performance.now() - revokedAt).toBeLessThan(6_000)
        expect(await names(ann.client)).not.toContain('web__secret')
        expect(await call(ann, 'web__who')).toContain('pegboard auth web --principal ann')
        await expect.poll(() => names(bob.client), { timeout: 10_000 }).toContain('web__who')
        expect(await call(bob, 'web__who')).toContain('bob')
        server.refusedAccounts.add('bob')
        const again = performance.now()
        await expect.poll(() => names(bob.client), { timeout: 10_000 }).not.toContain('web__who')
        expect(performance.now() - again).toBeLessThan(6_000)
      },
      { resource: { pages } },
    )
  },
  60_000,
)

test('UPS-25: a server that was down for ten minutes is used again within 90 s of its return, and nobody ever gave up', async () => {
  const times = 30
  await withHttpServer(evil('--http'), /port (\d+)/, async (port) => {
    const url = `http://127.0.0.1:${port}`
    const fail = (kind: string) => fetch(`${url}/fault?kind=${kind}&times=9999&every=1`, { method: 'POST' })
    await fail('500')
    const entry = {
      url: `${url}/mcp`,
      start: 'background',
      connectTimeoutMs: 300_000,
      timeoutMs: 300_000,
    }
    const { app } = await startApp({ exposure: { mode: 'direct' }, mcpServers: { away: entry } }, temporaryFolder(), {
      clock: hurried(times).clock as Clock,
    })
    await sleep(600_000 / times)
    expect(stateOf(app, 'away')).toBe('failing')
    const tried = ((await (await fetch(`${url}/seen`)).json()) as unknown[]).length
    expect(tried).toBeGreaterThan(10)
    expect(statusOf(app, 'away')?.nextAttemptAt).toEqual(expect.any(Number))
    await fail('none')
    await until(() => stateOf(app, 'away') === 'ready', 90_000 / times)
    const client = await connectTo(app)
    expect(said(await client.callTool({ name: 'away__echo', arguments: { text: 'back' } }))).toBe('back')
    await client.close()
  })
}, 45_000)

test('UPS-27: a server that stops reading while it is sent 5 MB, then is killed, fails those calls and leaves nothing of them', async () => {
  const here = await scene({ ...evil(), timeoutMs: 10_000 })
  const round = async (): Promise<void> => {
    await answers(here, 10_000)
    const pid = Number(said(await here.bad('get_pid')))
    const stopped = here.bad('stop_reading')
    const long = [1, 2].map((n) => here.bad('echo', { text: String(n).repeat(2_500_000) }))
    await here.beside()
    process.kill(pid, 'SIGKILL')
    for (const result of await Promise.all([stopped, ...long]))
      expect(said(result)).toMatch(/^E_UPSTREAM_UNAVAILABLE: bad is not connected: it was ended by SIGKILL\. /)
    await here.beside()
  }
  await round()
  const before = heldMiB()
  for (let n = 0; n < 3; n++) await round()
  // What ended a moment ago may be held by a pipe that is being closed.
  await expect.poll(() => heldMiB() - before).toBeLessThan(5)
  const timed = await scene({ ...evil(), timeoutMs: 500 })
  const results = [timed.bad('stop_reading'), timed.bad('echo', { text: 'x'.repeat(4_000_000) })]
  for (const result of await Promise.all(results)) expect(said(result)).toMatch(/^E_(TIMEOUT|UPSTREAM_UNAVAILABLE): /)
}, 60_000)
