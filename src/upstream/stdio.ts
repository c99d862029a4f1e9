import { type ChildProcessByStdio, spawn } from 'node:child_process'
import { statSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import type { Readable, Writable } from 'node:stream'
import { PegboardError } from '../core/errors.ts'
import { createFrames } from '../core/frames.ts'
import type { Message } from '../core/jsonrpc.ts'
import { plain } from '../core/plain.ts'
import { rawResult } from '../core/raw.ts'
import { isRecord } from '../core/record.ts'
import { scanAnswer } from '../core/scan.ts'
import { type Descendants, descendantsOf, endDescendants } from '../programs/descendants.ts'
import { childEnvironment, type Environment, killTree, parseEnvFile, spawnPlan } from '../programs/spawn.ts'
import type { Watchdog } from '../programs/watchdog.ts'
import { lastWords } from './reasons.ts'
import type { StdioTarget } from './settings.ts'
import type { Wire, WireEvents } from './wire.ts'

export interface StdioOptions {
  /** Key of the server, for naming its settings. */
  readonly id: string
  readonly target: StdioTarget
  /** Our own environment, of which the child gets little. */
  readonly environment: Environment
  readonly platform: string
  /** Longest line read; default 16 MiB. A longer one fails the call it answers, nothing else. */
  readonly maxFrameBytes?: number | undefined
  /** Holds a function for every child alive: for the last moment of this process. */
  readonly reapers: Set<() => void>
  /** Ends the child when this process is gone without having done it. */
  readonly watchdog: Watchdog
}

const MAX_FRAME = 16 * 1024 * 1024
const MAX_UNREAD = 64 * 1024 * 1024
const TAIL = 8 * 1024
// A server may print a banner; one that prints nothing else is not an MCP server.
const MAX_NOISE = 1_000
/** Time for what left the group of its server to end by itself. */
const STRAY_MS = 300
const MAX_SHOWN = 120
// One that has not spoken yet may be installing itself, and wants to leave things in order.
const INSTALL_GRACE_MS = 2_000

type Child = ChildProcessByStdio<Writable, Readable, Readable>

/** A child process of its own group, speaking JSON lines on its pipes. */
export function createStdioWire(options: StdioOptions): Wire {
  const { target, platform } = options
  let child: Child | undefined
  let events: WireEvents | undefined
  let stderr = ''
  let outgoing = ''
  let noise = 0
  let noted: string | undefined
  let spoke = false
  let gone = false
  let exited: Promise<void> = Promise.resolve()

  const runs = (): boolean => child?.pid !== undefined && child.exitCode === null && child.signalCode === null
  /** What it started that left its group can only be told while it lives. */
  const below = (): Descendants => (runs() ? descendantsOf(child?.pid as number, platform) : new Map())

  const reap = (): void => {
    if (!child) return
    const strays = below()
    killTree(child, 'SIGKILL', platform)
    endDescendants(strays, 'SIGKILL', platform)
  }

  const lost = (reason: string): void => {
    if (gone) return
    gone = true
    outgoing = ''
    reap()
    options.reapers.delete(reap)
    if (child?.pid !== undefined) options.watchdog.release(child.pid)
    child?.stdin.destroy()
    child?.stdout.destroy()
    child?.stderr.destroy()
    events?.closed(reason)
  }

  const frames = createFrames(options.maxFrameBytes ?? MAX_FRAME, {
    frame(line, parts) {
      for (const one of parse(line, parts)) {
        if (gone) return
        if (isMessage(one)) {
          noise = 0
          spoke = true
          events?.message(one)
          continue
        }
        if (noted === undefined) {
          events?.error(new Error('it printed something that is not MCP, which is left out'))
          noted = shownLine(line)
        }
        if (++noise > MAX_NOISE) lost(`it prints things that are not MCP: ${noted}`)
      }
    },
    oversize(head, tail, bytes) {
      const id = /"id"\s*:\s*"(p:\d+)"/.exec(`${tail.toString('latin1')}\n${head.toString('latin1')}`)?.[1]
      events?.oversize(id, bytes)
    },
  })

  const flush = (): void => {
    const lines = outgoing
    outgoing = ''
    if (!gone && lines) child?.stdin.write(lines)
  }

  return {
    kind: 'stdio',
    streamPerRequest: false,
    async open(wired) {
      events = wired
      const fromFile = target.envFile === undefined ? {} : await readEnvFile(options.id, target.envFile)
      const env = childEnvironment(options.environment, { ...fromFile, ...target.env }, platform)
      const plan = spawnPlan(target.command, target.args, env, platform)
      options.watchdog.wake()
      child = spawn(plan.file, [...plan.args], {
        ...plan.options,
        env,
        stdio: ['pipe', 'pipe', 'pipe'],
        ...(target.cwd === undefined ? {} : { cwd: target.cwd }),
      }) as Child
      const started = child
      if (started.pid !== undefined) options.watchdog.guard(started.pid)
      options.reapers.add(reap)
      exited = new Promise((resolve) => {
        started.once('exit', (code, signal) => {
          resolve()
          // What it wrote last may still be in the pipe; a grandchild may hold the pipe open for ever.
          const end = (): void => {
            const words = lastWords(stderr, spoke)
            lost(`${signal ? `it was ended by ${signal}` : `it exited with code ${code}`}${words ? `: ${words}` : ''}`)
          }
          started.stdout.once('close', end)
          setTimeout(end, 200).unref()
        })
        started.once('error', () => resolve())
      })
      started.stdout.on('data', frames)
      started.stderr.on('data', (chunk: Buffer) => {
        stderr = (stderr + chunk.toString('utf8')).slice(-TAIL)
      })
      // A broken pipe is told by `exit`, with a better reason.
      for (const stream of [started.stdin, started.stdout, started.stderr]) stream.on('error', () => undefined)
      await new Promise<void>((resolve, reject) => {
        started.once('spawn', resolve)
        started.once('error', (error: NodeJS.ErrnoException) => {
          const what = isLine(target) ? target.command : path.basename(target.command)
          const reason =
            noFolder(options.id, target.cwd) ??
            (error.code === 'ENOENT'
              ? `command not found: ${what}${isLine(target) ? '; what follows the program belongs into "args", a word each' : ''}`
              : `${what} cannot start (${error.code})`)
          lost(reason)
          reject(new PegboardError('E_UPSTREAM_UNAVAILABLE', reason, { cause: error }))
        })
      })
    },
    send(message) {
      if (gone || !child) throw new PegboardError('E_UPSTREAM_UNAVAILABLE', 'the server has gone')
      if (child.stdin.writableLength > MAX_UNREAD)
        throw new PegboardError('E_UPSTREAM_UNAVAILABLE', 'the server does not read what it is sent')
      // One write for all that is sent in one turn: 32 calls at a time cost one system call, not 32.
      if (outgoing === '') process.nextTick(flush)
      outgoing += `${JSON.stringify(message)}\n`
      return undefined
    },
    async close(graceMs = 500) {
      if (!child || child.pid === undefined) return lost('closed')
      let strays: Descendants = new Map()
      if (runs() && !gone) {
        flush()
        strays = below()
        child.stdin.end()
        if (!spoke && platform !== 'win32') {
          killTree(child, 'SIGTERM', platform)
          await within(exited, Math.max(graceMs, INSTALL_GRACE_MS))
        } else if (!(await within(exited, graceMs))) {
          strays = new Map([...strays, ...below()])
          killTree(child, 'SIGTERM', platform)
          await within(exited, graceMs)
        }
      }
      lost('closed')
      if (endDescendants(strays, 'SIGTERM', platform)) {
        await within(new Promise(() => undefined), Math.min(graceMs, STRAY_MS))
        endDescendants(strays, 'SIGKILL', platform)
      }
      await within(exited, 1_000)
    },
    noise: () => noted,
    tail: () => stderr,
  }
}

async function readEnvFile(id: string, file: string): Promise<Record<string, string>> {
  try {
    return parseEnvFile(await readFile(file, 'utf8'))
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    const what = code === 'ENOENT' ? 'does not exist' : `cannot be read (${code})`
    throw new PegboardError('E_UPSTREAM_UNAVAILABLE', `its envFile ${what}: ${file} (mcpServers.${id}.envFile)`)
  }
}

/** A whole command line was written where the program alone belongs. */
const isLine = ({ command, args }: StdioTarget): boolean => args.length === 0 && /^[^\s/\\]+\s+\S/.test(command)

/** Node says ENOENT of the program when it is the folder that is missing. */
function noFolder(id: string, cwd: string | undefined): string | undefined {
  if (cwd === undefined || statSync(cwd, { throwIfNoEntry: false })?.isDirectory()) return undefined
  return `its cwd does not exist: ${cwd} (mcpServers.${id}.cwd)`
}

/** The beginning of a line, fit for a terminal. */
function shownLine(line: Buffer): string {
  const text = plain(line.toString('utf8', 0, 4 * MAX_SHOWN))
    .replaceAll(/\s+/g, ' ')
    .trim()
  return JSON.stringify(text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN)}…` : text)
}

// From about here on a look at the bytes costs less than parsing them and writing them again.
const LARGE = 8 * 1024
/** What a server offers is looked at entry by entry. */
const LIST = /"result"\s*:\s*\{\s*"(?:tools|resources|resourceTemplates|prompts)"\s*:\s*\[/
const MAX_HEAD = 256
/** Sixteen digits may be an integer that parsing would round. */
const LONG_NUMBER = /\d{16}/

/** The values of a line, more than one for a batch; `undefined` stands for banners, colour codes and other noise. */
function parse(line: Buffer, parts: readonly Buffer[]): readonly unknown[] {
  const first = line[0]
  if (first === 0x7b && line.length >= LARGE && !LIST.test(line.toString('latin1', 0, MAX_HEAD))) {
    const whole = unparsed(line, parts)
    if (whole) return [whole]
  }
  const text = line.toString('utf8')
  if (first === 0x7b && line.length < LARGE && LONG_NUMBER.test(text)) {
    const whole = unparsed(line, parts)
    if (whole) return [whole]
  }
  if (first === 0x7b || first === 0x5b) return parseText(text)
  const trimmed = text.trim()
  return trimmed === '' ? [] : trimmed.startsWith('{') ? parseText(trimmed) : [undefined]
}

/**
 * The answer to a call whose result stays bytes. What is not clean is parsed instead: every reader behind us then gets
 * one meaning of a key that came twice, well-formed text, and a value that somebody may have looked at.
 */
function unparsed(line: Buffer, parts: readonly Buffer[]): Message | undefined {
  const answer = scanAnswer(line)
  if (typeof answer === 'string' || !answer.id.startsWith('p:')) return undefined
  const result = rawResult(parts, answer)
  return result && { jsonrpc: '2.0', id: answer.id, result }
}

function parseText(text: string): readonly unknown[] {
  try {
    const value: unknown = JSON.parse(text)
    return Array.isArray(value) ? value : [value]
  } catch (error) {
    if (error instanceof SyntaxError) return [undefined]
    throw error
  }
}

/** Whether all that is read of a message later has the type it should have. */
function isMessage(value: unknown): value is Message {
  if (!isRecord(value)) return false
  const { id, method, params } = value
  if (id !== undefined && typeof id !== 'string' && typeof id !== 'number') return false
  if (method === undefined) return id !== undefined
  return typeof method === 'string' && (params === undefined || params === null || isRecord(params))
}

function within(done: Promise<void>, ms: number): Promise<boolean> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve(false), ms)
    void done.then(() => {
      clearTimeout(timer)
      resolve(true)
    })
  })
}
