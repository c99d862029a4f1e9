import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Client } from '@modelcontextprotocol/client'
import { describe, expect, it, onTestFinished } from 'vitest'
import type { App } from '../../src/app.ts'
import { type Answer, answerOf, startApp, type TestApp, temporaryFolder } from '../app.ts'
import { connectTo, type StreamTransport } from '../client.ts'
import { until, withHttpServer } from '../upstream/host.ts'

const evil = (...args: string[]) => ({
  command: process.execPath,
  args: [join(import.meta.dirname, '../fixtures/upstreams/evil.mjs'), ...args],
  start: 'background',
})

interface Scene extends TestApp {
  readonly client: Client
  /** Calls a tool of the server that fails. */
  bad(tool: string, args?: object): Promise<Answer>
  /** Calls the server beside it; fails the test when that takes a second. */
  beside(): Promise<void>
}

/** The product with a failing server and a healthy one, behind a real client. */
async function scene(entry: object, how: { readonly wait?: boolean; readonly dir?: string } = {}): Promise<Scene> {
  const started = await startApp(
    { exposure: { mode: 'direct' }, mcpServers: { bad: { timeoutMs: 1_000, ...entry }, good: evil() } },
    how.dir,
  )
  await until(() => stateOf(started.app, 'good') === 'ready', 10_000)
  if (how.wait !== false) await until(() => stateOf(started.app, 'bad') === 'ready', 10_000)
  const client = await connectTo(started.app)
  onTestFinished(() => client.close())
  return {
    ...started,
    client,
    bad: (tool, args = {}) => client.callTool({ name: `bad__${tool}`, arguments: args as Answer }, { timeout: 19_000 }),
    async beside() {
      const asked = performance.now()
      const result = (await client.callTool({ name: 'good__echo', arguments: { text: 'still here' } })) as Answer
      expect(result.content).toEqual([{ type: 'text', text: 'still here' }])
      expect(performance.now() - asked).toBeLessThan(1_000)
    },
  }
}

const statusOf = (app: App, id: string) => app.upstreams.status().find((one) => one.id === id)
const stateOf = (app: App, id: string) => statusOf(app, id)?.state
const said = (result: Answer): string => result.content[0].text
const names = async (client: Client): Promise<string[]> => (await client.listTools()).tools.map(({ name }) => name)

/** A call that a server which comes back in its own time answers in the end. */
async function answers({ bad }: Scene, withinMs = 5_000): Promise<void> {
  const end = performance.now() + withinMs
  for (;;) {
    const result = await bad('echo', { text: 'back' })
    if (!result.isError) return expect(said(result)).toBe('back')
    if (performance.now() > end) throw new Error(`not back after ${withinMs} ms: ${said(result)}`)
    await sleep(50)
  }
}

describe('a server that fails at the start', () => {
  it('and hangs there, or in its lists, delays nobody and is called failing within 30 s [UPS-01]', async () => {
    const { app } = await startApp({
      exposure: { mode: 'direct' },
      mcpServers: { hung: evil('--hang-start'), listless: evil('--hang-list'), good: evil() },
    })
    const asked = performance.now()
    const client = await connectTo(app)
    await client.listTools()
    expect(performance.now() - asked).toBeLessThan(2_000)
    await until(() => stateOf(app, 'good') === 'ready', 10_000)
    while (stateOf(app, 'hung') !== 'failing' || stateOf(app, 'listless') !== 'failing') {
      const result = (await client.callTool({ name: 'good__echo', arguments: { text: 'meanwhile' } })) as Answer
      expect(said(result)).toBe('meanwhile')
      expect(performance.now() - asked).toBeLessThan(32_000)
      await sleep(200)
    }
    expect(statusOf(app, 'hung')?.reason).toBe('no answer within 30 s, perhaps still downloading')
    expect(statusOf(app, 'listless')?.reason).toBe('listless did not answer tools/list within 15000 ms')
    const called = (await client.callTool({ name: 'hung__echo', arguments: {} })) as Answer
    expect(called.structuredContent.error).toMatchObject({
      code: 'E_UPSTREAM_UNAVAILABLE',
      message: "mcp_hung is failing (no answer within 30 s, perhaps still downloading), so 'hung__echo' is not there.",
    })
    await client.close()
  }, 45_000)

  it('and ends at once is tried again, and is there once it can be', async () => {
    const dir = temporaryFolder()
    const mended = join(dir, 'mended')
    const here = await scene(evil('--exit-start', '--until', mended), { wait: false, dir })
    await until(() => stateOf(here.app, 'bad') === 'failing')
    const reason = expect.stringMatching(/^it exited with code 1/)
    const { servers } = answerOf(await here.client.callTool({ name: 'mcp__list_servers', arguments: {} }))
    expect(servers).toContainEqual(expect.objectContaining({ id: 'bad', state: 'failing', reason }))
    const { categories } = answerOf(await here.client.callTool({ name: 'list_categories', arguments: {} }))
    expect(categories).toContainEqual(expect.objectContaining({ id: 'mcp_bad', state: 'failing', reason }))
    await here.beside()
    writeFileSync(mended, '')
    await answers(here, 15_000)
  })

  it('with noise before its first word works [UPS-06]', async () => {
    const here = await scene(evil('--noise'))
    expect(said(await here.bad('echo', { text: 'through the noise' }))).toBe('through the noise')
  })

  it('with one line that never ends costs a bounded amount of memory and delays nobody', async () => {
    const before = process.memoryUsage().rss
    const here = await scene(evil('--endless-start'), { wait: false })
    for (let round = 0; round < 20; round++) {
      await here.beside()
      await sleep(100)
    }
    expect((process.memoryUsage().rss - before) / 2 ** 20).toBeLessThan(400)
  })
})

describe('a call that hangs', () => {
  it.each([
    ['in silence [UPS-02]', 'hang', {}],
    ['and reports progress for ever [UPS-03]', 'hang_reporting', { ms: 20 }],
  ])('%s ends on time, and the server is told', async (_how, tool, args) => {
    const here = await scene(evil())
    const asked = performance.now()
    const progress: number[] = []
    const [result] = await Promise.all([
      here.client.callTool(
        { name: `bad__${tool}`, arguments: args },
        { timeout: 19_000, resetTimeoutOnProgress: true, onprogress: ({ progress: at }) => progress.push(at) },
      ) as Promise<Answer>,
      here.beside(),
    ])
    expect(performance.now() - asked).toBeLessThan(2_000)
    expect(result.structuredContent.error).toMatchObject({ code: 'E_TIMEOUT', retryable: true })
    expect(said(result)).toBe(
      `E_TIMEOUT: mcp_bad.${tool} took longer than 1000 ms. Ask for less, or raise mcpServers.bad.timeoutMs.`,
    )
    if (tool === 'hang_reporting') expect(progress.length).toBeGreaterThan(5)
    expect(said(await here.bad('get_cancelled'))).toMatch(/^\["(cancelled|timed out)"\]$/)
  })
})

describe('a server that dies in a call', () => {
  it('fails all its calls at once, and the next call starts it again [UPS-04]', async () => {
    const here = await scene({ ...evil(), timeoutMs: 10_000 })
    const asked = performance.now()
    const results = await Promise.all([here.bad('hang'), here.bad('hang'), here.bad('crash'), here.beside()])
    expect(performance.now() - asked).toBeLessThan(1_000)
    for (const result of results.slice(0, 3) as Answer[]) {
      expect(said(result)).toMatch(/^E_UPSTREAM_UNAVAILABLE: bad is not connected: it exited with code 1\. /)
      expect(result.structuredContent.error.retryable).toBe(true)
    }
    expect(said(await here.bad('echo', { text: 'again' }))).toBe('again')
    await here.beside()
  })

  it('in the middle of a line: the half is never joined to what its successor says [UPS-05]', async () => {
    const here = await scene(evil())
    expect(said(await here.bad('half_line'))).toMatch(
      /^E_UPSTREAM_UNAVAILABLE: bad is not connected: it exited with code 1\. /,
    )
    expect(said(await here.bad('echo', { text: 'whole' }))).toBe('whole')
  })

  it('again and again is not waited for, and is back when it lives', async () => {
    const here = await scene(evil())
    for (let time = 0; time < 2; time++) await here.bad('crash')
    const asked = performance.now()
    const refused = await here.bad('echo', { text: 'x' })
    expect(performance.now() - asked).toBeLessThan(500)
    expect(refused.isError).toBe(true)
    expect(said(refused)).toContain('bad is reconnecting (attempt 2)')
    await here.beside()
    await answers(here, 10_000)
  })
})

describe('what a server prints', () => {
  it('between its answers is left out [UPS-06]', async () => {
    const here = await scene(evil())
    expect(said(await here.bad('noise'))).toBe('said')
    expect(said(await here.bad('echo', { text: 'next' }))).toBe('next')
  })

  it('and is only noise ends it, and it is started again', async () => {
    const here = await scene({ ...evil(), timeoutMs: 10_000 })
    expect(said(await here.bad('noise_for_ever'))).toContain(
      'bad is not connected: it prints things that are not MCP: ',
    )
    await here.beside()
    await answers(here)
  })

  it.each([10_000_000, 11 * 1024 * 1024])(
    'in a line of %i bytes is too large, and hurts no other call of it [UPS-08]',
    async (bytes) => {
      const here = await scene({ ...evil(), timeoutMs: 10_000 })
      const [long, short] = await Promise.all([
        here.bad('long_line', { bytes }),
        here.bad('echo', { text: 'short' }),
        here.beside(),
      ])
      expect(long.structuredContent.error).toMatchObject({ code: 'E_TOO_LARGE', retryable: false })
      expect(said(long)).toContain('execution.maxResultBytes')
      expect(said(short)).toBe('short')
      expect(said(await here.bad('echo', { text: 'and after' }))).toBe('and after')
      expect(here.logged.join()).not.toContain('disconnected')
    },
  )

  it('in a line without end fails that call on time and nobody else', async () => {
    const here = await scene({ ...evil(), timeoutMs: 3_000 })
    const [endless] = await Promise.all([here.bad('endless_line', { megabytes: 80 }), here.beside()])
    expect(said(endless)).toMatch(/^E_(TIMEOUT|TOO_LARGE|UPSTREAM_UNAVAILABLE): /)
    await here.beside()
  })

  it('a thousand times, that its list changed, makes us read it at most twice, and tells the client nothing [UPS-10]', async () => {
    const here = await scene(evil())
    const before = Number(said(await here.bad('get_lists')))
    await here.bad('flood_lists', { count: 1_000 })
    await sleep(1_500)
    expect(Number(said(await here.bad('get_lists'))) - before).toBeLessThanOrEqual(2)
    const { received } = here.client.transport as unknown as StreamTransport
    expect(received.filter(({ method }) => method === 'notifications/tools/list_changed')).toEqual([])
  })

  it('as logs, by the ten thousand, delays nobody', async () => {
    const here = await scene({ ...evil(), timeoutMs: 10_000 })
    const [flood] = await Promise.all([here.bad('flood_logs', { count: 10_000 }), here.beside()])
    expect(said(flood)).toBe('said')
    await here.beside()
  })
})

describe('an answer', () => {
  it('to another question is not taken for ours', async () => {
    const here = await scene(evil())
    expect(said(await here.bad('wrong_id'))).toBe('for you')
  })

  it('that comes twice counts once', async () => {
    const here = await scene(evil())
    expect(said(await here.bad('answer_twice'))).toBe('first')
    expect(said(await here.bad('echo', { text: 'next' }))).toBe('next')
  })

  it.each(['legacy', 'modern'] as const)(
    'that is no answer is said to be none, behind the doors as well (%s)',
    async (era) => {
      const { app } = await startApp({ exposure: { mode: 'discovery' }, mcpServers: { bad: evil() } })
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
        expect(said(await call('odd_content'))).toBe(unreadable)
        expect(said(await call('odd_blocks'))).toBe(unreadable)
        expect(said(await call('no_result'))).toBe(
          'E_UPSTREAM_PROTOCOL: bad answered without a result. Report it to the operator.',
        )
      }
    },
  )

  it.each(['list', 'text', 'nothing', 'number'])(
    'with structured content that is no object (%s) keeps its words',
    async (kind) => {
      const here = await scene(evil())
      expect(said(await here.bad('odd_structured', { kind }))).toBe('words')
    },
  )
})

describe('a server that stops reading', () => {
  it('fails the calls it was sent, however long they are, and nobody else [UPS-27]', async () => {
    const here = await scene(evil())
    const stopped = here.bad('stop_reading')
    // More than a pipe holds, and less than a client may send at once.
    const [long] = await Promise.all([here.bad('echo', { text: 'x'.repeat(4_000_000) }), here.beside()])
    expect(said(long)).toMatch(/^E_(TIMEOUT|UPSTREAM_UNAVAILABLE): /)
    expect(said(await stopped)).toMatch(/^E_(TIMEOUT|UPSTREAM_UNAVAILABLE): /)
    await here.beside()
  })
})

describe('a hostile list', () => {
  it('of schemas that fetch, explode or never end keeps its harmless tools, at no cost [SCH-10, SCH-11, SCH-12, SCH-14]', async () => {
    let fetched = 0
    const trap = createServer((_request, response) => {
      fetched++
      response.end('{}')
    })
    await new Promise<void>((resolve) => trap.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => void trap.close())
    const { port } = trap.address() as { port: number }
    const here = await scene(evil('--bombs', String(port)))
    const listed = (await names(here.client)).filter((name) => name.startsWith('bad__'))
    expect(listed).toEqual(['bad__echo', 'bad__slow_pattern', 'bad__bad_pattern'])
    const skipped = here.logged.map((line) => JSON.parse(line).message)
    const doubled = 'skipped "doubling": its schema unfolds to more than 100000 parts'
    expect(skipped).toContain(doubled)
    expect(skipped.filter((line) => line !== doubled)).toEqual([
      `skipped "network": its schema refers to "http://127.0.0.1:${port}/s.json"`,
      expect.stringMatching(/^skipped "talkative": its definition has 1000\d{3} bytes$/),
      'skipped "deep": its schema is more than 32 deep',
    ])
    // The best of three: a busy machine is not what is measured.
    const timed = async (tool: string, args: object, ms: number): Promise<Answer> => {
      const took: number[] = []
      let result: Answer
      for (let round = 0; round < 3; round++) {
        const asked = performance.now()
        result = await here.bad(tool, args)
        took.push(performance.now() - asked)
      }
      expect(Math.min(...took), tool).toBeLessThan(ms)
      return result
    }
    await timed('slow_pattern', { a: `${'a'.repeat(40)}!` }, 100)
    for (const tool of ['slow_pattern', 'bad_pattern']) {
      const asked = performance.now()
      const got = await here.client.callTool({ name: 'get_tool', arguments: { name: `mcp_bad.${tool}` } })
      expect(got.isError, tool).toBeFalsy()
      await here.client.callTool({ name: 'search_tools', arguments: { query: tool, detail: 'full' } })
      expect(performance.now() - asked, tool).toBeLessThan(1_000)
    }
    await here.beside()
    expect(fetched).toBe(0)
  })

  it('with an $id that another server uses too: each is held to its own [SCH-13]', async () => {
    const { app } = await startApp({
      exposure: { mode: 'direct' },
      mcpServers: { loose: evil('--same-id', 'permissive'), tight: evil('--same-id', 'strict') },
    })
    await app.settled(10_000)
    const client = await connectTo(app)
    const take = (id: string): Promise<Answer> =>
      client.callTool({ name: `${id}__take`, arguments: { n: 'not a number' } }).catch((error: unknown) => error)
    expect(said(await take('loose'))).toBe('taken')
    expect(JSON.stringify(await take('tight'), ['message', 'content', 'text'])).toMatch(
      /n must be an integer|E_VALIDATION/,
    )
    expect(said(await take('loose'))).toBe('taken')
    const schemaOf = async (id: string) =>
      answerOf(await client.callTool({ name: 'get_tool', arguments: { name: `mcp_${id}.take` } })).parameters.properties
        .n
    expect(await schemaOf('loose')).toEqual({})
    expect(await schemaOf('tight')).toEqual({ type: 'integer', maximum: 9 })
    await client.close()
  })

  it('of pages without end is cut, with a warning, and what came is kept [UPS-12]', async () => {
    const here = await scene(evil('--fresh-cursors'))
    expect((await names(here.client)).filter((name) => name.startsWith('bad__')).length).toBe(50)
    expect(here.logged.join()).toContain('tools/list was cut at 50 pages')
    const again = await scene(evil('--same-cursor'))
    expect(again.logged.join()).toContain('tools/list was cut at a page it repeats')
    expect(said(await again.bad('echo', { text: 'kept' }))).toBe('kept')
  })

  it('with one name twice keeps the first', async () => {
    const here = await scene(evil('--twice'))
    const { tools } = await here.client.listTools()
    expect(tools.filter(({ name }) => name.startsWith('bad__')).map(({ description }) => description)).toEqual([
      'Does echo.',
    ])
    expect(here.logged.join()).toContain('skipped a second tool named \\"echo\\"')
  })

  it('that is another each time is followed, not chased', async () => {
    const here = await scene(evil('--flip-flop'))
    const { received } = here.client.transport as unknown as StreamTransport
    const changes = () => received.filter(({ method }) => method === 'notifications/tools/list_changed').length
    expect(await names(here.client)).toContain('bad__odd')
    await here.app.upstreams.refresh('bad')
    expect(await names(here.client)).toContain('bad__even')
    expect(await names(here.client)).not.toContain('bad__odd')
    await until(() => changes() === 1)
    // A name nobody knows is looked for, and found again; within the same minute nothing is.
    await here.bad('odd')
    expect(await names(here.client)).toContain('bad__odd')
    const gone = await here.bad('even')
    expect(gone.structuredContent.error.code).toBe('E_NOT_FOUND')
  })
})

describe('a server on HTTP', () => {
  /** The product in front of evil on HTTP, which fails as it is told. */
  async function overHttp(test: (here: Scene, fail: (kind: string) => Promise<void>, url: string) => Promise<void>) {
    await withHttpServer(evil('--http'), /port (\d+)/, async (port) => {
      const url = `http://127.0.0.1:${port}`
      const here = await scene({ url: `${url}/mcp`, start: 'background' })
      await test(here, async (kind) => void (await fetch(`${url}/fault?kind=${kind}`, { method: 'POST' })), url)
    })
  }

  it.each([
    ['401', 'E_AUTH_REQUIRED: bad: it wants a login: run `pegboard auth bad`.'],
    ['403', 'E_UPSTREAM_UNAVAILABLE: bad refuses us (HTTP 403)'],
    ['429', 'E_UPSTREAM_UNAVAILABLE: bad cannot be reached: HTTP 429.'],
    ['500', 'E_UPSTREAM_UNAVAILABLE: bad cannot be reached: HTTP 500.'],
    ['502', 'E_UPSTREAM_UNAVAILABLE: bad cannot be reached: HTTP 502.'],
    ['503', 'E_UPSTREAM_UNAVAILABLE: bad cannot be reached: HTTP 503.'],
    ['reset', 'E_UPSTREAM_UNAVAILABLE: bad cannot be reached: UND_ERR_SOCKET.'],
    ['reset_midway', 'E_UPSTREAM_UNAVAILABLE: bad cannot be reached: UND_ERR_SOCKET.'],
    ['html', 'E_UPSTREAM_PROTOCOL: bad answered with something that is not MCP.'],
    ['not_json', 'E_UPSTREAM_PROTOCOL: bad answered with something that is not MCP.'],
    ['never', 'E_TIMEOUT: mcp_bad.echo took longer than 1000 ms.'],
    ['cut', 'E_UPSTREAM_UNAVAILABLE: bad is not connected: it ended the answer early.'],
    ['ended', 'E_UPSTREAM_UNAVAILABLE: bad is not connected: it ended the answer early.'],
  ])('that answers a call with %s fails that call, says so, and is used again', (kind, text) =>
    overHttp(async (here, fail) => {
      await fail(kind)
      const [result] = await Promise.all([here.bad('echo', { text: 'x' }), here.beside()])
      expect(said(result).slice(0, text.length)).toBe(text)
      // Neither what it wrote nor where it is.
      expect(JSON.stringify(result)).not.toMatch(/secret|Traceback|127\.0\.0\.1|<html/)
      await answers(here)
    }),
  )

  it('that forgot the session gets a new one, and the call is made again', () =>
    overHttp(async (here, fail) => {
      await fail('404')
      expect(said(await here.bad('echo', { text: 'made again' }))).toBe('made again')
    }))

  it.each(['429_later', '503_later'])('that says when to come back (%s): the caller is told', (kind) =>
    overHttp(async (here, fail) => {
      await fail(kind)
      const refused = await here.bad('echo', { text: 'x' })
      expect(refused.structuredContent.error).toMatchObject({ code: 'E_UPSTREAM_UNAVAILABLE', retryAfterMs: 2_000 })
      await answers(here)
    }),
  )

  it('that wants to be left alone for a while is not connected to sooner, and then is [UPS-21]', () =>
    withHttpServer(evil('--http'), /port (\d+)/, async (port) => {
      const url = `http://127.0.0.1:${port}`
      const seen = async () => ((await (await fetch(`${url}/seen`)).json()) as unknown[]).length
      await fetch(`${url}/fault?kind=503_later&times=99&every=1`, { method: 'POST' })
      const here = await scene({ url: `${url}/mcp`, start: 'background' }, { wait: false })
      await until(() => stateOf(here.app, 'bad') === 'failing', 10_000)
      expect(statusOf(here.app, 'bad')?.reason).toBe('HTTP 503')
      const before = await seen()
      await sleep(1_500)
      expect(await seen()).toBe(before)
      await here.beside()
      await fetch(`${url}/fault?kind=none`, { method: 'POST' })
      await answers(here, 10_000)
    }))

  it.each(['redirect', 'redirect_keeping'])('that sends us to an inner address (%s) is not followed [UPS-21]', (kind) =>
    overHttp(async (here, fail, url) => {
      await fail(kind)
      expect(said(await here.bad('echo', { text: 'x' }))).toMatch(
        /^E_REDIRECT_BLOCKED: bad: it redirects to another address \(HTTP 30[27]\), which is not followed\. /,
      )
      const seen = (await (await fetch(`${url}/seen`)).json()) as { path: string }[]
      expect(seen.map(({ path }) => path)).not.toContain('internal')
      await answers(here)
    }),
  )
})
