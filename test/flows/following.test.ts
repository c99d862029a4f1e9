import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { expect, it, onTestFinished } from 'vitest'
import { listenToAll, startApp } from '../app.ts'
import { connectTo } from '../client.ts'

/** A 2025-era server with one resource. */
const having = (uri: string, resources: object) => {
  const code = `
require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method } = JSON.parse(line)
  const results = {
    initialize: { protocolVersion: '2025-11-25', capabilities: ${JSON.stringify({ resources })}, serverInfo: { name: 's', version: '1' } },
    'resources/list': { resources: [{ uri: '${uri}', name: 'one' }] },
    'resources/templates/list': { resourceTemplates: [] },
    'resources/subscribe': {},
    'resources/unsubscribe': {},
  }
  if (id === undefined) return
  const answer = results[method] ? { result: results[method] } : { error: { code: -32601, message: 'no' } }
  process.stdout.write(JSON.stringify({ jsonrpc: '2.0', id, ...answer }) + '\\n')
})`
  return { command: process.execPath, args: ['-e', code] }
}

it.each(['stdio', 'http'] as const)('a 2026 client over %s is told which resources can be followed', async (door) => {
  const { app } = await startApp({
    mcpServers: { old: having('old://one', { subscribe: true }), h: having('h://1', {}) },
  })
  await app.settled(15_000)
  let client: Client
  if (door === 'stdio') client = await connectTo(app, 'modern')
  else {
    const http = await listenToAll(app)
    onTestFinished(() => http.close())
    client = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode: { pin: '2026-07-28' } } })
    await client.connect(new StreamableHTTPClientTransport(new URL('/mcp', http.url)))
  }
  onTestFinished(() => client.close())
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
