import type { Environment } from './spawn.ts'

/**
 * Overrides for a repository's configuration, which a model may have written and which can name programs. Not every
 * setting can be overridden: those with free names (`filter.x.clean`, `diff.x.textconv`, `merge.x.driver`,
 * `remote.x.receivepack`, `alias.x`), `diff.external` (git runs even an empty value) and `credential.helper` (needed
 * for the user's own pushes). A sandbox covers those; without one, the shell module rejects repositories that name
 * any.
 */
const SETTINGS: Readonly<Record<string, string>> = {
  'core.fsmonitor': 'false',
  'core.hooksPath': '/dev/null',
  'core.pager': 'cat',
  'core.editor': 'false',
  'sequence.editor': 'false',
  'core.sshCommand': 'ssh',
  'core.gitProxy': '',
  'core.alternateRefsCommand': 'true',
  'gpg.program': 'gpg',
  'gpg.openpgp.program': 'gpg',
  'gpg.x509.program': 'gpgsm',
  'gpg.ssh.program': 'ssh-keygen',
  'gpg.ssh.defaultKeyCommand': '',
  'interactive.diffFilter': 'cat',
  'log.showSignature': 'false',
  'protocol.ext.allow': 'never',
  'safe.bareRepository': 'explicit',
}

/**
 * Environment variables that stop git from starting most programs that a repository names. Existing settings stay in
 * front.
 */
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
