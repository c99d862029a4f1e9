import { defineModule } from 'pegboard'
import { createTurns, inTurns } from '../_turns.ts'
import { commandsThatObeyRepositories, programsThatStartOthers } from './allow.ts'
import { background_run, task_kill, task_list, task_output, task_status, task_stdin, task_wait } from './background.ts'
import { Config } from './config.ts'
import { kill, ps } from './processes.ts'
import { bash, run, script } from './run.ts'
import { startShell } from './state.ts'
import { env, which } from './which-and-env.ts'

/** Foreground commands at once, of all principals and of one. Each may use `max_memory_bytes` and `max_processes`. */
const COMMANDS = { all: 64, each: 16 }

export default defineModule({
  name: 'shell',
  description:
    'Run allowed programs, and command lines and scripts in a sandbox, in the foreground and the background.',
  config: Config,
  enabled: ({ config }) => config.enabled || 'set modules.shell.config.enabled to true',
  synonyms: [['command', 'program', 'process', 'commande', 'comando', 'Befehl']],
  start({ config, log, signal, services }) {
    if (!services.processes) return
    const found = config.enabled ? programsThatStartOthers(config) : []
    if (found.length > 0)
      log.warn('allowed commands can start other programs: allowing one allows everything', {
        commands: found,
        setting: 'modules.shell.config.allowed_commands',
      })
    const obeying = config.enabled ? commandsThatObeyRepositories(config) : []
    if (obeying.length > 0)
      log.warn(
        'allowed commands run outside the sandbox, and run programs named in .git/config and .gitattributes of a repository: anyone who can write those files can run anything',
        { commands: obeying, setting: 'modules.shell.config.allowed_commands' },
      )
    if (config.enabled && config.sandbox === 'off')
      log.warn('bash and script run without a sandbox (modules.shell.config.sandbox)')
    const { jobs } = startShell(services.processes, log)
    signal.addEventListener(
      'abort',
      () => jobs.stop().catch((error: unknown) => log.error('a background command was not stopped', { error })),
      { once: true },
    )
  },
  tools: {
    ...inTurns(createTurns(COMMANDS.all, COMMANDS.each), { run, bash, script }),
    which,
    env,
    background_run,
    task_status,
    task_output,
    task_wait,
    task_list,
    task_kill,
    task_stdin,
    ps,
    kill,
  },
})
