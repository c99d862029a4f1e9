import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it, onTestFinished } from 'vitest'
import { type Answer, answerOf, startApp, temporaryFolder } from '../app.ts'
import { callTool, connectTo, type StreamTransport } from '../client.ts'
import {
  type AppWithFailingServer,
  evilServer,
  listToolNames,
  startWithFailingServer,
  stateOf,
  textOf,
  waitForRecovery,
} from '../failing-server.ts'
import { until, withHttpServer } from '../upstream/host.ts'

describe('a server that fails at start', () => {
  it('by exiting at once is retried, and connects when it can', async () => {
    const dir = temporaryFolder()
    const mended = join(dir, 'mended')
    const here = await startWithFailingServer(evilServer('--exit-start', '--until', mended), { wait: false, dir })
    await until(() => stateOf(here.app, 'bad') === 'failing')
    const reason = expect.stringMatching(/^it exited with code 1/)
    const { servers } = answerOf(await here.client.callTool({ name: 'mcp__list_servers', arguments: {} }))
    expect(servers).toContainEqual(expect.objectContaining({ id: 'bad', state: 'failing', reason }))
    const { categories } = answerOf(await here.client.callTool({ name: 'list_categories', arguments: {} }))
    expect(categories).toContainEqual(expect.objectContaining({ id: 'mcp_bad', state: 'failing', reason }))
    await here.callHealthy()
    writeFileSync(mended, '')
    await waitForRecovery(here, 15_000)
  })

  it('by printing an endless line uses bounded memory and delays no other call', async () => {
    const before = process.memoryUsage().rss
    const here = await startWithFailingServer(evilServer('--endless-start'), { wait: false })
    for (let round = 0; round < 20; round++) {
      await here.callHealthy()
      await sleep(100)
    }
    expect((process.memoryUsage().rss - before) / 2 ** 20).toBeLessThan(400)
  })
})

describe('a server that dies during calls', () => {
  it('repeatedly is not waited for, and is used again when it stays alive', async () => {
    const here = await startWithFailingServer(evilServer())
    for (let time = 0; time < 2; time++) await here.callFailing('crash')
    const asked = performance.now()
    const refused = await here.callFailing('echo', { text: 'x' })
    expect(performance.now() - asked).toBeLessThan(5_000)
    expect(refused.isError).toBe(true)
    expect(textOf(refused)).toContain('bad is reconnecting (attempt 2)')
    await here.callHealthy()
    await waitForRecovery(here, 10_000)
  })
})

describe('output of a server', () => {
  it('in an endless line fails that call on time and affects no other', async () => {
    const here = await startWithFailingServer({ ...evilServer(), timeoutMs: 3_000 })
    const [endless] = await Promise.all([here.callFailing('endless_line', { megabytes: 80 }), here.callHealthy()])
    expect(textOf(endless)).toMatch(/^E_(TIMEOUT|TOO_LARGE|UPSTREAM_UNAVAILABLE): /)
    await here.callHealthy()
  })

  it('as ten thousand log messages delays no other call', async () => {
    const here = await startWithFailingServer({ ...evilServer(), timeoutMs: 10_000 })
    const [flood] = await Promise.all([here.callFailing('flood_logs', { count: 10_000 }), here.callHealthy()])
    expect(textOf(flood)).toBe('said')
    await here.callHealthy()
  })
})

describe('an answer', () => {
  it("with another request's id is ignored", async () => {
    const here = await startWithFailingServer(evilServer())
    expect(textOf(await here.callFailing('wrong_id'))).toBe('for you')
  })

  it('that is sent twice counts once', async () => {
    const here = await startWithFailingServer(evilServer())
    expect(textOf(await here.callFailing('answer_twice'))).toBe('first')
    expect(textOf(await here.callFailing('echo', { text: 'next' }))).toBe('next')
  })

  it.each(['legacy', 'modern'] as const)(
    'that is invalid is reported as invalid, through meta-tools as well (%s)',
    async (era) => {
      const { app } = await startApp({ exposure: { mode: 'discovery' }, mcpServers: { bad: evilServer() } })
      await app.settled(10_000)
      const client = await connectTo(app, era)
      onTestFinished(() => client.close())
      const unreadable =
        'E_UPSTREAM_PROTOCOL: bad answered with content that no client can read. Report it to the operator.'
      for (const call of [
        (tool: string) => client.callTool({ name: `bad__${tool}` }),
        (tool: string) => client.callTool({ name: 'execute_tool', arguments: { name: `mcp_bad.${tool}`, params: {} } }),
      ]) {
        expect(await call('no_content')).toMatchObject({ content: [] })
        expect(textOf(await call('odd_content'))).toBe(unreadable)
        expect(textOf(await call('odd_blocks'))).toBe(unreadable)
        expect(textOf(await call('no_result'))).toBe(
          'E_UPSTREAM_PROTOCOL: bad answered without a result. Report it to the operator.',
        )
      }
    },
  )

  it.each(['list', 'text', 'nothing', 'number'])(
    'with structured content that is not an object (%s) keeps its text',
    async (kind) => {
      const here = await startWithFailingServer(evilServer())
      expect(textOf(await here.callFailing('odd_structured', { kind }))).toBe('words')
    },
  )
})

describe('a hostile tool list', () => {
  it('with a duplicate name keeps the first tool, if the operator trusts the server', async () => {
    const here = await startWithFailingServer({ ...evilServer('--twice'), trust: 'always' })
    const { tools } = await here.client.listTools()
    expect(tools.filter(({ name }) => name.startsWith('bad__')).map(({ description }) => description)).toEqual([
      'Does echo.',
    ])
    expect(here.logged.join()).toContain('skipped a second tool named \\"echo\\"')
  })

  it('that changes each time is read at a limited rate', async () => {
    const here = await startWithFailingServer(evilServer('--flip-flop'))
    const { received } = here.client.transport as unknown as StreamTransport
    const changes = () => received.filter(({ method }) => method === 'notifications/tools/list_changed').length
    expect(await listToolNames(here.client)).toContain('bad__odd')
    await here.app.upstreams.refresh('bad')
    expect(await listToolNames(here.client)).toContain('bad__even')
    expect(await listToolNames(here.client)).not.toContain('bad__odd')
    await until(() => changes() === 1)
    // An unknown name causes a search for new tools, at most once a minute.
    await here.callFailing('odd')
    expect(await listToolNames(here.client)).toContain('bad__odd')
    const gone = await callTool(here.client, { name: 'bad__even', arguments: {} })
    expect(gone.error.data.code).toBe('E_NOT_FOUND')
  })
})

describe('a server over HTTP', () => {
  /** The product in front of evil.mjs on HTTP, which fails on request. */
  async function overHttp(
    test: (here: AppWithFailingServer, fail: (kind: string) => Promise<void>, url: string) => Promise<void>,
  ) {
    await withHttpServer(evilServer('--http'), /port (\d+)/, async (port) => {
      const url = `http://127.0.0.1:${port}`
      const here = await startWithFailingServer({ url: `${url}/mcp`, start: 'background' })
      await test(here, async (kind) => void (await fetch(`${url}/fault?kind=${kind}`, { method: 'POST' })), url)
    })
  }

  it.each([
    ['401', 'E_AUTH_REQUIRED: bad: it requires a login: run `pegboard auth bad`.'],
    ['403', 'E_UPSTREAM_UNAVAILABLE: bad rejected the request (HTTP 403)'],
    ['429', 'E_UPSTREAM_UNAVAILABLE: bad cannot be reached: HTTP 429.'],
    ['500', 'E_UPSTREAM_UNAVAILABLE: bad cannot be reached: HTTP 500.'],
    ['502', 'E_UPSTREAM_UNAVAILABLE: bad cannot be reached: HTTP 502.'],
    ['503', 'E_UPSTREAM_UNAVAILABLE: bad cannot be reached: HTTP 503.'],
    ['reset', 'E_UPSTREAM_UNAVAILABLE: bad cannot be reached: UND_ERR_SOCKET.'],
    ['reset_midway', 'E_UPSTREAM_UNAVAILABLE: bad cannot be reached: UND_ERR_SOCKET.'],
    ['html', 'E_UPSTREAM_PROTOCOL: The response of bad is not MCP.'],
    ['not_json', 'E_UPSTREAM_PROTOCOL: The response of bad is not MCP.'],
    ['never', 'E_TIMEOUT: mcp_bad.echo took longer than 1000 ms.'],
    ['cut', 'E_UPSTREAM_UNAVAILABLE: bad is not connected: it ended the answer early.'],
    ['ended', 'E_UPSTREAM_UNAVAILABLE: bad is not connected: it ended the answer early.'],
  ])('that answers a call with %s fails that call, says so, and is used again', (kind, text) =>
    overHttp(async (here, fail) => {
      await fail(kind)
      const [result] = await Promise.all([here.callFailing('echo', { text: 'x' }), here.callHealthy()])
      expect(textOf(result).slice(0, text.length)).toBe(text)
      // The error contains neither its text nor its address.
      expect(JSON.stringify(result)).not.toMatch(/secret|Traceback|127\.0\.0\.1|<html/)
      await waitForRecovery(here)
    }),
  )

  it('that lost the session gets a new one, and the call is repeated', () =>
    overHttp(async (here, fail) => {
      await fail('404')
      expect(textOf(await here.callFailing('echo', { text: 'made again' }))).toBe('made again')
    }))

  it.each(['429_later', '503_later'])('that sends Retry-After (%s) has it passed on to the caller', (kind) =>
    overHttp(async (here, fail) => {
      await fail(kind)
      const refused = await here.callFailing('echo', { text: 'x' })
      expect(refused.structuredContent.error).toMatchObject({ code: 'E_UPSTREAM_UNAVAILABLE', retryAfterMs: 2_000 })
      await waitForRecovery(here)
    }),
  )
})

describe('a server that was never connected', () => {
  const key = { headers: { Authorization: 'Bearer of-last-year' } }
  const away = 'it redirects to another address (HTTP 307), which is not followed'
  const inside = 'The address is refused: a metadata address is not allowed here'

  it.each([
    ['redirects', 307, {}, `E_REDIRECT_BLOCKED: mcp_bad: ${away}.`],
    ['wants a login', 401, {}, 'E_AUTH_REQUIRED: mcp_bad: it requires a login: run `pegboard auth bad`.'],
    [
      'refuses its key',
      401,
      key,
      'E_AUTH_REQUIRED: mcp_bad: it rejects the value of mcpServers.bad.headers (HTTP 401).',
    ],
    ['lets nobody in', 403, {}, 'E_AUTH_REQUIRED: mcp_bad: it requires authorization (HTTP 403).'],
    [
      'is at an address that is refused',
      200,
      { url: 'http://169.254.169.254/mcp' },
      `E_SSRF_BLOCKED: mcp_bad: ${inside}.`,
    ],
  ])('and %s is reported as such, with its own code, on every route', async (_what, status, entry, text) => {
    const server = createServer((_request, response) =>
      response.writeHead(status, { location: 'http://127.0.0.1:9/mcp' }).end(),
    )
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => void server.close())
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`
    const { app } = await startApp({ exposure: { mode: 'discovery' }, mcpServers: { bad: { url, ...entry } } })
    const client = await connectTo(app)
    onTestFinished(() => client.close())
    // The first call waits for the first connection; the others come after that failed.
    for (const call of [
      { name: 'execute_tool', arguments: { name: 'mcp_bad.echo', params: {} } },
      { name: 'bad__echo', arguments: {} },
      { name: 'get_tool', arguments: { name: 'bad__echo' } },
    ]) {
      const result = (await client.callTool(call)) as Answer
      expect(textOf(result).slice(0, text.length)).toBe(text)
    }
  })
})
