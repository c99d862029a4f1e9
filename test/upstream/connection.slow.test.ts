import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { createCatalog } from '../../src/catalog/catalog.ts'
import { defaultProfile } from '../../src/core/profile.ts'
import { decodeManifest, encodeManifest, type Manifest } from '../../src/upstream/manifest.ts'
import { authority } from '../authority.ts'
import { keeping, modern, real, scripted, settingsOf, until, withHttpServer, withServers } from './host.ts'

describe('servers that do not start', () => {
  it('delay no other server: a missing command, a crash and a silent one beside a working one [UPS-19]', () =>
    withServers(
      {
        missing: { command: 'no-such-command-anywhere' },
        crashing: { command: process.execPath, args: ['-e', 'process.stderr.write("bad key"); process.exit(2)'] },
        silent: scripted('--silent'),
        fine: scripted(),
      },
      async ({ upstreams, text, catalog, logged }) => {
        const startedAt = performance.now()
        await until(() => upstreams.status().find((one) => one.id === 'fine')?.state === 'ready')
        expect(performance.now() - startedAt).toBeLessThan(10_000)
        expect(await text('mcp_fine.echo', { text: 'here' })).toBe('here')
        await until(() => upstreams.status().filter((one) => one.state === 'failing').length === 2)
        expect(upstreams.status()).toMatchObject([
          { id: 'missing', state: 'failing', reason: 'command not found: no-such-command-anywhere' },
          { id: 'crashing', state: 'failing', reason: 'it exited with code 2: bad key' },
          { id: 'silent', state: 'connecting' },
          { id: 'fine', state: 'ready' },
        ])
        expect(catalog.snapshot().owners.get('mcp_missing')).toMatchObject({ state: 'failing', tools: [] })
        expect(logged).toContainEqual(expect.objectContaining({ level: 'warn', scope: 'mcp_crashing' }))
      },
      { wait: false },
    ))

  it('are reported with their stdout if they wrote nothing to stderr', () =>
    withServers(
      { usage: { command: process.execPath, args: ['-e', 'console.log("Usage: weather <stdio|http>")'] } },
      async ({ upstreams }) => {
        await until(() => upstreams.status()[0]?.state === 'failing')
        expect(upstreams.status()[0]?.reason).toBe('it exited with code 0; it printed "Usage: weather <stdio|http>"')
      },
      { wait: false },
    ))

  it('are reported as failed if they answer nothing [UPS-01]', () =>
    withServers(
      { silent: scripted('--silent') },
      async ({ upstreams }) => {
        await until(() => upstreams.status()[0]?.state === 'failing')
        expect(upstreams.status()[0]?.reason).toBe('no answer within 0.5 s')
      },
      { wait: false, connectTimeoutMs: 500 },
    ))

  it('with a command line as command, or a web page instead of MCP, are explained in plain words', async () => {
    const page = createServer((_request, response) => {
      response.writeHead(200, { 'content-type': 'text/html' }).end('<html>')
    })
    await new Promise<void>((resolve) => page.listen(0, '127.0.0.1', resolve))
    try {
      await withServers(
        {
          line: { command: 'npx -y nothing' },
          page: { url: `http://127.0.0.1:${(page.address() as AddressInfo).port}/mcp` },
        },
        async ({ upstreams }) => {
          await until(() => upstreams.status().every(({ state }) => state === 'failing'))
          expect(upstreams.status().map(({ reason }) => reason)).toEqual([
            'command not found: npx -y nothing; move the arguments to "args", one word each',
            'its response is not MCP (Unexpected content type: text/html)',
          ])
        },
        { wait: false },
      )
    } finally {
      page.close()
      page.closeAllConnections()
    }
  })

  it('with a missing folder or file report that, with the path for operators only', () =>
    withServers(
      {
        cwd: { command: process.execPath, cwd: '/no/such/folder' },
        file: { command: process.execPath, envFile: '/no/such/file.env' },
      },
      async ({ upstreams, catalog }) => {
        await until(() => upstreams.status().every(({ state }) => state === 'failing'))
        expect(upstreams.status()).toMatchObject([
          {
            reason: 'its cwd does not exist: <path> (mcpServers.cwd.cwd)',
            detail: 'its cwd does not exist: /no/such/folder (mcpServers.cwd.cwd)',
          },
          {
            reason: 'its envFile does not exist: <path> (mcpServers.file.envFile)',
            detail: 'its envFile does not exist: /no/such/file.env (mcpServers.file.envFile)',
          },
        ])
        expect(JSON.stringify([...catalog.snapshot().owners.values()])).not.toContain('/no/such')
      },
      { wait: false },
    ))

  it('that are unknown get more time while they print nothing', () => {
    const later = `setTimeout(() => import(${JSON.stringify(scripted().args[0])}), 600)`
    return withServers(
      {
        slow: { command: process.execPath, args: ['-e', later] },
        chatty: { command: process.execPath, args: ['-e', `console.log("Hello\u001b[1m there"); ${later}`] },
        short: { command: process.execPath, args: ['-e', later], connectTimeoutMs: 100 },
      },
      async ({ upstreams, catalog }) => {
        const slow = () => upstreams.status()[0]
        const told: unknown[] = []
        catalog.onChange(() => told.push(`${slow()?.state} ${slow()?.pending}`))
        await until(() => slow()?.state === 'failing')
        expect(slow()).toMatchObject({ pending: true, reason: 'no answer within 0.3 s' })
        await until(() => upstreams.status().every(({ pending }) => !pending))
        expect(told).toContain('ready false')
        expect(upstreams.status()).toMatchObject([
          { id: 'slow', state: 'ready' },
          {
            id: 'chatty',
            state: 'failing',
            reason:
              'no answer within 0.3 s; its output is not MCP: "Hello there"; it may not be an MCP server, or it logs to stdout',
          },
          { id: 'short', state: 'failing', reason: 'no answer within 0.1 s' },
        ])
      },
      { wait: false, connectTimeoutMs: 300, installTimeoutMs: 20_000 },
    )
  })

  it('that print text instead of messages are reported after two seconds, and get no more time', () => {
    const noisy = (line: string, more = 'setInterval(() => {}, 1e6)') => ({
      command: process.execPath,
      args: ['-e', `console.log(${JSON.stringify(line)}); ${more}`],
    })
    return withServers(
      {
        logs: noisy('Listening on port 3000'),
        installs: noisy('added 12 packages, and audited 13 packages in 2s'),
        both: noisy('> server@1.0.0 start', 'console.log("Ready."); setInterval(() => {}, 1e6)'),
        greets: noisy('Welcome', `setTimeout(() => import(${JSON.stringify(scripted().args[0])}), 500)`),
      },
      async ({ upstreams, logged }) => {
        const reason = (id: string) => upstreams.status().find((one) => one.id === id)?.reason
        const prints = (line: string): string =>
          `its output is not MCP: "${line}"; it may not be an MCP server, or it logs to stdout`
        await until(() => reason('logs') !== undefined && reason('both') !== undefined)
        expect(upstreams.status()).toMatchObject([
          {
            id: 'logs',
            state: 'connecting',
            pending: true,
            reason: `no answer yet; ${prints('Listening on port 3000')}`,
          },
          { id: 'installs', state: 'connecting', pending: true },
          { id: 'both', state: 'connecting', pending: true, reason: `no answer yet; ${prints('Ready.')}` },
          { id: 'greets', state: 'ready' },
        ])
        expect(reason('installs')).toBeUndefined()
        await until(() => reason('installs') !== undefined && upstreams.status()[0]?.state === 'failing')
        expect(reason('logs')).toBe(`no answer within 3 s; ${prints('Listening on port 3000')}`)
        // Only a package runner counts as downloading.
        expect(reason('installs')).toBe('no answer within 3 s')
        const slow = logged.filter(({ message }) => message === 'no answer within 3 s')
        expect(slow).toMatchObject([{ scope: 'mcp_installs' }])
      },
      { wait: false, connectTimeoutMs: 3_000, installTimeoutMs: 20_000 },
    )
  })

  it('that have not spoken yet get a chance to exit before they are killed', async () => {
    const dir = mkdtempSync(join(tmpdir(), 'pegboard-gentle-'))
    const tidy = `process.on('SIGTERM', () => setTimeout(() => { fs.writeFileSync('tidy', ''); process.exit() }, 300)); fs.writeFileSync('began', ''); setInterval(() => {}, 1e6)`
    try {
      await withServers(
        { installing: { command: process.execPath, args: ['-e', tidy], cwd: dir } },
        () => until(() => existsSync(join(dir, 'began'))),
        { wait: false },
      )
      expect(existsSync(join(dir, 'tidy'))).toBe(true)
    } finally {
      rmSync(dir, { recursive: true })
    }
  })

  it.each(['http', 'sse'])('report the network error, and the address only to the operator (%s)', (type) =>
    withServers(
      {
        down: { type, url: 'http://127.0.0.1:9/mcp' },
        both: { type, url: 'http://localhost:9/mcp' },
        nowhere: { type, url: 'http://nowhere.invalid/mcp' },
      },
      async ({ upstreams }) => {
        await until(() => upstreams.status().every(({ state }) => state === 'failing'))
        expect(upstreams.status().map(({ id, reason, detail }) => [id, reason, detail])).toEqual([
          ['down', 'ECONNREFUSED', 'ECONNREFUSED (127.0.0.1:9)'],
          ['both', 'ECONNREFUSED', 'ECONNREFUSED (localhost:9)'],
          [
            'nowhere',
            expect.stringMatching(/^(ENOTFOUND|EAI_AGAIN)$/),
            expect.stringMatching(/ \(nowhere\.invalid\)$/),
          ],
        ])
      },
      { wait: false },
    ),
  )

  it('report the TLS error', async () => {
    const dir = mkdtempSync(join(tmpdir(), 'pegboard-tls-'))
    const { certify } = authority(dir)
    const secure = async (name: string, days: number): Promise<[AddressInfo, () => void]> => {
      const server = createTlsServer(certify(name, days), (_, answer) => answer.end())
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
      return [server.address() as AddressInfo, () => server.close()]
    }
    const plain = createServer((_, answer) => answer.end())
    await new Promise<void>((resolve) => plain.listen(0, '127.0.0.1', resolve))
    const [[unknown, endUnknown], [expired, endExpired]] = await Promise.all([secure('localhost', 1), secure('old', 0)])
    try {
      const at = ({ port }: AddressInfo) => ({ url: `https://localhost:${port}/mcp` })
      await withServers(
        {
          plain: at(plain.address() as AddressInfo),
          unknown: at(unknown),
          expired: at(expired),
          older: { type: 'sse', ...at(expired) },
        },
        async ({ upstreams }) => {
          await until(() => upstreams.status().every(({ state }) => state === 'failing'))
          expect(upstreams.status().map(({ id, reason }) => [id, reason])).toEqual([
            ['plain', 'it does not use TLS; its address may need http://'],
            [
              'unknown',
              'its certificate is from an authority that is not trusted; NODE_EXTRA_CA_CERTS can name a file with more authorities',
            ],
            ['expired', 'its certificate has expired'],
            ['older', 'its certificate has expired'],
          ])
        },
        { wait: false },
      )
    } finally {
      for (const end of [() => plain.close(), endUnknown, endExpired]) end()
      rmSync(dir, { recursive: true })
    }
  })

  it('are retried until they work', () => {
    const port = 40_000 + (process.pid % 10_000)
    return withServers(
      { late: { url: `http://127.0.0.1:${port}/mcp` } },
      async ({ upstreams, text }) => {
        await until(() => upstreams.status()[0]?.state === 'failing')
        expect(upstreams.status()[0]?.reason).toBe('ECONNREFUSED')
        await withHttpServer(
          real('everything', 'streamableHttp'),
          /listening on port/,
          async () => {
            await until(() => upstreams.status()[0]?.state === 'ready')
            expect(await text('mcp_late.echo', { message: 'at last' })).toBe('Echo: at last')
          },
          { PORT: String(port) },
        )
      },
      { wait: false },
    )
  })
})

describe('a server that goes away', () => {
  it('keeps its tools, reports its state, and is started by the next call [DIG-96]', () =>
    withServers({ fake: { ...scripted(), start: 'background' } }, async ({ catalog, call, text, tool }) => {
      const before = catalog.snapshot().owners.get('mcp_fake')?.tools.length
      const states: string[] = []
      catalog.onChange((now) => states.push(String(now.owners.get('mcp_fake')?.state)))
      await expect(call('mcp_fake.crash')).rejects.toMatchObject({ code: 'E_UPSTREAM_UNAVAILABLE' })
      const owner = catalog.snapshot().owners.get('mcp_fake')
      expect(owner).toMatchObject({ state: 'connecting', reason: 'disconnected: it exited with code 1' })
      expect(owner?.nextAttemptAt).toBeGreaterThan(Date.now() - 1_000)
      expect(owner?.tools).toHaveLength(before ?? 0)
      expect(await text('mcp_fake.echo', { text: 'again' })).toBe('again')
      // A second immediate death causes no wait.
      await expect(call('mcp_fake.crash')).rejects.toMatchObject({ code: 'E_UPSTREAM_UNAVAILABLE' })
      expect(tool('mcp_fake.echo').available({} as never, defaultProfile)).toBe(true)
      await expect(call('mcp_fake.echo', { text: 'x' })).rejects.toMatchObject({
        code: 'E_UPSTREAM_UNAVAILABLE',
        message: 'fake is reconnecting (attempt 2): disconnected: it exited with code 1.',
        retryAfterMs: expect.any(Number),
      })
      await until(() => states.at(-1) === 'ready')
      expect(states).toEqual(['connecting', 'ready', 'failing', 'ready'])
      expect(await text('mcp_fake.echo', { text: 'back' })).toBe('back')
    }))

  it('over HTTP is connected again when it is back', () => {
    const port = String(30_000 + (process.pid % 10_000))
    const serve = (test: () => Promise<void>): Promise<void> =>
      withHttpServer(real('everything', 'streamableHttp'), /listening on port/, test, { PORT: port })
    return withServers(
      { web: { url: `http://127.0.0.1:${port}/mcp`, start: 'background' } },
      async ({ upstreams, text }) => {
        await serve(async () => {
          await until(() => upstreams.status()[0]?.state === 'ready', 30_000)
          expect(await text('mcp_web.echo', { message: 'one' })).toBe('Echo: one')
        })
        await until(() => upstreams.status()[0]?.state !== 'ready', 30_000)
        await serve(async () => {
          // A slow start may open the circuit.
          await until(() => upstreams.status()[0]?.state === 'ready', 65_000)
          expect(await text('mcp_web.echo', { message: 'two' })).toBe('Echo: two')
        })
      },
      { wait: false, delayMs: { cold: 400 } },
    )
  }, 90_000)
})

describe('a server known from an earlier run', () => {
  it('is in the catalog before any child runs, and a call starts it', async () => {
    const manifests = keeping()
    await withServers({ s: scripted() }, async () => undefined, { manifests })
    expect([...manifests.kept.values()].map((bytes) => decodeManifest(bytes))).toMatchObject([
      { verdict: { era: 'legacy', transport: 'stdio' }, server: { name: 'scripted' }, startMs: expect.any(Number) },
    ])
    const catalog = createCatalog()
    await withServers(
      { s: scripted() },
      async ({ text, upstreams }) => {
        expect(upstreams.status()).toMatchObject([{ state: 'known', tools: catalog.snapshot().tools.length }])
        expect(catalog.snapshot().byId.get('mcp_s.echo')?.input.json).toMatchObject({
          properties: { text: { type: 'string' } },
        })
        expect(await text('mcp_s.echo', { text: 'started by this' })).toBe('started by this')
        expect(upstreams.status()).toMatchObject([{ state: 'ready' }])
      },
      { manifests, catalog, wait: false },
    )
  })

  it('is asked for its tools if another process changed the manifest', async () => {
    const manifests = keeping()
    await withServers({ s: scripted() }, async () => undefined, { manifests })
    const [before] = [...manifests.kept.values()] as [Uint8Array]
    const learnt = decodeManifest(before) as Manifest
    const other = encodeManifest({ ...learnt, tools: learnt.tools.slice(0, 1) })
    const catalog = createCatalog()
    await withServers(
      { s: scripted() },
      async ({ logged, upstreams }) => {
        expect(upstreams.status()).toMatchObject([{ state: 'known', tools: learnt.tools.length }])
        expect(catalog.snapshot().tools).toEqual([])
        await until(() => upstreams.status()[0]?.state === 'ready')
        expect(catalog.snapshot().tools).toHaveLength(learnt.tools.length)
        expect(logged.some(({ message }) => String(message).includes('its cached tool list was changed'))).toBe(true)
      },
      { manifests: { ...manifests, get: () => other }, catalog, wait: false },
    )
  })

  it('is corrected if its manifest is outdated', async () => {
    const manifests = keeping()
    await withServers({ s: modern('--only') }, async () => undefined, { manifests })
    for (const [key, bytes] of manifests.kept) {
      const verdict = { era: 'legacy', transport: 'stdio', at: Date.now() } as const
      manifests.kept.set(key, encodeManifest({ ...(decodeManifest(bytes) as Manifest), verdict }))
    }
    await withServers(
      { s: modern('--only') },
      async ({ text, upstreams }) => {
        expect(await text('mcp_s.echo', { text: 'modern after all' })).toBe('modern after all')
        expect(upstreams.status()).toMatchObject([{ era: 'modern' }])
      },
      { manifests, wait: false },
    )
  })

  it.each([
    ['nonsense', '{"format":2,"tools":[]', 1],
    ['of another version', '{"format":1,"tools":[]}\n', 0],
  ])('may have a manifest that is %s, which is then made again', (_what, bytes, warnings) =>
    withServers(
      { s: scripted() },
      async ({ text, logged }) => {
        expect(await text('mcp_s.echo', { text: 'fine' })).toBe('fine')
        expect(logged.filter(({ message }) => String(message).includes('so Pegboard reads it again'))).toHaveLength(
          warnings,
        )
      },
      { manifests: { line: () => Buffer.from(bytes), get: () => undefined, set: () => undefined } },
    ),
  )
})

describe('changes while running', () => {
  it('are read once however often they are announced, and published only if something differs [UPS-10]', () =>
    withServers({ s: scripted() }, async ({ catalog, call, text }) => {
      let changes = 0
      catalog.onChange(() => changes++)
      await call('mcp_s.change_tools', { times: 1_000 })
      await until(() => catalog.snapshot().byId.has('mcp_s.appeared'))
      expect(changes).toBe(1)
      expect(Number(await text('mcp_s.count_lists'))).toBeLessThanOrEqual(2)
      await call('mcp_s.change_nothing')
      const lists = Number(await text('mcp_s.count_lists'))
      await new Promise((resolve) => setTimeout(resolve, 2_500))
      expect(Number(await text('mcp_s.count_lists'))).toBe(lists + 1)
      expect(changes).toBe(1)
    }))

  it('keep the objects of unchanged tools', () =>
    withServers({ s: scripted() }, async ({ catalog, call, tool }) => {
      const echo = tool('mcp_s.echo')
      await call('mcp_s.change_tools', { times: 1 })
      await until(() => catalog.snapshot().byId.has('mcp_s.appeared'))
      expect(tool('mcp_s.echo')).toBe(echo)
    }))

  it('of the configuration start, stop and restart only the servers concerned', () =>
    withServers(
      { stays: scripted(), goes: scripted(), changes: scripted() },
      async ({ catalog, upstreams, text, tool }) => {
        const echo = tool('mcp_stays.echo')
        upstreams.configure(
          settingsOf({
            stays: scripted(),
            changes: scripted('--say', '!'),
            comes: scripted(),
            off: { ...scripted(), disabled: true },
          }),
        )
        await until(() => upstreams.status().filter((one) => one.state === 'ready').length === 3)
        expect(upstreams.status().map(({ id, state }) => `${id} ${state}`)).toEqual([
          'stays ready',
          'changes ready',
          'comes ready',
          'off stopped',
        ])
        expect([...catalog.snapshot().owners.keys()].sort()).toEqual(['mcp_changes', 'mcp_comes', 'mcp_stays'])
        expect(tool('mcp_stays.echo')).toBe(echo)
        expect(await text('mcp_changes.echo', { text: 'hi' })).toBe('hi!')
      },
    ))

  it('can be requested manually', () =>
    withServers({ s: scripted() }, async ({ upstreams, text }) => {
      await upstreams.refresh('s')
      expect(await text('mcp_s.count_lists')).toBe('2')
      await expect(upstreams.refresh('unknown')).rejects.toMatchObject({ code: 'E_NOT_FOUND' })
    }))
})
