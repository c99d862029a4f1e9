import { type ChildProcess, type ChildProcessWithoutNullStreams, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { Client, type ClientOptions } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { expect, onTestFinished } from 'vitest'
import { type Answer, temporaryFolder } from './app.ts'
import { count } from './count.mjs'

const root = join(import.meta.dirname, '..')
export const cli = join(root, 'dist/cli/main.js')
export const run = promisify(execFile)

export interface Place {
  readonly dir: string
  readonly config: string
  readonly env: Record<string, string | undefined>
}

/** A folder like that of a user: a configuration, a modules folder, its own state folder. */
export function place(settings: Record<string, unknown> = {}, modules: Record<string, string> = {}): Place {
  const dir = temporaryFolder()
  const config = join(dir, 'mcp.config.json')
  mkdirSync(join(dir, 'modules'))
  writeFileSync(config, JSON.stringify(settings))
  for (const [name, text] of Object.entries(modules)) writeFileSync(join(dir, 'modules', name), text)
  return {
    dir,
    config,
    env: { PATH: process.env.PATH, HOME: dir, TMPDIR: tmpdir(), PEGBOARD_STATE_DIR: join(dir, 'state') },
  }
}

export interface Served {
  readonly child: ChildProcess
  readonly url: string
  /** The token that Pegboard created; empty if the settings have one. */
  readonly token: string
  readonly ended: Promise<unknown>
  /** Its output after the line with its address, and on stderr. */
  stdout(): string
  stderr(): string
}

/** Serves over HTTP in its own process, ended with the test. */
export async function serveHttp(
  { config, env }: Place,
  port = '0',
  flags: readonly string[] = [],
  end: NodeJS.Signals = 'SIGTERM',
): Promise<Served> {
  const args = [cli, 'serve', '--http', '--port', port, '--json', ...flags, '--config', config]
  const child = spawn(process.execPath, args, { env, stdio: ['ignore', 'pipe', 'pipe'] })
  const ended = once(child, 'exit')
  onTestFinished(async () => {
    child.kill(end)
    await ended
  })
  let [stdout, stderr] = ['', '']
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text
  })
  const [line] = (await once(child.stdout, 'data')) as [Buffer]
  child.stdout.on('data', (text: Buffer) => {
    stdout += text
  })
  const { url, tokenFile } = JSON.parse(line.toString()) as { url: string; tokenFile?: string }
  const token = tokenFile === undefined ? '' : readFileSync(tokenFile, 'utf8').trim()
  return { child, url, token, ended, stdout: () => stdout, stderr: () => stderr }
}

/**
 * Starts the built program on stdio, as a client does, and connects the SDK's client; closed with the test.
 * @param through a program, with its arguments, that starts the built program
 */
export async function connectToProcess(
  { config, env }: Pick<Place, 'config' | 'env'>,
  options: ClientOptions = {},
  name = 'test',
  through: readonly string[] = [],
): Promise<{ readonly client: Client; readonly pid: number }> {
  const [command = '', ...args] = [...through, process.execPath, cli, 'serve', '--stdio', '--config', config]
  const transport = new StdioClientTransport({ command, args, env: env as Record<string, string>, stderr: 'ignore' })
  const client = new Client({ name, version: '1' }, options)
  onTestFinished(() => client.close())
  await client.connect(transport)
  return { client, pid: Number(transport.pid) }
}

/** The descendants of a process, from `ps`: pid and command line. */
export async function descendants(pid: number | undefined): Promise<{ readonly pid: number; readonly args: string }[]> {
  const { stdout } = await run('ps', ['-A', '-ww', '-o', 'pid=,ppid=,args='])
  const rows = stdout
    .split('\n')
    .map((line) => /^\s*(\d+)\s+(\d+)\s+(.*)$/.exec(line))
    .filter((row) => row !== null)
    .map(([, child, parent, args]) => ({ pid: Number(child), parent: Number(parent), args: String(args) }))
  const below = (parent: number): typeof rows =>
    rows.filter((row) => row.parent === parent).flatMap((row) => [row, ...below(row.pid)])
  return pid === undefined ? [] : below(pid)
}

/** Full seconds that a process has computed, on all processors together. */
export async function computedSeconds(pid: number | undefined): Promise<number> {
  const { stdout } = await run('ps', ['-o', 'time=', '-p', String(pid)])
  return Math.floor(stdout.split(/[-:]/).reduce((sum, part) => sum * 60 + Number(part), 0))
}

export interface Talk {
  readonly child: ChildProcessWithoutNullStreams
  readonly ended: Promise<unknown>
  /** Parses everything on stdout; a line that is not JSON fails the test. */
  readonly messages: Array<Record<string, unknown>>
  readonly stderr: () => string
  send(message: Readonly<Record<string, unknown>>): void
  answer(id: number): Promise<Record<string, unknown>>
}

/**
 * Serves over stdio in a process of its own, the session already open.
 * @param through a program, with its arguments, that starts the one that is named after those
 * @param revision of the protocol that the session is opened with
 * @param program the main.js of the installation
 */
export async function talkTo(
  { config, env }: Place,
  through: readonly string[] = [],
  revision = '2025-11-25',
  program = cli,
): Promise<Talk> {
  const [file = '', ...args] = [...through, process.execPath, program, 'serve', '--stdio', '--config', config]
  const child = spawn(file, args, { env, stdio: 'pipe' })
  // Only the program in between is killed: the server behind it ends with its input, and holds the pipes until then.
  const ended = once(child, through.length > 0 ? 'close' : 'exit')
  onTestFinished(async () => {
    child.stdin.destroy()
    child.kill('SIGKILL')
    await ended
  })
  const messages: Array<Record<string, unknown>> = []
  let rest = ''
  let errors = ''
  const waiting = new Map<unknown, (message: Record<string, unknown>) => void>()
  /** By id, because a test may send an id again: how many requests and calls with it wait for an answer. */
  const pending = new Map<unknown, { requests: number; calls: number }>()
  const asker = expect.getState().currentTestName
  child.stderr.on('data', (chunk: Buffer) => {
    errors += chunk
  })
  child.stdout.on('data', (chunk: Buffer) => {
    const lines = (rest + chunk).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) {
      const message = JSON.parse(line) as Record<string, unknown>
      messages.push(message)
      const sent = message.method === undefined ? pending.get(message.id) : undefined
      if (sent !== undefined) {
        if (sent.requests === 0) count('doubled', asker)
        else if (sent.calls > 0) count('answer')
        sent.requests = Math.max(0, sent.requests - 1)
        sent.calls = Math.max(0, sent.calls - 1)
      }
      waiting.get(message.id)?.(message)
    }
  })
  child.once('exit', (code) => {
    // A server that was killed, stopped by a second signal, or left by its client need not answer.
    const lost = code !== null && code < 128 && !child.stdin.writableEnded
    for (const { calls } of pending.values())
      for (let left = calls; left > 0; left--) count(lost ? 'lost' : 'given up', asker)
  })
  const send = (message: Readonly<Record<string, unknown>>): void => {
    const { id, method } = message
    if (id !== undefined && method !== undefined) {
      const { requests, calls } = pending.get(id) ?? { requests: 0, calls: 0 }
      const isCall = method === 'tools/call'
      if (isCall) count('call')
      pending.set(id, { requests: requests + 1, calls: calls + Number(isCall) })
    }
    child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`)
  }
  const answer = (id: number): Promise<Record<string, unknown>> => {
    const there = messages.find((message) => message.id === id)
    return there ? Promise.resolve(there) : new Promise((resolve) => waiting.set(id, resolve))
  }
  send({
    id: 0,
    method: 'initialize',
    params: { protocolVersion: revision, capabilities: {}, clientInfo: { name: 'test', version: '1' } },
  })
  await answer(0)
  send({ method: 'notifications/initialized' })
  return { child, ended, messages, stderr: () => errors, send, answer }
}

/** Calls tools of a served process: by name, with arguments and `_meta`. */
export function callsOf({ send, answer }: Talk) {
  let id = 1_000
  return async (name: string, args: object = {}, _meta?: object): Promise<Answer> => {
    const own = ++id
    send({ id: own, method: 'tools/call', params: { name, arguments: args, ...(_meta && { _meta }) } })
    return ((await answer(own)) as Answer).result
  }
}

/** True if a process runs; false for a zombie. */
export function alive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return process.platform !== 'linux' || !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'latin1'))
  } catch {
    return false
  }
}

/** Waits for the end of a process, which takes longer on a busy machine. */
export async function gone(pid: number): Promise<boolean> {
  for (const end = Date.now() + 20_000; alive(pid) && Date.now() < end; )
    await new Promise((done) => setTimeout(done, 20))
  return !alive(pid)
}

/** The process id that a program writes to a file, once it exists. */
export const readPid = async (file: string): Promise<number> => {
  for (const end = Date.now() + 30_000; ; await new Promise((done) => setTimeout(done, 20)))
    try {
      const text = readFileSync(file, 'utf8').trim()
      if (text) return Number(text)
    } catch (error) {
      if (Date.now() > end) throw error
    }
}
