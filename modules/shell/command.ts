import { type Log, type Processes, type Program, redact, ToolError } from 'pegboard'
import { type Capture, createCapture } from './capture.ts'
import { rootsOf, type Settings } from './config.ts'
import { findProgram } from './find.ts'
import { inside, madeSince, noSandbox, type Sandbox, trySandbox, wallsFor } from './sandbox.ts'

/** Why a command was ended before it ended by itself. */
export type Cut = 'timeout' | 'output' | 'memory' | 'processes' | 'stopped'

export interface Ended {
  readonly exit_code: number | null
  readonly signal?: string
  readonly duration_ms: number
  readonly cut?: Cut
}

/** A command that was started, held to its limits until it ends. */
export interface Command {
  readonly program: Program
  readonly stdout: Capture
  readonly stderr: Capture
  readonly startedAt: number
  readonly ended: Promise<Ended>
  stop(why: Cut, graceMs?: number): Promise<void>
  /** What other programs obey that was not there before; of commands in a sandbox. */
  made(): readonly string[]
}

export interface Wanted {
  /** How messages name it. */
  readonly what: string
  readonly command: string
  readonly args: readonly string[]
  readonly cwd: string
  readonly timeoutMs: number
  readonly sandboxed: boolean
  /** Folders beside the workspace that it may write to. */
  readonly given?: readonly string[]
  /** Variables that the call sets. */
  readonly env?: Readonly<Record<string, string>>
  /** Ended when it has written so much; default never. */
  readonly maxWritten?: number
  /** Handed in at once; then its input is closed. `open` leaves it open. */
  readonly stdin?: string | 'open'
}

/** Starts commands, and knows whether there is a sandbox. */
export interface Starter {
  start(wanted: Wanted, settings: Settings): Promise<Command>
}

/** How often is looked what a command uses. */
const LOOK_MS = 250
const UNSEEN = { processes: 0, bytes: 0 }

// Nobody is there to answer, and nobody turns pages.
const QUIET = { TERM: 'dumb', PAGER: 'cat', GIT_PAGER: 'cat', GIT_TERMINAL_PROMPT: '0' }

/** What limits a process from inside, where the system can. The count is only that of a sandbox there: elsewhere it would be of all that the user runs. */
const limited = ({ max_memory_bytes, max_processes }: Settings, sandboxed: boolean): string =>
  [
    'ulimit -c 0',
    `(ulimit -d ${Math.floor(max_memory_bytes / 1024)}) 2>/dev/null && ulimit -d ${Math.floor(max_memory_bytes / 1024)}`,
    ...(sandboxed
      ? ['u', 'p'].map((flag) => `(ulimit -${flag} ${max_processes}) 2>/dev/null && ulimit -${flag} ${max_processes}`)
      : []),
    'exec "$@"',
  ].join('\n')

export function createStarter(processes: Processes, log: Log): Starter {
  let tried: ReturnType<typeof trySandbox> | undefined

  /** Tried once, when it is first needed. */
  async function sandboxFor(what: string, settings: Settings): Promise<Sandbox> {
    tried ??= trySandbox(processes, settings).then((found) => {
      if ('why' in found) log.warn(`no sandbox: ${found.why}`, { detail: found.detail })
      return found
    })
    const found = await tried
    if ('why' in found) throw noSandbox(what, found.why)
    return found
  }

  return {
    async start(wanted, settings) {
      const { what, cwd, sandboxed } = wanted
      const sandbox = sandboxed ? await sandboxFor(what, settings) : undefined
      const file = await findProgram(wanted.command, processes, rootsOf(settings))
      if (file === undefined)
        throw new ToolError(`There is no program '${wanted.command}' in the folders of PATH.`, {
          code: 'E_NOT_FOUND',
          hint: 'Use another one.',
        })
      const bare = { command: file, args: wanted.args }
      const held =
        processes.platform === 'win32'
          ? bare
          : { command: '/bin/sh', args: ['-c', limited(settings, sandboxed), 'sh', bare.command, ...bare.args] }
      const walls = sandbox && (await wallsFor(settings, wanted.given))
      const placed = sandbox && walls ? inside(sandbox, walls, cwd, held.command, held.args) : { ...held, env: {} }
      const program = await processes.start({
        command: placed.command,
        args: placed.args,
        cwd,
        env: { ...QUIET, ...placed.env, ...settings.env, ...wanted.env },
        inherit: settings.env_passthrough,
      })
      return { ...supervised(program, wanted, settings), made: () => (walls ? madeSince(walls) : []) }
    },
  }
}

function supervised(program: Program, wanted: Wanted, settings: Settings): Omit<Command, 'made'> {
  const { max_output_bytes, max_memory_bytes, max_processes } = settings
  const startedAt = Date.now()
  const [stdout, stderr] = [createCapture(max_output_bytes), createCapture(max_output_bytes)]
  let cut: Cut | undefined

  const stop = async (why: Cut, graceMs?: number): Promise<void> => {
    cut ??= why
    await program.stop(graceMs)
  }
  const take =
    (capture: Capture) =>
    (chunk: Buffer): void => {
      // What it writes while it is being ended is not wanted.
      if (cut === 'output') return
      capture.add(chunk)
      if (stdout.bytes + stderr.bytes > (wanted.maxWritten ?? Number.POSITIVE_INFINITY)) void stop('output', 0)
    }
  program.stdout.on('data', take(stdout))
  program.stderr.on('data', take(stderr))
  if (wanted.stdin !== 'open') program.stdin.end(wanted.stdin ?? '')

  const late = setTimeout(() => void stop('timeout'), wanted.timeoutMs)
  let looking = false
  const looks = setInterval(async () => {
    if (looking) return
    looking = true
    // What cannot be seen now is looked at again the next time.
    const { processes, bytes } = await program.usage().catch(() => UNSEEN)
    looking = false
    if (processes > max_processes) await stop('processes', 0)
    else if (bytes > max_memory_bytes) await stop('memory', 0)
  }, LOOK_MS)
  looks.unref()

  const ended = program.ended.then(({ code, signal }): Ended => {
    clearTimeout(late)
    clearInterval(looks)
    return {
      exit_code: code,
      ...(signal === null ? {} : { signal }),
      duration_ms: Date.now() - startedAt,
      ...(cut === undefined ? {} : { cut }),
    }
  })
  return { program, stdout, stderr, startedAt, ended, stop }
}

/** As long as people would say it: `2s`, `1.5s`. */
const seconds = (ms: number): string => `${Math.round(ms / 100) / 10}s`

/** What a command wrote, as a client may have it. */
export const shownAs = (text: string, settings: Settings): string => (settings.redact ? redact(text) : text)

/** Waits for the end. @throws ToolError for every end but exit code 0, with the output all the same */
export async function finished(command: Command, wanted: Wanted, settings: Settings, signal: AbortSignal) {
  const cancel = (): void => void command.stop('stopped')
  signal.addEventListener('abort', cancel, { once: true })
  if (signal.aborted) cancel()
  const { cut, ...ended } = await command.ended
  signal.removeEventListener('abort', cancel)
  signal.throwIfAborted()
  const { stdout, stderr } = command
  const data = {
    ...ended,
    stdout: shownAs(stdout.text(), settings),
    stderr: shownAs(stderr.text(), settings),
    timed_out: cut === 'timeout',
    truncated: stdout.truncated || stderr.truncated || cut === 'output',
    ...(stdout.truncated ? { stdout_truncated: true } : {}),
    ...(stderr.truncated ? { stderr_truncated: true } : {}),
  }
  const fail = (message: string, code: 'E_TIMEOUT' | 'E_TOO_LARGE' | 'E_TOOL_FAILED', hint: string): ToolError =>
    new ToolError(`${wanted.what} ${message}`, { code, hint, data, retryable: false })
  if (cut === 'timeout')
    throw fail(
      `timed out after ${seconds(wanted.timeoutMs)}`,
      'E_TIMEOUT',
      'Do less at once, or use background_run; modules.shell.config.timeout decides.',
    )
  if (cut === 'output')
    throw fail(
      `was ended: it wrote more than ${wanted.maxWritten} bytes`,
      'E_TOO_LARGE',
      'Write less, or into a file; modules.shell.config.max_written_bytes decides.',
    )
  if (cut === 'memory')
    throw fail(
      `was ended: it used more than ${settings.max_memory_bytes} bytes of memory`,
      'E_TOO_LARGE',
      'modules.shell.config.max_memory_bytes decides.',
    )
  if (cut === 'processes')
    throw fail(
      `was ended: it had more than ${settings.max_processes} processes`,
      'E_TOO_LARGE',
      'modules.shell.config.max_processes decides.',
    )
  if (ended.signal !== undefined) throw fail(`was ended by ${ended.signal}`, 'E_TOOL_FAILED', 'Look at its output.')
  if (ended.exit_code !== 0) throw fail(`exited with code ${ended.exit_code}`, 'E_TOOL_FAILED', 'Look at its output.')
  return data
}
