// Answers every request with the same bytes: what sending them costs, and nothing else.
//   node floor.mjs result.json          over stdio
//   node floor.mjs result.json --http   prints {"port":N}
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { splitLines } from './lines.mjs'

const [file, http] = process.argv.slice(2)
const result = readFileSync(file)
const END = Buffer.from('}')
const start = (id) => Buffer.from(`{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":`)

if (http === undefined) {
  process.stdin.on(
    'data',
    splitLines((line) => {
      const { id } = JSON.parse(line)
      if (id === undefined) return
      process.stdout.cork()
      for (const piece of [start(id), result, END, '\n']) process.stdout.write(piece)
      process.stdout.uncork()
    }),
  )
  process.stdin.on('end', () => process.exit())
} else
  createServer((request, response) => {
    let body = ''
    request.setEncoding('utf8').on('data', (text) => {
      body += text
    })
    request.on('end', () => {
      const first = start(JSON.parse(body).id)
      response.setHeader('content-type', 'application/json')
      response.setHeader('content-length', first.length + result.length + END.length)
      response.cork()
      for (const piece of [first, result, END]) response.write(piece)
      response.uncork()
      response.end()
    })
  }).listen(0, '127.0.0.1', function listening() {
    process.stdout.write(`${JSON.stringify({ port: this.address().port })}\n`)
  })
