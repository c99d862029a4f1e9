import type { Environment } from './spawn.ts'

/** Over what a repository says: a folder that looks like one may have been written by a model, and its settings name programs. */
const SETTINGS: Readonly<Record<string, string>> = {
  'core.fsmonitor': 'false',
  'core.hooksPath': '/dev/null',
  'core.pager': 'cat',
  'core.editor': 'false',
  'sequence.editor': 'false',
  'core.sshCommand': 'ssh',
  'core.gitProxy': '',
  'protocol.ext.allow': 'never',
  'safe.bareRepository': 'explicit',
}

/** The variables that make git start no program that a repository names. Settings that are there already stay in front. */
export function safeGit(env: Environment): Record<string, string> {
  const given = Number(env['GIT_CONFIG_COUNT'] ?? 0)
  const first = Number.isInteger(given) && given > 0 ? given : 0
  const entries = Object.entries(SETTINGS)
  return {
    GIT_PAGER: 'cat',
    GIT_EDITOR: 'false',
    GIT_SEQUENCE_EDITOR: 'false',
    GIT_TERMINAL_PROMPT: '0',
    GIT_ASKPASS: '',
    GIT_CONFIG_COUNT: String(first + entries.length),
    ...Object.fromEntries(
      entries.flatMap(([key, value], at) => [
        [`GIT_CONFIG_KEY_${first + at}`, key],
        [`GIT_CONFIG_VALUE_${first + at}`, value],
      ]),
    ),
  }
}
