import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { noRelay, type Relay } from '../../src/core/tool.ts'
import { decodeManifest } from '../../src/upstream/manifest.ts'
import { temporaryFolder } from '../app.ts'
import { createManualClock } from '../clock.ts'
import {
  alive,
  hurried,
  keeping,
  modern,
  resultOf,
  scripted,
  settingsOf,
  until,
  withHttpServer,
  withServers,
} from './host.ts'

const fixture = (file: string) => ({
  command: process.execPath,
  args: [join(import.meta.dirname, '../fixtures/upstreams', file)],
})

const status = (rig: { upstreams: { status(): readonly { id: string }[] } }, id: string) =>
  rig.upstreams.status().find((one) => one.id === id)

describe('a lazy server', () => {
  it('that is unknown is connected once and stopped again, and its tools stay', () => {
    const file = join(temporaryFolder(), 'pid')
    return withServers(
      { s: scripted('--pid-file', file) },
      async ({ upstreams, catalog, text, logged }) => {
        const pid = Number(readFileSync(file, 'utf8'))
        const tools = catalog.snapshot().tools.length
        expect(tools).toBeGreaterThan(10)
        await until(() => upstreams.status()[0]?.state === 'known' && !alive(pid))
        expect(catalog.snapshot().tools).toHaveLength(tools)
        expect(upstreams.status()).toMatchObject([{ state: 'known', pending: false, tools }])
        expect(upstreams.status()[0]).not.toHaveProperty('reason')
        expect(logged.filter(({ level }) => level === 'warn' || level === 'error')).toEqual([])
        expect(Number(await text('mcp_s.get_pid'))).not.toBe(pid)
      },
      hurried(20),
    )
  })

  it('that is known is not started until it is called', async () => {
    const manifests = keeping()
    await withServers({ s: scripted() }, async () => undefined, { manifests })
    expect([...manifests.kept.values()].map((bytes) => decodeManifest(bytes)?.startMs)).toEqual([expect.any(Number)])
    await withServers(
      { s: scripted() },
      async ({ upstreams, catalog, text }) => {
        await new Promise((resolve) => setTimeout(resolve, 500))
        expect(upstreams.status()).toMatchObject([{ state: 'known', pending: false, start: 'lazy' }])
        expect(catalog.snapshot().owners.get('mcp_s')?.startsInMs).toBeGreaterThan(0)
        expect(await text('mcp_s.echo', { text: 'woken' })).toBe('woken')
        expect(upstreams.status()).toMatchObject([{ state: 'ready' }])
        expect(catalog.snapshot().owners.get('mcp_s')).not.toHaveProperty('startsInMs')
      },
      { manifests, wait: false, delayMs: { known: 0 } },
    )
  })

  it('that is known has no tool that its settings leave out', async () => {
    const manifests = keeping()
    await withServers({ s: scripted() }, async () => undefined, { manifests })
    await withServers(
      { s: { ...scripted(), deny: ['crash*'] } },
      async ({ catalog }) => {
        const { state, tools } = catalog.snapshot().owners.get('mcp_s') ?? {}
        expect(state).toBe('known')
        expect(tools?.map(({ id }) => id)).toContain('mcp_s.echo')
        expect(tools?.map(({ id }) => id)).not.toContain('mcp_s.crash')
      },
      { manifests, wait: false },
    )
  })

  it('is not stopped during a call, and afterwards only when idle for long enough', () =>
    withServers(
      { s: { ...scripted(), idleStopMs: 10_000 } },
      async ({ upstreams, text }) => {
        // Half a minute of the test clock, three times the limit.
        expect(await text('mcp_s.wait', { ms: 1_500 })).toBe('waited')
        expect(upstreams.status()).toMatchObject([{ state: 'ready' }])
        await new Promise((resolve) => setTimeout(resolve, 120))
        expect(upstreams.status()).toMatchObject([{ state: 'ready' }])
        await until(() => upstreams.status()[0]?.state === 'known')
      },
      hurried(20),
    ))

  it('is not stopped while someone is subscribed to a resource', () =>
    withServers(
      { s: { ...modern(), idleStopMs: 10_000 } },
      async ({ upstreams, catalog }) => {
        const { endpoints, resources } = catalog.snapshot().owners.get('mcp_s') ?? {}
        const uri = resources?.[0]?.uri
        const ask = (method: string) => endpoints?.request(method, { uri }, noRelay, new AbortController().signal)
        await ask('resources/subscribe')
        await new Promise((resolve) => setTimeout(resolve, 1_000))
        expect(upstreams.status()).toMatchObject([{ state: 'ready' }])
        await ask('resources/unsubscribe')
        await until(() => upstreams.status()[0]?.state === 'known')
      },
      hurried(20),
    ))

  it('is known to send requests and support tasks before it is started again', async () => {
    const manifests = keeping()
    const servers = { s: { ...scripted(), start: 'eager' }, t: { ...fixture('older-tasks.mjs'), start: 'eager' } }
    await withServers(servers, async ({ text }) => void (await text('mcp_s.ask_person')), { manifests })
    const kept = [...manifests.kept.values()].map((bytes) => decodeManifest(bytes))
    expect(kept.map((one) => [one?.server?.name, one?.asks])).toEqual(
      expect.arrayContaining([
        ['scripted', true],
        ['older-tasks', undefined],
      ]),
    )
    const lazy = { s: scripted(), t: fixture('older-tasks.mjs') }
    await withServers(
      lazy,
      async ({ catalog, tool, upstreams }) => {
        const { owners } = catalog.snapshot()
        expect([owners.get('mcp_s')?.endpoints?.tasks, owners.get('mcp_t')?.endpoints?.tasks]).toEqual([false, true])
        expect([tool('mcp_t.slow').asTask, tool('mcp_t.plain').asTask]).toEqual([true, false])
        expect(upstreams.status().map(({ state }) => state)).toEqual(['known', 'known'])
      },
      { manifests, wait: false },
    )
  })

  it('is not stopped while one of its tasks runs, in either era, until the task ends or expires', () =>
    withServers(
      {
        old: { ...fixture('older-tasks.mjs'), idleStopMs: 5_000 },
        new: { ...fixture('tasks.mjs'), idleStopMs: 5_000 },
        brief: { ...fixture('older-tasks.mjs'), idleStopMs: 5_000 },
      },
      async ({ upstreams, catalog, call }) => {
        const states = () => upstreams.status().map(({ id, state }) => `${id} ${state}`)
        const takes = { clientCapabilities: { extensions: { 'io.modelcontextprotocol/tasks': {} } } }
        const begin = async (id: string, relay: Partial<Relay>) =>
          String(resultOf(await call(`mcp_${id}.slow`, {}, { relay }))['taskId']).replace(`mcp_${id}:`, '')
        await until(() => ['old', 'new', 'brief'].every((id) => catalog.snapshot().byId.has(`mcp_${id}.slow`)))
        await begin('brief', { task: { ttl: 10_000 } })
        const ended = await Promise.all([begin('old', { task: { ttl: 600_000 } }), begin('new', takes)])
        expect(states()).toContain('brief ready')
        await until(() => states().includes('brief known'))
        expect(states()).toEqual(['old ready', 'new ready', 'brief known'])
        for (const [n, id] of ['old', 'new'].entries())
          await catalog
            .snapshot()
            .owners.get(`mcp_${id}`)
            ?.endpoints?.request(
              'tasks/cancel',
              { taskId: ended[n] },
              { ...noRelay, ...takes },
              new AbortController().signal,
            )
        await until(() => states().join() === 'old known,new known,brief known')
      },
      { ...hurried(5), wait: false },
    ))

  it('over HTTP has its session closed, and a new one opened for the next call', () =>
    withHttpServer(modern('--http', '--only'), /port (\d+)/, (port) =>
      withServers(
        { web: { url: `http://127.0.0.1:${port}/mcp` } },
        async ({ upstreams, text }) => {
          await until(() => upstreams.status()[0]?.state === 'known')
          expect(await text('mcp_web.echo', { text: 'hello' })).toBe('hello')
        },
        hurried(20),
      ),
    ))

  it('that dies while unused stays stopped, says so, and the next call starts it [UPS-04]', () =>
    withServers({ s: scripted() }, async ({ upstreams, catalog, text }) => {
      process.kill(Number(await text('mcp_s.get_pid')), 'SIGKILL')
      await until(() => upstreams.status()[0]?.state === 'known')
      expect(catalog.snapshot().owners.get('mcp_s')).toMatchObject({
        state: 'known',
        reason: 'disconnected: it was killed by SIGKILL',
      })
      expect(catalog.snapshot().owners.get('mcp_s')).not.toHaveProperty('nextAttemptAt')
      await new Promise((resolve) => setTimeout(resolve, 1_200))
      expect(upstreams.status()).toMatchObject([{ state: 'known', pending: false }])
      expect(await text('mcp_s.echo', { text: 'again' })).toBe('again')
      expect(upstreams.status()[0]).not.toHaveProperty('reason')
    }))

  it('is connected with at most three others at a time; a hanging one gives way', () =>
    withServers(
      {
        ...Object.fromEntries(Array.from({ length: 5 }, (_, n) => [`silent${n}`, scripted('--silent')])),
        fine: scripted(),
      },
      async (rig) => {
        const begun = () => rig.upstreams.status().filter((one) => one.state === 'connecting').length
        await until(() => begun() === 4)
        expect(status(rig, 'fine')).toMatchObject({ state: 'configured', pending: true })
        await until(() => (status(rig, 'fine') as { state?: string }).state === 'ready')
      },
      { wait: false },
    ))
})

describe('an eager or background server', () => {
  it('that is eager is connected at once, and stays', async () => {
    const manifests = keeping()
    await withServers({ s: scripted() }, async () => undefined, { manifests })
    await withServers(
      { s: { ...scripted(), start: 'eager' } },
      async ({ upstreams }) => {
        expect(upstreams.status()).toMatchObject([{ state: 'known', pending: true }])
        await until(() => upstreams.status()[0]?.state === 'ready')
        await new Promise((resolve) => setTimeout(resolve, 800))
        expect(upstreams.status()).toMatchObject([{ state: 'ready', start: 'eager' }])
      },
      { manifests, wait: false, delayMs: { cold: 60_000, known: 60_000 }, ...hurried(20) },
    )
  })

  it('in the background is started without a call, even if known', async () => {
    const manifests = keeping()
    await withServers({ s: scripted() }, async () => undefined, { manifests })
    await withServers(
      { s: { ...scripted(), start: 'background' } },
      async ({ upstreams }) => {
        expect(upstreams.status()).toMatchObject([{ state: 'known', pending: true }])
        await until(() => upstreams.status()[0]?.state === 'ready')
      },
      { manifests, wait: false, delayMs: { known: 100 } },
    )
  })

  it('in the background is started once if a call comes before the planned start', () =>
    withServers(
      { s: { ...scripted(), start: 'background' } },
      async ({ upstreams, text }) => {
        expect(await upstreams.missed('s__get_pid')).toBe(true)
        const pid = await text('mcp_s.get_pid')
        upstreams.begin()
        await new Promise((resolve) => setTimeout(resolve, 500))
        expect(upstreams.status()).toMatchObject([{ state: 'ready' }])
        expect(await text('mcp_s.get_pid')).toBe(pid)
      },
      { wait: false, delayMs: { cold: 60_000 } },
    ))

  it('in the background is restarted without a call', () =>
    withServers({ s: { ...scripted(), start: 'background' } }, async ({ upstreams, text }) => {
      const pid = Number(await text('mcp_s.get_pid'))
      process.kill(pid, 'SIGKILL')
      await until(() => upstreams.status()[0]?.state !== 'ready')
      await until(() => upstreams.status()[0]?.state === 'ready')
      expect(Number(await text('mcp_s.get_pid'))).not.toBe(pid)
    }))
})

/** An HTTP server on a free port with configurable answers. */
async function on(answer: RequestListener, test: (url: string) => Promise<void>): Promise<void> {
  const server = createServer(answer)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  try {
    await test(`http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`)
  } finally {
    server.closeAllConnections()
    server.close()
  }
}

describe('a failing server', () => {
  it('reports the reason from its stderr, without paths and secrets', () =>
    withServers(
      {
        s: {
          command: process.execPath,
          args: [
            '-e',
            'console.error("starting"); console.error("Error: key", process.env.KEY, "is invalid, see /home/ada/x/config.json"); console.error("    at main (/home/ada/x.js:1:1)"); process.exit(3)',
          ],
          env: { KEY: 'tr0ub4dor' },
        },
      },
      async ({ upstreams, catalog }) => {
        await until(() => upstreams.status()[0]?.state === 'failing')
        const reason = 'it exited with code 3: Error: key <secret> is invalid, see <path>'
        expect(upstreams.status()).toMatchObject([{ state: 'failing', reason, nextAttemptAt: expect.any(Number) }])
        expect(catalog.snapshot().owners.get('mcp_s')).toMatchObject({ reason, nextAttemptAt: expect.any(Number) })
      },
      { wait: false },
    ))

  it('is not called after five failures in a row until a probe succeeds', async () => {
    const manifests = keeping()
    await withServers({ s: scripted() }, async () => undefined, { manifests })
    const [bytes] = [...manifests.kept.values()]
    const file = join(temporaryFolder(), 'broken')
    writeFileSync(file, '')
    const clock = createManualClock()
    const circuit = { code: 'E_CIRCUIT_OPEN', retryable: true }
    await withServers(
      { s: { ...scripted('--crash-while', file), start: 'eager' } },
      async ({ upstreams, call, text }) => {
        const next = () => (upstreams.status()[0]?.nextAttemptAt ?? 0) - clock.now()
        clock.pass(0)
        for (let n = 1; n < 5; n++) {
          await until(() => next() > 0)
          await expect(call('mcp_s.echo', { text: 'x' })).rejects.toMatchObject({ code: 'E_UPSTREAM_UNAVAILABLE' })
          // Whatever the jitter, ten seconds have passed by the fifth failure.
          clock.pass(n === 4 ? 10_000 : next())
        }
        await until(() => next() === 30_000)
        const startedAt = performance.now()
        await expect(call('mcp_s.echo', { text: 'x' })).rejects.toMatchObject({
          ...circuit,
          retryAfterMs: 30_000,
          message: 's failed 5 times in a row: it exited with code 4: Error: told to crash.',
        })
        clock.pass(29_000)
        await expect(call('mcp_s.echo', { text: 'x' })).rejects.toMatchObject({ ...circuit, retryAfterMs: 1_000 })
        expect(performance.now() - startedAt).toBeLessThan(5_000)
        rmSync(file)
        clock.pass(1_000)
        // The probe is on its way, and no client waits for it.
        await expect(call('mcp_s.echo', { text: 'x' })).rejects.toMatchObject(circuit)
        await until(() => upstreams.status()[0]?.state === 'ready')
        expect(await text('mcp_s.echo', { text: 'back' })).toBe('back')
      },
      { manifests: { line: () => bytes, get: () => bytes, set: () => undefined }, wait: false, clock },
    )
  })

  it('that asks for a pause of 20 s gets it, and its redirects are not followed [UPS-21]', async () => {
    const inside: string[] = []
    await on(
      (request, response) => {
        inside.push(String(request.url))
        response.end()
      },
      (internal) =>
        on(
          (request, response) =>
            void (
              request.url === '/mcp'
                ? response.writeHead(503, { 'retry-after': '20' })
                : response.writeHead(302, { location: internal })
            ).end(),
          (url) =>
            withServers(
              { busy: { url }, moved: { url: url.replace('/mcp', '/moved') } },
              async (rig) => {
                await until(() => rig.upstreams.status().every(({ state }) => state === 'failing'))
                const [busy, moved] = rig.upstreams.status()
                expect(busy?.reason).toBe('HTTP 503')
                expect((busy?.nextAttemptAt ?? 0) - Date.now()).toBeGreaterThan(18_000)
                expect(moved?.reason).toBe('it redirects to another address (HTTP 302), which is not followed')
                expect(inside).toEqual([])
              },
              { wait: false },
            ),
        ),
    )
  })

  it('that was down for ten minutes is connected within 90 s of its return [UPS-25]', async () => {
    let down = true
    let tried = 0
    const clock = createManualClock()
    const answer: RequestListener = (request, response) => {
      tried++
      if (down || request.method !== 'POST') return void response.writeHead(down ? 500 : 405).end()
      let body = ''
      request.on('data', (chunk) => {
        body += chunk
      })
      request.on('end', () => {
        const { id, method } = JSON.parse(body)
        if (id === undefined) return void response.writeHead(202).end()
        const result =
          method === 'initialize'
            ? { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo: { name: 'b', version: '1' } }
            : method === 'tools/list'
              ? { tools: [{ name: 'there', inputSchema: { type: 'object' } }] }
              : undefined
        response.writeHead(200, { 'content-type': 'application/json' })
        const error = { code: -32601, message: 'no' }
        response.end(JSON.stringify({ jsonrpc: '2.0', id, ...(result ? { result } : { error }) }))
      })
    }
    await on(answer, (url) =>
      withServers(
        { web: { url, start: 'background' } },
        async ({ upstreams }) => {
          clock.pass(0)
          const [one] = [() => upstreams.status()[0]]
          while (clock.now() < 600_000) {
            await until(() => (one()?.nextAttemptAt ?? 0) > clock.now())
            clock.pass((one()?.nextAttemptAt ?? 0) - clock.now())
          }
          await until(() => one()?.state === 'failing' && (one()?.nextAttemptAt ?? 0) > clock.now())
          expect(tried).toBeGreaterThan(10)
          down = false
          const backAt = clock.now()
          clock.pass((one()?.nextAttemptAt ?? 0) - clock.now())
          await until(() => one()?.state === 'ready')
          expect(clock.now() - backAt).toBeLessThanOrEqual(90_000)
        },
        { wait: false, clock },
      ),
    )
  })

  it('is checked once when the machine wakes, and retried once [LIFE-10]', () => {
    const clock = createManualClock()
    let asleep = 0
    return withServers(
      { s: { ...scripted(), start: 'background' } },
      async ({ upstreams, text }) => {
        clock.pass(0)
        await until(() => upstreams.status()[0]?.state === 'ready')
        expect(await text('mcp_s.count_lists')).toBe('1')
        asleep = 3_600_000
        clock.pass(30_000)
        await until(() => upstreams.status()[0]?.state === 'ready')
        for (let tries = 0; tries < 50 && (await text('mcp_s.count_lists')) === '1'; tries++)
          await new Promise((resolve) => setTimeout(resolve, 10))
        clock.pass(120_000)
        await new Promise((resolve) => setTimeout(resolve, 100))
        expect(await text('mcp_s.count_lists')).toBe('2')
      },
      { clock: { now: () => clock.now() + asleep, after: clock.after }, wait: false },
    )
  })
})

describe('a configuration change', () => {
  it('that does not concern the process is applied without a restart', () =>
    withServers({ s: scripted() }, async ({ upstreams, catalog, text }) => {
      const pid = await text('mcp_s.get_pid')
      upstreams.configure(
        settingsOf({
          s: { ...scripted(), deny: ['crash*'], summary: 'Scripts.', start: 'background', timeoutMs: 200 },
        }),
      )
      const owner = catalog.snapshot().owners.get('mcp_s')
      expect(owner).toMatchObject({ summary: 'Scripts.', state: 'ready' })
      expect(owner?.tools.map(({ id }) => id)).not.toContain('mcp_s.crash')
      expect(upstreams.status()).toMatchObject([{ start: 'background' }])
      expect(await text('mcp_s.get_pid')).toBe(pid)
      await expect(text('mcp_s.hang')).rejects.toMatchObject({ code: 'E_TIMEOUT' })
    }))

  it('to connectTimeoutMs applies to the next connection attempt', () =>
    withServers(
      { s: { ...scripted('--silent'), connectTimeoutMs: 100 } },
      async ({ upstreams }) => {
        await until(() => upstreams.status()[0]?.reason === 'no answer within 0.1 s')
        upstreams.configure(settingsOf({ s: { ...scripted('--silent'), connectTimeoutMs: 200 } }))
        await until(() => upstreams.status()[0]?.reason === 'no answer within 0.2 s')
      },
      { wait: false },
    ))

  it('that does restarts it', () =>
    withServers({ s: scripted() }, async ({ upstreams, text }) => {
      const pid = Number(await text('mcp_s.get_pid'))
      upstreams.configure(settingsOf({ s: { ...scripted(), env: { A: 'b' } } }))
      await until(() => upstreams.status()[0]?.state === 'ready' && !alive(pid))
      expect(Number(await text('mcp_s.get_pid'))).not.toBe(pid)
    }))

  it('that removes a server ends it and everything it started [UPS-15]', async () => {
    const file = join(temporaryFolder(), 'pid')
    await withServers({ s: scripted() }, async ({ upstreams, catalog, text }) => {
      const pid = Number(await text('mcp_s.get_pid'))
      await text('mcp_s.start_grandchild', { file })
      const grandchild = Number(readFileSync(file, 'utf8'))
      expect([pid, grandchild].map(alive)).toEqual([true, true])
      upstreams.configure({})
      expect(catalog.snapshot().owners.has('mcp_s')).toBe(false)
      await until(() => !alive(pid) && !alive(grandchild))
    })
  })

  it('that removes a server while its tools are being read leaves nothing in the catalog', async () => {
    const [listed, file] = [temporaryFolder(), temporaryFolder()].map((folder) => join(folder, 'done')) as [
      string,
      string,
    ]
    const server = `
      const { existsSync, writeFileSync } = require('node:fs')
      const answers = {
        initialize: { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo: { name: 'm', version: '1' } },
        'tools/list': { tools: [{ name: 'go', description: 'Goes.', inputSchema: { type: 'object' } }] },
      }
      require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
        const { id, method } = JSON.parse(line)
        const say = () => console.log(JSON.stringify({ jsonrpc: '2.0', id, ...(answers[method] ? { result: answers[method] } : { error: { code: -32601, message: 'no' } }) }))
        if (method !== 'tools/list') return say()
        writeFileSync(${JSON.stringify(file)}, '')
        setInterval(() => { if (existsSync(${JSON.stringify(listed)})) say() }, 10)
      })`
    await withServers(
      { s: { command: process.execPath, args: ['-e', server] } },
      async ({ upstreams, catalog }) => {
        await until(() => existsSync(file))
        upstreams.configure({})
        expect(catalog.snapshot().owners.has('mcp_s')).toBe(false)
        writeFileSync(listed, '')
        await new Promise((resolve) => setTimeout(resolve, 300))
        expect(catalog.snapshot().owners.has('mcp_s')).toBe(false)
      },
      { wait: false },
    )
  })

  it('to background starts an idle server', async () => {
    const manifests = keeping()
    await withServers({ s: scripted() }, async () => undefined, { manifests })
    await withServers(
      { s: scripted() },
      async ({ upstreams }) => {
        expect(upstreams.status()).toMatchObject([{ state: 'known' }])
        upstreams.configure(settingsOf({ s: { ...scripted(), start: 'background' } }))
        await until(() => upstreams.status()[0]?.state === 'ready')
      },
      { manifests, wait: false },
    )
  })
})

describe('an unknown name', () => {
  const never = { delayMs: { cold: 600_000 }, wait: false } as const

  it('of an unknown server starts only that one and waits for it, each time', async () => {
    await withServers(
      { git: scripted('--say', 'x'), git_hub: scripted('--say', 'y'), other: scripted('--say', 'z') },
      async ({ upstreams, catalog }) => {
        // The server with the best matching name.
        expect(await Promise.all([upstreams.missed('git_hub__echo'), upstreams.missed('mcp_git_hub.echo')])).toEqual([
          true,
          true,
        ])
        expect(catalog.snapshot().byId.has('mcp_git_hub.echo')).toBe(true)
        expect(upstreams.status().map(({ state }) => state)).toEqual(['configured', 'ready', 'configured'])
        expect(await upstreams.missed('git.echo')).toBe(true)
        expect(upstreams.status().map(({ state }) => state)).toEqual(['ready', 'ready', 'configured'])
      },
      never,
    )
  })

  it('of an unknown server does not wait once it is failing, or the caller is gone', async () => {
    await withServers(
      { dead: { command: 'no-such-program-anywhere' }, hangs: scripted('--silent') },
      async ({ upstreams }) => {
        await upstreams.missed('dead__x', { sees: (module) => module !== 'mcp_dead' })
        expect(upstreams.status()[0]).toMatchObject({ state: 'configured' })
        await upstreams.missed('dead__x')
        expect(upstreams.status()[0]).toMatchObject({ state: 'failing' })
        const startedAt = Date.now()
        await upstreams.missed('dead__x')
        const leaving = new AbortController()
        setTimeout(() => leaving.abort(), 100)
        await upstreams.missed('hangs__x', { signal: leaving.signal })
        expect(Date.now() - startedAt).toBeLessThan(15_000)
      },
      never,
    )
  })

  it('of a server that never answers waits as long as connecting may take', async () => {
    await withServers(
      { hangs: scripted('--silent') },
      async ({ upstreams }) => {
        const startedAt = Date.now()
        expect(await upstreams.missed('hangs__x')).toBe(true)
        expect(Date.now() - startedAt).toBeGreaterThanOrEqual(490)
        expect(upstreams.status()[0]?.state).not.toBe('ready')
      },
      { ...never, connectTimeoutMs: 500 },
    )
  })

  it('causes a check for new tools once a minute, at running servers and the one named', async () => {
    const manifests = keeping()
    await withServers({ rests: scripted(), other: scripted('--say', 'x') }, async () => undefined, { manifests })
    const clock = createManualClock()
    await withServers(
      { runs: { ...scripted('--say', 'y'), start: 'eager' }, rests: scripted(), other: scripted('--say', 'x') },
      async ({ upstreams, catalog, text }) => {
        clock.pass(0)
        await until(() => upstreams.status()[0]?.state === 'ready')
        await text('mcp_runs.add_silently')
        expect(await Promise.all([upstreams.missed('rests__appeared'), upstreams.missed('rests__x')])).toEqual([
          true,
          true,
        ])
        expect(catalog.snapshot().byId.has('mcp_runs.appeared')).toBe(true)
        expect(upstreams.status().map(({ state }) => state)).toEqual(['ready', 'ready', 'known'])
        const lists = await text('mcp_runs.count_lists')
        clock.pass(59_000)
        expect(await upstreams.missed('runs__nothing')).toBe(false)
        expect(await text('mcp_runs.count_lists')).toBe(lists)
        clock.pass(1_000)
        expect(await upstreams.missed('runs__nothing')).toBe(true)
        expect(Number(await text('mcp_runs.count_lists'))).toBe(Number(lists) + 1)
      },
      { manifests, clock, wait: false },
    )
  })
})
