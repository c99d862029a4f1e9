import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as breath } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest'
import { run } from '../../src/cli/run-command.ts'
import { StreamTransport } from '../client.ts'
import { folder, notesModule, pegboard, terminal } from './terminal.ts'

let at: ReturnType<typeof folder>
beforeAll(async () => {
  // The test runner compiles imports first, which takes longer than a client waits for modules.
  const bundled = join(import.meta.dirname, '../../modules')
  const files = readdirSync(bundled).filter((file) => !file.startsWith('_'))
  await Promise.all(files.map((file) => import(join(bundled, file.endsWith('.ts') ? file : `${file}/index.ts`))))
  at = folder({
    'mcp.config.json': { server: { http: { port: 0 } } },
    'modules/notes.mjs': notesModule,
    'modules/bad.mjs': 'throw new Error("not today")',
  })
  // The same for the loader of drop-ins.
  await pegboard(at.dir, 'list', 'modules', '--config', 'mcp.config.json')
}, 120_000)
afterAll(() => at.remove())

const newClient = (): Client => new Client({ name: 'test', version: '1' })
const names = async (client: Client): Promise<string[]> => (await client.listTools()).tools.map(({ name }) => name)

const lateModule = `
export default {
  name: 'late',
  description: 'Comes later.',
  tools: { ping: { description: 'Says pong.', effect: 'read', input: { type: 'object', properties: {} }, run: () => 'pong' } },
}
`

describe('serve', () => {
  it('uses stdio without a terminal, until the client disconnects', async () => {
    const { io, input, output, err, out } = terminal(at.dir, false)
    const served = run(['serve', '--config', 'mcp.config.json'], io)
    const client = newClient()
    await client.connect(new StreamTransport(output, input) as never)
    // Slower drop-ins appear later.
    await expect.poll(() => names(client)).toContain('notes__add')
    await vi.waitFor(() => expect(err()).toContain('Pegboard serves on stdio.'), { timeout: 15_000 })
    expect(err()).toMatch(/\d+ tools in \d+ categor(y|ies), shown in direct mode: /)
    expect(err()).toContain('Not loaded: bad.mjs:1: not today')
    expect(out()).toBe('')
    await client.close()
    expect(await served).toBe(0)
  })

  it('gives a client the profile of the folder it starts Pegboard in, unless --profile names one', async () => {
    const place = folder({
      'mcp.config.json': {
        profiles: {
          quiet: { folders: ['work/*'], use: ['notes'], policy: { deny: ['notes.add'] } },
          open: { use: ['notes'] },
        },
      },
      'modules/notes.mjs': notesModule,
      'work/shop/README.md': '',
    })
    onTestFinished(() => place.remove())
    const toolsIn = async (cwd: string, ...options: string[]): Promise<readonly string[]> => {
      const { io, input, output } = terminal(join(place.dir, cwd), false)
      const env = { ...io.env, PEGBOARD_STATE_DIR: join(place.dir, '.state') }
      const served = run(['serve', '--stdio', '--config', join(place.dir, 'mcp.config.json'), ...options], {
        ...io,
        env,
      })
      const client = newClient()
      await client.connect(new StreamTransport(output, input) as never)
      await expect.poll(() => names(client)).toContain('notes__read')
      const listed = await names(client)
      await client.close()
      await served
      return listed.filter((name) => /^(?:notes__add|filesystem__ls)$/.test(name))
    }
    expect(await toolsIn('work/shop')).toEqual([])
    expect(await toolsIn('work/shop', '--profile', 'open')).toEqual(['notes__add'])
    expect(await toolsIn('work')).toContain('notes__add')
  })

  it('gives a client the profile of its roots, unless --profile or the folder it starts in chooses one', async () => {
    const place = folder({
      'mcp.config.json': {
        profiles: {
          quiet: { folders: ['work/*'], use: ['notes'], policy: { deny: ['notes.add'] } },
          open: { folders: ['open'], use: ['notes'] },
        },
      },
      'modules/notes.mjs': notesModule,
      'open/README.md': '',
    })
    onTestFinished(() => place.remove())
    const toolsWith = async (
      roots: readonly string[] | 'none' | 'refused' | 'silent',
      cwd = '.',
      ...options: string[]
    ): Promise<readonly string[]> => {
      const { io, input, output } = terminal(join(place.dir, cwd), false)
      const env = { ...io.env, PEGBOARD_STATE_DIR: join(place.dir, '.state') }
      const argv = ['serve', '--stdio', '--config', join(place.dir, 'mcp.config.json'), ...options]
      const served = run(argv, { ...io, env })
      const client = new Client({ name: 'test', version: '1' }, { capabilities: roots === 'none' ? {} : { roots: {} } })
      let asked = 0
      if (roots !== 'none')
        client.setRequestHandler('roots/list', async () => {
          asked++
          if (roots === 'refused') throw new Error('not now')
          if (roots === 'silent') await new Promise(() => undefined)
          return { roots: (roots as readonly string[]).map((uri) => ({ uri })) }
        })
      await client.connect(new StreamTransport(output, input) as never)
      // The first list is that of the profile already.
      const first = await names(client)
      await expect.poll(() => names(client)).toContain('notes__read')
      const listed = await names(client)
      await client.close()
      await served
      if (listed.includes('filesystem__ls')) expect(first).toContain('filesystem__ls')
      else expect(first).not.toContain('filesystem__ls')
      return [`asked ${asked}`, ...listed.filter((name) => /^(?:notes__add|filesystem__ls)$/.test(name))]
    }
    const work = pathToFileURL(join(place.dir, 'work/shop')).href
    const open = pathToFileURL(join(place.dir, 'open')).href
    const all = ['filesystem__ls', 'notes__add']
    expect(await toolsWith([work])).toEqual(['asked 1'])
    // The first root that a profile names decides.
    expect(await toolsWith(['https://example.com/', 'file:///elsewhere', open, work])).toEqual([
      'asked 1',
      'notes__add',
    ])
    expect(await toolsWith(['file:///elsewhere'])).toEqual(['asked 1', ...all])
    expect(await toolsWith('refused')).toEqual(['asked 1', ...all])
    expect(await toolsWith('silent')).toEqual(['asked 1', ...all])
    expect(await toolsWith('none')).toEqual(['asked 0', ...all])
    expect(await toolsWith([work], 'open')).toEqual(['asked 0', 'notes__add'])
    expect(await toolsWith([work], '.', '--profile', 'open')).toEqual(['asked 0', 'notes__add'])
  })

  it('gives clients over HTTP no profile by folder', async () => {
    const place = folder({
      'mcp.config.json': {
        server: { http: { port: 0, auth: 'none' } },
        profiles: { quiet: { folders: ['.'], use: ['notes'], policy: { deny: ['notes.add'] } } },
      },
      'modules/notes.mjs': notesModule,
    })
    onTestFinished(() => place.remove())
    const { io, out, stop } = terminal(place.dir, false)
    const served = run(['serve', '--http', '--json', '--config', 'mcp.config.json'], io)
    await vi.waitFor(() => expect(out()).toContain('"url"'), { timeout: 15_000 })
    const { url } = JSON.parse(out().split('\n', 1)[0] ?? '')
    const client = newClient()
    await client.connect(new StreamableHTTPClientTransport(new URL(url)))
    await expect.poll(() => names(client)).toContain('notes__add')
    await client.close()
    stop()
    await served
  })

  it('watches files and indexes two seconds after the first request, for clients that never list', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    onTestFinished(() => void vi.useRealTimers())
    const { io, input, output, err } = terminal(at.dir, false)
    const served = run(['serve', '--config', 'mcp.config.json'], io)
    const client = newClient()
    await client.connect(new StreamTransport(output, input) as never)
    const failed = async () => (await client.callTool({ name: 'late__ping', arguments: {} })).isError ?? false
    vi.advanceTimersByTime(1_900)
    await breath(50)
    expect(err()).not.toContain('Pegboard serves on stdio.')
    vi.advanceTimersByTime(100)
    vi.useRealTimers()
    await vi.waitFor(() => expect(err()).toContain('Pegboard serves on stdio.'), { timeout: 5_000 })
    writeFileSync(join(at.dir, 'modules/late.mjs'), lateModule)
    await vi.waitFor(async () => expect(await failed()).toBe(false), { timeout: 5_000, interval: 100 })
    // The late list does not start anything a second time.
    expect(await names(client)).toContain('late__ping')
    await breath(50)
    expect(err().split('Pegboard serves on stdio.')).toHaveLength(2)
    await client.close()
    expect(await served).toBe(0)
  })

  it('listens when started on a terminal, prints address, token and snippets, and stops on a signal', async () => {
    const { io, out, stop } = terminal(at.dir)
    const served = run(['serve', '--config', 'mcp.config.json'], { ...io, terminal: { out: true, err: false } })
    await vi.waitFor(() => expect(out()).toContain('VS Code'), { timeout: 5_000 })
    expect(out()).toMatch(/\nIts page: http:\/\/127\.0\.0\.1:\d+\/ui#[\w-]{43}\n/)
    const [, url = ''] = /Pegboard serves at (\S+)/.exec(out()) ?? []
    const [, token = ''] = /Bearer ([\w-]+)/.exec(out()) ?? []
    for (const client of ['Claude Desktop', 'Claude Code', 'Cursor', 'VS Code'])
      expect(out()).toContain(`\n${client}, `)

    const refused = await fetch(url, { method: 'POST', body: '{}' })
    expect(refused.status).toBe(401)
    const client = newClient()
    await client.connect(
      new StreamableHTTPClientTransport(new URL(url), {
        requestInit: { headers: { Authorization: `Bearer ${token}` } },
      }),
    )
    expect(await names(client)).toContain('notes__add')

    // An edit of the file takes effect without a restart.
    writeFileSync(
      join(at.dir, 'mcp.config.json'),
      JSON.stringify({
        server: { http: { port: 0 } },
        modules: { notes: { constraints: { blocked_actions: ['add'] } } },
      }),
    )
    await vi.waitFor(async () => expect(await names(client)).not.toContain('notes__add'), { timeout: 5_000 })
    await client.close()
    stop()
    expect(await served).toBe(0)
    await expect(fetch(url)).rejects.toThrow()
  })

  it('says that modules are still loading when an import takes too long', async () => {
    const slow = folder({
      'mcp.config.json': { server: { http: { port: 0 } } },
      'modules/slow.mjs': `await new Promise((resolve) => setTimeout(resolve, 6_000))\n${lateModule}`,
    })
    onTestFinished(() => slow.remove())
    const { io, out, stop } = terminal(slow.dir)
    const served = run(['serve', '--config', 'mcp.config.json'], io)
    await vi.waitFor(() => expect(out()).toContain('Pegboard serves at'), { timeout: 30_000 })
    expect(out()).toMatch(/\nSo far \d+ tools in \d+ categor(y|ies), shown in /)
    expect(out()).toContain('Some modules are still loading. Clients get their tools when they are ready.\n')
    await vi.waitFor(() => expect(out()).toMatch(/\nAll modules are loaded: \d+ tools in \d+ categories, shown in /), {
      timeout: 20_000,
    })
    stop()
    expect(await served).toBe(0)
  }, 60_000)

  it('prints facts as JSON for scripts, and keeps the token for the next start', async () => {
    const tokens: string[] = []
    for (let start = 0; start < 2; start++) {
      const { io, out, stop } = terminal(at.dir)
      const served = run(['serve', '--http', '--port', '0', '--json'], { ...io, terminal: { out: true, err: false } })
      await vi.waitFor(() => expect(out()).toContain('\n'), { timeout: 5_000 })
      const facts = JSON.parse(out())
      expect(facts).toMatchObject({ url: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+\/mcp$/), failed: [] })
      expect(readFileSync(facts.tokenFile, 'utf8')).toBe(`${facts.token}\n`)
      tokens.push(facts.token)
      stop()
      expect(await served).toBe(0)
    }
    expect(tokens[0]).toBe(tokens[1])
  })

  it.each([
    ['the token that it created', {}, join('.state', 'token')],
    ['the token of the configuration', { token: 'operator-token-0123456789' }, undefined],
  ])(
    'prints %s only to a terminal: a pipe gets the place of the token, and no link that logs in',
    async (_, http, file) => {
      writeFileSync(join(at.dir, 'piped.json'), JSON.stringify({ server: { http: { port: 0, ...http } } }))
      const printed = async (...flags: string[]): Promise<string> => {
        const { io, out, err, stop } = terminal(at.dir, false)
        const served = run(['serve', '--http', '--config', 'piped.json', ...flags], io)
        await vi.waitFor(() => expect(out()).toContain('/ui'), { timeout: 15_000 })
        stop()
        expect(await served).toBe(0)
        expect(err()).not.toContain('/ui#')
        return out() + err()
      }
      const [text, json] = [await printed(), await printed('--json')]
      const token = file === undefined ? 'operator-token-0123456789' : readFileSync(join(at.dir, file), 'utf8').trim()
      for (const all of [text, json]) {
        expect(all).not.toContain(token)
        expect(all).not.toContain('/ui#')
      }
      expect(text).toMatch(/\nIts page: http:\/\/127\.0\.0\.1:\d+\/ui \(to open it, run pegboard --config \S+ ui\)\n/)
      expect(text).toContain('"Authorization": "Bearer TOKEN"')
      const source = file === undefined ? 'the value of server.http.token' : `the token in ${join(at.dir, file)}`
      expect(text).toContain(
        `\nReplace TOKEN below with ${source}, or with one from pegboard --config ${join(at.dir, 'piped.json')} token create.\n`,
      )
      const facts = JSON.parse(json.split('\n', 1)[0] ?? '')
      expect(facts).toMatchObject({ page: expect.stringMatching(/\/ui$/) })
      expect(facts.tokenFile).toBe(file === undefined ? undefined : join(at.dir, file))
    },
  )

  it('serves one profile with --profile, and rejects an unknown one', async () => {
    writeFileSync(
      join(at.dir, 'profiles.json'),
      '{"exposure":{"primitives":false},"profiles":{"notes":{"use":["notes"]}}}',
    )
    const { io, input, output, err } = terminal(at.dir, false)
    const served = run(['serve', '--profile', 'notes', '--config', 'profiles.json'], io)
    const client = newClient()
    await client.connect(new StreamTransport(output, input) as never)
    expect(await names(client)).toEqual(['notes__add', 'notes__read'])
    await vi.waitFor(() => expect(err()).toContain('2 tools in 1 category'), { timeout: 5_000 })
    await client.close()
    expect(await served).toBe(0)
    const other = terminal(at.dir, false)
    expect(await run(['serve', '--profile', 'nobody', '--config', 'profiles.json'], other.io)).toBe(2)
    expect(other.err()).toContain('there is no profile "nobody"; the configuration has notes')
  })

  it('prints the addresses of profiles', async () => {
    writeFileSync(join(at.dir, 'addresses.json'), '{"profiles":{"notes":{"use":["notes"]},"guild-42":{}}}')
    const { io, out, stop } = terminal(at.dir)
    const served = run(['serve', '--http', '--port', '0', '--profile', 'guild-42', '--config', 'addresses.json'], io)
    await vi.waitFor(() => expect(out()).toContain('VS Code'), { timeout: 5_000 })
    const [, url = ''] = /Pegboard serves at (\S+)/.exec(out()) ?? []
    expect(out()).toContain(`\nProfiles: ${url}/notes ${url}/guild-42\n`)
    expect(out()).toContain('"--profile",\n        "guild-42"')
    stop()
    expect(await served).toBe(0)
  })

  it('writes TOKEN into snippets if it only knows digests, and says so', async () => {
    writeFileSync(join(at.dir, 'made.json'), '{"server":{"http":{"host":"0.0.0.0","port":0}}}')
    await pegboard(at.dir, 'token', 'create', 'ann', '--config', 'made.json')
    const { io, out, stop } = terminal(at.dir)
    const served = run(['serve', '--config', 'made.json'], io)
    await vi.waitFor(() => expect(out()).toContain('VS Code'), { timeout: 30_000 })
    expect(out()).toContain('"Authorization": "Bearer TOKEN"')
    expect(out()).toContain(
      '\nIt listens on every address of this machine. To allow clients on other machines, add its host names to server.http.allowedHosts.\n',
    )
    expect(out()).toContain(
      '\nReplace TOKEN below with a token from server.http.tokens, or with one from pegboard --config made.json token create.\n',
    )
    stop()
    expect(await served).toBe(0)
  }, 60_000)

  it('refuses to listen on all interfaces without authentication', async () => {
    writeFileSync(join(at.dir, 'open.json'), '{"server":{"http":{"auth":"none","host":"0.0.0.0","port":0}}}')
    const { io, err } = terminal(at.dir)
    expect(await run(['serve', '--config', 'open.json'], io)).toBe(1)
    expect(err()).toContain('pegboard: E_CONFIG_AUTH: server.http.auth is "none"')
  })
})
