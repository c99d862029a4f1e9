import { ToolError } from 'pegboard'
import type { Settings } from './config.ts'

/** Arguments by which a harmless program runs another, or writes where nobody looks. */
const RISKY: Readonly<Record<string, readonly string[]>> = {
  git: [
    '-c',
    '-c?*',
    '--config-env*',
    '--exec*',
    '--config*',
    '--template*',
    '--extcmd*',
    '--sendmail-cmd*',
    '--smtp-server*',
    '--upload-pack*',
    '--receive-pack*',
    '--ext-diff',
    '--output*',
    '--open-files-in-pager*',
    '-O*',
    '-C',
    '-C?*',
    '--git-dir*',
    '--work-tree*',
  ],
  find: ['-exec*', '-ok*', '-delete', '-fprint*', '-fls'],
  fd: ['-x*', '-X*', '--exec*'],
  tar: [
    '--to-command*',
    '--checkpoint-action*',
    '--use-compress-program*',
    '--rsh-command*',
    '--rmt-command*',
    '-I*',
    '--info-script*',
    '--new-volume-script*',
    '-F*',
  ],
  rg: ['--pre', '--pre=*', '--hostname-bin*'],
  sort: ['--compress-program*', '-o*', '--output*'],
  curl: [
    ...['-o*', '-O*', '--output*', '-K*', '--config*', '-T*', '--upload-file*', '-D*', '--dump-header*', '-c*'],
    ...['--cookie-jar*', '--trace*', '--stderr*', '--libcurl*', '--etag-save*', '--hsts*', '--alt-svc*'],
  ],
  rsync: ['-e*', '--rsh*', '--rsync-path*'],
  zip: ['-T*', '-TT*', '--unzip-command*'],
  split: ['--filter*'],
  wget: [
    ...['-O*', '--output*', '-o*', '-a*', '--append-output*', '-e*', '--execute*', '--use-askpass*', '-P*'],
    ...['--directory-prefix*', '--config*', '--save-cookies*', '--warc-*', '--rejected-log*', '--hsts-file*'],
  ],
  man: ['-P*', '--pager*', '-H*', '--html*', '-C*', '--config-file*'],
}

/** What is risky of one command of a program, and harmless of its others. */
const RISKY_OF: Readonly<Record<string, readonly string[]>> = {
  'git clone': ['-u*'],
  'git archive': ['-o*'],
  'git format-patch': ['-o*'],
}

/** What follows these letters is their value: of programs that take several letters in one word. */
const VALUED: Readonly<Record<string, string>> = {
  git: 'ABeFGjLlmMSUtX',
  tar: 'bCfgHKLNTVX',
  curl: 'AbcCdDeEFhHmPQrtuUwxXyYz',
  sort: 'kStT',
  rsync: 'BMf',
  wget: 'aABDGiIlnoQtTUwX',
  fd: 'cdeEjoSt',
  zip: 'bnPst',
  man: 'eELmMprRsST',
}

/** Of a program that is allowed with whatever it is given: those of its commands that run others, or decide what it runs later. */
const RISKY_WORDS: Readonly<Record<string, readonly string[]>> = {
  git: 'bisect citool config credential cvsserver daemon difftool filter-branch for-each-repo gui hook instaweb maintenance mergetool remote-ext rebase send-email shell submodule web--browse'.split(
    ' ',
  ),
}

const INTERPRETERS = new Set(
  'sh bash dash zsh fish ksh busybox env xargs node deno bun python python3 perl ruby php lua awk gawk mawk sed vi vim emacs ssh sudo su doas docker podman npx npm pnpm yarn make cargo go powershell pwsh cmd tclsh expect screen tmux nohup nice timeout watch strace gdb parallel psql sqlite3 mysql mariadb ed less more m4 scp sftp systemd-run unshare chroot setsid stdbuf script ionice time flock taskset chrt runuser pkexec'.split(
    ' ',
  ),
)

interface Rule {
  readonly words: readonly string[]
  readonly denied: readonly string[]
}

const rulesOf = ({ allowed_commands }: Settings): Rule[] =>
  allowed_commands.map((entry) => {
    const { command, deny_args } = typeof entry === 'string' ? { command: entry, deny_args: [] } : entry
    return { words: command.trim().split(/\s+/), denied: deny_args }
  })

export const allowedNames = (settings: Settings): string[] => rulesOf(settings).map(({ words }) => words.join(' '))

/** Allowed programs that run whatever they are given. */
export const interpreters = (settings: Settings): string[] =>
  rulesOf(settings)
    .map(({ words: [program = ''] }) => program)
    .filter((program) => INTERPRETERS.has(baseName(program)))

const baseName = (program: string): string =>
  (program.split(/[\\/]/).at(-1) ?? '')
    .toLowerCase()
    .replace(/\.(?:exe|cmd|bat|com)$/, '')
    .replace(/[\d.]+$/, (version) => (version === '3' ? version : ''))

/** @throws ToolError E_DENIED_BY_POLICY, listing what is allowed */
export function checkAllowed(settings: Settings, command: string, args: readonly string[]): void {
  const rules = rulesOf(settings)
  const fitting = rules.filter(
    ({ words: [program, ...first] }) => program === command && first.every((word, at) => args[at] === word),
  )
  const names = rules.map(({ words }) => words.join(' '))
  const refuse = (message: string): ToolError =>
    new ToolError(message, {
      code: 'E_DENIED_BY_POLICY',
      hint: `Allowed are: ${names.join(', ') || 'none'} (modules.shell.config.allowed_commands).`,
    })
  if (fitting.length === 0)
    throw refuse(
      /\s/.test(command)
        ? `'${shown(command)}' is a command line, and no shell reads it: put the program in command and each word after it in args.`
        : `'${shown([command, ...args].join(' '))}' is not an allowed command.`,
    )
  // One rule that lets it pass is enough; what follows `--` is no option.
  const wrong = (rule: Rule): string | undefined => {
    const end = args.indexOf('--')
    const options = end < 0 ? args : args.slice(0, end)
    const own = rule.denied.map(patternOf)
    const fits = riskyIn(baseName(command), options)
    return (
      (rule.words.length === 1 ? riskyWord(baseName(command), options) : undefined) ??
      args.find((arg) => own.some((fits) => fits.test(arg))) ??
      options.slice(rule.words.length - 1).find((arg, at) => fits(arg, at === 0 && rule.words.length === 1))
    )
  }
  const found = fitting.map(wrong)
  if (found.includes(undefined)) return
  throw refuse(`'${shown(String(found[0]))}' is an argument that ${command} may not have here.`)
}

/** `first`: of all arguments, which tar reads as options even without a dash. */
function riskyIn(program: string, args: readonly string[]): (arg: string, first: boolean) => boolean {
  const risky = [...(RISKY[program] ?? []), ...args.flatMap((word) => RISKY_OF[`${program} ${word}`] ?? [])]
  const known = risky.map(patternOf)
  const names = risky.filter((one) => one.startsWith('--')).map((one) => one.replace(/[=*].*$/, ''))
  const letters = risky.flatMap((one) => /^-(\w)\*?$/.exec(one)?.[1] ?? [])
  const valued = VALUED[program]
  return (arg, first) => {
    const option = first && program === 'tar' && !arg.startsWith('-') ? `-${arg}` : arg
    if (!option.startsWith('-')) return false
    if (known.some((fits) => fits.test(option))) return true
    const [name = ''] = option.split('=')
    // A long name may be shortened as long as it is clear.
    if (name.startsWith('--')) return name.length >= 4 && names.some((one) => one.startsWith(name))
    if (valued === undefined) return false
    for (const letter of name.slice(1)) {
      if (letters.includes(letter)) return true
      if (valued.includes(letter)) return false
    }
    return false
  }
}

const riskyWord = (program: string, args: readonly string[]): string | undefined => {
  const word = args.find((arg) => !arg.startsWith('-'))
  return word !== undefined && RISKY_WORDS[program]?.includes(word) ? word : undefined
}

/** Variables that a call wants set. @throws ToolError E_DENIED_BY_POLICY for those that the operator does not list */
export function checkVariables({ env_allowed }: Settings, variables: Readonly<Record<string, string>>): void {
  const allowed = env_allowed.map((name) =>
    name.endsWith('*') ? (one: string) => one.startsWith(name.slice(0, -1)) : (one: string) => one === name,
  )
  const wrong = Object.keys(variables).find((name) => !allowed.some((fits) => fits(name)))
  if (wrong === undefined) return
  throw new ToolError(`The variable ${shown(wrong)} may not be set by a call.`, {
    code: 'E_DENIED_BY_POLICY',
    hint: `Those may: ${env_allowed.join(', ') || 'none'} (modules.shell.config.env_allowed).`,
  })
}

/** `*` stands for any characters, `?` for one. Not the globs of paths, in which `*` stops at a slash. */
const patternOf = (pattern: string): RegExp =>
  new RegExp(`^${literal(pattern).replaceAll('\\*', '.*').replaceAll('\\?', '.')}$`, 's')
const literal = (text: string): string => text.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&')
const shown = (text: string): string => (text.length > 80 ? `${text.slice(0, 80)}…` : text)

/**
 * Words and paths that a command may not name. A hint for whoever means well: what enforces is the sandbox.
 * @throws ToolError E_DENIED_BY_POLICY
 */
export function checkWords(settings: Settings, what: string, text: string): void {
  for (const [kind, words, setting] of [
    ['path', settings.denied_paths, 'denied_paths'],
    ['token', settings.deny_tokens, 'deny_tokens'],
    ['token', settings.secrets_enabled ? ['curl'] : [], 'secrets_enabled'],
  ] as const)
    for (const word of words) {
      if (!new RegExp(`(?<![\\w-])${literal(word)}(?![\\w-])`).test(text)) continue
      throw new ToolError(
        `${what} command references denied ${kind} "${word}" (configure via modules.shell.config.${setting})`,
        { code: 'E_DENIED_BY_POLICY', hint: 'Do it another way, or ask the operator.' },
      )
    }
}
