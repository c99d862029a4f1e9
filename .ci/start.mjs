// What the README's first command promises: the server starts from the repository's own configuration, prints how to
// connect, answers a client over HTTP, and goes when told to without a complaint.
import { spawn } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'

const state = await mkdtemp(join(tmpdir(), 'pegboard-ci-'))
// Its own process group, because npm puts a shell between us and the server.
const child = spawn('npm', ['start', '--silent', '--', '--port', '0'], {
  env: { ...process.env, PEGBOARD_STATE_DIR: state },
  stdio: ['ignore', 'pipe', 'pipe'],
  detached: true,
})
let printed = ''
let logged = ''
child.stderr.on('data', (chunk) => {
  logged += chunk
  process.stderr.write(chunk)
})
// npm ends before the server it started; the pipes are closed when both have.
const ended = new Promise((resolve) => child.once('close', resolve))
child.stdout.on('data', (chunk) => {
  printed += chunk
})

try {
  for (let tries = 0; tries < 300 && !printed.includes('VS Code'); tries++) await setTimeout(100)
  process.stdout.write(printed)
  const url = /https?:\/\/\S+\/mcp/.exec(printed)?.[0]
  // stdout is a pipe, so the token is not printed: only where it is.
  const token = (await readFile(join(state, 'token'), 'utf8')).trim()
  for (const part of ['Claude Desktop', 'Claude Code', 'Cursor', 'VS Code'])
    if (!printed.includes(part)) throw new Error(`"${part}" was not printed`)
  if (!/direct mode|still loading/.test(printed)) throw new Error('what clients see was not printed')
  if (!url || !printed.includes(`the token in ${join(state, 'token')}`))
    throw new Error('the URL or the token was not named')
  if (printed.includes(token)) throw new Error('the token was printed')
  const client = new Client({ name: 'ci', version: '1.0.0' })
  await client.connect(
    new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers: { authorization: `Bearer ${token}` } } }),
  )
  const { tools } = await client.listTools()
  const result = await client.callTool({ name: 'hello__say_hello', arguments: { name: 'Ada' } })
  if (tools.length === 0 || !JSON.stringify(result).includes('Ada'))
    throw new Error(`unexpected answer: ${JSON.stringify(result)}`)
  await client.close()
  process.stdout.write(`a client listed ${tools.length} tools and called one\n`)
} finally {
  process.kill(-child.pid, 'SIGTERM')
  await ended
  await rm(state, { recursive: true, force: true })
}
if (/"level":"(warn|error)"/.test(logged)) throw new Error('it complained')
