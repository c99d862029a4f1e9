import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { rawBytes } from '../../src/core/raw-result.ts'
import { alive, hurried, resultOf, scripted, until, withServers } from './host.ts'

describe('a server on stdio', () => {
  it('has its results passed on unchanged: blocks, structured content and unknown keys [DIG-97]', () =>
    withServers({ s: scripted() }, async ({ call }) => {
      expect(resultOf(await call('mcp_s.get_content'))).toEqual({
        content: [
          { type: 'text', text: 'one', annotations: { priority: 1 } },
          { type: 'image', data: 'iVBORw0KGgo=', mimeType: 'image/png' },
          { type: 'audio', data: 'UklGRg==', mimeType: 'audio/wav' },
          { type: 'resource', resource: { uri: 'file:///a', text: 'a' } },
          { type: 'resource_link', uri: 'file:///b', name: 'b' },
        ],
        structuredContent: { n: 1, null: null, deep: [{ a: 1 }] },
        isError: false,
        _meta: { 'example.com/result': 1 },
        somethingNew: { kept: true },
      })
    }))

  it('delivers every progress notification of a burst, in order, before the result', () =>
    withServers({ s: scripted() }, async ({ call }) => {
      for (let round = 0; round < 20; round++) {
        const heard: unknown[] = []
        await call('mcp_s.burst', { count: 25 }, { onProgress: (...args) => heard.push(args) })
        expect(heard).toEqual(Array.from({ length: 25 }, (_, n) => [n + 1, 25, `step ${n + 1}`]))
      }
    }))

  it('is notified when a call is cancelled, and its late answer is ignored [UPS-02]', () =>
    withServers({ s: scripted() }, async ({ call, text }) => {
      const abort = new AbortController()
      const hanging = call('mcp_s.hang', {}, { signal: abort.signal })
      setTimeout(() => abort.abort(), 30)
      await expect(hanging).rejects.toMatchObject({ code: 'E_CANCELLED' })
      expect(await text('mcp_s.list_cancelled')).toMatch(/^\["p:\d+"\]$/)
    }))

  it('that hangs costs the caller its timeout and no more, even while it reports progress [UPS-03]', () =>
    withServers({ s: { ...scripted(), timeoutMs: 300 } }, async ({ call, text }) => {
      const startedAt = performance.now()
      await expect(call('mcp_s.hang_reporting')).rejects.toMatchObject({ code: 'E_TIMEOUT', retryable: true })
      expect(performance.now() - startedAt).toBeLessThan(10_000)
      expect(await text('mcp_s.list_cancelled')).toMatch(/^\["p:\d+"\]$/)
    }))

  it('that crashes fails the running calls at once and is restarted for the next [UPS-04]', () =>
    withServers({ s: scripted() }, async ({ call, text, upstreams }) => {
      const others = [call('mcp_s.hang'), call('mcp_s.hang')]
      const startedAt = performance.now()
      const results = await Promise.allSettled([call('mcp_s.crash'), ...others])
      expect(performance.now() - startedAt).toBeLessThan(10_000)
      for (const result of results)
        expect(result).toMatchObject({ reason: { code: 'E_UPSTREAM_UNAVAILABLE', retryable: true } })
      expect(upstreams.status()[0]?.reason).toBe('disconnected: it exited with code 1')
      expect(await text('mcp_s.echo', { text: 'back' })).toBe('back')
    }))

  it('that dies in the middle of a line leaves nothing of it to the next process [UPS-05]', () =>
    withServers({ s: scripted() }, async ({ call, text }) => {
      await expect(call('mcp_s.crash_half')).rejects.toMatchObject({ code: 'E_UPSTREAM_UNAVAILABLE' })
      expect(await text('mcp_s.echo', { text: 'whole' })).toBe('whole')
    }))

  it('may print banners, colours and HTML [UPS-06]', () =>
    withServers({ s: scripted('--banner') }, async ({ text }) => {
      expect(await text('mcp_s.noise')).toBe('said')
      expect(await text('mcp_s.echo', { text: 'still here' })).toBe('still here')
    }))

  it('may print JSON lines that are not messages, and the answer after them is read', () =>
    withServers({ s: { ...scripted(), timeoutMs: 3_000 } }, async ({ text, logged }) => {
      expect(await text('mcp_s.malformed')).toBe('read')
      expect(await text('mcp_s.malformed')).toBe('read')
      expect(await text('mcp_s.echo', { text: 'still here' })).toBe('still here')
      const said = logged.filter((entry) => JSON.stringify(entry).includes('not MCP'))
      expect(said).toMatchObject([{ level: 'debug' }])
    }))

  it('may answer with eleven megabytes: the call path limits results', () =>
    withServers({ s: scripted() }, async ({ text }) => {
      expect(await text('mcp_s.huge', { bytes: 11 * 1024 * 1024 })).toHaveLength(11 * 1024 * 1024)
    }))

  it('has a large result, and one with a long number, passed on as raw bytes', () =>
    withServers({ s: scripted() }, async ({ call }) => {
      const text = 'long '.repeat(4_000)
      for (const [json, value] of [
        [
          '{"content": [],  "structuredContent":{"n":1234567890123456789}}',
          { content: [], structuredContent: { n: '1234567890123456789' } },
        ],
        [
          `{"content":[{"type":"text","text":"${text}"}],"isError":false , "next":{"kept":[1.0]}}`,
          { content: [{ type: 'text', text }], isError: false, next: { kept: [1] } },
        ],
      ] as const) {
        const result = resultOf(await call('mcp_s.answer', { json }))
        expect(Buffer.concat(rawBytes(result) ?? []).toString()).toBe(json)
        // Its members read like those of any result; a number that JavaScript cannot represent is text.
        expect(JSON.parse(JSON.stringify(result))).toEqual(value)
        expect(rawBytes({ ...result })).toBeUndefined()
      }
    }))

  it('has an ambiguous result parsed, and passed on with one meaning', () =>
    withServers({ s: scripted() }, async ({ call }) => {
      const text = 'long '.repeat(4_000)
      for (const [json, value] of [
        [`{"content":[],"a":"${text}","a":1}`, { content: [], a: 1 }],
        [`{"content":[],"a":"${text}\\u202e"}`, { content: [], a: text }],
        [`{"content":[],"structuredContent":["${text}"]}`, { content: [], structuredContent: [text] }],
      ] as const) {
        const result = resultOf(await call('mcp_s.answer', { json }))
        expect(rawBytes(result)).toBeUndefined()
        expect(result).toEqual(value)
      }
    }))

  it('that answers with more than the limit fails only that call [UPS-08]', () =>
    withServers(
      { s: scripted() },
      async ({ call, text }) => {
        const [huge, small] = await Promise.allSettled([
          call('mcp_s.huge', { bytes: 3_000_000 }),
          call('mcp_s.echo', { text: 'fits' }),
        ])
        expect(huge).toMatchObject({ reason: { code: 'E_TOO_LARGE' } })
        expect(small).toMatchObject({ status: 'fulfilled' })
        expect(await text('mcp_s.echo', { text: 'same process' })).toBe('same process')
      },
      { maxFrameBytes: 1_000_000 },
    ))

  it('that answers a call with more than any result may have is not buffered, while a list may be as long', () =>
    withServers(
      { s: scripted() },
      async ({ call, catalog, text }) => {
        const [huge, small] = await Promise.allSettled([
          call('mcp_s.huge', { bytes: 3_000 }),
          call('mcp_s.echo', { text: 'fits' }),
        ])
        expect(huge).toMatchObject({ reason: { code: 'E_TOO_LARGE' } })
        expect(small).toMatchObject({ status: 'fulfilled' })
        expect(await text('mcp_s.echo', { text: 'same process' })).toBe('same process')
        // The list of this server has more than four thousand bytes.
        await call('mcp_s.change_tools', { times: 1 })
        await until(() => catalog.snapshot().byId.has('mcp_s.appeared'))
      },
      { maxAnswerBytes: 2_000 },
    ))

  it('that prints one endless line is killed as soon as that is clear, and reported', () =>
    withServers(
      {
        s: {
          command: process.execPath,
          args: ['-e', `const go = () => process.stdout.write('x'.repeat(100_000), go); go()`],
          start: 'eager',
        },
      },
      async ({ upstreams }) => {
        await until(() => upstreams.status()[0]?.state === 'failing', 30_000)
        expect(upstreams.status()[0]?.reason).toBe('it printed more than 1000000 bytes without the end of a line')
      },
      { wait: false, maxFrameBytes: 1_000_000, connectTimeoutMs: 600_000 },
    ))

  it('has its protocol errors passed on with code, message and data', () =>
    withServers({ s: scripted() }, async ({ call }) => {
      await expect(call('mcp_s.fail')).rejects.toMatchObject({
        name: 'ProtocolFailure',
        code: -32050,
        message: 'no such thing',
        data: { thing: 7 },
      })
    }))

  it('gets a short environment and what its entry names [UPS-17]', () =>
    withServers(
      { s: { ...scripted(), env: { GIVEN: 'yes', NUMBER: 7 } } },
      async ({ text }) => {
        const seen = JSON.parse(await text('mcp_s.get_environment'))
        expect(seen).toMatchObject({ GIVEN: 'yes', NUMBER: '7', LC_ALL: 'C' })
        for (const secret of ['AWS_SECRET_ACCESS_KEY', 'GITHUB_TOKEN', 'NODE_EXTRA_CA_CERTS'])
          expect(seen).not.toHaveProperty(secret)
      },
      {
        environment: {
          ...process.env,
          AWS_SECRET_ACCESS_KEY: 's',
          GITHUB_TOKEN: 't',
          NODE_EXTRA_CA_CERTS: '/ca',
          LC_ALL: 'C',
        },
      },
    ))

  it('gets the TLS, proxy and registry variables if a package runner starts it, and no credentials', async () => {
    const dir = mkdtempSync(join(tmpdir(), 'pegboard-runner-'))
    onTestFinished(() => rmSync(dir, { recursive: true }))
    const npx = join(dir, 'npx')
    // A shell would drop names that are invalid in a shell.
    const run = 'process.argv = process.argv.slice(2)\nimport(process.argv[1])\n'
    writeFileSync(npx, `#!${process.execPath}\n${run}`, { mode: 0o755 })
    const { command, args } = scripted()
    const given = {
      NODE_EXTRA_CA_CERTS: join(dir, 'ca.pem'),
      SSL_CERT_FILE: '/ca.pem',
      SSL_CERT_DIR: '/certs',
      HTTP_PROXY: 'http://proxy:1',
      https_proxy: 'http://proxy:2',
      NO_PROXY: 'localhost',
      npm_config_registry: 'https://registry.example',
      'npm_config_@scope:registry': 'https://scope.example',
    }
    const kept = { 'npm_config_//registry.example/:_authToken': 't', AWS_SECRET_ACCESS_KEY: 's' }
    await withServers(
      { s: { command: npx, args: [command, ...args], env: { NO_PROXY: 'mine' } }, plain: { command, args } },
      async ({ text }) => {
        const seen = JSON.parse(await text('mcp_s.get_environment'))
        expect(seen).toMatchObject({ ...given, NO_PROXY: 'mine' })
        for (const name of Object.keys(kept)) expect(seen).not.toHaveProperty([name])
        const plain = JSON.parse(await text('mcp_plain.get_environment'))
        for (const name of Object.keys({ ...given, ...kept })) expect(plain).not.toHaveProperty([name])
      },
      { environment: { ...process.env, ...given, ...kept } },
    )
  })

  it('gets its arguments literally [UPS-19]', () =>
    withServers({ s: scripted('; touch x', '$(touch y)', '`touch z`') }, async ({ text }) => {
      expect(JSON.parse(await text('mcp_s.get_arguments'))).toEqual(['; touch x', '$(touch y)', '`touch z`'])
    }))

  it('that dies with and without the probe uses one process per attempt, until one way works', async () => {
    const dir = mkdtempSync(join(tmpdir(), 'pegboard-starts-'))
    const [starts, crash] = [join(dir, 'starts'), join(dir, 'crash')]
    writeFileSync(crash, '')
    const { command, args } = scripted('--die-on-probe', '--crash-while', crash)
    const counted = { command: 'sh', args: ['-c', 'printf . >> "$0"; exec "$@"', starts, command, ...args] }
    await withServers(
      { s: { ...counted, start: 'eager' } },
      async ({ logged, text, upstreams }) => {
        const failures = () => logged.filter(({ retryInMs }) => retryInMs !== undefined).length
        await until(() => failures() >= 4)
        // The first attempt used two processes, and another one may have started.
        expect(readFileSync(starts, 'utf8')).toMatch(/^\.{5,6}$/)
        rmSync(crash)
        await until(() => upstreams.status()[0]?.state === 'ready')
        expect(await text('mcp_s.echo', { text: 'lives' })).toBe('lives')
      },
      { wait: false, ...hurried(20) },
    )
  })

  it('is restarted without the probe if it dies of the probe', () =>
    withServers({ s: scripted('--die-on-probe') }, async ({ text }) => {
      expect(await text('mcp_s.echo', { text: 'alive' })).toBe('alive')
    }))

  it('does not outlive Pegboard, nor does what it started [UPS-15]', async () => {
    const file = join(mkdtempSync(join(tmpdir(), 'pegboard-')), 'pid')
    await withServers({ s: scripted() }, async ({ text }) => {
      await text('mcp_s.start_grandchild', { file })
      expect(alive(Number(readFileSync(file, 'utf8')))).toBe(true)
    })
    await until(() => !alive(Number(readFileSync(file, 'utf8'))))
  })

  it.each([false, true])(
    'is killed with processes that left its group and ignore SIGTERM: %s [UPS-15]',
    async (deaf) => {
      const file = join(mkdtempSync(join(tmpdir(), 'pegboard-')), 'pid')
      await withServers({ s: scripted() }, async ({ text }) => {
        await text('mcp_s.start_grandchild', { file, detached: true, deaf })
        expect(alive(Number(readFileSync(file, 'utf8')))).toBe(true)
      })
      // The signal was sent, but the process may still exist.
      await until(() => !alive(Number(readFileSync(file, 'utf8'))))
    },
  )

  it.runIf(process.platform === 'linux')(
    "is killed with processes in a session of their own, and no other server's [UPS-15]",
    async () => {
      const folder = mkdtempSync(join(tmpdir(), 'pegboard-'))
      const [file, others] = [join(folder, 'pid'), join(folder, 'others')]
      const pidIn = (one: string): number => Number(readFileSync(one, { encoding: 'utf8', flag: 'a+' }))
      await withServers({ s: scripted(), t: scripted() }, async ({ text, upstreams }) => {
        await text('mcp_s.start_grandchild', { file, orphan: true })
        await text('mcp_t.start_grandchild', { file: others, orphan: true })
        await until(() => pidIn(file) > 0 && pidIn(others) > 0)
        await upstreams.disconnect('s')
        await until(() => !alive(pidIn(file)))
        expect(alive(pidIn(others))).toBe(true)
      })
      await until(() => !alive(pidIn(others)))
    },
  )

  it('that stops reading does not keep a call forever [UPS-27]', () =>
    withServers({ s: { ...scripted(), timeoutMs: 400 } }, async ({ call }) => {
      const stuck = call('mcp_s.stop_reading')
      const big = call('mcp_s.echo', { text: 'x'.repeat(5_000_000) })
      for (const result of await Promise.allSettled([stuck, big]))
        expect(result).toMatchObject({ reason: { code: 'E_TIMEOUT' } })
    }))
})
