import type { ChildProcessByStdio } from 'node:child_process'
import { statSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import type { Readable, Writable } from 'node:stream'
import type { Clock } from '../core/clock.ts'
import { PegboardError } from '../core/errors.ts'
import { MAY_CHANGE } from '../core/exact-numbers.ts'
import { createFrames } from '../core/frames.ts'
import type { Message } from '../core/jsonrpc.ts'
import { plain } from '../core/plain.ts'
import { rawResult } from '../core/raw.ts'
import { isRecord } from '../core/record.ts'
import { mayForgeNotice } from '../core/sanitize.ts'
import { scanAnswer } from '../core/scan.ts'
import { replacedByOthers, writtenByOthers } from '../core/written-by-others.ts'
import { type Descendants, descendantsOf, endDescendants, MARK } from '../programs/descendants.ts'
import { spawnPiped } from '../programs/room.ts'
import {
  childEnvironment,
  type Environment,
  isMissing,
  isRelative,
  killTree,
  parseEnvFile,
  spawnPlan,
} from '../programs/spawn.ts'
import type { Strays } from '../programs/strays.ts'
import type { Watchdog } from '../programs/watchdog.ts'
import { isList, withExactIntegers } from './exact.ts'
import { downloadEnvironment, isInstalling, mayInstall } from './install.ts'
import { createIntake, type Flood, type Intake } from './intake.ts'
import { lastWords, notMcp } from './reasons.ts'
import type { StdioTarget } from './settings.ts'
import type { Starts } from './starts.ts'
import type { Wire, WireEvents } from './wire.ts'

export interface StdioOptions {
  /** Where the server stands in the file. */
  readonly where: string
  readonly target: StdioTarget
  /** Our own environment, of which the child gets little. */
  readonly environment: Environment
  readonly platform: string
  readonly clock: Clock
  /** Whose turn it is to be started. */
  readonly starts: Starts
  /** Finds what outlived a child. */
  readonly strays: Strays
  readonly flood: Flood
  /** Longest line read; default 16 MiB. A longer one fails the call it answers, nothing else. */
  readonly maxFrameBytes?: number | undefined
  /** The same while nothing but results of calls is waited for; default what else is read. */
  readonly maxAnswerBytes?: number | undefined
  /** Holds a function for every child alive: for the last moment of this process. */
  readonly reapers: Set<() => void>
  /** Ends the child when this process is gone without having done it. */
  readonly watchdog: Watchdog
}

const MAX_FRAME = 16 * 1024 * 1024
/** Of the first line. No answer to the opening is as long as that. */
const MAX_OPENING = 1024 * 1024
const MAX_UNREAD = 64 * 1024 * 1024
const TAIL = 8 * 1024
// A server may print a banner; one that prints nothing else is not an MCP server.
const MAX_NOISE = 1_000
/** Time for what left the group of its server to end by itself. */
const STRAY_MS = 300
/** A process that ended may have left so much to read that it takes turns; a grandchild may hold its pipe open for ever. */
const UNREAD = { everyMs: 200, times: 10 }
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
  let printed = false
  let noted: string | undefined
  let spoke = false
  let gone = false
  let overlong = false
  let intakes: readonly Intake[] = []
  let exited: Promise<void> = Promise.resolve()
  const mark = options.watchdog.mark()
  let closing = false
  let swept: Promise<void> | undefined

  const runs = (): boolean => child?.pid !== undefined && child.exitCode === null && child.signalCode === null
  /** What it started that left its group: its parents can only be told while they live. */
  const below = (): Descendants => (runs() ? descendantsOf(child?.pid as number, platform) : new Map())

  const reap = (): void => endNow(new Map([...below(), ...options.strays.now(mark)]))

  const endNow = (strays: Descendants): void => {
    if (!child) return
    killTree(child, 'SIGKILL', platform)
    endDescendants(strays, 'SIGKILL', platform)
  }

  /** What left its group and outlived it. */
  const sweep = async (): Promise<void> => {
    if (child?.pid === undefined) return
    const strays = await options.strays.of(mark)
    endDescendants(strays, 'SIGKILL', platform)
  }

  const lost = (reason: string): void => {
    if (gone) return
    gone = true
    outgoing = ''
    for (const one of intakes) one.stop()
    endNow(below())
    // Whoever closes it gives those that are left a moment.
    if (!closing) swept = sweep().catch((error: unknown) => events?.error(error as Error))
    options.reapers.delete(reap)
    if (child?.pid !== undefined) options.watchdog.release(child.pid)
    child?.stdin.destroy()
    child?.stdout.destroy()
    child?.stderr.destroy()
    events?.closed(reason)
  }

  const maxFrame = options.maxFrameBytes ?? MAX_FRAME
  const maxOpening = Math.min(maxFrame, MAX_OPENING)
  const maxAnswer = Math.min(maxFrame, options.maxAnswerBytes ?? maxFrame)
  const shortest = Math.min(maxOpening, maxAnswer)
  const longest = (): number => (!spoke ? maxOpening : events?.onlyCalls() ? maxAnswer : maxFrame)
  const isOver = (bytes: number): boolean => bytes > shortest && bytes > longest()
  const frames = createFrames(isOver, {
    frame(line, parts) {
      for (const one of parse(line, parts)) {
        if (gone) return
        if (isMessage(one)) {
          noise = 0
          spoke = true
          events?.message(one)
          continue
        }
        if (!printed) events?.error(new Error('it printed something that is not MCP, which is left out'))
        printed = true
        // What fetches it may have its say before.
        if (noted === undefined && !isInstalling(line.toString('utf8', 0, MAX_SHOWN))) noted = shownLine(line)
        if (++noise > MAX_NOISE) lost(notMcp(noted ?? shownLine(line)))
      }
    },
    overrun() {
      overlong = true
      if (!spoke) lost(`it printed more than ${maxOpening} bytes without the end of a line`)
    },
    oversize(head, tail, bytes) {
      overlong = false
      if (gone) return
      const id = /"id"\s*:\s*"(p:\d+)"/.exec(`${tail.toString('latin1')}\n${head.toString('latin1')}`)?.[1]
      events?.oversize(id, bytes)
    },
  })

  const complained = (bytes: Buffer): void => {
    stderr = (stderr + bytes.toString('utf8')).slice(-TAIL)
  }

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
      const fromFile = target.envFile === undefined ? {} : await readEnvFile(options.where, target.envFile)
      const download = mayInstall({ target }) ? downloadEnvironment(options.environment) : {}
      const named = { ...download, ...fromFile, ...target.env, [MARK]: mark }
      const env = childEnvironment(options.environment, named, platform)
      const plan = spawnPlan(target.command, target.args, env, platform)
      const cannot = (cause: NodeJS.ErrnoException): PegboardError => {
        const what = isLine(target) ? target.command : path.basename(target.command)
        const reason =
          noFolder(options.where, target.cwd) ??
          (cause.code === 'ENOENT'
            ? `command not found: ${what}${isLine(target) ? '; what follows the program belongs into "args", a word each' : ''}`
            : `${what} cannot start (${cause.code})`)
        lost(reason)
        return new PegboardError('E_UPSTREAM_UNAVAILABLE', reason, { cause })
      }
      if (isRelative(target.command, platform)) {
        const reason = `command "${target.command}" is relative; give its full path, such as "\${workspaceFolder}/server"`
        lost(reason)
        throw new PegboardError('E_UPSTREAM_UNAVAILABLE', reason)
      }
      const unsafe = writtenCode(target, platform)
      if (unsafe !== undefined) {
        lost(unsafe)
        throw new PegboardError('E_UPSTREAM_UNAVAILABLE', unsafe)
      }
      await options.starts.turn()
      if (gone) throw new PegboardError('E_UPSTREAM_UNAVAILABLE', 'the server has gone')
      try {
        if (isMissing(plan.file, env, target.cwd, platform)) throw Object.assign(new Error(), { code: 'ENOENT' })
        options.watchdog.wake()
        child = spawnPiped(plan.file, plan.args, {
          ...plan.options,
          env,
          stdio: ['pipe', 'pipe', 'pipe'],
          ...(target.cwd === undefined ? {} : { cwd: target.cwd }),
        }) as Child
      } catch (error) {
        throw cannot(error as NodeJS.ErrnoException)
      }
      const started = child
      if (started.pid !== undefined) options.watchdog.guard(started.pid)
      options.reapers.add(reap)
      exited = new Promise((resolve) => {
        started.once('exit', (code, signal) => {
          resolve()
          const end = (): void => {
            for (const one of intakes) one.finish()
            const words = lastWords(stderr, spoke)
            const said = words ? `: ${words}` : spoke || noted === undefined ? '' : `; it printed ${noted}`
            lost(`${signal ? `it was ended by ${signal}` : `it exited with code ${code}`}${said}`)
          }
          // What it wrote last may still be in the pipe.
          const isBehind = (): boolean => intakes.some(({ behind }) => behind)
          const later = (times: number): unknown =>
            setTimeout(() => (isBehind() && times > 0 ? later(times - 1) : end()), UNREAD.everyMs).unref()
          started.stdout.once('close', end)
          later(UNREAD.times)
        })
        started.once('error', () => resolve())
      })
      intakes = [
        createIntake(
          started.stdout,
          options.clock,
          options.flood,
          frames,
          () => overlong || events?.flooded() === true,
        ),
        // Of a flood of complaints only the end is kept.
        createIntake(started.stderr, options.clock, options.flood, complained, () => true),
      ]
      // A broken pipe is told by `exit`, with a better reason.
      for (const stream of [started.stdin, started.stdout, started.stderr]) stream.on('error', () => undefined)
      await new Promise<void>((resolve, reject) => {
        started.once('spawn', resolve)
        started.once('error', (error) => reject(cannot(error)))
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
      closing = true
      lost('closed')
      if (swept) await swept
      else strays = new Map([...strays, ...(await options.strays.of(mark))])
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

const SCRIPT = /\.(?:[cm]?[jt]s|py|rb|sh|pl|php|jar|ps1)$/i

/** Why its program is not started: somebody else may write it. */
function writtenCode({ command, args, cwd }: StdioTarget, platform: string): string | undefined {
  if (platform === 'win32') return undefined
  const files = [command, ...args].filter((word, at) =>
    at === 0 ? path.isAbsolute(word) : SCRIPT.test(word) && !word.startsWith('-'),
  )
  for (const file of files) {
    const others = writtenByOthers(path.resolve(cwd ?? process.cwd(), file))
    if (others !== undefined) return `${path.basename(file)} is not safe to run: ${others}`
  }
  return undefined
}

async function readEnvFile(where: string, file: string): Promise<Record<string, string>> {
  const others = replacedByOthers(file)
  if (others !== undefined)
    throw new PegboardError('E_UPSTREAM_UNAVAILABLE', `its envFile is not safe to use: ${others} (${where}.envFile)`)
  try {
    return parseEnvFile(await readFile(file, 'utf8'))
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    const what = code === 'ENOENT' ? 'does not exist' : `cannot be read (${code})`
    throw new PegboardError('E_UPSTREAM_UNAVAILABLE', `its envFile ${what}: ${file} (${where}.envFile)`)
  }
}

/** A whole command line was written where the program alone belongs. */
const isLine = ({ command, args }: StdioTarget): boolean => args.length === 0 && /^[^\s/\\]+\s+\S/.test(command)

/** Node says ENOENT of the program when it is the folder that is missing. */
function noFolder(where: string, cwd: string | undefined): string | undefined {
  if (cwd === undefined || statSync(cwd, { throwIfNoEntry: false })?.isDirectory()) return undefined
  return `its cwd does not exist: ${cwd} (${where}.cwd)`
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
const MAX_HEAD = 256

/** The values of a line, more than one for a batch; `undefined` stands for banners, colour codes and other noise. */
function parse(line: Buffer, parts: readonly Buffer[]): readonly unknown[] {
  const first = line[0]
  if (first === 0x7b && line.length >= LARGE && !isList(line.toString('latin1', 0, MAX_HEAD))) {
    const whole = unparsed(line, parts)
    if (whole) return [whole]
  }
  const text = line.toString('utf8')
  if (first === 0x7b && line.length < LARGE && MAY_CHANGE.test(text)) {
    const whole = unparsed(line, parts)
    if (whole) return [whole]
  }
  if (first === 0x7b || first === 0x5b) return parseText(withExactIntegers(text))
  const trimmed = text.trim()
  return trimmed === '' ? [] : trimmed.startsWith('{') ? parseText(trimmed) : [undefined]
}

/**
 * The answer to a call whose result stays bytes. What is not clean is parsed instead: every reader behind us then gets
 * one meaning of a key that came twice, well-formed text, and a value that somebody may have looked at.
 */
function unparsed(line: Buffer, parts: readonly Buffer[]): Message | undefined {
  if (mayForgeNotice(line)) return undefined
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
