import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { Client as OldClient } from '@modelcontextprotocol/sdk/client/index.js'
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js'
import { expect, it, onTestFinished, vi } from 'vitest'
import { run } from '../../src/cli/run-command.ts'
import { folder, terminal } from './terminal.ts'

const dice = (total: string): string => `import { defineModule, z } from 'pegboard'

interface Throw {
  readonly count: number
}

export default defineModule({
  name: 'dice',
  description: 'Throws dice and adds them up.',
  tools: {
    throw: {
      description: 'Throws some dice and adds them up.',
      effect: 'read',
      input: z.object({ count: z.int() }),
      run: ({ count }: Throw) => ({ total: ${total} * count }),
    },
  },
})
`

it('serve on a terminal prints a line for each connection, call, rejected token, bug and accepted edit, and at the end', async () => {
  const settings = { server: { http: { port: 0 } }, exposure: { mode: 'direct' }, loader: { importTimeoutMs: 60_000 } }
  const at = folder({ 'mcp.config.json': settings, 'modules/dice.ts': dice('totl') })
  onTestFinished(() => at.remove())
  const { io, out, err, stop } = terminal(at.dir)
  const served = run(['serve', '--config', 'mcp.config.json'], { ...io, terminal: { out: true, err: true } })
  await vi.waitFor(() => expect(out()).toContain('VS Code'), { timeout: 15_000 })
  const [, url = ''] = /Pegboard serves at (\S+)/.exec(out()) ?? []
  const [, token = ''] = /Bearer ([\w-]+)/.exec(out()) ?? []
  expect((await fetch(url, { method: 'POST', body: '{}' })).status).toBe(401)
  expect(err()).toMatch(/^\d\d:\d\d:\d\d refused a request without a valid token from \S+$/m)

  const client = new Client({ name: 'robot', version: '2.0' }, { versionNegotiation: { mode: 'legacy' } })
  const headers = { Authorization: `Bearer ${token}` }
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }))
  await vi.waitFor(() => expect(err()).toMatch(/^\d\d:\d\d:\d\d robot 2\.0 connected \(local\)$/m))
  const call = () => client.callTool({ name: 'dice__throw', arguments: { count: 2 } })
  await vi.waitFor(async () => expect(JSON.stringify(await call())).toContain('E_INTERNAL'), { timeout: 60_000 })
  await vi.waitFor(() => expect(err()).toMatch(/^pegboard: dice\.ts:15 totl is not defined \(dice\.throw, [\w-]+\)$/m))
  expect(err()).not.toContain('    at ')

  await vi.waitFor(
    async () => {
      writeFileSync(join(at.dir, 'modules/dice.ts'), dice('6'))
      await vi.waitFor(() => expect(err()).toMatch(/^\d\d:\d\d:\d\d dice\.ts loaded$/m), { timeout: 2_000 })
    },
    { timeout: 15_000 },
  )
  expect((await call()).structuredContent).toEqual({ total: 12 })
  await vi.waitFor(() => expect(err()).toMatch(/^\d\d:\d\d:\d\d dice\.throw: ok, \d+ ms \(local\)$/m))

  writeFileSync(join(at.dir, 'mcp.config.json'), JSON.stringify({ ...settings, policy: { deny: ['hello.*'] } }))
  await vi.waitFor(() => expect(err()).toMatch(/^\d\d:\d\d:\d\d configuration reloaded: .*policy/m), {
    timeout: 15_000,
  })
  await client.close()
  stop()
  expect(await served).toBe(0)
  expect(err()).toMatch(/^\d\d:\d\d:\d\d stopping after SIGTERM$/m)
}, 120_000)

const cjs = `const { twice } = require('./_twice.cjs')

module.exports = {
  name: 'dice',
  description: 'Throws dice and adds them up.',
  tools: {
    throw: {
      description: 'Throws some dice and adds them up.',
      effect: 'read',
      input: { type: 'object', properties: { count: { type: 'integer' } } },
      run({ count }) {
        return { total: count > 1 ? twice(count) : total }
      },
    },
  },
}
`

it('prints a line for each new client of 2026 and of the SSE transport, and for a bug in a CommonJS drop-in', async () => {
  const at = folder({
    'mcp.config.json': { server: { http: { port: 0 } }, exposure: { mode: 'direct' } },
    'modules/dice.cjs': cjs,
    'modules/_twice.cjs': 'exports.twice = (n) =>\n  n + missing\n',
  })
  onTestFinished(() => at.remove())
  const { io, out, err, stop } = terminal(at.dir)
  const served = run(['serve', '--config', 'mcp.config.json'], { ...io, terminal: { out: true, err: true } })
  await vi.waitFor(() => expect(out()).toContain('VS Code'), { timeout: 15_000 })
  const [, url = ''] = /Pegboard serves at (\S+)/.exec(out()) ?? []
  const [, token = ''] = /Bearer ([\w-]+)/.exec(out()) ?? []
  const headers = { Authorization: `Bearer ${token}` }

  const modern = async (name: string): Promise<Client> => {
    const client = new Client({ name, version: '3.0' }, { versionNegotiation: { mode: { pin: '2026-07-28' } } })
    await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }))
    await client.listTools()
    return client
  }
  const first = await modern('android')
  const others = [await modern('android'), await modern('drone')]
  const older = new OldClient({ name: 'clock', version: '1.0' })
  await older.connect(new SSEClientTransport(new URL(url.replace('/mcp', '/sse')), { requestInit: { headers } }))
  const connected = () => [...err().matchAll(/^\d\d:\d\d:\d\d (.*) connected \(local\)$/gm)].map(([, name]) => name)
  await vi.waitFor(() => expect(connected()).toEqual(['android 3.0', 'drone 3.0', 'clock 1.0']))

  const call = (count: number) => first.callTool({ name: 'dice__throw', arguments: { count } })
  await vi.waitFor(async () => expect(JSON.stringify(await call(1))).toContain('E_INTERNAL'), { timeout: 60_000 })
  await vi.waitFor(() =>
    expect(err()).toMatch(/^pegboard: dice\.cjs:12 total is not defined \(dice\.throw, [\w-]+\)$/m),
  )
  await call(2)
  await vi.waitFor(() =>
    expect(err()).toMatch(/^pegboard: _twice\.cjs:2 missing is not defined \(dice\.throw, [\w-]+\)$/m),
  )
  expect(err()).not.toContain('    at ')
  for (const client of [first, ...others, older]) await client.close()
  stop()
  expect(await served).toBe(0)
}, 120_000)

it('a port in use has its own error code', async () => {
  const { createServer } = await import('node:net')
  const other = createServer().listen(0, '127.0.0.1')
  onTestFinished(() => void other.close())
  await vi.waitFor(() => expect(other.address()).not.toBeNull())
  const { port } = other.address() as { port: number }
  const at = folder({ 'mcp.config.json': {} })
  onTestFinished(() => at.remove())
  const { io, err } = terminal(at.dir)
  expect(await run(['serve', '--config', 'mcp.config.json', '--port', String(port)], io)).not.toBe(0)
  expect(err()).toContain(`E_ADDRESS_UNAVAILABLE: Port ${port} on 127.0.0.1 is in use. Stop the program that uses it`)
}, 60_000)

it('a server that refuses connections is shown to the operator with its host', async () => {
  const at = folder({ 'mcp.config.json': { mcpServers: { gone: { url: 'http://127.0.0.1:9/mcp' } } } })
  onTestFinished(() => at.remove())
  const { io, out, err } = terminal(at.dir)
  await run(['list', 'servers', '--config', 'mcp.config.json'], io)
  expect(out() + err()).toContain('ECONNREFUSED (127.0.0.1:9)')
}, 120_000)
