// An MCP server without an SDK, so that next to nothing of what is measured is its own.
//   node fake-upstream.mjs [--server N] [--tools N] [--name NAME] [--fault silent|no-list|hang] [--http PORT]
// silent answers nothing, no-list answers all but tools/list, hang all but tools/call.
// Over HTTP (0 takes a free port) it prints {"port":N} and answers POSTs with plain JSON.
import { createServer } from 'node:http'
import { parseArgs } from 'node:util'
import { makeTools } from './catalogue.mjs'
import { splitLines } from './lines.mjs'

const { values: options } = parseArgs({
  options: {
    server: { type: 'string', default: '0' },
    tools: { type: 'string', default: '10' },
    name: { type: 'string', default: 'fake' },
    fault: { type: 'string' },
    http: { type: 'string' },
  },
})

const ECHO = {
  name: 'echo',
  description: 'Returns the text it is given, or as many bytes of text as asked for.',
  inputSchema: { type: 'object', properties: { text: { type: 'string' }, bytes: { type: 'integer', minimum: 0 } } },
}
const NEVER = {
  silent: ['initialize', 'tools/list', 'tools/call', 'ping'],
  'no-list': ['tools/list'],
  hang: ['tools/call'],
}
const never = new Set(options.fault === undefined ? [] : NEVER[options.fault])
const sentence = 'Every crate in the shed was counted twice, and once more. '
const long = new Map()

function textOf({ text, bytes }) {
  if (bytes === undefined) return String(text ?? '')
  if (!long.has(bytes)) long.set(bytes, sentence.repeat(Math.ceil(bytes / sentence.length)).slice(0, bytes))
  return long.get(bytes)
}

/** The answer to a request, as JSON text; nothing for a notification or a request that is never answered. */
function answer({ id, method, params }) {
  if (id === undefined || never.has(method)) return undefined
  const send = (key, value) => JSON.stringify({ jsonrpc: '2.0', id, [key]: value })
  switch (method) {
    case 'initialize':
      return send('result', {
        protocolVersion: params.protocolVersion,
        capabilities: { tools: {} },
        serverInfo: { name: options.name, version: '1.0.0' },
      })
    case 'ping':
      return send('result', {})
    case 'tools/list':
      return send('result', { tools: [ECHO, ...makeTools(Number(options.server), Number(options.tools))] })
    case 'tools/call':
      return params.name === 'echo'
        ? send('result', { content: [{ type: 'text', text: textOf(params.arguments ?? {}) }] })
        : send('result', { content: [{ type: 'text', text: `${params.name} was called.` }] })
    default:
      return send('error', { code: -32601, message: `${method} is not offered` })
  }
}

if (options.http === undefined) {
  const read = splitLines((line) => {
    const reply = answer(JSON.parse(line))
    if (reply !== undefined) process.stdout.write(`${reply}\n`)
  })
  process.stdin.on('data', read).on('end', () => process.exit(0))
} else {
  const server = createServer(async (request, response) => {
    const chunks = []
    for await (const chunk of request) chunks.push(chunk)
    const reply = request.method === 'POST' ? answer(JSON.parse(Buffer.concat(chunks).toString())) : undefined
    if (reply === undefined) return response.writeHead(request.method === 'POST' ? 202 : 405).end()
    response
      .writeHead(200, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(reply) })
      .end(reply)
  })
  server.keepAliveTimeout = 60_000
  server.listen(Number(options.http), '127.0.0.1', () => {
    process.stdout.write(`${JSON.stringify({ port: server.address().port })}\n`)
  })
  process.stdin.resume().on('end', () => process.exit(0))
}
