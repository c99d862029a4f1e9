import { type ChildProcess, spawn } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Client } from '@modelcontextprotocol/client'
import { expect, it, onTestFinished } from 'vitest'
import type { App } from '../../src/app/app.ts'
import { answerOf, startApp, temporaryFolder } from '../app.ts'
import { connectTo } from '../client.ts'

/** Servers of every era and transport, recorded through one Pegboard and replayed without any of them. */
const fixture = join(import.meta.dirname, '../fixtures/upstreams/eras.mjs')
const relay = ['elicitation', 'sampling', 'roots']

async function listening(children: ChildProcess[], ...args: string[]): Promise<number> {
  const child = spawn(process.execPath, [fixture, ...args], { stdio: ['pipe', 'ignore', 'pipe'] })
  children.push(child)
  return new Promise((resolve, reject) => {
    let output = ''
    child.stderr?.on('data', (chunk: Buffer) => {
      output += chunk
      const found = /port (\d+)/.exec(output)
      if (found) resolve(Number(found[1]))
    })
    child.once('exit', () => reject(new Error(output)))
  })
}

async function answering(app: App, name = 'Ann'): Promise<Client> {
  const client = await connectTo(app, 'legacy', {
    capabilities: { elicitation: { form: {}, url: {} }, sampling: {}, roots: {} },
  })
  client.setRequestHandler('elicitation/create', () => ({ action: 'accept', content: { name } }))
  client.setRequestHandler('sampling/createMessage', () => ({
    role: 'assistant',
    model: 'm',
    content: { type: 'text', text: 'a thought' },
  }))
  client.setRequestHandler('roots/list', () => ({ roots: [{ uri: 'file:///home/ann', name: 'home' }] }))
  return client
}

/** Everything that a client can ask one of the servers. */
async function visit(client: Client, id: string): Promise<unknown> {
  const text = async (tool: string, input: object = {}): Promise<unknown> => {
    const { content, isError } = await client.callTool({ name: `${id}__${tool}`, arguments: { ...input } })
    return { text: (content as Array<{ text?: string }>)[0]?.text, isError }
  }
  let steps = 0
  return {
    echo: await text('echo', { text: 'one' }),
    again: await text('echo', { text: 'two' }),
    ask: await text('ask'),
    think: await text('think'),
    roots: await text('roots'),
    burst: await client.callTool({ name: `${id}__burst`, arguments: {} }, { onprogress: () => steps++ }),
    steps,
    resource: await client.readResource({ uri: `${id}://one` }),
    asking: await client.readResource({ uri: `${id}://asking` }),
    templates: (await client.listResourceTemplates()).resourceTemplates.filter(({ uriTemplate }) =>
      uriTemplate.startsWith(id),
    ),
    prompt: await client.getPrompt({ name: `${id}__hello`, arguments: { who: 'Bob' } }),
    missing: await client.callTool({ name: `${id}__nothing`, arguments: {} }).catch((error: Error) => error.message),
  }
}

it('replays servers of every era and transport exactly as recorded, without starting or reaching one', async () => {
  const children: ChildProcess[] = []
  onTestFinished(() => children.forEach((child) => void child.kill('SIGKILL')))
  const cassettes = join(temporaryFolder(), 'cassettes')
  const stdio = (...args: string[]) => ({ command: process.execPath, args: [fixture, ...args], relay })
  const http = (port: number, path = '/mcp') => ({ url: `http://127.0.0.1:${port}${path}`, relay })
  const live = {
    'raw-stdio': stdio('raw-stdio', 'raw', 'stdio', '2025-06-18'),
    'v1-stdio': stdio('v1-stdio', 'v1', 'stdio'),
    'v2-stdio': stdio('v2-stdio', 'v2', 'stdio'),
    'v1-sse': http(await listening(children, 'v1-sse', 'v1', 'sse'), '/sse'),
    'v1-http': http(await listening(children, 'v1-http', 'v1', 'http')),
    'v2-http': http(await listening(children, 'v2-http', 'v2', 'http')),
  }
  const ids = Object.keys(live)
  const visitAll = async (app: App): Promise<Record<string, unknown>> => {
    const client = await answering(app)
    const seen: Record<string, unknown> = { tools: (await client.listTools()).tools }
    for (const id of ids) seen[id] = await visit(client, id)
    await client.close()
    return seen
  }
  const exposure = { mode: 'direct' }
  const first = await startApp({ exposure, mcpServers: live }, undefined, { record: cassettes })
  await first.app.settled(30_000)
  const recorded = await visitAll(first.app)
  await first.app.stop()
  for (const child of children) child.kill('SIGKILL')
  expect(readdirSync(cassettes).sort()).toEqual(ids.map((id) => `${id}.json`).sort())
  expect(recorded).toMatchObject({
    'v1-stdio': { ask: { text: 'accept Ann' }, think: { text: 'a thought' }, steps: 50 },
    'v2-http': { ask: { text: 'accept Ann' }, steps: 50 },
  })

  const gone = (entry: object) => ('url' in entry ? entry : { ...entry, command: '/nowhere/server' })
  const offline = Object.fromEntries(Object.entries(live).map(([id, entry]) => [id, gone(entry)]))
  const second = await startApp({ exposure, mcpServers: offline }, undefined, { replay: cassettes })
  expect(await visitAll(second.app)).toEqual(recorded)

  const other = await answering(second.app, 'Bob')
  for (const id of ['v1-stdio', 'v1-http', 'v2-stdio', 'v2-http']) {
    const refused = answerOf(await other.callTool({ name: `${id}__ask`, arguments: {} }))
    expect(refused.error.code, id).toBe('E_NOT_RECORDED')
  }
  await other.close()
})
