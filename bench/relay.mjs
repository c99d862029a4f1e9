// The floor: the least a process between a client and its servers can do. No SDK, no checks, no policy. Not a product.
//   node relay.mjs --config FILE
import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { splitLines } from './lines.mjs'

const file = process.argv[process.argv.indexOf('--config') + 1]
const { mcpServers } = JSON.parse(readFileSync(file, 'utf8'))
const say = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`)

function connect(id, { command, args }) {
  const child = spawn(command, args, { stdio: ['pipe', 'pipe', 'ignore'] })
  const waiting = new Map()
  let last = 0
  const ask = (method, params, done) => {
    waiting.set(++last, done)
    child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', id: last, method, params })}\n`)
  }
  child.stdin.on('error', () => undefined)
  child.stdout.on(
    'data',
    splitLines((line) => {
      const message = JSON.parse(line)
      waiting.get(message.id)?.(message)
      waiting.delete(message.id)
    }),
  )
  const clientInfo = { name: 'relay', version: '1.0.0' }
  const tools = new Promise((resolve, reject) => {
    child.on('error', reject)
    ask('initialize', { protocolVersion: '2025-06-18', capabilities: {}, clientInfo }, () =>
      ask('tools/list', {}, ({ result }) => resolve(result.tools)),
    )
  })
  return { id, ask, tools, stop: () => child.kill() }
}

const servers = new Map(Object.entries(mcpServers).map(([id, entry]) => [id, connect(id, entry)]))

async function listed() {
  const lists = [...servers.values()].map(async ({ id, tools }) =>
    (await tools).map((tool) => ({ ...tool, name: `${id}__${tool.name}` })),
  )
  return (await Promise.all(lists)).flat()
}

const read = splitLines(async (line) => {
  const { id, method, params } = JSON.parse(line)
  if (id === undefined) return
  if (method === 'initialize') {
    const serverInfo = { name: 'relay', version: '1.0.0' }
    say({ id, result: { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo } })
  } else if (method === 'tools/list') say({ id, result: { tools: await listed() } })
  else if (method === 'tools/call') {
    const cut = params.name.indexOf('__')
    const server = servers.get(params.name.slice(0, cut))
    const call = { name: params.name.slice(cut + 2), arguments: params.arguments }
    server.ask('tools/call', call, ({ result, error }) => say(error ? { id, error } : { id, result }))
  } else say({ id, result: {} })
})
process.stdin.on('data', read).on('end', () => {
  for (const { stop } of servers.values()) stop()
  process.exit(0)
})
