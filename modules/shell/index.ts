import { defineModule } from 'pegboard'
import { thoseThatObeyRepositories, thoseThatStartOthers } from './allow.ts'
import { background_run, task_kill, task_list, task_output, task_status, task_stdin, task_wait } from './background.ts'
import { Config } from './config.ts'
import { env, which } from './look.ts'
import { kill, ps } from './processes.ts'
import { bash, run, script } from './run.ts'
import { begin } from './state.ts'

export default defineModule({
  name: 'shell',
  description:
    'Runs programs of a list, and command lines and scripts in a sandbox, in the foreground and the background.',
  config: Config,
  enabled: ({ config }) => config.enabled || 'set modules.shell.config.enabled to true',
  synonyms: [['command', 'program', 'process', 'commande', 'comando', 'Befehl']],
  start({ config, log, signal, services }) {
    if (!services.processes) return
    const found = config.enabled ? thoseThatStartOthers(config) : []
    if (found.length > 0)
      log.warn('allowed commands that can start other programs: to allow one is to allow everything', {
        commands: found,
        setting: 'modules.shell.config.allowed_commands',
      })
    const obeying = config.enabled ? thoseThatObeyRepositories(config) : []
    if (obeying.length > 0)
      log.warn(
        'allowed commands run outside the sandbox, and run programs that the .git/config and .gitattributes of a repository name: whoever may write those runs anything',
        { commands: obeying, setting: 'modules.shell.config.allowed_commands' },
      )
    if (config.enabled && config.sandbox === 'off')
      log.warn('bash and script run without a sandbox (modules.shell.config.sandbox)')
    const { jobs } = begin(services.processes, log)
    signal.addEventListener(
      'abort',
      () => jobs.stop().catch((error: unknown) => log.error('a background command was not ended', { error })),
      { once: true },
    )
  },
  tools: {
    run,
    bash,
    script,
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
