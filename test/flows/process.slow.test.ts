import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { request } from 'node:http'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { Client as OldClient } from '@modelcontextprotocol/sdk/client/index.js'
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js'
import { describe, expect, it } from 'vitest'
import type { Answer } from '../app.ts'
import { cli, place, run, serveHttp, talkTo } from '../process.ts'
import { until } from '../upstream/host.ts'

const noisy = `
export default {
  name: 'noisy', description: 'Prints where it should not.',
  tools: { shout: { description: 'Prints to stdout and answers.', effect: 'read', run() { console.log('loud'); process.stdout.write('louder\\n'); return 'said' } } },
}`

const inspector = join(import.meta.dirname, '../../node_modules/@modelcontextprotocol/inspector/cli/build/cli.js')

describe('on stdio', () => {
  it('a broken pipe of a module, or a client that does not read logs, does not end the server', async () => {
    const broken = `
import { spawn } from 'node:child_process'
export default { name: 'pipes', description: 'Breaks its own pipe.', tools: { break: { description: 'Writes where nobody reads.', effect: 'write', run() {
  const child = spawn('sh', ['-c', 'exec 0<&-; sleep 0.2'], { stdio: ['pipe', 'ignore', 'ignore'] })
  const timer = setInterval(() => child.stdin.write('x'.repeat(100000)), 10)
  setTimeout(() => clearInterval(timer), 400)
  return 'broken'
} } } }`
    const { child, send, answer } = await talkTo(place({}, { 'pipes.mjs': broken }))
    child.stderr?.destroy()
    send({ id: 1, method: 'tools/call', params: { name: 'pipes__break', arguments: {} } })
    await answer(1)
    await sleep(600)
    for (let id = 10; id < 200; id++) child.stdin?.write('not json\n')
    send({ id: 2, method: 'ping' })
    expect(((await answer(2)) as Answer).result).toEqual({})
    const ended = once(child, 'exit')
    child.stdin?.end()
    expect(await ended).toEqual([0, null])
  })

  it('a call or search before its module is loaded waits for it', async () => {
    const late = `
await new Promise((resolve) => setTimeout(resolve, 3_000))
export default { name: 'late', description: 'Takes its time.', tools: { come: { description: 'Comes late.', effect: 'read', run: () => 'came' } } }`
    const { send, answer } = await talkTo(place({}, { 'late.mjs': late }))
    send({ id: 1, method: 'tools/call', params: { name: 'late__come', arguments: {} } })
    send({ id: 2, method: 'tools/call', params: { name: 'search_tools', arguments: { query: 'come late' } } })
    expect(((await answer(1)) as Answer).result.content[0].text).toBe('came')
    expect(((await answer(2)) as Answer).result.structuredContent.tools[0].name).toBe('late.come')
  })

  it('a module dropped into the folder is found without a restart [DIG-15, DIG-29, SBS-02, SBS-14]', async () => {
    const here = place({ exposure: { mode: 'direct' } })
    const { send, answer, messages } = await talkTo(here)
    send({ id: 1, method: 'tools/list' })
    const names = async (id: number) =>
      ((await answer(id)) as Answer).result.tools.map(({ name }: { name: string }) => name)
    expect(await names(1)).not.toContain('echo__say')
    // Pegboard watches the folder after the first list.
    await sleep(500)
    writeFileSync(
      join(here.dir, 'modules/echo.mjs'),
      `export default { name: 'echo', description: 'Echoes what it gets.', tools: { say: { description: 'Says the text again, unchanged.', effect: 'read', input: { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] }, run: ({ text }) => text } } }`,
    )
    for (
      let tries = 0;
      tries < 600 && !messages.some(({ method }) => method === 'notifications/tools/list_changed');
      tries++
    )
      await sleep(50)
    send({ id: 2, method: 'tools/list' })
    expect(await names(2)).toContain('echo__say')
    send({
      id: 3,
      method: 'tools/call',
      params: { name: 'search_tools', arguments: { query: 'say the same text again' } },
    })
    expect(((await answer(3)) as Answer).result.structuredContent.tools[0].name).toBe('echo.say')
    send({ id: 4, method: 'tools/call', params: { name: 'echo__say', arguments: { text: 'hello' } } })
    expect(((await answer(4)) as Answer).result.content[0].text).toBe('hello')
    send({ id: 5, method: 'tools/call', params: { name: 'list_categories', arguments: {} } })
    expect(
      ((await answer(5)) as Answer).result.structuredContent.categories.map(({ id }: { id: string }) => id),
    ).toContain('echo')
  })

  it('an edited configuration is applied, a broken one is not', async () => {
    const here = place({ exposure: { mode: 'direct' } }, { 'noisy.mjs': noisy })
    const { send, answer } = await talkTo(here)
    send({ id: 1, method: 'tools/list' })
    await answer(1)
    await sleep(500)
    writeFileSync(here.config, '{ broken')
    await sleep(600)
    send({ id: 2, method: 'tools/call', params: { name: 'noisy__shout', arguments: {} } })
    expect(((await answer(2)) as Answer).result.isError).toBeUndefined()
    writeFileSync(here.config, JSON.stringify({ exposure: { mode: 'direct' }, policy: { deny: ['noisy.*'] } }))
    let denied: Answer
    for (let id = 10; id < 600; id++) {
      send({ id, method: 'tools/call', params: { name: 'noisy__shout', arguments: {} } })
      denied = ((await answer(id)) as Answer).error
      if (denied) break
      await sleep(50)
    }
    expect(denied.data.code).toBe('E_NOT_FOUND')
  })
})

describe('the schema command', () => {
  it('prints every tool of a module with its parameters [DIG-26]', async () => {
    const { config, env } = place()
    const { stdout } = await run(process.execPath, [cli, 'schema', 'hello', '--json', '--config', config], { env })
    const { actions } = JSON.parse(stdout) as Answer
    expect(actions.map(({ parameters }: Answer) => parameters.type)).toEqual(['object', 'object', 'object'])
  })
})

describe('over HTTP', () => {
  it('one process serves both eras and HTTP+SSE, with the same tools', async () => {
    const { url, token } = await serveHttp(place({ exposure: { mode: 'direct' } }, { 'noisy.mjs': noisy }))
    const headers = { authorization: `Bearer ${token}` }
    for (const mode of ['legacy', 'auto'] as const) {
      const client = new Client({ name: 'new', version: '1' }, { versionNegotiation: { mode } })
      await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }))
      expect((await client.callTool({ name: 'noisy__shout' })).content).toEqual([{ type: 'text', text: 'said' }])
      await client.close()
    }
    const old = new OldClient({ name: 'old', version: '1' })
    const sse = new URL('/sse', url)
    await old.connect(
      new SSEClientTransport(sse, {
        requestInit: { headers },
        eventSourceInit: {
          fetch: (input, init) => fetch(input, { ...init, headers: { ...headers, accept: 'text/event-stream' } }),
        },
      }) as never,
    )
    expect((await old.listTools()).tools.map(({ name }) => name)).toContain('noisy__shout')
    await old.close()
  })

  it('requests without the token, or from another web origin, are rejected', async () => {
    const { url, token } = await serveHttp(place())
    const status = (headers: Record<string, string>) =>
      new Promise((resolve, reject) => {
        const sent = request(
          url,
          { method: 'POST', headers: { 'content-type': 'application/json', ...headers } },
          (response) => resolve(response.resume().statusCode),
        )
        sent.on('error', reject).end('{}')
      })
    expect(await status({})).toBe(401)
    expect(await status({ authorization: 'Bearer wrong-wrong-wrong' })).toBe(401)
    expect(await status({ authorization: `Bearer ${token}`, origin: 'https://evil.example' })).toBe(403)
    expect(await status({ authorization: `Bearer ${token}`, host: 'evil.example' })).toBe(403)
  })

  it('listening on all interfaces is refused until a token is configured', async () => {
    const { config, env } = place()
    const failed = run(
      process.execPath,
      [cli, 'serve', '--http', '--host', '0.0.0.0', '--port', '0', '--config', config],
      { env, timeout: 10_000 },
    )
    await expect(failed).rejects.toMatchObject({ code: 1, stderr: expect.stringContaining('E_CONFIG_AUTH') })
  })
})

describe('the Inspector', () => {
  it('lists over stdio and calls over HTTP', async () => {
    const here = place({ exposure: { mode: 'direct' } }, { 'noisy.mjs': noisy })
    const list = [
      '--cli',
      '--method',
      'tools/list',
      '--',
      process.execPath,
      cli,
      'serve',
      '--stdio',
      '--config',
      here.config,
    ]
    const listed = await run(process.execPath, [inspector, ...list], { env: here.env })
    expect(JSON.parse(listed.stdout).tools.map(({ name }: { name: string }) => name)).toContain('noisy__shout')
    const { url, token } = await serveHttp(here)
    const call = [
      '--cli',
      url,
      '--transport',
      'http',
      '--header',
      `Authorization: Bearer ${token}`,
      '--method',
      'tools/call',
      '--tool-name',
      'noisy__shout',
    ]
    const called = await run(process.execPath, [inspector, ...call], { env: here.env })
    expect(JSON.parse(called.stdout).content).toEqual([{ type: 'text', text: 'said' }])
  })
})

describe('a state folder that cannot be used', () => {
  it('is logged once, and not every second', async () => {
    const here = place({ server: { http: { token: 'a-token-of-the-operator' } } })
    writeFileSync(String(here.env['PEGBOARD_STATE_DIR']), 'a file')
    const { stderr } = await serveHttp(here)
    await until(() => stderr().includes('tokens cannot be read'))
    await sleep(4_000)
    expect(stderr().match(/tokens cannot be read/g)).toHaveLength(1)
  })
})
