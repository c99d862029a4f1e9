import type { ServerResponse } from 'node:http'
import { expect, it } from 'vitest'
import { until, withServers } from '../upstream/host.ts'
import { listenOnFreePort } from '../upstream/oauth/oauth-servers.ts'

it('a remote server with endless pings holds at most 32 connections, its calls still work, and Node warns of nothing', async () => {
  const warned: string[] = []
  const warn = ({ name }: Error): void => void warned.push(name)
  process.on('warning', warn)
  let unanswered = 0
  let stream: ServerResponse | undefined
  const results: Readonly<Record<string, object>> = {
    initialize: {
      protocolVersion: '2025-11-25',
      capabilities: { tools: {} },
      serverInfo: { name: 'web', version: '1' },
    },
    'tools/list': { tools: [{ name: 'who', inputSchema: { type: 'object' } }] },
    'tools/call': { content: [{ type: 'text', text: 'me' }] },
  }
  const { origin, close } = await listenOnFreePort(() => async (request, response) => {
    if (request.method === 'GET') {
      stream = response.writeHead(200, { 'content-type': 'text/event-stream' })
      return void response.flushHeaders()
    }
    let body = ''
    for await (const chunk of request) body += String(chunk)
    const { id, method } = JSON.parse(body || '{}')
    // It never reads the answers.
    if (method === undefined && id !== undefined) return void unanswered++
    if (id === undefined) return void response.writeHead(202).end()
    const result = results[method]
    const error = { code: -32601, message: 'no such method' }
    response.writeHead(200, { 'content-type': 'application/json', 'mcp-session-id': 's' })
    response.end(JSON.stringify({ jsonrpc: '2.0', id, ...(result ? { result } : { error }) }))
  })
  try {
    await withServers({ web: { url: `${origin}/mcp`, start: 'background' } }, async ({ text }) => {
      await until(() => stream !== undefined)
      for (let n = 0; n < 500; n++)
        stream?.write(`data: ${JSON.stringify({ jsonrpc: '2.0', id: `p${n}`, method: 'ping' })}\n\n`)
      await until(() => unanswered >= 32)
      expect(await text('mcp_web.who')).toBe('me')
      expect(unanswered).toBe(32)
      expect(warned).toEqual([])
    })
  } finally {
    process.off('warning', warn)
    close()
  }
})
