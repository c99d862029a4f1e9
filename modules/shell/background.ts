import { type CallContext, type ToolDef, ToolError, z } from 'pegboard'
import { overloaded } from '../_errors.ts'
import { waitFor } from '../_wait-for.ts'
import { createAccessCheck } from '../_while-allowed.ts'
import { checkVariables } from './allow.ts'
import { sanitizeOutput } from './command.ts'
import { args, cwd, line, type Settings, variables } from './config.ts'
import type { Job } from './jobs.ts'
import { programRequest, scriptRequest, warnAboutNetwork } from './run.ts'
import { ownerOf, stateOf } from './state.ts'
import { type OutputPosition, outputPosition, waitForOutput } from './wait-for-output.ts'

type Context = CallContext<Settings>

const getJob = (id: string, ctx: Context): Job => stateOf(ctx).jobs.get(ownerOf(ctx), id)

const taskState = ({ id, label, command, ended }: Job) => ({
  task_id: id,
  ...(label === '' ? {} : { label }),
  pid: command.program.pid,
  status: ended
    ? ended.stopReason === undefined
      ? 'ended'
      : ended.stopReason === 'stopped'
        ? 'killed'
        : ended.stopReason
    : 'running',
  started_at: new Date(command.startedAt).toISOString(),
  ...(ended
    ? {
        exit_code: ended.exit_code,
        ...(ended.signal === undefined ? {} : { signal: ended.signal }),
        duration_ms: ended.duration_ms,
      }
    : {}),
})

/** Output since a position, and the next position. */
function readSince({ command }: Job, from: OutputPosition, stream: 'both' | 'stdout' | 'stderr', ctx: Context) {
  const { stdout, stderr } = command
  const { config } = ctx
  warnAboutNetwork(command, ctx)
  const position = outputPosition(command)
  return {
    ...(stream === 'stderr' ? {} : { stdout: sanitizeOutput(stdout.since(from.stdout), config) }),
    ...(stream === 'stdout' ? {} : { stderr: sanitizeOutput(stderr.since(from.stderr), config) }),
    next: `${position.stdout}.${position.stderr}`,
  }
}

const waitSeconds = z.number().min(0).max(120).default(0)
const until = z.string().min(1).max(1_000).optional().describe('Wait for this text, such as a prompt.')

const Begin = z.object({
  command: line.describe('Program; with shell: true a whole command line.'),
  args: args.default([]).describe('Arguments, one per entry.'),
  shell: z.boolean().default(false).describe('Run command with bash in a sandbox, like the tool bash.'),
  cwd,
  env: variables,
  wait_seconds: waitSeconds.describe('Seconds to wait for first output or the end; default returns at once.'),
  until,
  label: z.string().max(200).default('').describe('Label for task_list.'),
})

export const background_run: ToolDef<Settings, typeof Begin> = {
  title: 'Start a background command',
  description:
    'Start a program, or with shell: true a command line, in the background: servers, watchers, interpreters to talk to. task_output reads its output, task_stdin writes to it, task_kill stops it. It ends with this server; its task_id is valid for an hour after its end. For short commands use run or bash.',
  aliases: ['start process', 'run in background', 'daemon', 'lancer en arrière-plan', 'im Hintergrund starten'],
  tags: ['shell', 'background', 'process'],
  input: Begin,
  effect: 'destructive',
  sideEffects: ['runs programs', 'can change files of the workspace'],
  examples: [
    { input: { command: 'npm', args: ['run', 'dev'], label: 'web server' } },
    { input: { command: 'python3 -iq', shell: true, wait_seconds: 5, until: '>>> ' } },
  ],
  async run({ command, args: given, shell, cwd: folder, env, wait_seconds, until, label }, ctx) {
    const { config, signal } = ctx
    const what = 'background_run'
    const request = shell
      ? await scriptRequest(what, { text: command, interpreter: 'bash', args: given, cwd: folder, login: true }, config)
      : await programRequest(what, { command, args: given, cwd: folder, env }, config)
    checkVariables(config, env)
    const { jobs, starter } = stateOf(ctx)
    const job = await jobs.add(
      ownerOf(ctx),
      label,
      config.max_background,
      () => starter.start({ ...request, env, timeoutMs: config.background_timeout * 1_000, stdin: 'open' }, config),
      createAccessCheck(ctx.services),
    )
    if (wait_seconds === 0) return taskState(job)
    const from = { stdout: 0, stderr: 0 }
    await waitForOutput(job.command, from, { waitMs: wait_seconds * 1_000, until, signal })
    return { ...taskState(job), ...readSince(job, from, 'both', ctx) }
  },
}

const id = z.string().min(1).max(100).describe('From background_run or task_list.')
const Id = z.object({ task_id: id })
const example = 'd9b2d63da2334123847a7e1b0a3a7c1e'

export const task_status: ToolDef<Settings, typeof Id> = {
  title: 'State of a background command',
  description: 'Show whether a background command is running, and how it ended. For its output use task_output.',
  aliases: ['process status', 'is it running', 'état du processus', 'Prozessstatus'],
  tags: ['shell', 'background'],
  input: Id,
  effect: 'read',
  sideEffects: ['none'],
  examples: [{ input: { task_id: example } }],
  run: ({ task_id }, ctx) => taskState(getJob(task_id, ctx)),
}

const Tail = z.object({
  task_id: id,
  tail: z.int().min(1).max(2_000).default(50).describe('Number of last lines.'),
  stream: z.enum(['both', 'stdout', 'stderr']).default('both').describe('Output stream.'),
  since: z
    .string()
    .regex(/^\d{1,15}\.\d{1,15}$/)
    .optional()
    .describe('next of an earlier result: return only later output, instead of the tail.'),
  wait_seconds: waitSeconds.describe('Seconds to wait for new output or the end; default returns at once.'),
  until,
})

export const task_output: ToolDef<Settings, typeof Tail> = {
  title: 'Output of a background command',
  description:
    'Read the last lines of output of a background command, or only new ones (since); can wait for output. Works until an hour after its end.',
  aliases: ['process output', 'tail output', 'show logs', 'sortie du processus', 'Prozessausgabe'],
  tags: ['shell', 'background', 'logs'],
  input: Tail,
  effect: 'read',
  sideEffects: ['none'],
  examples: [
    { input: { task_id: example, tail: 20 } },
    { input: { task_id: example, since: '812.0', wait_seconds: 10 } },
  ],
  allowRepeat: true,
  async run({ task_id, tail, stream, since, wait_seconds, until }, ctx) {
    const { config, signal } = ctx
    const job = getJob(task_id, ctx)
    const { stdout, stderr } = job.command
    const [out = 0, err = 0] = since?.split('.').map(Number) ?? []
    const from = since === undefined ? outputPosition(job.command) : { stdout: out, stderr: err }
    if (wait_seconds > 0) await waitForOutput(job.command, from, { waitMs: wait_seconds * 1_000, until, signal })
    const { next, ...newOutput } = readSince(job, from, stream, ctx)
    return {
      ...taskState(job),
      ...(since === undefined
        ? {
            ...(stream === 'stderr' ? {} : { stdout: sanitizeOutput(stdout.tail(tail), config) }),
            ...(stream === 'stdout' ? {} : { stderr: sanitizeOutput(stderr.tail(tail), config) }),
          }
        : newOutput),
      next,
      truncated: stdout.truncated || stderr.truncated,
    }
  },
}

const Wait = z.object({
  task_id: id,
  timeout_seconds: z.number().min(0).max(300).default(60).describe('Maximum seconds to wait.'),
})

export const task_wait: ToolDef<Settings, typeof Wait> = {
  title: 'Wait for a background command',
  description: 'Wait until a background command ends, or until the timeout, and return its status.',
  aliases: ['wait for process', 'attendre le processus', 'auf Prozess warten'],
  tags: ['shell', 'background'],
  input: Wait,
  effect: 'read',
  sideEffects: ['none'],
  examples: [{ input: { task_id: example, timeout_seconds: 30 } }],
  async run({ task_id, timeout_seconds }, ctx) {
    const job = getJob(task_id, ctx)
    await waitFor(job.command.ended, timeout_seconds * 1_000, ctx.signal)
    return taskState(job)
  },
}

export const task_list: ToolDef<Settings> = {
  title: 'List background commands',
  description: 'List your background commands: running ones and those that ended within the hour.',
  aliases: ['list sessions', 'jobs', 'lister les tâches', 'Hintergrundbefehle auflisten'],
  tags: ['shell', 'background'],
  effect: 'read',
  sideEffects: ['none'],
  examples: [{ input: {} }],
  run(_input, ctx) {
    const tasks = stateOf(ctx).jobs.list(ownerOf(ctx)).map(taskState)
    return { tasks, total: tasks.length }
  },
}

/** Time to end by itself. */
const KILL_GRACE_MS = 2_500

export const task_kill: ToolDef<Settings, typeof Id> = {
  title: 'Stop a background command',
  description: 'Stop a background command and everything it started: first SIGTERM, soon after SIGKILL.',
  aliases: ['stop process', 'force terminate', 'terminate', 'arrêter le processus', 'Prozess beenden'],
  tags: ['shell', 'background'],
  input: Id,
  effect: 'destructive',
  idempotent: true,
  sideEffects: ['stops programs'],
  examples: [{ input: { task_id: example } }],
  async run({ task_id }, ctx) {
    const job = getJob(task_id, ctx)
    if (!job.ended) await job.command.stop('stopped', KILL_GRACE_MS)
    await job.command.ended
    return taskState(job)
  },
}

const Stdin = z.object({
  task_id: id,
  text: z.string().max(1_000_000).describe('Text to write; end a line with a line break.'),
  close: z.boolean().default(false).describe('Close standard input afterwards.'),
  wait_seconds: waitSeconds.describe('Seconds to wait for its response; default does not wait.'),
  until,
})
const MAX_UNREAD_BYTES = 4 * 1024 * 1024

export const task_stdin: ToolDef<Settings, typeof Stdin> = {
  title: 'Write to a background command',
  description:
    'Write text to the standard input of a running background command, such as an answer it waits for or a line for an interpreter; with wait_seconds also return its output.',
  aliases: ['send input', 'write stdin', 'interact with process', 'repl', "envoyer l'entrée", 'Eingabe senden'],
  tags: ['shell', 'background'],
  input: Stdin,
  effect: 'destructive',
  sideEffects: ['depends on the program'],
  examples: [
    { input: { task_id: example, text: 'yes\n' } },
    { input: { task_id: example, text: 'print(6 * 7)\n', wait_seconds: 5, until: '>>> ' } },
  ],
  allowRepeat: true,
  async run({ task_id, text, close, wait_seconds, until }, ctx) {
    const job = getJob(task_id, ctx)
    const { stdin } = job.command.program
    if (job.ended || !stdin.writable)
      throw new ToolError('Its standard input is closed.', { hint: 'task_status shows how it ended.' })
    if (stdin.writableLength > MAX_UNREAD_BYTES)
      throw overloaded('It does not read its standard input.', 'Wait, or stop it.')
    const from = outputPosition(job.command)
    stdin.write(text)
    if (close) stdin.end()
    const written = { task_id, written: Buffer.byteLength(text), closed: close }
    if (wait_seconds === 0) return written
    await waitForOutput(job.command, from, { waitMs: wait_seconds * 1_000, until, signal: ctx.signal })
    return { ...written, ...taskState(job), ...readSince(job, from, 'both', ctx) }
  },
}
