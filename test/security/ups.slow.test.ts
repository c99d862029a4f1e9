import { once } from 'node:events'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Client } from '@modelcontextprotocol/client'
import { expect, onTestFinished, test } from 'vitest'
import type { Clock } from '../../src/core/clock.ts'
import { openTokenStore } from '../../src/upstream/oauth/token-store.ts'
import { type Answer, startApp, temporaryFolder } from '../app.ts'
import { connectOverHttp, connectTo, type StreamTransport } from '../client.ts'
import { createManualClock } from '../clock.ts'
import {
  evilServer,
  listToolNames,
  startWithFailingServer,
  stateOf,
  statusOf,
  textOf,
  waitForRecovery,
} from '../failing-server.ts'
import { heldMiB } from '../memory.ts'
import { computedSeconds, descendants, place, serveHttp, talkTo } from '../process.ts'
import { alive, hurried, scripted, until, withHttpServer } from '../upstream/host.ts'
import { loginAt, withOAuthServers } from '../upstream/oauth/oauth-servers.ts'
import { soonest } from './lag.ts'

/** A preloaded module with which no timer of a process ends, except those that only yield. */
const WITHOUT_TIMERS = `data:text/javascript,${encodeURIComponent(`
  import { syncBuiltinESMExports } from 'node:module'
  import timers from 'node:timers'
  import promises from 'node:timers/promises'
  const { setTimeout } = globalThis
  globalThis.setTimeout = timers.setTimeout = (run, ms, ...args) =>
    ms > 0 ? setTimeout(() => {}, 2 ** 31 - 1) : setTimeout(run, 0, ...args)
  promises.setTimeout = () => new Promise(() => {})
  syncBuiltinESMExports()`)}`

const changes = (client: Client): number =>
  (client.transport as unknown as StreamTransport).received.filter(
    ({ method }) => method === 'notifications/tools/list_changed',
  ).length

test('UPS-01: a server that answers nothing, or none of its lists, delays no call and is failing within 30 s', async () => {
  const clock = createManualClock(Date.now())
  const { app } = await startApp(
    {
      exposure: { mode: 'direct' },
      mcpServers: { hung: evilServer('--hang-start'), listless: evilServer('--hang-list'), good: evilServer() },
    },
    undefined,
    { clock },
  )
  const client = await connectTo(app)
  await client.listTools()
  await until(() => {
    clock.pass(10)
    // The era is known as soon as the server has answered the handshake.
    return stateOf(app, 'good') === 'ready' && statusOf(app, 'listless')?.era !== undefined
  })
  const from = clock.now()
  while (stateOf(app, 'hung') !== 'failing' || stateOf(app, 'listless') !== 'failing') {
    const result = (await client.callTool({ name: 'good__echo', arguments: { text: 'meanwhile' } })) as Answer
    expect(textOf(result)).toBe('meanwhile')
    expect(clock.now() - from).toBeLessThan(60_000)
    clock.pass(2_000)
    await sleep(20)
  }
  expect(statusOf(app, 'hung')?.reason).toBe('no answer within 30 s')
  expect(statusOf(app, 'listless')?.reason).toBe('listless did not answer tools/list within 15000 ms')
  const called = (await client.callTool({ name: 'hung__echo', arguments: {} })) as Answer
  expect(called.structuredContent.error).toMatchObject({
    code: 'E_UPSTREAM_UNAVAILABLE',
    message: "mcp_hung is failing (no answer within 30 s), so 'hung__echo' is not available.",
  })
  await client.close()
}, 90_000)

test('UPS-01: with a server that never answers, Pegboard is ready within 2 s', async () => {
  const where = place({
    exposure: { mode: 'direct' },
    mcpServers: { hung: { ...evilServer('--hang-start'), start: 'eager' } },
  })
  // Its timers never end, so an answer waited for none. Unlike the time that passes, its computing time does not grow
  // with the load of the machine.
  const talk = await talkTo({ ...where, env: { ...where.env, NODE_OPTIONS: `--import ${WITHOUT_TIMERS}` } })
  await expect
    .poll(async () => await descendants(talk.child.pid))
    .toContainEqual(expect.objectContaining({ args: expect.stringContaining('--hang-start') }))
  talk.send({ id: 1, method: 'tools/list' })
  const { tools } = ((await talk.answer(1)) as Answer).result
  expect(await computedSeconds(talk.child.pid)).toBeLessThan(2)
  expect(tools.map(({ name }: { name: string }) => name)).toContain('filesystem__read')
})

test('UPS-01: a silent server is failing after 30 s, and not before', async () => {
  const clock = createManualClock(Date.now())
  const { app } = await startApp({ mcpServers: { hung: evilServer('--hang-start') } }, undefined, { clock })
  await app.work()
  await until(() => {
    clock.pass(1)
    return stateOf(app, 'hung') === 'connecting'
  })
  clock.pass(29_000)
  expect(stateOf(app, 'hung')).toBe('connecting')
  clock.pass(1_000)
  expect(statusOf(app, 'hung')).toMatchObject({
    state: 'failing',
    reason: 'no answer within 30 s',
  })
})

test('UPS-02: a hanging call ends on time, its server is notified, and its late answer is dropped', async () => {
  const here = await startWithFailingServer(evilServer())
  // On time: its limit is one second.
  let times = 0
  const took = await soonest(
    1_250,
    async () => {
      const asked = performance.now()
      const [result] = await Promise.all([here.callFailing('hang_late'), here.callHealthy()])
      const took = performance.now() - asked
      expect(took).toBeGreaterThan(990)
      expect(result.structuredContent.error).toMatchObject({ code: 'E_TIMEOUT', retryable: true })
      expect(textOf(result)).toBe(
        'E_TIMEOUT: mcp_bad.hang_late took longer than 1000 ms. Ask for less, or raise mcpServers.bad.timeoutMs.',
      )
      const cancelled = JSON.parse(textOf(await here.callFailing('get_cancelled'))) as string[]
      expect(cancelled.map((one) => /^(cancelled|timed out)$/.test(one))).toEqual(Array(++times).fill(true))
      return took
    },
    3,
  )
  expect(took).toBeLessThan(1_250)
  for (let n = 0; n < 20; n++) expect(textOf(await here.callFailing('echo', { text: `after ${n}` }))).toBe(`after ${n}`)
  const { received } = here.client.transport as unknown as StreamTransport
  expect(JSON.stringify(received)).not.toContain('too late')
})

test('UPS-03: progress every second does not extend the time limit of a call', async () => {
  const here = await startWithFailingServer({ ...evilServer(), timeoutMs: 3_500 })
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
        here.callHealthy(),
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
  expect(textOf(await here.callFailing('get_cancelled'))).toMatch(/^\["(cancelled|timed out)"\]$/)
})

test('UPS-04: a server that exits or is killed fails its calls within a second, and the next call starts it again', async () => {
  const exits = await startWithFailingServer({ ...evilServer(), timeoutMs: 10_000 })
  const killed = await startWithFailingServer({ ...evilServer(), timeoutMs: 10_000 })
  for (const [here, end, reason] of [
    [exits, () => exits.callFailing('crash'), 'it exited with code 1'],
    [killed, async (pid: number): Promise<Answer> => void process.kill(pid, 'SIGKILL'), 'it was killed by SIGKILL'],
  ] as const) {
    const took = await soonest(
      1_000,
      async () => {
        const pid = Number(textOf(await here.callFailing('get_pid')))
        const hanging = Array.from({ length: 10 }, () => here.callFailing('hang'))
        await here.callHealthy()
        const asked = performance.now()
        const ended = await end(pid)
        const results = [...(await Promise.all(hanging)), ...(ended === undefined ? [] : [ended])]
        const took = performance.now() - asked
        for (const result of results) {
          expect(textOf(result)).toContain(`E_UPSTREAM_UNAVAILABLE: bad is not connected: ${reason}. `)
          expect(result.structuredContent.error.retryable).toBe(true)
        }
        expect(textOf(await here.callFailing('echo', { text: 'again' }))).toBe('again')
        expect(Number(textOf(await here.callFailing('get_pid')))).not.toBe(pid)
        await here.callHealthy()
        return took
      },
      3,
    )
    expect(took).toBeLessThan(1_000)
  }
})

test('UPS-05: half a line of a dead server is never joined to output of its successor', async () => {
  const here = await startWithFailingServer(evilServer())
  expect(textOf(await here.callFailing('half_line'))).toMatch(
    /^E_UPSTREAM_UNAVAILABLE: bad is not connected: it exited with code 1\. /,
  )
  expect(textOf(await here.callFailing('echo', { text: 'whole' }))).toBe('whole')
})

test('UPS-06: banners, colours, HTML and JSON that is not MCP are ignored, and a server that prints nothing else is stopped', async () => {
  const here = await startWithFailingServer({ ...evilServer('--noise'), timeoutMs: 10_000 })
  expect(textOf(await here.callFailing('echo', { text: 'through the noise' }))).toBe('through the noise')
  expect(textOf(await here.callFailing('noise'))).toBe('said')
  expect(textOf(await here.callFailing('echo', { text: 'next' }))).toBe('next')
  expect(textOf(await here.callFailing('noise_for_ever'))).toContain('bad is not connected: its output is not MCP: ')
  await here.callHealthy()
  await waitForRecovery(here)
})

test('UPS-08: a line of eleven megabytes is too large, and affects no other call of its server', async () => {
  const settings = { execution: { maxResultBytes: 2 * 1024 * 1024 } }
  const here = await startWithFailingServer({ ...evilServer(), timeoutMs: 10_000 }, { settings })
  for (const bytes of [10_000_000, 11 * 1024 * 1024]) {
    const [long, short] = await Promise.all([
      here.callFailing('long_line', { bytes }),
      here.callFailing('echo', { text: 'short' }),
      here.callHealthy(),
    ])
    expect(long.structuredContent.error).toMatchObject({ code: 'E_TOO_LARGE', retryable: false })
    expect(textOf(long)).toContain('execution.maxResultBytes')
    expect(textOf(short)).toBe('short')
    expect(textOf(await here.callFailing('echo', { text: 'and after' }))).toBe('and after')
  }
  expect(here.logged.join()).not.toContain('disconnected')
})

test('UPS-08: of a line of eleven megabytes the model gets the beginning and a handle to the rest', async () => {
  const here = await startWithFailingServer({ ...evilServer(), timeoutMs: 10_000 })
  const [long, short] = await Promise.all([
    here.callFailing('long_line', { bytes: 11 * 1024 * 1024 }),
    here.callFailing('echo', { text: 'short' }),
    here.callHealthy(),
  ])
  expect([long.isError ?? false, textOf(long).length < 50_000]).toEqual([false, true])
  expect(textOf(long)).toMatch(/\br_[0-9a-z]+/)
  expect(textOf(short)).toBe('short')
  await here.callHealthy()
})

test('UPS-10: a thousand list_changed in a second cause at most two reads, and one client notification if the list changed', async () => {
  const same = await startWithFailingServer(evilServer())
  const lists = async () => Number(textOf(await same.callFailing('get_lists')))
  const before = await lists()
  await same.callFailing('flood_lists', { count: 1_000 })
  await sleep(1_500)
  expect((await lists()) - before).toBeLessThanOrEqual(2)
  expect(changes(same.client)).toBe(0)
  const other = await startWithFailingServer({ ...scripted(), start: 'background', trust: 'always' })
  const had = Number(textOf(await other.callFailing('count_lists')))
  const told = changes(other.client)
  await other.callFailing('change_tools', { times: 1_000 })
  await until(() => changes(other.client) > told)
  await sleep(1_500)
  expect(Number(textOf(await other.callFailing('count_lists'))) - had).toBeLessThanOrEqual(2)
  expect(changes(other.client)).toBe(told + 1)
  expect(await listToolNames(other.client)).toContain('bad__appeared')
})

test('UPS-12: endless pages, and a page that names itself, are cut with a warning, and earlier pages are kept', async () => {
  const here = await startWithFailingServer(evilServer('--fresh-cursors'))
  expect((await listToolNames(here.client)).filter((name) => name.startsWith('bad__')).length).toBe(50)
  expect(here.logged.join()).toContain('tools/list was cut at 50 pages')
  const again = await startWithFailingServer(evilServer('--same-cursor'))
  expect(again.logged.join()).toContain('tools/list was cut at a page it repeats')
  expect(textOf(await again.callFailing('echo', { text: 'kept' }))).toBe('kept')
})

test('UPS-13: sampling, elicitation and roots that the operator disabled reach no client, and the call continues', async () => {
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
    expect(JSON.parse(textOf(result))).toMatchObject({ error: { code: -32601 } })
  }
  expect(reached).toEqual([])
  await client.close()
})

test('UPS-15: a server and its children exit after it is disconnected or removed from the configuration, or when Pegboard exits', async () => {
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
    pids[one] = [Number(textOf(await call(`${one}__get_pid`))), Number(readFileSync(file, 'utf8'))]
  }
  expect(Object.values(pids).flat().map(alive)).toEqual(Array(6).fill(true))
  const gone = (one: string) => until(() => !pids[one]?.some(alive))
  await call('mcp__disconnect', { server_id: 'a' })
  await gone('a')
  expect([...(pids['b'] ?? []), ...(pids['c'] ?? [])].map(alive)).toEqual(Array(4).fill(true))
  // Pegboard watches the files after the first list.
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

test('UPS-17: a server gets a short environment and the variables of its entry, and no secrets of Pegboard', async () => {
  const where = place({
    exposure: { mode: 'direct' },
    mcpServers: { s: { ...scripted(), start: 'eager', env: { GIVEN: 'yes' } } },
  })
  const secrets = { AWS_SECRET_ACCESS_KEY: 'aws-secret', GITHUB_TOKEN: 'github-secret', NODE_EXTRA_CA_CERTS: '/ca' }
  const { send, answer } = await talkTo({ ...where, env: { ...where.env, ...secrets } })
  send({ id: 1, method: 'tools/call', params: { name: 's__get_environment', arguments: {} } })
  const seen = JSON.parse(textOf(((await answer(1)) as Answer).result))
  expect(seen).toMatchObject({ GIVEN: 'yes', HOME: where.dir })
  const allowed = /^(PATH|HOME|USER|LOGNAME|SHELL|TERM|LANG|LC_\w+|TZ|TMPDIR|GIVEN|PWD|SHLVL|_|PEGBOARD_CHILD)$/
  expect(Object.keys(seen).filter((name) => !allowed.test(name))).toEqual([])
  expect(JSON.stringify(seen)).not.toMatch(/aws-secret|github-secret/)
})

test('UPS-19: shell characters in arguments are passed literally, and a missing program affects no other server', async () => {
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
  await until(() => stateOf(app, 's') === 'ready' && stateOf(app, 'gone') === 'failing')
  const client = await connectTo(app)
  const got = (await client.callTool({ name: 's__get_arguments', arguments: {} })) as Answer
  expect(JSON.parse(textOf(got))).toEqual(args)
  expect(['x', 'y', 'z', 'w'].filter((name) => existsSync(join(dir, name)))).toEqual([])
  expect(statusOf(app, 'gone')?.reason).toBe('command not found: no-such-program-anywhere')
  const called = (await client.callTool({ name: 'gone__anything', arguments: {} })) as Answer
  expect(called.structuredContent.error.code).toBe('E_UPSTREAM_UNAVAILABLE')
  await client.close()
})

test('UPS-20: a program comes from absolute folders of PATH or from its full path, never from its working folder', async () => {
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
  await until(() => stateOf(app, 'shadowed') === 'ready')
  await app.settled(10_000)
  const reasonOf = (id: string): string => `${statusOf(app, id)?.reason}`
  expect(reasonOf('relative')).toMatch(/^command "\.\/server" is relative; give its full path/)
  expect(reasonOf('below')).toMatch(/^command "bin\/server" is relative/)
  expect(reasonOf('bare')).toBe('command not found: only-here')
  expect(reasonOf('own')).toBe('command not found: only-here')
  expect(existsSync(join(dir, 'ran'))).toBe(false)
})

test('UPS-11: a server that reports a changed list on each read is read at most 12 times in 60 s', async () => {
  const file = join(temporaryFolder(), 'lists.txt')
  const fixture = join(import.meta.dirname, '../fixtures/upstreams/restless.mjs')
  const restless = { command: process.execPath, args: [fixture, file], start: 'eager', trust: 'always' }
  const clock = createManualClock(Date.now())
  const { app } = await startApp({ exposure: { mode: 'direct' }, mcpServers: { restless } }, undefined, { clock })
  const client = await connectTo(app)
  onTestFinished(() => client.close())
  let told = 0
  client.setNotificationHandler('notifications/tools/list_changed', () => void told++)
  const lists = (): number => (existsSync(file) ? readFileSync(file, 'utf8').trim().split('\n').length : 0)
  await until(() => {
    clock.pass(10)
    return stateOf(app, 'restless') === 'ready'
  })
  const before = { lists: lists(), told }
  for (let passed = 0; passed < 60_000; passed += 250) {
    clock.pass(250)
    await sleep(10)
  }
  expect(lists() - before.lists).toBeGreaterThan(0)
  expect(lists() - before.lists).toBeLessThanOrEqual(12)
  expect(told - before.told).toBeLessThanOrEqual(12)
  const stays = (await client.callTool({ name: 'restless__stays', arguments: {} })) as Answer
  expect(stays.content).toEqual([{ type: 'text', text: 'stays' }])
})

test('UPS-21: a redirect to an internal address is rejected, and a server that requests a pause of 20 s gets it', async () => {
  await withHttpServer(evilServer('--http'), /port (\d+)/, async (port) => {
    const url = `http://127.0.0.1:${port}`
    const fail = (kind: string, more = '') => fetch(`${url}/fault?kind=${kind}${more}`, { method: 'POST' })
    const seen = async () => (await (await fetch(`${url}/seen`)).json()) as { path: string; at: number }[]
    const here = await startWithFailingServer({ url: `${url}/mcp`, start: 'background' })
    for (const kind of ['redirect', 'redirect_keeping']) {
      await fail(kind)
      expect(textOf(await here.callFailing('echo', { text: 'x' }))).toMatch(
        /^E_REDIRECT_BLOCKED: bad: it redirects to another address \(HTTP 30[27]\), which is not followed\. /,
      )
      await waitForRecovery(here)
    }
    expect((await seen()).map(({ path }) => path)).not.toContain('internal')
    await here.app.stop()

    await fail('503_twenty', '&times=9999&every=1')
    // Time passes four times as fast, but not for the server.
    const { clock } = hurried(4)
    const busy = { url: `${url}/mcp`, start: 'background' }
    const { app } = await startApp({ mcpServers: { busy } }, undefined, { clock })
    await until(() => stateOf(app, 'busy') === 'failing')
    expect(statusOf(app, 'busy')?.reason).toBe('HTTP 503')
    const refusedAt = (await seen()).at(-1)?.at as number
    const before = (await seen()).length
    await fail('none')
    await until(() => stateOf(app, 'busy') === 'ready', 40_000)
    expect(((await seen())[before]?.at as number) - refusedAt).toBeGreaterThanOrEqual(20_000 / 4)
  })
}, 60_000)

/** Pegboard in front of a server with a login for each principal, and clients of Ann and Bob. */
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
    tokens.map(async ({ principal, token }) => ({ principal, client: await connectOverHttp(url, token) })),
  )
}

type LoggedIn = Awaited<ReturnType<typeof loggedIn>>[number]

test.each([
  ['private', ['ann'], 2],
  ['public', ['ann', 'bob'], 1],
] as const)(
  'UPS-22: a list with the scope %s for one principal is seen by %j, and each principal reads with its own login',
  async (cacheScope, see, lists) => {
    await withOAuthServers(
      async ({ server }) => {
        const clients = await loggedIn(server.url)
        const listing = async (tool: string) => {
          const all = await Promise.all(
            clients.map(async ({ principal, client }) =>
              (await listToolNames(client)).includes(tool) ? [principal] : [],
            ),
          )
          return all.flat()
        }
        await expect.poll(() => listing('web__who')).toEqual(['ann', 'bob'])
        await expect.poll(() => listing('web__secret')).toEqual(see)
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
  'UPS-23: a list with %s and a TTL of −1 is private and stale, and a revoked login gets nothing of it',
  async (_what, pages) => {
    await withOAuthServers(
      async ({ server }) => {
        const [ann, bob] = (await loggedIn(server.url)) as [LoggedIn, LoggedIn]
        await expect.poll(() => listToolNames(ann.client)).toContain('web__secret')
        await expect.poll(() => listToolNames(bob.client)).toContain('web__who')
        expect(await listToolNames(bob.client)).not.toContain('web__secret')
        const call = async ({ client }: LoggedIn, name: string) =>
          JSON.stringify(await client.callTool({ name, arguments: {} }).catch((error: unknown) => ({ error })))
        const tokensBefore = server.tokens.length
        expect(await call(bob, 'web__secret')).not.toContain('"ann"')
        expect(server.tokens.length - tokensBefore).toBeLessThanOrEqual(2)
        // Read again without a notification, because the list is stale immediately.
        const lists = server.lists()
        await expect.poll(() => server.lists()).toBeGreaterThan(lists)
        // Ann's list was read first; Bob's login still works.
        server.refusedAccounts.add('ann')
        const revokedAt = performance.now()
        await expect.poll(() => listToolNames(ann.client)).not.toContain('web__who')
        expect(performance.now() - revokedAt).toBeLessThan(6_000)
        expect(await listToolNames(ann.client)).not.toContain('web__secret')
        expect(await call(ann, 'web__who')).toContain('pegboard auth web --principal ann')
        await expect.poll(() => listToolNames(bob.client)).toContain('web__who')
        expect(await call(bob, 'web__who')).toContain('bob')
        server.refusedAccounts.add('bob')
        const again = performance.now()
        await expect.poll(() => listToolNames(bob.client)).not.toContain('web__who')
        expect(performance.now() - again).toBeLessThan(6_000)
      },
      { resource: { pages } },
    )
  },
  60_000,
)

test('UPS-25: a server that was down for ten minutes is used again within 90 s of its return, without giving up', async () => {
  const times = 30
  await withHttpServer(evilServer('--http'), /port (\d+)/, async (port) => {
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
    expect(textOf(await client.callTool({ name: 'away__echo', arguments: { text: 'back' } }))).toBe('back')
    await client.close()
  })
}, 45_000)

test('UPS-27: a server that stops reading 5 MB and is then killed fails those calls and leaves nothing behind', async () => {
  const here = await startWithFailingServer({ ...evilServer(), timeoutMs: 60_000 })
  const round = async (): Promise<void> => {
    await waitForRecovery(here, 60_000)
    const pid = Number(textOf(await here.callFailing('get_pid')))
    const stopped = here.callFailing('stop_reading')
    const long = [1, 2].map((n) => here.callFailing('echo', { text: String(n).repeat(2_500_000) }))
    await here.callHealthy()
    process.kill(pid, 'SIGKILL')
    for (const result of await Promise.all([stopped, ...long]))
      expect(textOf(result)).toMatch(/^E_UPSTREAM_UNAVAILABLE: bad is not connected: it was killed by SIGKILL\. /)
    await here.callHealthy()
  }
  await round()
  const before = heldMiB()
  for (let n = 0; n < 3; n++) await round()
  // A closing pipe may still hold a process that just ended.
  await expect.poll(() => heldMiB() - before).toBeLessThan(5)
  const timed = await startWithFailingServer({ ...evilServer(), timeoutMs: 500 })
  const results = [timed.callFailing('stop_reading'), timed.callFailing('echo', { text: 'x'.repeat(4_000_000) })]
  for (const result of await Promise.all(results)) expect(textOf(result)).toMatch(/^E_(TIMEOUT|UPSTREAM_UNAVAILABLE): /)
}, 180_000)
