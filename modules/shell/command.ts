import { statfs } from 'node:fs/promises'
import { type Log, type Processes, type Program, redact, removeInvisible, ToolError } from 'pegboard'
import { notFound } from '../_errors.ts'
import { type Capture, createCapture } from './capture.ts'
import { rootsOf, type Settings } from './config.ts'
import { checkGitPaths, checkReads } from './file-arguments.ts'
import { findProgram } from './find-program.ts'
import { checkRepository, gitVariables } from './repository.ts'
import { createNoSandboxError, listCreated, type Sandbox, sandboxPaths, trySandbox, wrapCommand } from './sandbox.ts'
import { createTaskLimit, type TaskLimit } from './task-limit.ts'

/** Why Pegboard ended a command. */
export type StopReason = 'timeout' | 'output' | 'memory' | 'processes' | 'disk' | 'stopped'

export interface CommandExit {
  readonly exit_code: number | null
  readonly signal?: string
  readonly duration_ms: number
  readonly stopReason?: StopReason
}

/** A running command, held to its limits. */
export interface Command {
  readonly program: Program
  readonly stdout: Capture
  readonly stderr: Capture
  readonly startedAt: number
  readonly ended: Promise<CommandExit>
  stop(reason: StopReason, graceMs?: number): Promise<void>
  /** New files that affect other programs; only for commands in a sandbox. */
  createdFiles(): readonly string[]
  /** True if its output says that it could not change a folder with Pegboard's files. */
  failedInReadOnlyFolder(): boolean
  /** True if its output says that it could not connect, and its sandbox has no network. */
  failedWithoutNetwork(): boolean
}

export interface CommandRequest {
  /** Name in messages. */
  readonly what: string
  readonly command: string
  readonly args: readonly string[]
  readonly cwd: string
  readonly timeoutMs: number
  readonly sandboxed: boolean
  /** Run without a sandbox if there is none, reading only workspace files; default false. */
  readonly canRunUnsandboxed?: boolean
  /** Allow network access in the sandbox; default false. */
  readonly network?: boolean
  /** Additional writable folders. */
  readonly writableFolders?: readonly string[]
  /** Variables set by the call. */
  readonly env?: Readonly<Record<string, string>>
  /** Maximum output in bytes; default unlimited. */
  readonly maxWritten?: number
  /** Written to its stdin, which is then closed. `open` keeps it open. */
  readonly stdin?: string | 'open'
}

/** Starts commands, in a sandbox where required. */
export interface Starter {
  start(request: CommandRequest, settings: Settings): Promise<Command>
}

/** How often resource use is checked. */
const CHECK_INTERVAL_MS = 100
const UNKNOWN_USAGE = { processes: 0, bytes: 0 }

// Nobody can answer a prompt or page through output.
const NON_INTERACTIVE = { TERM: 'dumb', PAGER: 'cat', GIT_PAGER: 'cat', GIT_TERMINAL_PROMPT: '0' }

/**
 * Limits enforced by the system. The process limit works only in a sandbox: elsewhere it would count all processes of
 * the user. Shells count file sizes in blocks of 512 bytes.
 */
const limitScript = ({ max_memory_bytes, max_processes, max_file_bytes }: Settings, sandboxed: boolean): string =>
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
  let sandboxTest: ReturnType<typeof trySandbox> | undefined

  /** Tested on first use. @throws ToolError if there is no sandbox, unless it is only preferred */
  async function getSandbox(what: string, settings: Settings, preferred: boolean): Promise<Sandbox | undefined> {
    sandboxTest ??= trySandbox(processes, settings).then((sandbox) => {
      if ('reason' in sandbox) log.warn(`no sandbox: ${sandbox.reason}`, { detail: sandbox.detail })
      return sandbox
    })
    const sandbox = await sandboxTest
    if (!('reason' in sandbox)) return sandbox
    if (preferred) return undefined
    throw createNoSandboxError(what, sandbox.reason)
  }

  return {
    async start(request, settings) {
      const { what, cwd, canRunUnsandboxed = false } = request
      const sandbox = request.sandboxed ? await getSandbox(what, settings, canRunUnsandboxed) : undefined
      const sandboxed = sandbox !== undefined
      if (canRunUnsandboxed && !sandboxed) await checkReads(settings, request)
      const file = await findProgram(request.command, processes, rootsOf(settings))
      if (file === undefined) throw notFound(`Program '${request.command}' was not found on PATH.`, 'Use another one.')
      if (!sandboxed) {
        await checkGitPaths(settings, request)
        await checkRepository(processes, settings, request)
      }
      const programCommand = { command: file, args: request.args }
      const limitedCommand =
        processes.platform === 'win32'
          ? programCommand
          : {
              command: '/bin/sh',
              args: ['-c', limitScript(settings, sandboxed), 'sh', programCommand.command, ...programCommand.args],
            }
      const paths = sandbox && (await sandboxPaths(settings, request.writableFolders))
      const sandboxedCommand =
        sandbox && paths
          ? wrapCommand(sandbox, paths, cwd, limitedCommand.command, limitedCommand.args, request.network)
          : { ...limitedCommand, env: {} }
      const taskLimit = sandboxed
        ? createTaskLimit(settings.max_processes + BUBBLEWRAP_PROCESSES, processes.platform)
        : undefined
      const countedCommand = taskLimit
        ? {
            command: '/bin/sh',
            args: [
              '-c',
              JOIN_GROUP_SCRIPT,
              'sh',
              taskLimit.joinFile,
              sandboxedCommand.command,
              ...sandboxedCommand.args,
            ],
          }
        : sandboxedCommand
      const program = await processes.start({
        command: countedCommand.command,
        args: countedCommand.args,
        cwd,
        env: {
          ...NON_INTERACTIVE,
          ...(sandboxed ? {} : gitVariables(request.command)),
          ...sandboxedCommand.env,
          ...settings.env,
          ...request.env,
        },
        inherit: settings.env_passthrough,
      })
      const freeBefore = paths ? await freeBytes(paths.writable) : undefined
      const command = superviseProgram(program, request, settings, { freeBefore, taskLimit })
      return {
        ...command,
        createdFiles: () => (paths ? listCreated(paths) : []),
        failedInReadOnlyFolder: () => paths?.closed !== undefined && READ_ONLY_MESSAGE.test(command.stderr.tail(20)),
        failedWithoutNetwork: () =>
          sandboxed &&
          request.network !== true &&
          NO_NETWORK_MESSAGE.test(`${command.stdout.tail(20)}\n${command.stderr.tail(20)}`),
      }
    },
  }
}

/** Error messages of programs that cannot change a read-only folder or a mounted file. */
const READ_ONLY_MESSAGE = /Read-only file system|Device or resource busy|\bEROFS\b|\bEBUSY\b/

/** Messages of programs that cannot connect. */
const NO_NETWORK_MESSAGE =
  /connection refused|network is unreachable|could not resolve|unable to resolve|name resolution|name or service not known|\b(?:ECONNREFUSED|ENETUNREACH|ENOTFOUND|EAI_AGAIN)\b/i

/** Joins a control group before running the program. */
const JOIN_GROUP_SCRIPT = 'echo 0 > "$1" && shift && exec "$@"'
const REMOVE_DELAY_MS = 1_000
/** Number of bubblewrap processes outside the sandbox. */
const BUBBLEWRAP_PROCESSES = 1

/** Free bytes of a disk that a command can write to. */
type FreeBytes = ReadonlyMap<string, number>

async function freeBytes(folders: readonly string[]): Promise<FreeBytes> {
  const entries = await Promise.all(
    folders.map(async (folder) => {
      const { bavail, bsize } = await statfs(folder)
      return [folder, bavail * bsize] as const
    }),
  )
  return new Map(entries)
}

/**
 * True if a disk has less space left than required: the operator's setting, or half of what was free, whichever is
 * less.
 */
async function isDiskFull(before: FreeBytes, minFree: number): Promise<boolean> {
  const current = await freeBytes([...before.keys()])
  return [...before].some(([folder, free]) => (current.get(folder) ?? free) < Math.min(minFree, free / 2))
}

function superviseProgram(
  program: Program,
  request: CommandRequest,
  settings: Settings,
  { freeBefore, taskLimit }: { readonly freeBefore: FreeBytes | undefined; readonly taskLimit: TaskLimit | undefined },
): Omit<Command, 'createdFiles' | 'failedInReadOnlyFolder' | 'failedWithoutNetwork'> {
  const { max_output_bytes, max_memory_bytes, max_processes, keep_free_bytes } = settings
  const startedAt = Date.now()
  const [stdout, stderr] = [createCapture(max_output_bytes), createCapture(max_output_bytes)]
  let stopReason: StopReason | undefined

  const stop = async (reason: StopReason, graceMs?: number): Promise<void> => {
    stopReason ??= reason
    await program.stop(graceMs)
  }
  const captureTo =
    (capture: Capture) =>
    (chunk: Buffer): void => {
      // Output written while it is being ended is discarded.
      if (stopReason === 'output') return
      capture.add(chunk)
      if (stdout.bytes + stderr.bytes > (request.maxWritten ?? Number.POSITIVE_INFINITY)) void stop('output', 0)
    }
  program.stdout.on('data', captureTo(stdout))
  program.stderr.on('data', captureTo(stderr))
  if (request.stdin !== 'open') program.stdin.end(request.stdin ?? '')

  const timeoutTimer = setTimeout(() => void stop('timeout'), request.timeoutMs)
  let isChecking = false
  const usageTimer = setInterval(async () => {
    if (isChecking) return
    isChecking = true
    // If usage cannot be read now, it is read next time.
    const { processes, bytes } = await program.usage().catch(() => UNKNOWN_USAGE)
    const diskFull = freeBefore ? await isDiskFull(freeBefore, keep_free_bytes).catch(() => false) : false
    isChecking = false
    if (diskFull) await stop('disk', 0)
    else if (processes > max_processes || taskLimit?.isReached()) await stop('processes', 0)
    else if (bytes > max_memory_bytes) await stop('memory', 0)
  }, CHECK_INTERVAL_MS)
  usageTimer.unref()

  const ended = program.ended.then(({ code, signal }): CommandExit => {
    if (taskLimit?.isReached()) stopReason ??= 'processes'
    // Its last process may be about to end.
    setTimeout(() => taskLimit?.remove(), REMOVE_DELAY_MS).unref()
    clearTimeout(timeoutTimer)
    clearInterval(usageTimer)
    return {
      exit_code: code,
      ...(signal === null ? {} : { signal }),
      duration_ms: Date.now() - startedAt,
      ...(stopReason === undefined ? {} : { stopReason }),
    }
  })
  return { program, stdout, stderr, startedAt, ended, stop }
}

/** Exit code of a shell or bubblewrap when SIGXFSZ ended the program. */
const FILE_TOO_LARGE = 128 + 25

/** A duration in words: `2s`, `1.5s`. */
const formatSeconds = (ms: number): string => `${Math.round(ms / 100) / 10}s`

/** The output of a command, safe for clients: without commands of terminals and other hidden text. */
export function sanitizeOutput(text: string, settings: Settings): string {
  const visibleText = removeInvisible(text)
  return settings.redact ? redact(visibleText) : visibleText
}

/** Waits for the end. @throws ToolError for every end except exit code 0, including the output */
export async function waitForExit(command: Command, request: CommandRequest, settings: Settings, signal: AbortSignal) {
  const cancel = (): void => void command.stop('stopped')
  signal.addEventListener('abort', cancel, { once: true })
  if (signal.aborted) cancel()
  const { stopReason, ...ended } = await command.ended
  signal.removeEventListener('abort', cancel)
  signal.throwIfAborted()
  const { stdout, stderr } = command
  const data = {
    ...ended,
    stdout: sanitizeOutput(stdout.text(), settings),
    stderr: sanitizeOutput(stderr.text(), settings),
    timed_out: stopReason === 'timeout',
    truncated: stdout.truncated || stderr.truncated || stopReason === 'output',
    ...(stdout.truncated ? { stdout_truncated: true } : {}),
    ...(stderr.truncated ? { stderr_truncated: true } : {}),
  }
  const fail = (message: string, code: 'E_TIMEOUT' | 'E_TOO_LARGE' | 'E_TOOL_FAILED', hint: string): ToolError =>
    new ToolError(`${request.what} ${message}`, { code, hint, data, retryable: false })
  if (stopReason === 'timeout')
    throw fail(
      `timed out after ${formatSeconds(request.timeoutMs)}`,
      'E_TIMEOUT',
      'Do less at once, or use background_run; see modules.shell.config.timeout.',
    )
  if (stopReason === 'output')
    throw fail(
      `was stopped: it wrote more than ${request.maxWritten} bytes`,
      'E_TOO_LARGE',
      'Write less, or into a file; see modules.shell.config.max_written_bytes.',
    )
  if (stopReason === 'memory')
    throw fail(
      `was stopped: it used more than ${settings.max_memory_bytes} bytes of memory`,
      'E_TOO_LARGE',
      'See modules.shell.config.max_memory_bytes.',
    )
  if (stopReason === 'processes')
    throw fail(
      `was stopped: it had more than ${settings.max_processes} processes`,
      'E_TOO_LARGE',
      'See modules.shell.config.max_processes.',
    )
  if (stopReason === 'disk')
    throw fail(
      'was stopped: it left too little free disk space',
      'E_TOO_LARGE',
      'Write less; see modules.shell.config.keep_free_bytes.',
    )
  if (request.sandboxed && (ended.signal === 'SIGXFSZ' || ended.exit_code === FILE_TOO_LARGE))
    throw fail(
      `was stopped: it created a file larger than ${settings.max_file_bytes} bytes`,
      'E_TOO_LARGE',
      'Write less, or several files; see modules.shell.config.max_file_bytes.',
    )
  if (ended.signal !== undefined) throw fail(`was stopped by ${ended.signal}`, 'E_TOOL_FAILED', 'Check its output.')
  if (ended.exit_code !== 0) throw fail(`exited with code ${ended.exit_code}`, 'E_TOOL_FAILED', 'Check its output.')
  return data
}
