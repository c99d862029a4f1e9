import { PegboardError } from '../core/errors.ts'
import { createLineReader } from '../core/line-reader.ts'
import { toPrintable } from '../core/printable.ts'
import { type Descendants, descendantsOf, endDescendants } from '../programs/descendants.ts'
import { killTree } from '../programs/spawn.ts'
import { findErrorLine, notMcp } from './error-reasons.ts'
import { answeredId } from './fast-requests.ts'
import { createOutputThrottle, type OutputThrottle } from './output-throttle.ts'
import { isInstalling } from './package-download.ts'
import { isMessage, parseLine } from './parse-line.ts'
import {
  createStartError,
  type Program,
  type ProgramOptions,
  prepareProgram,
  type ServerProcess,
  spawnProgram,
} from './start-program.ts'
import type { UpstreamTransport, UpstreamTransportEvents } from './transport.ts'
import type { ProcessServices } from './upstream-shared.ts'

export type StdioOptions = ProcessServices & ProgramOptions

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

/** Runs a server as a child process in its own process group, with JSON lines on its pipes. */
export function createStdioTransport(options: StdioOptions): UpstreamTransport {
  const { platform } = options
  let child: ServerProcess | undefined
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
  const ignoreNoise = (line: Buffer): void => {
    if (!hasLoggedNoise) events?.error(new Error('it printed a line that is not MCP; Pegboard ignored it'))
    hasLoggedNoise = true
    // Output of a program that downloads the server is ignored.
    if (firstNoise === undefined && !isInstalling(line.toString('utf8', 0, MAX_SHOWN))) firstNoise = shownLine(line)
    if (++noise > MAX_NOISE) lost(notMcp(firstNoise ?? shownLine(line)))
  }

  const frames = createLineReader(isOver, {
    frame(line, parts) {
      const messages = parseLine(line, parts)
      if (typeof messages === 'string') return events?.oversize(answeredId(line, line), line.length, messages)
      for (const message of messages) {
        if (gone) return
        if (!isMessage(message)) ignoreNoise(line)
        else {
          noise = 0
          hasSentMessage = true
          events?.message(message)
        }
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

  /** Reports the exit of the server when its output has been read; the last of it may still be in the pipe. */
  const reportExit = (started: ServerProcess, code: number | null, signal: string | null): void => {
    const end = (): void => {
      for (const one of intakes) one.finish()
      lost(exitReason(code, signal))
    }
    const isBehind = (): boolean => intakes.some(({ behind }) => behind)
    const endWhenRead = (times: number): unknown =>
      setTimeout(() => (isBehind() && times > 0 ? endWhenRead(times - 1) : end()), UNREAD.everyMs).unref()
    started.stdout.once('close', end)
    endWhenRead(UNREAD.times)
  }

  const exitReason = (code: number | null, signal: string | null): string => {
    const how = signal ? `it was killed by ${signal}` : `it exited with code ${code}`
    const errorLine = findErrorLine(stderr, hasSentMessage)
    if (errorLine) return `${how}: ${errorLine}`
    return hasSentMessage || firstNoise === undefined ? how : `${how}; it printed ${firstNoise}`
  }

  const spawn = (program: Program): ServerProcess => {
    try {
      options.watchdog.wake()
      return spawnProgram(options, program)
    } catch (error) {
      throw createStartError(options, error as NodeJS.ErrnoException)
    }
  }

  /** Starts the program. The first failure ends the connection. */
  const start = async (): Promise<ServerProcess> => {
    try {
      const program = await prepareProgram(options, mark)
      await options.spawnTurn()
      if (gone) throw new PegboardError('E_UPSTREAM_UNAVAILABLE', 'the server has exited')
      child = spawn(program)
      return child
    } catch (error) {
      if (error instanceof PegboardError) lost(error.message)
      throw error
    }
  }

  const flush = (): void => {
    const lines = outgoing
    outgoing = ''
    if (!gone && lines) child?.stdin.write(lines)
  }

  /** Closes stdin, then sends SIGTERM. @returns the processes that left its group */
  const endProgram = async (running: ServerProcess, graceMs: number): Promise<Descendants> => {
    flush()
    const orphans = findDescendants()
    running.stdin.end()
    if (!hasSentMessage && platform !== 'win32') {
      killTree(running, 'SIGTERM', platform)
      await settlesWithin(exited, Math.max(graceMs, INSTALL_GRACE_MS))
      return orphans
    }
    if (await settlesWithin(exited, graceMs)) return orphans
    const remaining = new Map([...orphans, ...findDescendants()])
    killTree(running, 'SIGTERM', platform)
    await settlesWithin(exited, graceMs)
    return remaining
  }

  return {
    kind: 'stdio',
    async open(transportEvents) {
      events = transportEvents
      const started = await start()
      if (started.pid !== undefined) options.watchdog.guard(started.pid)
      options.reapers.add(reap)
      exited = new Promise((resolve) => {
        started.once('exit', (code, signal) => {
          resolve()
          reportExit(started, code, signal)
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
        started.once('error', (error) => {
          const startError = createStartError(options, error)
          lost(startError.message)
          reject(startError)
        })
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
      let orphans: Descendants = isRunning() && !gone ? await endProgram(child, graceMs) : new Map()
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

/** The beginning of a line, safe for a terminal. */
function shownLine(line: Buffer): string {
  const text = toPrintable(line.toString('utf8', 0, 4 * MAX_SHOWN))
    .replaceAll(/\s+/g, ' ')
    .trim()
  return JSON.stringify(text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN)}…` : text)
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
