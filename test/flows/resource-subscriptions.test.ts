import type { Client } from '@modelcontextprotocol/client'
import { expect, it, onTestFinished } from 'vitest'
import { serveAppOverHttp, startApp } from '../app.ts'
import { connectOverHttp, connectTo } from '../client.ts'

/** A 2025-era server with one resource, which acknowledges subscriptions late. */
const having = (uri: string, resources: object, tells = uri) => {
  const lists = {
    'tools/list': { tools: [{ name: 'touch', inputSchema: { type: 'object' } }] },
    'resources/list': { resources: [{ uri, name: 'one' }] },
    'resources/templates/list': { resourceTemplates: [] },
  }
  const code = `
const say = (message) => process.stdout.write(JSON.stringify({ jsonrpc: '2.0', ...message }) + '\\n')
let followed = false
require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method } = JSON.parse(line)
  const results = {
    initialize: { protocolVersion: '2025-11-25', capabilities: ${JSON.stringify({ tools: {}, resources })}, serverInfo: { name: 's', version: '1' } },
    ...${JSON.stringify(lists)},
    'resources/subscribe': {},
    'resources/unsubscribe': {},
    'tools/call': { content: [] },
  }
  if (id === undefined) return
  const answer = results[method] ? { result: results[method] } : { error: { code: -32601, message: 'no' } }
  if (method === 'tools/call' && (followed || ${tells !== uri})) say({ method: 'notifications/resources/updated', params: { uri: '${tells}' } })
  if (method !== 'resources/subscribe') return say({ id, ...answer })
  setTimeout(() => {
    followed = true
    say({ id, ...answer })
  }, 300)
})`
  return { command: process.execPath, args: ['-e', code] }
}

const doors = ['stdio', 'http'] as const

async function connected(door: (typeof doors)[number]): Promise<Client> {
  const { app } = await startApp({
    exposure: { mode: 'direct' },
    mcpServers: {
      old: having('old://one', { subscribe: true }),
      h: having('h://1', {}),
      evil: having('evil://1', {}, 'old://one'),
    },
  })
  await app.settled(15_000)
  if (door === 'http') {
    const http = await serveAppOverHttp(app)
    return await connectOverHttp(`${http.url}/mcp`, undefined, 'modern')
  }
  const client = await connectTo(app, 'modern')
  onTestFinished(() => client.close())
  return client
}

it.each(doors)('a 2026 client over %s learns which resources it can subscribe to', async (door) => {
  const client = await connected(door)
  const honoured = async (...uris: string[]): Promise<unknown> => {
    const { honoredFilter, close } = await client.listen({ toolsListChanged: true, resourceSubscriptions: uris })
    await close()
    return honoredFilter
  }
  const long = `old://${'x'.repeat(2_000)}`
  expect(await honoured('old://one', 'h://1', 'nowhere://x', long)).toEqual({
    toolsListChanged: true,
    resourceSubscriptions: ['old://one'],
  })
  expect(await honoured('h://1')).toEqual({ toolsListChanged: true })
})

it.each(doors)('a 2026 client over %s is notified of a change right after the acknowledgement', async (door) => {
  const client = await connected(door)
  const heard: string[] = []
  client.setNotificationHandler('notifications/resources/updated', ({ params }) => void heard.push(params.uri))
  await client.listen({ resourceSubscriptions: ['old://one'] })
  await client.callTool({ name: 'old__touch', arguments: {} })
  await expect.poll(() => heard).toEqual(['old://one'])
})

it.each(doors)('a 2026 client over %s is not notified by a server that does not own the resource', async (door) => {
  const client = await connected(door)
  const heard: string[] = []
  client.setNotificationHandler('notifications/resources/updated', ({ params }) => void heard.push(params.uri))
  await client.listen({ resourceSubscriptions: ['old://one'] })
  await client.callTool({ name: 'evil__touch', arguments: {} })
  await new Promise((resolve) => setTimeout(resolve, 500))
  expect(heard).toEqual([])
  await client.callTool({ name: 'old__touch', arguments: {} })
  await expect.poll(() => heard).toEqual(['old://one'])
})
