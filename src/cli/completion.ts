import type { App } from '../app/app.ts'
import { moduleNames } from '../app/module-names.ts'
import { localCaller } from '../core/caller.ts'
import { asRecord } from '../core/is-record.ts'
import { DEFAULT_PROFILE } from '../core/profile.ts'
import { removeOwnerPrefix } from '../core/tool-names.ts'
import { clients } from '../setup/clients.ts'
import { listUndo } from '../setup/file-edits.ts'
import { isSwitchedOff, ownerEntries, valueAt } from '../setup/server-entries.ts'
import { rootOf } from '../setup/switch-entries.ts'
import { clientFacts } from '../view/client-table.ts'
import { type Args, readOption } from './args.ts'
import { type Command, commands, commonOptions, type Option } from './commands.ts'
import { findConfigOption } from './invocation.ts'
import { type Io, UsageError } from './io.ts'
import { openSecrets, setupDir } from './machine-of.ts'
import { type OpenedConfig, openConfig, profileFor, withOfflineApp } from './open-app.ts'

/** Each script asks `pegboard completion words` what can follow. `:files` and `:folders` stand for those of the disk. */
const SCRIPTS: Readonly<Record<string, string>> = {
  bash: `# bash completion for pegboard. To use it: source <(pegboard completion bash)
_pegboard() {
  local IFS=$'\\n' found
  found=$(command pegboard completion words -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
  case $found in
    :files) COMPREPLY=($(compgen -f -- "\${COMP_WORDS[COMP_CWORD]}")) ;;
    :folders) COMPREPLY=($(compgen -d -- "\${COMP_WORDS[COMP_CWORD]}")) ;;
    *) COMPREPLY=($(cut -f 1 <<<"$found")) ;;
  esac
}
complete -o filenames -F _pegboard pegboard
`,
  zsh: `#compdef pegboard
# zsh completion for pegboard. To use it: source <(pegboard completion zsh)
_pegboard() {
  local -a found
  found=(\${(f)"$(command pegboard completion words -- "\${(@)words[2,CURRENT]}" 2>/dev/null)"})
  found=(\${found//$'\\t'/:})
  case \${found[1]} in
    (:files) _files ;;
    (:folders) _files -/ ;;
    (?*) _describe -t words word found ;;
  esac
}
if [[ \${funcstack[1]} == _pegboard ]]; then _pegboard "$@"; else compdef _pegboard pegboard; fi
`,
  fish: `# fish completion for pegboard. To use it: pegboard completion fish | source
function __pegboard_words
  set -l words (commandline -opc) (commandline -ct)
  set -l found (command pegboard completion words -- $words[2..] 2>/dev/null)
  switch "$found[1]"
    case :files
      __fish_complete_path (commandline -ct)
    case :folders
      __fish_complete_directories (commandline -ct)
    case '*'
      printf '%s\\n' $found
  end
end
complete -c pegboard -f -a '(__pegboard_words)'
`,
}

/** `pegboard completion bash|zsh|fish`. `completion words -- <words>` answers these scripts, `servers` and `tools` others. */
export async function run(args: Args, io: Io): Promise<number> {
  const [subject = '', ...words] = args.positionals
  const prefix = words.at(-1) ?? ''
  const completions =
    subject === 'words'
      ? await findCompletions(prefix, words.slice(0, -1), io)
      : subject === 'servers' || subject === 'tools'
        ? await (subject === 'servers' ? listServers : listTools)(await openQuietly(readOption(args, 'config'), io))
        : undefined
  if (completions) {
    for (const line of completions) if (line.startsWith(prefix) || line.startsWith(':')) io.stdout(`${line}\n`)
    return 0
  }
  if (!Object.hasOwn(SCRIPTS, subject) || words.length > 0) throw new UsageError('completion takes bash, zsh or fish')
  io.stdout(SCRIPTS[subject] ?? '')
  return 0
}

/** What the typed word can become, each with a description after a tab. @param before the words before it */
async function findCompletions(prefix: string, before: readonly string[], io: Io): Promise<readonly string[]> {
  const name = before.find(
    (word, index) => !word.startsWith('-') && !['--config', '-c'].includes(before[index - 1] ?? ''),
  )
  const command = commands.find((command) => command.name === name)
  const options = optionsOf(command)
  const option = findOption(options, before.at(-1))
  const values = option && (await valuesOf(option, before, io))
  if (values) return values
  if (prefix.startsWith('-'))
    return [
      ...options.map(([long, { about }]) => `--${long}\t${about}`),
      ...(command ? [] : ['--version\tShow the version.']),
    ]
  const commandLines = commands.map((command) => `${command.name}\t${command.summary}`)
  if (name === undefined) return [...commandLines, 'help\tShow help.']
  if (name === 'help') return commandLines
  return command ? await findOperands(command, prefix, before, io) : []
}

type NamedOption = readonly [long: string, option: Option]

const optionsOf = (command: Command | undefined): readonly NamedOption[] =>
  Object.entries({ ...command?.options, ...commonOptions })

const findOption = (options: readonly NamedOption[], flag: string | undefined): NamedOption | undefined =>
  options.find(([long, { short }]) => flag === `--${long}` || flag === `-${short}`)

/** The values of an option; undefined for an option that takes none. */
async function valuesOf(
  [option, { value, choices }]: NamedOption,
  before: readonly string[],
  io: Io,
): Promise<readonly string[] | undefined> {
  if (choices) return choices
  if (option === 'profile')
    return [DEFAULT_PROFILE, ...Object.keys((await openQuietly(findConfigOption(before), io)).config.profiles)]
  if (option === 'client') return Object.keys(clientFacts)
  if (value === 'CLIENT') return clients.map(({ id }) => id)
  if (value === 'DIR') return [':folders']
  if (value === 'FILE' || value === 'PATH') return [':files']
  return value === undefined ? undefined : []
}

async function findOperands(
  command: Command,
  prefix: string,
  before: readonly string[],
  io: Io,
): Promise<readonly string[]> {
  const { name } = command
  const options = optionsOf(command)
  const operands = before.filter(
    (word, index) => !word.startsWith('-') && findOption(options, before[index - 1])?.[1].value === undefined,
  )
  if (name === 'secret' && ['set', 'rm'].includes(operands[1] ?? ''))
    return operands.length === 2 ? (await (await openSecrets(io)).list()).map((secret) => secret.name) : []
  // After the first operand of other commands come arguments of the tool, or other words.
  if (operands.length > 1 && !/^\[server …\]$|> …$/.test(command.operands ?? '')) return []
  if (name === 'undo') return (await listUndo(setupDir(io))).flatMap(({ id, undone }) => (undone ? [] : [id]))
  const { words, names } = operandsOf(command)
  if (names === undefined) return words
  const opened = await openQuietly(findConfigOption(before), io)
  if (names === 'servers') return listServers(opened)
  const tools = await listTools(opened, name === 'enable')
  if (names === 'entries') return [...listEntries(opened, name, tools), ...withShortNames(tools, prefix)]
  return [...withShortNames(tools, prefix), ...(prefix === '' ? [] : listUniqueActions(tools))]
}

/** Commands also accept a tool by the name of its server in the configuration. */
const withShortNames = (tools: readonly string[], prefix: string): readonly string[] =>
  prefix === '' ? tools : [...new Set([...tools, ...tools.map(removeOwnerPrefix)])]

/** The own names of tools, if only one tool has the name. */
function listUniqueActions(tools: readonly string[]): readonly string[] {
  const actions = tools.map((id) => id.slice(id.indexOf('.') + 1))
  return actions.filter((action) => actions.indexOf(action) === actions.lastIndexOf(action))
}

/** What the first operands of a command are: fixed words, servers, tools, or everything that can be disabled. */
function operandsOf({ name, operands = '' }: Command): {
  readonly words: readonly string[]
  readonly names?: 'servers' | 'tools' | 'entries'
} {
  if (name === 'completion') return { words: Object.keys(SCRIPTS) }
  if (/^<server \| server\.tool>/.test(operands)) return { words: [], names: 'entries' }
  if (/^<tool>/.test(operands)) return { words: [], names: 'tools' }
  if (/^\[server/.test(operands)) return { words: [], names: 'servers' }
  if (!/^\[[a-z]+[\]|]|^\[[a-z]+ .*\|/.test(operands) || ['[module]', '[id]'].includes(operands)) return { words: [] }
  const words = operands.slice(1, -1).split('|')
  return { words: words.map((word) => word.trim().split(' ', 1)[0] as string) }
}

interface QuietConfig extends OpenedConfig {
  readonly quietIo: Io
}

/** The configuration. Nobody reads warnings, and nobody can answer a question. */
async function openQuietly(file: string | undefined, io: Io): Promise<QuietConfig> {
  const quietIo: Io = { ...io, stderr: () => undefined, terminal: { out: false, err: false } }
  return { ...(await openConfig({ values: { config: file }, positionals: [] }, quietIo)), quietIo }
}

const listServers = ({ config }: QuietConfig): readonly string[] => [
  ...Object.keys(config.servers),
  ...Object.keys(config.openapi),
]

/** The servers, APIs and modules that enable, disable or remove would change. Modules without tools only if they are in the file. */
function listEntries({ config, text = '' }: QuietConfig, verb: string, tools: readonly string[]): readonly string[] {
  const root = rootOf(text)
  const owners = ownerEntries(root, moduleNames(config))
  return owners
    .filter(({ kind, path, owner }) => {
      const entry = valueAt(root, path)
      if (kind === 'module' && (verb === 'remove' || !(entry || tools.some((id) => id.startsWith(`${owner}.`)))))
        return false
      return verb === 'remove' || isSwitchedOff(asRecord(entry)) === (verb === 'enable')
    })
    .map((one) => (owners.find(({ name }) => name === one.name) === one ? one.name : one.owner))
}

/**
 * Tools from the lists of earlier runs. No server is started.
 * @param disabled only tools and patterns that `tools` disables; default: visible tools
 */
async function listTools({ config, text = '', quietIo }: QuietConfig, disabled = false): Promise<readonly string[]> {
  const servers = Object.fromEntries(
    Object.entries(config.servers).map(([id, server]) => [id, { ...server, start: 'lazy' as const }]),
  )
  const caller = { ...localCaller, profile: profileFor({ values: {}, positionals: [] }, config, quietIo) }
  const idsIn = (app: App): readonly string[] => {
    const view = app.view(caller)
    if (!disabled) return view.tools.map(({ tool }) => tool.id)
    return [...view.hidden].flatMap(([id, { kind }]) => (kind === 'disabled' ? [id] : []))
  }
  const found = await withOfflineApp({ ...config, servers }, quietIo, idsIn, { frozen: true })
  if (!disabled) return found
  const tools = Object.entries(asRecord(rootOf(text)['tools']))
  return [...new Set([...tools.flatMap(([name, one]) => (isSwitchedOff(asRecord(one)) ? [name] : [])), ...found])]
}
