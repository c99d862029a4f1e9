import { type CallContext, redact, type ToolDef, ToolError, z } from 'pegboard'
import type { Settings } from './config.ts'
import { ownerOf, stateOf } from './state.ts'

const runningOf = (ctx: CallContext<Settings>) =>
  stateOf(ctx)
    .jobs.list(ownerOf(ctx))
    .filter(({ ended }) => !ended)

const Ps = z.object({
  filter: z.string().max(200).default('').describe('Only those whose command has this in it; case does not matter.'),
})

export const ps: ToolDef<Settings, typeof Ps> = {
  title: 'Processes of background commands',
  description:
    'Lists the processes of your background commands with what they started: ids, memory and command lines. Other processes of this machine are not shown. For how a command ended use task_status.',
  aliases: ['list processes', 'process list', 'top', 'lister les processus', 'Prozesse anzeigen'],
  tags: ['shell', 'process'],
  input: Ps,
  effect: 'read',
  sideEffects: ['none'],
  examples: [{ input: { filter: 'node' } }],
  async run({ filter }, ctx) {
    const wanted = filter.toLowerCase()
    const found = await Promise.all(
      runningOf(ctx).map(async ({ id, command }) =>
        (await command.program.list()).map((one) => ({ ...one, task_id: id })),
      ),
    )
    const processes = found
      .flat()
      .map(({ command, ...one }) => ({ ...one, command: readable(command) }))
      .filter(({ command }) => command.toLowerCase().includes(wanted))
    return { processes, total: processes.length }
  },
}

/** A sandbox says with each of its processes what it shuts out. */
const readable = (command: string): string =>
  /^\S*\/bwrap --unshare-all /.test(command) ? 'bwrap (the sandbox)' : redact(command.slice(0, 2_000)).slice(0, 500)

const Kill = z.object({
  pid: z.int().min(1).describe('From ps.'),
  signal: z
    .enum(['SIGINT', 'SIGTERM', 'SIGKILL', 'SIGHUP', 'SIGQUIT', 'SIGUSR1', 'SIGUSR2', 'SIGSTOP', 'SIGCONT'])
    .default('SIGTERM')
    .describe('SIGINT is what Ctrl-C sends.'),
})

export const kill: ToolDef<Settings, typeof Kill> = {
  title: 'Signal a process',
  description:
    'Sends a signal to one process of a background command, such as SIGINT to interrupt what it does. To end a command with all it started use task_kill.',
  aliases: ['send signal', 'interrupt', 'ctrl-c', 'kill process', 'envoyer un signal', 'Prozess unterbrechen'],
  tags: ['shell', 'process'],
  input: Kill,
  effect: 'destructive',
  sideEffects: ['may end a program'],
  examples: [{ input: { pid: 4321, signal: 'SIGINT' } }],
  run({ pid, signal }, ctx) {
    const sent = runningOf(ctx).some(({ command }) => command.program.signal(pid, signal))
    if (sent) return { pid, signal, sent }
    throw new ToolError(`There is no process ${pid} of a background command.`, {
      code: 'E_NOT_FOUND',
      hint: 'ps shows those there are. Others cannot be signalled.',
    })
  },
}
