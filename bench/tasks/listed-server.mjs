// node listed-server.mjs FILE COUNT: an MCP server that lists the first tools of a file of definitions, and runs none.
import { readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'

const { tools, name = 'listed' } = JSON.parse(readFileSync(process.argv[2], 'utf8'))
const listed = tools.slice(0, Number(process.argv[3]))

createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method, params } = JSON.parse(line)
  if (id === undefined) return
  const answer = (result) => process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', id, result })}\n`)
  if (method === 'initialize')
    answer({
      protocolVersion: params.protocolVersion,
      capabilities: { tools: {} },
      serverInfo: { name, version: '1' },
    })
  else if (method === 'tools/list') answer({ tools: listed })
  else if (method === 'tools/call')
    answer({ isError: true, content: [{ type: 'text', text: 'This server needs a login.' }] })
  else answer({})
})
