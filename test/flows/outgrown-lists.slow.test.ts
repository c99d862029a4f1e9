import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import type { Client } from '@modelcontextprotocol/client'
import { describe, expect, it, onTestFinished } from 'vitest'
import { serveAppOverHttp, startApp, temporaryFolder } from '../app.ts'
import { connectOverHttp, connectTo } from '../client.ts'

const BUDGET = 16_000 * 0.5
const settings = { exposure: { contextWindow: 16_000, share: 0.5, tokensPerTool: 10 } }

/** An API with 300 operations whose document is sent when the test says so. */
async function slowApi() {
  const paths = Object.fromEntries(
    Array.from({ length: 300 }, (_, n) => [
      `/things/${n}`,
      {
        get: { operationId: `get_thing_${n}`, summary: `Returns thing ${n}.`, responses: { 200: { description: '' } } },
      },
    ]),
  )
  let send = (): void => undefined
  const ready = new Promise<void>((resolve) => {
    send = resolve
  })
  const server = createServer(async (_request, response) => {
    await ready
    response.setHeader('content-type', 'application/json')
    response.end(JSON.stringify({ openapi: '3.0.3', info: { title: 'Things', version: '1' }, paths }))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return { send, entry: { document: `${url}/api.json`, baseUrl: url, allowPrivate: true } }
}

/** A server with 300 tools that answers its first request when a file exists. */
const slowServer = (file: string) => ({
  command: process.execPath,
  args: [
    '-e',
    `
const { existsSync } = require('node:fs')
const tools = Array.from({ length: 300 }, (_, n) => ({ name: 'get_thing_' + n, description: 'Returns thing ' + n + '.', inputSchema: { type: 'object' } }))
const results = { initialize: { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo: { name: 's', version: '1' } }, 'tools/list': { tools } }
const lines = require('node:readline').createInterface({ input: process.stdin })
const wait = setInterval(() => {
  if (!existsSync(${JSON.stringify(file)})) return
  clearInterval(wait)
  open()
}, 20)
const waiting = []
let open = () => { open = undefined; for (const line of waiting) answer(line) }
lines.on('line', (line) => (open ? waiting.push(line) : answer(line)))
function answer(line) {
  const { id, method } = JSON.parse(line)
  if (id === undefined) return
  console.log(JSON.stringify({ jsonrpc: '2.0', id, ...(results[method] ? { result: results[method] } : { error: { code: -32601, message: 'no' } }) }))
}`,
  ],
  start: 'eager',
})

/** Lists before and after `send`, and checks that the second list is a notified, short one. */
async function outgrows(client: Client, send: () => void): Promise<void> {
  let changed = 0
  client.setNotificationHandler('notifications/tools/list_changed', () => {
    changed++
  })
  const first = await client.listTools()
  expect(first.tools.length).toBeGreaterThan(0)
  expect(first.tools.map(({ name }) => name)).not.toContain('search_tools')
  send()
  await expect.poll(() => changed, { timeout: 20_000 }).toBeGreaterThan(0)
  const { tools } = await client.listTools()
  expect(tools.map(({ name }) => name)).toContain('search_tools')
  expect(JSON.stringify(tools).length / 4).toBeLessThan(BUDGET)
}

describe('a client that listed all tools while an owner was still being read', () => {
  it('gets a changed list within the budget when an API turns out to be too large', async () => {
    const { send, entry } = await slowApi()
    const { app } = await startApp({ ...settings, openapi: { things: entry }, modules: { hello: {} } })
    const client = await connectTo(app, 'legacy')
    onTestFinished(() => client.close())
    await outgrows(client, send)
  }, 60_000)

  it('gets it over HTTP without sessions, too', async () => {
    const { send, entry } = await slowApi()
    const { app } = await startApp({ ...settings, openapi: { things: entry }, modules: { hello: {} } })
    const http = await serveAppOverHttp(app)
    const client = await connectOverHttp(`${http.url}/mcp`, undefined, 'modern')
    const { tools } = await client.listTools()
    expect(tools.map(({ name }) => name)).not.toContain('search_tools')
    send()
    await expect
      .poll(async () => (await client.listTools()).tools.map(({ name }) => name), { timeout: 20_000 })
      .toContain('search_tools')
  }, 60_000)

  it('gets it when a server turns out to be too large', async () => {
    const dir = temporaryFolder()
    const { app } = await startApp(
      { ...settings, mcpServers: { things: slowServer(join(dir, 'go')) }, modules: { hello: {} } },
      dir,
    )
    const client = await connectTo(app, 'legacy')
    onTestFinished(() => client.close())
    await outgrows(client, () => writeFileSync(join(dir, 'go'), ''))
  }, 60_000)

  it('keeps the full list when the API fits', async () => {
    const { send, entry } = await slowApi()
    const { app } = await startApp({
      exposure: { ...settings.exposure, contextWindow: 1_000_000 },
      openapi: { things: entry },
    })
    const client = await connectTo(app, 'legacy')
    onTestFinished(() => client.close())
    await client.listTools()
    send()
    await expect
      .poll(async () => (await client.listTools()).tools.length, { timeout: 20_000 })
      .toBeGreaterThanOrEqual(300)
  }, 60_000)
})
