import { type CallContext, type ToolDef, ToolError, z } from 'pegboard'
import { args, cwd, enabled, line, type Settings } from './config.ts'
import type { Job } from './jobs.ts'
import { program, scripted } from './run.ts'
import { stateOf } from './state.ts'

type Context = CallContext<Settings>

const ownerOf = ({ caller }: Context): string => JSON.stringify([caller.profile, caller.principal])
const jobOf = (id: string, ctx: Context): Job => stateOf(ctx).jobs.get(ownerOf(ctx), id)

const stateNow = ({ id, label, command, ended }: Job) => ({
  task_id: id,
  ...(label === '' ? {} : { label }),
  pid: command.program.pid,
  status: ended ? (ended.cut === undefined ? 'ended' : ended.cut === 'stopped' ? 'killed' : ended.cut) : 'running',
  started_at: new Date(command.startedAt).toISOString(),
  ...(ended
    ? {
        exit_code: ended.exit_code,
        ...(ended.signal === undefined ? {} : { signal: ended.signal }),
        duration_ms: ended.duration_ms,
      }
    : {}),
})

const Begin = z.object({
  command: line.describe('The program alone; with shell: true a whole command line.'),
  args: args.default([]).describe('Its arguments, one each.'),
  shell: z.boolean().default(false).describe('Let bash read the command, in a sandbox, as the tool bash does.'),
  cwd,
  label: z.string().max(200).default('').describe('What it is, for task_list.'),
})

export const background_run: ToolDef<Settings, typeof Begin> = {
  title: 'Start a background command',
  description:
    'Starts a program, or with shell: true a command line, and answers at once. task_output shows what it writes, task_stdin writes to it, task_kill ends it. It ends with this server. For what is over soon use run or bash.',
  aliases: ['start process', 'run in background', 'daemon', 'lancer en arrière-plan', 'im Hintergrund starten'],
  tags: ['shell', 'background', 'process'],
  input: Begin,
  effect: 'destructive',
  sideEffects: ['runs programs', 'may change files of the workspace'],
  examples: [{ input: { command: 'npm', args: ['run', 'dev'], label: 'web server' } }],
  available: enabled,
  async run({ command, args: given, shell, cwd: folder, label }, ctx) {
    const { config } = ctx
    const what = 'background_run'
    const wanted = shell
      ? await scripted(what, { text: command, interpreter: 'bash', args: given, cwd: folder, login: true }, config)
      : await program(what, { command, args: given, cwd: folder }, config)
    const { jobs, starter } = stateOf(ctx)
    const job = await jobs.add(ownerOf(ctx), label, config.max_background, () =>
      starter.start({ ...wanted, timeoutMs: config.background_timeout * 1_000, stdin: 'open' }, config),
    )
    return stateNow(job)
  },
}

const id = z.string().min(1).max(100).describe('From background_run or task_list.')
const Id = z.object({ task_id: id })
const example = 'd9b2d63d-a233-4123-847a-7e1b0a3a7c1e'

export const task_status: ToolDef<Settings, typeof Id> = {
  title: 'State of a background command',
  description: 'Says whether a background command still runs, and how it ended. For what it wrote use task_output.',
  aliases: ['process status', 'is it running', 'état du processus', 'Prozessstatus'],
  tags: ['shell', 'background'],
  input: Id,
  effect: 'read',
  sideEffects: ['none'],
  examples: [{ input: { task_id: example } }],
  available: enabled,
  run: ({ task_id }, ctx) => stateNow(jobOf(task_id, ctx)),
}

const Tail = z.object({
  task_id: id,
  tail: z.int().min(1).max(2_000).default(50).describe('Lines from the end.'),
  stream: z.enum(['both', 'stdout', 'stderr']).default('both').describe('Which of its outputs.'),
})

export const task_output: ToolDef<Settings, typeof Tail> = {
  title: 'Output of a background command',
  description: 'Gives the last lines that a background command wrote, while it runs and for an hour after its end.',
  aliases: ['process output', 'tail output', 'show logs', 'sortie du processus', 'Prozessausgabe'],
  tags: ['shell', 'background', 'logs'],
  input: Tail,
  effect: 'read',
  sideEffects: ['none'],
  examples: [{ input: { task_id: example, tail: 20 } }],
  available: enabled,
  run({ task_id, tail, stream }, ctx) {
    const job = jobOf(task_id, ctx)
    const { stdout, stderr } = job.command
    return {
      ...stateNow(job),
      ...(stream === 'stderr' ? {} : { stdout: stdout.tail(tail) }),
      ...(stream === 'stdout' ? {} : { stderr: stderr.tail(tail) }),
      truncated: stdout.truncated || stderr.truncated,
    }
  },
}

const Wait = z.object({
  task_id: id,
  timeout_seconds: z.number().min(0).max(300).default(60).describe('Seconds to wait at most.'),
})

export const task_wait: ToolDef<Settings, typeof Wait> = {
  title: 'Wait for a background command',
  description: 'Waits until a background command has ended, or for the time given; either way says how it is doing.',
  aliases: ['wait for process', 'attendre le processus', 'auf Prozess warten'],
  tags: ['shell', 'background'],
  input: Wait,
  effect: 'read',
  sideEffects: ['none'],
  examples: [{ input: { task_id: example, timeout_seconds: 30 } }],
  available: enabled,
  async run({ task_id, timeout_seconds }, ctx) {
    const { signal } = ctx
    const job = jobOf(task_id, ctx)
    await new Promise<void>((resolve, reject) => {
      const timer = setTimeout(() => over(resolve), timeout_seconds * 1_000)
      const abort = (): void => over(() => reject(signal.reason))
      function over(settle: () => void): void {
        clearTimeout(timer)
        signal.removeEventListener('abort', abort)
        settle()
      }
      signal.addEventListener('abort', abort, { once: true })
      void job.command.ended.then(() => over(resolve))
    })
    return stateNow(job)
  },
}

export const task_list: ToolDef<Settings> = {
  title: 'List background commands',
  description: 'Lists the background commands you have started, those that run and those that ended within the hour.',
  aliases: ['ps', 'list processes', 'lister les processus', 'Prozesse auflisten'],
  tags: ['shell', 'background'],
  effect: 'read',
  sideEffects: ['none'],
  examples: [{ input: {} }],
  available: enabled,
  run(_input, ctx) {
    const tasks = stateOf(ctx).jobs.list(ownerOf(ctx)).map(stateNow)
    return { tasks, total: tasks.length }
  },
}

/** Time to end by itself. */
const KILL_GRACE_MS = 2_500

export const task_kill: ToolDef<Settings, typeof Id> = {
  title: 'End a background command',
  description: 'Ends a background command and all that it started: it is asked to, and after a moment made to.',
  aliases: ['kill', 'stop process', 'terminate', 'arrêter le processus', 'Prozess beenden'],
  tags: ['shell', 'background'],
  input: Id,
  effect: 'destructive',
  idempotent: true,
  sideEffects: ['ends programs'],
  examples: [{ input: { task_id: example } }],
  available: enabled,
  async run({ task_id }, ctx) {
    const job = jobOf(task_id, ctx)
    if (!job.ended) await job.command.stop('stopped', KILL_GRACE_MS)
    await job.command.ended
    return stateNow(job)
  },
}

const Stdin = z.object({
  task_id: id,
  text: z.string().max(1_000_000).describe('What it reads; end a line with a line break.'),
  close: z.boolean().default(false).describe('Nothing more will come.'),
})
const MAX_UNREAD = 4 * 1024 * 1024

export const task_stdin: ToolDef<Settings, typeof Stdin> = {
  title: 'Write to a background command',
  description: 'Writes text to the standard input of a background command that runs, such as an answer it waits for.',
  aliases: ['send input', 'write stdin', "envoyer l'entrée", 'Eingabe senden'],
  tags: ['shell', 'background'],
  input: Stdin,
  effect: 'destructive',
  sideEffects: ['what the program does with it'],
  examples: [{ input: { task_id: example, text: 'yes\n' } }],
  available: enabled,
  run({ task_id, text, close }, ctx) {
    const job = jobOf(task_id, ctx)
    const { stdin } = job.command.program
    if (job.ended || !stdin.writable)
      throw new ToolError('It reads nothing any more.', { hint: 'task_status says how it ended.' })
    if (stdin.writableLength > MAX_UNREAD)
      throw new ToolError('It does not read what it was sent.', { code: 'E_OVERLOADED', hint: 'Wait, or end it.' })
    stdin.write(text)
    if (close) stdin.end()
    return { task_id, written: Buffer.byteLength(text), closed: close }
  },
}
