import { spawn } from 'node:child_process'
import { Agent, request as httpRequest } from 'node:http'
import { splitLines } from './lines.mjs'

const TIMEOUT_MS = 30_000
const HELLO = {
  protocolVersion: '2025-06-18',
  capabilities: {},
  clientInfo: { name: 'pegboard-bench', version: '1.0.0' },
}

/**
 * What children get of our environment. Little on purpose: NODE_EXTRA_CA_CERTS alone triples the start of every Node 20
 * child. They stay in our session too: on Linux each session gets its own share of the processor.
 */
export function smallEnvironment(more = {}) {
  const kept = ['PATH', 'HOME', 'LANG', 'TMPDIR', 'SystemRoot', 'TEMP'].filter((key) => process.env[key])
  return { ...Object.fromEntries(kept.map((key) => [key, process.env[key]])), ...more }
}

/** Requests waiting for their answers. `write` sends one message. */
function createPeer(write) {
  const waiting = new Map()
  let last = 0
  let strays = 0
  const settle = (message) => {
    // What the server asks of us is answered with nothing; benches need none of it.
    if (message.method !== undefined) {
      if (message.id !== undefined) write({ jsonrpc: '2.0', id: message.id, result: {} })
      return
    }
    const entry = waiting.get(message.id)
    if (!entry) return void strays++
    waiting.delete(message.id)
    clearTimeout(entry.timer)
    if (message.error) entry.reject(new Error(`${entry.method}: ${message.error.message}`))
    else entry.resolve(message.result)
  }
  const peer = {
    settle,
    /** Number of answers without a pending request. */
    strays: () => strays,
    fail(reason) {
      for (const id of waiting.keys()) settle({ id, error: { message: reason } })
    },
    notify: (method, params) => write({ jsonrpc: '2.0', method, params }),
    request(method, params) {
      const id = ++last
      return new Promise((resolve, reject) => {
        const late = () => settle({ id, error: { message: `no answer in ${TIMEOUT_MS} ms` } })
        waiting.set(id, { method, resolve, reject, timer: setTimeout(late, TIMEOUT_MS) })
        write({ jsonrpc: '2.0', id, method, params })
      })
    },
    /** The answer to `initialize`. */
    async connect() {
      const answer = await peer.request('initialize', HELLO)
      peer.notify('notifications/initialized')
      return answer
    },
    /** Every page of it. */
    async listTools() {
      const tools = []
      let cursor
      do {
        const page = await peer.request('tools/list', cursor === undefined ? {} : { cursor })
        tools.push(...page.tools)
        cursor = page.nextCursor
      } while (cursor !== undefined)
      return tools
    },
    call: (name, input) => peer.request('tools/call', { name, arguments: input }),
  }
  return peer
}

/** Starts a program and speaks MCP with it over its pipes. `close` resolves when it is gone. */
export function startStdio({ command = process.execPath, args, env, cwd, ipc = false }) {
  const stdio = ['pipe', 'pipe', 'pipe', ...(ipc ? ['ipc'] : [])]
  const child = spawn(command, args, { cwd, env: smallEnvironment(env), stdio })
  let complaint = ''
  child.stderr.on('data', (chunk) => {
    complaint = (complaint + chunk).slice(-2_000)
  })
  child.stdin.on('error', () => undefined)
  const peer = createPeer((message) => void child.stdin.write(`${JSON.stringify(message)}\n`))
  child.stdout.on(
    'data',
    splitLines((line) => peer.settle(JSON.parse(line))),
  )
  const gone = new Promise((resolve) => {
    child.once('error', (error) => resolve(peer.fail(error.message)))
    child.once('exit', (code) => resolve(peer.fail(`it ended with ${code}. ${complaint}`)))
  })
  return {
    ...peer,
    child,
    pid: child.pid,
    async close() {
      child.stdin.end()
      const killer = setTimeout(() => child.kill('SIGKILL'), 8_000)
      await gone
      clearTimeout(killer)
    },
  }
}

const dataLines = (body) =>
  body
    .split('\n')
    .filter((line) => line.startsWith('data:') && line.length > 6)
    .map((line) => line.slice(5))

/** Speaks MCP with `url` over kept-alive connections, in a 2025-era session when the server gives one. */
export function openHttp({ url, token }) {
  const agent = new Agent({ keepAlive: true, maxSockets: 64 })
  let session
  const write = (message) => {
    const body = Buffer.from(JSON.stringify(message))
    const headers = {
      'content-type': 'application/json',
      'content-length': body.length,
      accept: 'application/json, text/event-stream',
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      ...(session === undefined ? {} : { 'mcp-session-id': session, 'mcp-protocol-version': HELLO.protocolVersion }),
    }
    const refuse = (reason) => message.id !== undefined && peer.settle({ id: message.id, error: { message: reason } })
    const sent = httpRequest(url, { method: 'POST', agent, headers }, (response) => {
      const chunks = []
      response.on('data', (chunk) => chunks.push(chunk))
      response.on('end', () => {
        const text = Buffer.concat(chunks).toString('utf8')
        session ??= response.headers['mcp-session-id']
        if (response.statusCode >= 400) return refuse(`HTTP ${response.statusCode} ${text.slice(0, 200)}`)
        const events = (response.headers['content-type'] ?? '').startsWith('text/event-stream')
        for (const part of events ? dataLines(text) : text ? [text] : []) peer.settle(JSON.parse(part))
      })
    })
    sent.on('error', (error) => refuse(error.message))
    sent.end(body)
  }
  const peer = createPeer(write)
  return { ...peer, session: () => session, close: () => agent.destroy() }
}
