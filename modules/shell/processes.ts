import { type CallContext, redact, type ToolDef, z } from 'pegboard'
import { notFound } from '../_errors.ts'
import type { Settings } from './config.ts'
import { ownerOf, stateOf } from './state.ts'

const listRunning = (ctx: CallContext<Settings>) =>
  stateOf(ctx)
    .jobs.list(ownerOf(ctx))
    .filter(({ ended }) => !ended)

const Ps = z.object({
  filter: z.string().max(200).default('').describe('Only processes whose command contains this text, ignoring case.'),
})

export const ps: ToolDef<Settings, typeof Ps> = {
  title: 'Processes of background commands',
  description:
    'List the processes of your background commands and their children: ids, memory and command lines. Other processes of this machine are not shown. For how a command ended use task_status.',
  aliases: ['list processes', 'process list', 'top', 'lister les processus', 'Prozesse anzeigen'],
  tags: ['shell', 'process'],
  input: Ps,
  effect: 'read',
  sideEffects: ['none'],
  examples: [{ input: { filter: 'node' } }],
  async run({ filter }, ctx) {
    const lowerFilter = filter.toLowerCase()
    const processLists = await Promise.all(
      listRunning(ctx).map(async ({ id, command }) =>
        (await command.program.list()).map((entry) => ({ ...entry, task_id: id })),
      ),
    )
    const processes = processLists
      .flat()
      .map(({ command, ...entry }) => ({ ...entry, command: readableCommand(command) }))
      .filter(({ command }) => command.toLowerCase().includes(lowerFilter))
    return { processes, total: processes.length }
  },
}

/** A sandboxed process's command line contains the whole sandbox setup. */
const readableCommand = (command: string): string =>
  /^\S*\/bwrap --unshare-all /.test(command) ? 'bwrap (the sandbox)' : redact(command.slice(0, 2_000)).slice(0, 500)

const Kill = z.object({
  pid: z.int().min(1).describe('From ps.'),
  signal: z
    .enum(['SIGINT', 'SIGTERM', 'SIGKILL', 'SIGHUP', 'SIGQUIT', 'SIGUSR1', 'SIGUSR2', 'SIGSTOP', 'SIGCONT'])
    .default('SIGTERM')
    .describe('SIGINT is Ctrl-C.'),
})

export const kill: ToolDef<Settings, typeof Kill> = {
  title: 'Signal a process',
  description:
    'Send a signal to one process of a background command, such as SIGINT to interrupt it. To stop a command with all its children use task_kill.',
  aliases: ['send signal', 'interrupt', 'ctrl-c', 'kill process', 'envoyer un signal', 'Prozess unterbrechen'],
  tags: ['shell', 'process'],
  input: Kill,
  effect: 'destructive',
  sideEffects: ['can end a program'],
  examples: [{ input: { pid: 4321, signal: 'SIGINT' } }],
  run({ pid, signal }, ctx) {
    const isSent = listRunning(ctx).some(({ command }) => command.program.signal(pid, signal))
    if (isSent) return { pid, signal, sent: isSent }
    throw notFound(
      `No background command has the process ${pid}.`,
      'ps lists the processes. Others cannot be signalled.',
    )
  },
}
