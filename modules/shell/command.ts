import { statfs } from 'node:fs/promises'
import { type Log, type Processes, type Program, redact, ToolError } from 'pegboard'
import { type Capture, createCapture } from './capture.ts'
import { rootsOf, type Settings } from './config.ts'
import { findProgram } from './find.ts'
import { inside, madeSince, noSandbox, type Sandbox, trySandbox, wallsFor } from './sandbox.ts'
import { createTaskLimit, type TaskLimit } from './task-limit.ts'

/** Why a command was ended before it ended by itself. */
export type Cut = 'timeout' | 'output' | 'memory' | 'processes' | 'disk' | 'stopped'

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
  /** In the sandbox; default false. */
  readonly network?: boolean
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
const LOOK_MS = 100
const UNSEEN = { processes: 0, bytes: 0 }

// Nobody is there to answer, and nobody turns pages.
const QUIET = { TERM: 'dumb', PAGER: 'cat', GIT_PAGER: 'cat', GIT_TERMINAL_PROMPT: '0' }

/**
 * What limits a process from inside, where the system can. The count is only that of a sandbox there: elsewhere it would be of all that
 * the user runs. A shell counts the size of files in blocks of 512 bytes.
 */
const limited = ({ max_memory_bytes, max_processes, max_file_bytes }: Settings, sandboxed: boolean): string =>
  [
    'ulimit -c 0',
    `(ulimit -d ${Math.floor(max_memory_bytes / 1024)}) 2>/dev/null && ulimit -d ${Math.floor(max_memory_bytes / 1024)}`,
    ...(sandboxed
      ? [
          `ulimit -f ${Math.ceil(max_file_bytes / 512)}`,
          ...['u', 'p'].map(
            (flag) => `(ulimit -${flag} ${max_processes}) 2>/dev/null && ulimit -${flag} ${max_processes}`,
          ),
        ]
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
      const placed =
        sandbox && walls ? inside(sandbox, walls, cwd, held.command, held.args, wanted.network) : { ...held, env: {} }
      const tasks = sandboxed ? createTaskLimit(settings.max_processes + AROUND, processes.platform) : undefined
      const counted = tasks
        ? { command: '/bin/sh', args: ['-c', JOIN, 'sh', tasks.join, placed.command, ...placed.args] }
        : placed
      const program = await processes.start({
        command: counted.command,
        args: counted.args,
        cwd,
        env: { ...QUIET, ...placed.env, ...settings.env, ...wanted.env },
        inherit: settings.env_passthrough,
      })
      const left = walls ? await freeBytes(walls.writable) : undefined
      return { ...supervised(program, wanted, settings, { left, tasks }), made: () => (walls ? madeSince(walls) : []) }
    },
  }
}

/** Joins a control group before it becomes the program. */
const JOIN = 'echo 0 > "$1" && shift && exec "$@"'
const REMOVE_MS = 1_000
/** The process of bubblewrap that waits outside. */
const AROUND = 1

/** A disk that a command can write to, and how many bytes are free there. */
type Free = ReadonlyMap<string, number>

async function freeBytes(folders: readonly string[]): Promise<Free> {
  const found = await Promise.all(
    folders.map(async (folder) => {
      const { bavail, bsize } = await statfs(folder)
      return [folder, bavail * bsize] as const
    }),
  )
  return new Map(found)
}

/** Whether a disk has less left than is to be kept: the operator's number, or half of what was free, where that is less. */
async function isFilled(before: Free, keep: number): Promise<boolean> {
  const now = await freeBytes([...before.keys()])
  return [...before].some(([folder, free]) => (now.get(folder) ?? free) < Math.min(keep, free / 2))
}

function supervised(
  program: Program,
  wanted: Wanted,
  settings: Settings,
  { left, tasks }: { readonly left: Free | undefined; readonly tasks: TaskLimit | undefined },
): Omit<Command, 'made'> {
  const { max_output_bytes, max_memory_bytes, max_processes, keep_free_bytes } = settings
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
    const filled = left ? await isFilled(left, keep_free_bytes).catch(() => false) : false
    looking = false
    if (filled) await stop('disk', 0)
    else if (processes > max_processes || tasks?.isReached()) await stop('processes', 0)
    else if (bytes > max_memory_bytes) await stop('memory', 0)
  }, LOOK_MS)
  looks.unref()

  const ended = program.ended.then(({ code, signal }): Ended => {
    if (tasks?.isReached()) cut ??= 'processes'
    // Its last process may be about to end.
    setTimeout(() => tasks?.remove(), REMOVE_MS).unref()
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

/** How a shell and bubblewrap tell that SIGXFSZ ended a program. */
const FILE_TOO_LARGE = 128 + 25

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
  if (cut === 'disk')
    throw fail(
      'was ended: it left too little of the disk free',
      'E_TOO_LARGE',
      'Write less; modules.shell.config.keep_free_bytes decides.',
    )
  if (wanted.sandboxed && (ended.signal === 'SIGXFSZ' || ended.exit_code === FILE_TOO_LARGE))
    throw fail(
      `was ended: it made a file of more than ${settings.max_file_bytes} bytes`,
      'E_TOO_LARGE',
      'Write less, or several files; modules.shell.config.max_file_bytes decides.',
    )
  if (ended.signal !== undefined) throw fail(`was ended by ${ended.signal}`, 'E_TOOL_FAILED', 'Look at its output.')
  if (ended.exit_code !== 0) throw fail(`exited with code ${ended.exit_code}`, 'E_TOOL_FAILED', 'Look at its output.')
  return data
}
