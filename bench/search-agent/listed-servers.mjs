// Real definitions of well-known servers over HTTP, one path each. Calls are noted and do nothing.
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'

const DEFINITIONS = fileURLToPath(new URL('../../training/atlas/definitions', import.meta.url))
const ANSWER = 'Done. (This server is part of a measurement and does nothing.)'

function answerTo(method, params, { name, tools }) {
  if (method === 'initialize')
    return {
      protocolVersion: params.protocolVersion,
      capabilities: { tools: {} },
      serverInfo: { name, version: '1' },
    }
  if (method === 'tools/list') return { tools }
  if (method === 'tools/call') return { content: [{ type: 'text', text: ANSWER }] }
  return {}
}

/** @param onCall called with `server/tool` for each call that reaches a server */
export async function listServers(names, onCall) {
  const listed = new Map(
    names.map((name) => [name, { name, ...JSON.parse(readFileSync(`${DEFINITIONS}/${name}.json`, 'utf8')) }]),
  )
  const http = createServer(async (request, response) => {
    const server = listed.get(request.url.slice(1))
    if (request.method !== 'POST' || !server) return response.writeHead(405).end()
    const { id, method, params } = JSON.parse(await text(request))
    if (id === undefined) return response.writeHead(202).end()
    if (method === 'tools/call') onCall(`${server.name}/${params.name}`)
    response.setHeader('content-type', 'application/json')
    response.end(JSON.stringify({ jsonrpc: '2.0', id, result: answerTo(method, params, server) }))
  }).listen(0, '127.0.0.1')
  await new Promise((resolve) => http.once('listening', resolve))
  const { port } = http.address()
  return {
    tools: [...listed.values()].reduce((sum, { tools }) => sum + tools.length, 0),
    servers: Object.fromEntries(names.map((name) => [name, { type: 'http', url: `http://127.0.0.1:${port}/${name}` }])),
    close() {
      http.closeAllConnections()
      http.close()
    },
  }
}
