import type { ChildProcessByStdio } from 'node:child_process'
import { existsSync, realpathSync, statSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import type { Readable, Writable } from 'node:stream'
import { mayImitateError } from '../core/error-attribution.ts'
import { PegboardError } from '../core/errors.ts'
import { MAY_CHANGE } from '../core/exact-numbers.ts'
import { isRecord } from '../core/is-record.ts'
import { jsonLimitExceeded } from '../core/json-limits.ts'
import { scanAnswer } from '../core/json-scanner.ts'
import type { Message } from '../core/jsonrpc.ts'
import { createLineReader } from '../core/line-reader.ts'
import { toPrintable } from '../core/printable.ts'
import { rawResult } from '../core/raw-result.ts'
import { mayForgeNotice } from '../core/sanitize.ts'
import { tryParseJson } from '../core/try-parse-json.ts'
import { replacedByOthers, writtenByOthers } from '../core/written-by-others.ts'
import { ownFilesBelow } from '../policy/own-files.ts'
import { type Descendants, descendantsOf, endDescendants, MARK } from '../programs/descendants.ts'
import { inSandbox, SandboxError, type SandboxedProgram, type SandboxSettings } from '../programs/server-sandbox.ts'
import { childEnvironment, isMissing, isRelative, killTree, parseEnvFile, spawnPlan } from '../programs/spawn.ts'
import { spawnPiped } from '../programs/spawn-piped.ts'
import { answeredId } from './answered-id.ts'
import { findErrorLine, notMcp } from './error-reasons.ts'
import { isList, withExactIntegers } from './exact-integers.ts'
import { createOutputThrottle, type OutputThrottle } from './output-throttle.ts'
import { downloadEnvironment, isInstalling, mayInstall } from './package-download.ts'
import type { UpstreamTransport, UpstreamTransportEvents } from './transport.ts'
import type { StdioTarget } from './upstream-settings.ts'
import type { ProcessServices } from './upstream-shared.ts'

export interface StdioOptions extends ProcessServices {
  /** Path of the server's entry in the configuration. */
  readonly where: string
  readonly target: StdioTarget
}

const MAX_FRAME = 16 * 1024 * 1024
/** Limit for the first line; no handshake answer is that long. */
const MAX_OPENING = 1024 * 1024
const MAX_UNREAD = 64 * 1024 * 1024
const TAIL = 8 * 1024
// Servers may print a banner, but one that prints nothing else is not an MCP server.
const MAX_NOISE = 1_000
/** Time for processes that left the group to end by themselves. */
const STRAY_MS = 300
/**
 * After a process has ended, its output may still be processed in turns; a grandchild may hold the pipe open forever.
 */
const UNREAD = { everyMs: 200, times: 10 }
const MAX_SHOWN = 120
// A server that has not spoken yet may be installing, so it gets time to clean up.
const INSTALL_GRACE_MS = 2_000

type Child = ChildProcessByStdio<Writable, Readable, Readable>

/** Runs a server as a child process in its own process group, with JSON lines on its pipes. */
export function createStdioTransport(options: StdioOptions): UpstreamTransport {
  const { target, platform } = options
  let child: Child | undefined
  let events: UpstreamTransportEvents | undefined
  let stderr = ''
  let outgoing = ''
  let noise = 0
  let hasLoggedNoise = false
  let firstNoise: string | undefined
  let hasSentMessage = false
  let gone = false
  let overlong = false
  let intakes: readonly OutputThrottle[] = []
  let exited: Promise<void> = Promise.resolve()
  const mark = options.watchdog.mark()
  let closing = false
  let sweeping: Promise<void> | undefined

  const isRunning = (): boolean => child?.pid !== undefined && child.exitCode === null && child.signalCode === null
  /** Descendants that left the group. They can only be found while their parents live. */
  const findDescendants = (): Descendants => (isRunning() ? descendantsOf(child?.pid as number, platform) : new Map())

  const reap = (): void => endNow(new Map([...findDescendants(), ...options.orphans.now(mark)]))

  const endNow = (orphans: Descendants): void => {
    if (!child) return
    killTree(child, 'SIGKILL', platform)
    endDescendants(orphans, 'SIGKILL', platform)
  }

  /** Ends processes that left the group and outlived the server. */
  const sweep = async (): Promise<void> => {
    if (child?.pid === undefined) return
    const orphans = await options.orphans.of(mark)
    endDescendants(orphans, 'SIGKILL', platform)
  }

  const lost = (reason: string): void => {
    if (gone) return
    gone = true
    outgoing = ''
    for (const one of intakes) one.stop()
    endNow(findDescendants())
    // If we are closing it, the remaining processes get a moment.
    if (!closing) sweeping = sweep().catch((error: unknown) => events?.error(error as Error))
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
  const minLimit = Math.min(maxOpening, maxAnswer)
  const maxBytesNow = (): number => {
    const awaited = hasSentMessage ? events?.awaited() : 'nothing'
    return awaited === 'nothing' ? maxOpening : awaited === 'calls' ? maxAnswer : maxFrame
  }
  const isOver = (bytes: number): boolean => bytes > minLimit && bytes > maxBytesNow()
  const frames = createLineReader(isOver, {
    frame(line, parts) {
      const messages = parse(line, parts)
      if (typeof messages === 'string') return events?.oversize(answeredId(line, line), line.length, messages)
      for (const message of messages) {
        if (gone) return
        if (isMessage(message)) {
          noise = 0
          hasSentMessage = true
          events?.message(message)
          continue
        }
        if (!hasLoggedNoise) events?.error(new Error('it printed a line that is not MCP; Pegboard ignored it'))
        hasLoggedNoise = true
        // Output of a program that downloads the server is ignored.
        if (firstNoise === undefined && !isInstalling(line.toString('utf8', 0, MAX_SHOWN))) firstNoise = shownLine(line)
        if (++noise > MAX_NOISE) lost(notMcp(firstNoise ?? shownLine(line)))
      }
    },
    overrun() {
      overlong = true
      if (!hasSentMessage) lost(`it printed more than ${maxOpening} bytes without the end of a line`)
    },
    oversize(head, tail, bytes) {
      overlong = false
      if (gone) return
      events?.oversize(answeredId(head, tail), bytes)
    },
  })

  const readStderr = (bytes: Buffer): void => {
    stderr = (stderr + bytes.toString('utf8')).slice(-TAIL)
  }

  /** Ends the connection. @returns the error to throw */
  const rejectEntry = (reason: string, cause?: unknown): PegboardError => {
    lost(reason)
    return createEntryError(reason, cause)
  }

  /** The program is never started without its sandbox. */
  const sandboxed = async (settings: SandboxSettings, program: SandboxedProgram) => {
    try {
      return await inSandbox(await withoutOwnFiles(settings, options.where), program, platform)
    } catch (error) {
      if (!(error instanceof SandboxError)) throw error
      throw rejectEntry(`its sandbox is not available: ${error.message} (${options.where}.sandbox)`, error)
    }
  }

  const flush = (): void => {
    const lines = outgoing
    outgoing = ''
    if (!gone && lines) child?.stdin.write(lines)
  }

  return {
    kind: 'stdio',
    async open(transportEvents) {
      events = transportEvents
      const fromFile = target.envFile === undefined ? {} : await readEnvFile(options.where, target.envFile)
      const download = mayInstall({ target }) ? downloadEnvironment(options.environment) : {}
      const named = { ...download, ...fromFile, ...target.env, [MARK]: mark }
      const env = childEnvironment(options.environment, named, platform)
      const createStartError = (cause: NodeJS.ErrnoException): PegboardError => {
        const what = isLine(target) ? target.command : path.basename(target.command)
        const reason =
          noFolder(options.where, target.cwd) ??
          (cause.code === 'ENOENT'
            ? `command not found: ${what}${isLine(target) ? '; move the arguments to "args", one word each' : ''}`
            : `${what} cannot start (${cause.code})`)
        const error = rejectEntry(reason, cause)
        return WRONG_ENTRY.has(`${cause.code}`) ? error : new PegboardError('E_UPSTREAM_UNAVAILABLE', reason, { cause })
      }
      if (isRelative(target.command, platform) && !isLine(target)) {
        throw rejectEntry(
          `command "${target.command}" is relative; give its full path, such as "\${workspaceFolder}/server"`,
        )
      }
      const unsafe = writtenCode(target, platform)
      if (unsafe !== undefined) throw rejectEntry(unsafe)
      if (target.sandbox?.kind !== 'docker' && isMissing(target.command, env, target.cwd, platform))
        throw createStartError(Object.assign(new Error(), { code: 'ENOENT' }))
      const program = { command: target.command, args: target.args, cwd: target.cwd, env, named: Object.keys(named) }
      const wrapped = target.sandbox === undefined ? program : await sandboxed(target.sandbox, program)
      const plan = spawnPlan(wrapped.command, wrapped.args, wrapped.env, platform)
      await options.spawnTurn()
      if (gone) throw new PegboardError('E_UPSTREAM_UNAVAILABLE', 'the server has exited')
      try {
        if (isMissing(plan.file, wrapped.env, wrapped.cwd, platform))
          throw Object.assign(new Error(), { code: 'ENOENT' })
        options.watchdog.wake()
        child = spawnPiped(plan.file, plan.args, {
          ...plan.options,
          env: wrapped.env,
          stdio: ['pipe', 'pipe', 'pipe'],
          ...(wrapped.cwd === undefined ? {} : { cwd: wrapped.cwd }),
        }) as Child
      } catch (error) {
        throw createStartError(error as NodeJS.ErrnoException)
      }
      const started = child
      if (started.pid !== undefined) options.watchdog.guard(started.pid)
      options.reapers.add(reap)
      exited = new Promise((resolve) => {
        started.once('exit', (code, signal) => {
          resolve()
          const end = (): void => {
            for (const one of intakes) one.finish()
            const errorLine = findErrorLine(stderr, hasSentMessage)
            const detail = errorLine
              ? `: ${errorLine}`
              : hasSentMessage || firstNoise === undefined
                ? ''
                : `; it printed ${firstNoise}`
            lost(`${signal ? `it was killed by ${signal}` : `it exited with code ${code}`}${detail}`)
          }
          // The last output may still be in the pipe.
          const isBehind = (): boolean => intakes.some(({ behind }) => behind)
          const endWhenRead = (times: number): unknown =>
            setTimeout(() => (isBehind() && times > 0 ? endWhenRead(times - 1) : end()), UNREAD.everyMs).unref()
          started.stdout.once('close', end)
          endWhenRead(UNREAD.times)
        })
        started.once('error', () => resolve())
      })
      intakes = [
        createOutputThrottle(
          started.stdout,
          options.clock,
          options.flood,
          frames,
          () => overlong || events?.flooded() === true,
        ),
        // Only the end of stderr is kept.
        createOutputThrottle(started.stderr, options.clock, options.flood, readStderr, () => true),
      ]
      // `exit` reports a broken pipe with a better reason.
      for (const stream of [started.stdin, started.stdout, started.stderr]) stream.on('error', () => undefined)
      await new Promise<void>((resolve, reject) => {
        started.once('spawn', resolve)
        started.once('error', (error) => reject(createStartError(error)))
      })
    },
    send(message) {
      if (gone || !child) throw new PegboardError('E_UPSTREAM_UNAVAILABLE', 'the server has exited')
      if (child.stdin.writableLength > MAX_UNREAD)
        throw new PegboardError('E_UPSTREAM_UNAVAILABLE', 'the server does not read its input')
      // One write for everything sent in a turn: 32 concurrent calls cost one system call.
      if (outgoing === '') process.nextTick(flush)
      outgoing += `${JSON.stringify(message)}\n`
      return undefined
    },
    async close(graceMs = 500) {
      if (!child || child.pid === undefined) return lost('closed')
      let orphans: Descendants = new Map()
      if (isRunning() && !gone) {
        flush()
        orphans = findDescendants()
        child.stdin.end()
        if (!hasSentMessage && platform !== 'win32') {
          killTree(child, 'SIGTERM', platform)
          await settlesWithin(exited, Math.max(graceMs, INSTALL_GRACE_MS))
        } else if (!(await settlesWithin(exited, graceMs))) {
          orphans = new Map([...orphans, ...findDescendants()])
          killTree(child, 'SIGTERM', platform)
          await settlesWithin(exited, graceMs)
        }
      }
      closing = true
      lost('closed')
      if (sweeping) await sweeping
      else orphans = new Map([...orphans, ...(await options.orphans.of(mark))])
      if (endDescendants(orphans, 'SIGTERM', platform)) {
        await settlesWithin(new Promise(() => undefined), Math.min(graceMs, STRAY_MS))
        endDescendants(orphans, 'SIGKILL', platform)
      }
      await settlesWithin(exited, 1_000)
    },
    noise: () => firstNoise,
    stderrTail: () => stderr,
  }
}

/** Error codes for a wrong entry or program, which retrying does not fix. */
const WRONG_ENTRY: ReadonlySet<string> = new Set(['ENOENT', 'EACCES', 'EPERM', 'ENOTDIR', 'ENOEXEC', 'ELOOP'])

const createEntryError = (reason: string, cause?: unknown): PegboardError =>
  new PegboardError('E_UPSTREAM_UNAVAILABLE', reason, {
    hint: 'The operator must correct the entry of the server in the configuration.',
    class: 'server_setup',
    cause,
  })

const SCRIPT = /\.(?:[cm]?[jt]s|py|rb|sh|pl|php|jar|ps1)$/i

/** Why its program is not started: another user may write it. */
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

/**
 * Hides Pegboard's files where the server reads.
 * @throws SandboxError if it could write what Pegboard, or another server, runs or trusts
 */
async function withoutOwnFiles(settings: SandboxSettings, where: string): Promise<SandboxSettings> {
  const find = (folders: readonly string[]) =>
    ownFilesBelow(
      folders.filter((folder) => existsSync(folder)).map((folder) => realpathSync(folder)),
      where,
    )
  const { secret, fixed } = await find(settings.write)
  const [ownFile] = [...secret, ...fixed]
  if (ownFile !== undefined) throw new SandboxError(`"write" contains ${ownFile}, which Pegboard runs or trusts`)
  return { ...settings, hidden: [...new Set([...settings.hidden, ...(await find(settings.read)).secret])] }
}

async function readEnvFile(where: string, file: string): Promise<Record<string, string>> {
  const others = replacedByOthers(file)
  if (others !== undefined) throw createEntryError(`its envFile is not safe to use: ${others} (${where}.envFile)`)
  try {
    return parseEnvFile(await readFile(file, 'utf8'))
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    const what = code === 'ENOENT' ? 'does not exist' : `cannot be read (${code})`
    throw createEntryError(`its envFile ${what}: ${file} (${where}.envFile)`)
  }
}

/** True if `command` contains a whole command line. */
const isLine = ({ command, args }: StdioTarget): boolean => args.length === 0 && /^[^\s/\\]+\s+\S/.test(command)

/** Node reports ENOENT for the program when the working folder is missing. */
function noFolder(where: string, cwd: string | undefined): string | undefined {
  if (cwd === undefined || statSync(cwd, { throwIfNoEntry: false })?.isDirectory()) return undefined
  return `its cwd does not exist: ${cwd} (${where}.cwd)`
}

/** The beginning of a line, safe for a terminal. */
function shownLine(line: Buffer): string {
  const text = toPrintable(line.toString('utf8', 0, 4 * MAX_SHOWN))
    .replaceAll(/\s+/g, ' ')
    .trim()
  return JSON.stringify(text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN)}…` : text)
}

// Above this size, scanning the bytes costs less than parsing and serializing them.
const LARGE = 8 * 1024
const MAX_HEAD = 256

/**
 * The messages of a line; several for a batch. `undefined` for banners and other noise; a text tells why the line was
 * rejected.
 */
function parse(line: Buffer, parts: readonly Buffer[]): readonly unknown[] | string {
  const first = line[0]
  if (first === 0x7b && line.length >= LARGE && !isList(line.toString('latin1', 0, MAX_HEAD))) {
    const whole = toRawAnswer(line, parts)
    if (whole) return [whole]
  }
  const text = line.toString('utf8')
  if (first === 0x7b && line.length < LARGE && MAY_CHANGE.test(text)) {
    const whole = toRawAnswer(line, parts)
    if (whole) return [whole]
  }
  const fault = jsonLimitExceeded(text)
  if (fault !== undefined) return fault
  if (first === 0x7b || first === 0x5b) return parseText(withExactIntegers(text))
  const trimmed = text.trim()
  return trimmed === '' ? [] : trimmed.startsWith('{') ? parseText(trimmed) : [undefined]
}

/**
 * The answer to a call as raw bytes, if it is clean. Otherwise it is parsed, so that all readers agree on duplicate
 * keys, text is well-formed, and values can be inspected.
 */
function toRawAnswer(line: Buffer, parts: readonly Buffer[]): Message | undefined {
  if (mayForgeNotice(line) || mayImitateError(line)) return undefined
  const answer = scanAnswer(line)
  if (typeof answer === 'string' || !answer.id.startsWith('p:')) return undefined
  const result = rawResult(parts, answer)
  return result && { jsonrpc: '2.0', id: answer.id, result }
}

function parseText(text: string): readonly unknown[] {
  const value = tryParseJson(text)
  return Array.isArray(value) ? value : [value]
}

/** True if all members that are used later have the right type. */
function isMessage(value: unknown): value is Message {
  if (!isRecord(value)) return false
  const { id, method, params } = value
  if (id !== undefined && typeof id !== 'string' && typeof id !== 'number') return false
  if (method === undefined) return id !== undefined
  return typeof method === 'string' && (params === undefined || params === null || isRecord(params))
}

/** Its timer keeps the process alive, so that child processes are killed before Pegboard exits. */
function settlesWithin(done: Promise<void>, ms: number): Promise<boolean> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve(false), ms)
    void done.then(() => {
      clearTimeout(timer)
      resolve(true)
    })
  })
}
