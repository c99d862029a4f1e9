import type { App } from '../app/app.ts'
import { localCaller } from '../core/caller.ts'
import type { Args } from './args.ts'
import { type Command, commands, commonOptions, type Option } from './commands.ts'
import { type Io, UsageError } from './io.ts'
import { openConfig, profileFor, withOfflineApp } from './open-app.ts'

const SHELLS = { bash, zsh, fish } as const

/** `pegboard completion bash|zsh|fish`, and `completion servers|tools`, which these scripts call. */
export async function run(args: Args, io: Io): Promise<number> {
  const [what = ''] = args.positionals
  if (what === 'servers' || what === 'tools') {
    for (const name of await listNames(what, args, io)) io.stdout(`${name}\n`)
    return 0
  }
  if (!Object.hasOwn(SHELLS, what)) throw new UsageError('completion takes bash, zsh or fish')
  io.stdout(SHELLS[what as keyof typeof SHELLS]())
  return 0
}

/** Names from the configuration and from the lists of earlier runs. No server is started. */
async function listNames(what: 'servers' | 'tools', args: Args, io: Io): Promise<readonly string[]> {
  // Nobody reads warnings, and nobody can answer a question.
  const quiet: Io = { ...io, stderr: () => undefined, terminal: { out: false, err: false } }
  const { config } = await openConfig(args, quiet)
  const servers = Object.fromEntries(
    Object.entries(config.servers).map(([id, one]) => [id, { ...one, start: 'lazy' as const }]),
  )
  if (what === 'servers') return [...Object.keys(servers), ...Object.keys(config.openapi)]
  const caller = { ...localCaller, profile: profileFor(args, config) }
  const idsIn = (app: App) => app.view(caller).tools.map(({ tool }) => tool.id)
  return await withOfflineApp({ ...config, servers }, quiet, idsIn, { frozen: true })
}

const optionsOf = (command: Command | undefined): Readonly<Record<string, Option>> => ({
  ...command?.options,
  ...commonOptions,
})

/** What the first operands of a command are: fixed words, servers, tools, commands or files. */
function operandsOf({ name, operands = '' }: Command): {
  readonly words: readonly string[]
  readonly names?: 'servers' | 'tools'
} {
  if (name === 'completion') return { words: Object.keys(SHELLS) }
  if (/^<server \| server\.tool>|^<tool>/.test(operands)) return { words: [], names: 'tools' }
  if (/^\[server/.test(operands)) return { words: [], names: 'servers' }
  if (/^\[[a-z]+\]$/.test(operands) && !['[server]', '[module]', '[id]'].includes(operands))
    return { words: [operands.slice(1, -1)] }
  if (!operands.includes('|') || !/^\[[a-z]/.test(operands)) return { words: [] }
  return {
    words: operands
      .slice(1, -1)
      .split('|')
      .map((one) => one.trim().split(' ', 1)[0] as string),
  }
}

const flagsOf = (name: string, { short }: Option): readonly string[] => [
  `--${name}`,
  ...(short === undefined ? [] : [`-${short}`]),
]

/** Options with this kind of value, of all commands. */
const flagsWith = (values: readonly string[]): readonly string[] => [
  ...new Set(
    [undefined, ...commands].flatMap((command) =>
      Object.entries(optionsOf(command)).flatMap(([name, option]) =>
        option.value !== undefined && values.includes(option.value) ? flagsOf(name, option) : [],
      ),
    ),
  ),
]

const FILES = ['FILE', 'PATH']
const FOLDERS = ['DIR']
const allValues = (): readonly string[] => [
  ...new Set(
    [undefined, ...commands].flatMap((command) =>
      Object.values(optionsOf(command)).flatMap(({ value }) => (value === undefined ? [] : [value])),
    ),
  ),
]
const otherValues = (): readonly string[] => allValues().filter((one) => !FILES.includes(one) && !FOLDERS.includes(one))

const flagList = (command: Command | undefined): string =>
  Object.keys(optionsOf(command))
    .map((name) => `--${name}`)
    .join(' ')

/** The part of all scripts that finds the command, which may follow --config. */
const ASK = 'command pegboard completion'

function bash(): string {
  const cases = commands.map((command) => {
    const { words, names } = operandsOf(command)
    const found = names === undefined ? `'${words.join(' ')}'` : `"$(${ASK} ${names} 2>/dev/null)"`
    return `    ${command.name})
      if [[ $cur == -* ]]; then words='${flagList(command)}'; else words=${found}; fi ;;`
  })
  return `# bash completion for pegboard. To use it: source <(pegboard completion bash)
_pegboard() {
  local cur=\${COMP_WORDS[COMP_CWORD]} prev=\${COMP_WORDS[COMP_CWORD-1]} command= words= i
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    case \${COMP_WORDS[i]} in
      --config|-c) ((i++)) ;;
      -*) ;;
      *) command=\${COMP_WORDS[i]}; break ;;
    esac
  done
  case $prev in
    ${flagsWith(FILES).join('|')}) COMPREPLY=($(compgen -f -- "$cur")); return ;;
    ${flagsWith(FOLDERS).join('|')}) COMPREPLY=($(compgen -d -- "$cur")); return ;;
    ${flagsWith(otherValues()).join('|')}) return ;;
  esac
  case $command in
    '')
      if [[ $cur == -* ]]; then words='${flagList(undefined)} --version'; else words='${[...commands.map(({ name }) => name), 'help'].join(' ')}'; fi ;;
    help) words='${commands.map(({ name }) => name).join(' ')}' ;;
${cases.join('\n')}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
}
complete -o filenames -F _pegboard pegboard
`
}

const quote = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`

function zsh(): string {
  const described = (pairs: ReadonlyArray<readonly [string, string]>): string =>
    pairs.map(([name, about]) => quote(`${name}:${about}`)).join(' ')
  const options = (command: Command | undefined): string =>
    described(Object.entries(optionsOf(command)).map(([name, { about }]) => [`--${name}`, about]))
  const cases = commands.map((command) => {
    const { words, names } = operandsOf(command)
    const found =
      names === undefined ? `found=(${words.map(quote).join(' ')})` : `found=(\${(f)"$(${ASK} ${names} 2>/dev/null)"})`
    return `    (${command.name})
      if [[ $cur == -* ]]; then options=(${options(command)}); else ${found}; fi ;;`
  })
  const all = described([...commands.map(({ name, summary }) => [name, summary] as const), ['help', 'Show help.']])
  return `#compdef pegboard
# zsh completion for pegboard. To use it: source <(pegboard completion zsh)
_pegboard() {
  local cur=\${words[CURRENT]} command= i
  local -a options found all
  for ((i = 2; i < CURRENT; i++)); do
    case \${words[i]} in
      (--config|-c) ((i++)) ;;
      (-*) ;;
      (*) command=\${words[i]}; break ;;
    esac
  done
  case \${words[CURRENT-1]} in
    (${flagsWith(FILES).join('|')}) _files; return ;;
    (${flagsWith(FOLDERS).join('|')}) _files -/; return ;;
    (${flagsWith(otherValues()).join('|')}) return ;;
  esac
  all=(${all})
  case $command in
    ('') if [[ $cur == -* ]]; then options=(${options(undefined)}); else _describe -t commands command all; return; fi ;;
    (help) _describe -t commands command all; return ;;
${cases.join('\n')}
  esac
  if (( \${#options} )); then _describe -o -t options option options; else compadd -a found; fi
}
if [[ \${funcstack[1]} == _pegboard ]]; then _pegboard "$@"; else compdef _pegboard pegboard; fi
`
}

function fish(): string {
  const optionLine = (condition: string, name: string, { short, value, about }: Option): string => {
    const takes =
      value === undefined
        ? ''
        : FILES.includes(value)
          ? ' -r -F'
          : FOLDERS.includes(value)
            ? " -x -a '(__fish_complete_directories)'"
            : ' -x'
    return `complete -c pegboard${condition} -l ${name}${short ? ` -s ${short}` : ''}${takes} -d ${fishQuote(about)}`
  }
  const lines = commands.flatMap((command) => {
    const condition = ` -n '__fish_seen_subcommand_from ${command.name}'`
    const { words, names } = operandsOf(command)
    const found = names === undefined ? words.join(' ') : `(${ASK} ${names} 2>/dev/null)`
    return [
      `complete -c pegboard -n '__fish_use_subcommand' -a ${command.name} -d ${fishQuote(command.summary)}`,
      ...Object.entries(command.options ?? {}).map(([name, option]) => optionLine(condition, name, option)),
      ...(found === '' ? [] : [`complete -c pegboard${condition} -a ${fishQuote(found)}`]),
    ]
  })
  return `# fish completion for pegboard. To use it: pegboard completion fish | source
complete -c pegboard -f
complete -c pegboard -n '__fish_use_subcommand' -a help -d 'Show help.'
complete -c pegboard -n '__fish_seen_subcommand_from help' -a '${commands.map(({ name }) => name).join(' ')}'
${Object.entries(commonOptions)
  .map(([name, option]) => optionLine('', name, option))
  .join('\n')}
${lines.join('\n')}
`
}

const fishQuote = (text: string): string => `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`
