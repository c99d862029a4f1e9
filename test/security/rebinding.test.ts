import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Client } from '@modelcontextprotocol/client'
import { expect, onTestFinished, test } from 'vitest'
import type { Answer } from '../app.ts'
import { StreamTransport } from '../client.ts'
import { cli, place } from '../process.ts'
import { toolsWithUrl } from './call-routes.ts'

/** A public address that is local to this machine here. */
const ADDRESS = '93.184.216.34'
const NAMESPACE = [
  ...(process.getuid?.() === 0 ? [] : ['--user', '--map-root-user']),
  ...['--mount', '--net', '--pid', '--fork', '--kill-child', '--mount-proc'],
]
const ready = `ip link set lo up && ip addr add ${ADDRESS}/32 dev lo`
const canIsolate =
  process.platform === 'linux' &&
  spawnSync('unshare', [...NAMESPACE, 'sh', '-c', `${ready} && mount --bind /etc/hosts /etc/resolv.conf`]).status === 0
if (!canIsolate) process.stderr.write('No networks of their own here: what a name service does is not tested.\n')

/** The program in a separate network, where a name resolves to a public server once and then to this machine. */
async function open() {
  const { dir, config, env } = place({
    exposure: { mode: 'direct' },
    modules: {
      http: { config: { access: 'write', roots: ['cache'] } },
      web: {
        config: {
          access: 'write',
          url_fetch: { file_cache_dir: 'cache', guard: { allowed_url_prefixes: ['http://'] } },
        },
      },
    },
  })
  const log = join(dir, 'network.log')
  mkdirSync(join(dir, 'cache'))
  writeFileSync(join(dir, 'cache/up.txt'), 'x')
  writeFileSync(log, '')
  writeFileSync(join(dir, 'resolv.conf'), 'nameserver 127.0.0.1\n')
  const child = spawn(
    'unshare',
    [
      ...NAMESPACE,
      ...['sh', '-c', `${ready} && mount --bind "$0" /etc/resolv.conf && exec "$@"`, join(dir, 'resolv.conf')],
      ...[process.execPath, join(import.meta.dirname, '../fixtures/rebinding.mjs'), log, ADDRESS],
      ...[process.execPath, cli, 'serve', '--stdio', '--config', config],
    ],
    { env, cwd: dir, stdio: ['pipe', 'pipe', 'ignore'] },
  )
  const ended = once(child, 'exit')
  const client = new Client({ name: 'test', version: '1' })
  await client.connect(new StreamTransport(child.stdout, child.stdin) as never)
  onTestFinished(async () => {
    child.kill('SIGKILL')
    await ended
  })
  const call = async (tool: string, input: object): Promise<Answer> => {
    const name = tool.replace('.', '__')
    const answer = (await client.callTool({ name, arguments: input as never }, { timeout: 60_000 })) as Answer
    if (!answer.isError) return answer.structuredContent
    return { failed: (answer.structuredContent ?? answer._meta?.['pegboard/error'])?.error?.code ?? answer }
  }
  return { call, seen: () => readFileSync(log, 'utf8').trim().split('\n') }
}

test.runIf(canIsolate)(
  'a name that resolves to a public address first and a private one later reaches nothing private, for every tool',
  async () => {
    const { call, seen } = await open()
    const found: Record<string, readonly unknown[]> = {}
    for (const tool of Object.keys(toolsWithUrl(''))) {
      const name = `${tool.replaceAll(/[._ ]/g, '-')}.rebind.example`
      const told: unknown[] = []
      for (let times = 0; times < 3; times++) {
        const answer = await call(
          tool.split(' ')[0] as string,
          toolsWithUrl(`http://${name}/${'x'.repeat(times)}`)[tool] as object,
        )
        const id = answer.download_id
        const over = id === undefined ? answer : await call('http.download_wait', { download_id: id })
        told.push(over.failed ?? over.error?.code ?? 'answered')
      }
      found[tool] = told
    }
    const blocked = ['E_SSRF_BLOCKED', 'E_SSRF_BLOCKED']
    for (const [tool, [first, ...later]] of Object.entries(found)) {
      // Tools that resolve a name before the request get the public address first; a page is not JSON.
      const looks = tool === 'web.fetch_url' || tool === 'web.extract'
      const expected = looks ? 'E_SSRF_BLOCKED' : tool === 'http.json_api' ? 'E_TOOL_FAILED' : 'answered'
      expect([tool, first, ...later]).toEqual([tool, expected, ...blocked])
    }
    const lines = seen()
    expect(lines.filter((line) => line.startsWith('public '))).toHaveLength(12)
    expect(lines.filter((line) => line.endsWith(' 127.0.0.1')).length).toBeGreaterThan(0)
    expect(lines.filter((line) => line.startsWith('private '))).toEqual([])
  },
  120_000,
)

test.runIf(canIsolate)(
  'Pegboard does not follow a redirect to a name that then resolves to this machine',
  async () => {
    const { call, seen } = await open()
    for (const tool of ['http.get', 'http.fetch_page', 'http.head', 'http.options']) {
      const name = `again-${tool.replaceAll(/[._]/g, '-')}.rebind.example`
      expect([tool, (await call(tool, { url: `http://${name}/again` })).failed]).toEqual([tool, 'E_REDIRECT_BLOCKED'])
    }
    expect(seen().filter((line) => line.startsWith('public '))).toHaveLength(4)
    expect(seen().filter((line) => line.startsWith('private '))).toEqual([])
  },
  120_000,
)

test.runIf(canIsolate)(
  'Pegboard reads neither a name of a private address nor a redirect from a public page to this machine [TOM-26]',
  async () => {
    const { call, seen } = await open()
    for (const tool of ['web.fetch_url', 'web.extract']) {
      const name = tool.replaceAll(/[._]/g, '-')
      expect([tool, (await call(tool, { url: `http://private-${name}.rebind.example/` })).failed]).toEqual([
        tool,
        'E_SSRF_BLOCKED',
      ])
      expect([tool, (await call(tool, { url: `http://stays-${name}.rebind.example/inside` })).failed]).toEqual([
        tool,
        'E_REDIRECT_BLOCKED',
      ])
      expect(JSON.stringify(await call(tool, { url: `http://stays-${name}.rebind.example/` }))).toContain('public page')
    }
    expect(seen().filter((line) => line.startsWith('public ')).length).toBeGreaterThanOrEqual(4)
    expect(seen().filter((line) => line.startsWith('private '))).toEqual([])
  },
  120_000,
)
