import { parseArgs } from 'node:util'
import { isPegboardError, joinSentences, messageOf, PegboardError } from '../core/errors.ts'
import { withoutClassName } from '../core/failure-class.ts'
import { removeInvisible } from '../core/invisible-characters.ts'
import { toPrintable } from '../core/printable.ts'
import { didYouMean, findNearest } from '../core/tool-names.ts'
import type { Args } from './args.ts'
import { type Command, commands, commonOptions, guessedCommands } from './commands.ts'
import { formatCommandHelp, formatGeneralHelp } from './help.ts'
import { findConfigOption, toTypedCommands } from './invocation.ts'
import { INTERRUPTED, type Io, makePrintable, UsageError } from './io.ts'

/** The code of each command is loaded when the command runs, because clients wait for `serve --stdio` to start. */
const commandModules: Readonly<
  Record<string, () => Promise<{ run(args: Args, io: Io, command: string): Promise<number> }>>
> = {
  init: () => import('./init.ts'),
  serve: () => import('./serve.ts'),
  ui: () => import('./ui.ts'),
  top: () => import('./top.ts'),
  list: () => import('./list.ts'),
  search: () => import('./search.ts'),
  why: () => import('./why.ts'),
  call: () => import('./call.ts'),
  record: () => import('./record.ts'),
  check: () => import('./check.ts'),
  doctor: () => import('./doctor.ts'),
  review: () => import('./review.ts'),
  registry: () => import('./registry.ts'),
  add: () => import('./add.ts'),
  enable: () => import('./edit-entries.ts'),
  disable: () => import('./edit-entries.ts'),
  remove: () => import('./edit-entries.ts'),
  schema: () => import('./module-schema.ts'),
  prompt: () => import('./prompt-command.ts'),
  parse: () => import('./parse.ts'),
  eval: () => import('./eval.ts'),
  suggest: () => import('./suggest.ts'),
  auth: () => import('./auth.ts'),
  token: () => import('./token.ts'),
  undo: () => import('./undo.ts'),
  config: () => import('./config.ts'),
  secret: () => import('./secret.ts'),
  audit: () => import('./audit.ts'),
  usage: () => import('./usage.ts'),
  later: () => import('./later.ts'),
  completion: () => import('./completion.ts'),
}

/**
 * Runs one command line. Never throws: errors go to stderr as `pegboard: CODE: message. hint`, or as JSON with --json.
 * @returns exit code: 0 success, 1 failure, 2 wrong command line, 130 interrupted by a signal; `doctor` has more
 */
export async function run(argv: readonly string[], outerIo: Io): Promise<number> {
  const config = findConfigOption(argv)
  const io: Io = {
    ...outerIo,
    // Piped output often ends on a terminal, so invisible characters are removed.
    stdout: (text) => outerIo.stdout(outerIo.terminal?.out === false ? removeInvisible(text) : toPrintable(text)),
    stderr: (text) => outerIo.stderr(makePrintable(toTypedCommands(text, config, outerIo))),
  }
  const isJson = argv.includes('--json')
  try {
    return await dispatch(argv, io)
  } catch (error) {
    if (error instanceof UsageError) {
      const name = argv[findCommandIndex(argv)]
      const helpTopic = commands.some((command) => command.name === name) ? ` ${name}` : ''
      const { message } = error
      const hint = `See pegboard help${helpTopic}.`
      const asJson = isJson ? formatFailureJson(new PegboardError('E_USAGE', message, { hint })) : undefined
      io.stderr(`${asJson ?? `pegboard: ${message}\n${hint}`}\n`)
      return 2
    }
    if (io.stop.aborted && error === io.stop.reason) return INTERRUPTED
    io.stderr(`${isJson ? formatFailureJson(error) : formatFailure(error)}\n`)
    return 1
  }
}

async function dispatch(argv: readonly string[], io: Io): Promise<number> {
  const commandIndex = findCommandIndex(argv)
  const name = commandIndex < 0 ? undefined : argv[commandIndex]
  if (name === undefined) return runWithoutCommand(argv, io)
  const rest = argv.filter((_word, index) => index !== commandIndex)
  if (name === 'help') return printHelp(rest[0] === 'help' ? undefined : rest[0], io)
  const command = findCommand(name)
  const args = parseOptions(command, rest)
  if (args.values['help'] === true) return printHelp(name, io)
  const { run: runCommand } = await commandModules[command.name]!()
  return runCommand(args, io, command.name)
}

/** The first word that is neither an option nor the value of --config. */
function findCommandIndex(argv: readonly string[]): number {
  return argv.findIndex((word, index) => !word.startsWith('-') && !['--config', '-c'].includes(argv[index - 1] ?? ''))
}

async function runWithoutCommand(argv: readonly string[], io: Io): Promise<number> {
  if (argv.includes('--version') || argv.includes('-V')) {
    const { ownPackage } = await import('../app/package-info.ts')
    io.stdout(`${ownPackage().version}\n`)
    return 0
  }
  if (argv.includes('--help') || argv.includes('-h')) return printHelp(undefined, io)
  if (argv.length > 0) {
    parseOptions({ name: 'pegboard', summary: '', options: { version: { short: 'V', about: '' } } }, argv)
    throw new UsageError('name a command, such as pegboard serve')
  }
  // An MCP client starts Pegboard as `npx pegboard`.
  if (io.input.isTTY !== true) return await run(['serve'], io)
  const [{ run: show }, { ownPackage }] = await Promise.all([import('./overview.ts'), import('../app/package-info.ts')])
  return show(ownPackage().version, io)
}

function printHelp(name: string | undefined, io: Io): number {
  io.stdout(name === undefined || name.startsWith('-') ? formatGeneralHelp() : formatCommandHelp(findCommand(name)))
  return 0
}

function findCommand(name: string): Command {
  const command = commands.find((command) => command.name === name)
  if (command) return command
  const names = [...commands.map((command) => command.name), 'help']
  const guessed = name === 'version' ? '--version' : guessedCommands.get(name)
  const suggestion = guessed === undefined ? didYouMean(name, names, '', 2) : `; did you mean "${guessed}"?`
  throw new UsageError(`unknown command "${name}"${suggestion}`)
}

function parseOptions(command: Command, words: readonly string[]): Args {
  const knownOptions = { ...commonOptions, ...command.options }
  const options = Object.fromEntries(
    Object.entries(knownOptions).map(([name, { value, about: _about, choices: _choices, ...rest }]) => [
      name,
      { type: value === undefined ? ('boolean' as const) : ('string' as const), ...rest },
    ]),
  )
  let args: Args
  try {
    args = parseArgs({ args: [...words], options, allowPositionals: true, strict: true })
  } catch (error) {
    throw new UsageError(describeOptionError(messageOf(error), command.name, knownOptions))
  }
  const extra = args.positionals[command.maxOperands ?? 0]
  if (extra !== undefined) throw new UsageError(`${command.name} does not take "${extra}"`)
  return args
}

/** @param message of Node's parser */
function describeOptionError(
  message: string,
  command: string,
  knownOptions: Readonly<Record<string, { readonly value?: string }>>,
): string {
  const [, isUnknown, dashes = '', name = ''] = /^(Unknown )?option '(?:-\w, )?(--?)([\w-]+)/i.exec(message) ?? []
  if (isUnknown !== undefined) {
    const [near] = findNearest(name, Object.keys(knownOptions))
    return `unknown option ${dashes}${name} for ${command}${near ? `; did you mean --${near}?` : ''}`
  }
  const value = knownOptions[name]?.value
  if (value === undefined) return `--${name} takes no value`
  const withDash = message.includes('ambiguous') ? `, or --${name}=${value} if it begins with "-"` : ''
  return `--${name} needs a value: --${name} ${value}${withDash}`
}

function formatFailure(error: unknown): string {
  if (!isPegboardError(error)) return `pegboard: E_INTERNAL: ${messageOf(error)}`
  // Prints each problem on its own line.
  const hint = withoutClassName(error.hint)
  const text = error.message.endsWith('\n') ? `${error.message}${hint}` : joinSentences(error.message, hint)
  return `pegboard: ${error.code}: ${text}`
}

function formatFailureJson(error: unknown): string {
  const details: Partial<PegboardError> & { message: string } = isPegboardError(error)
    ? error
    : { message: messageOf(error) }
  return JSON.stringify({
    error: {
      code: details.code ?? 'E_INTERNAL',
      message: details.message,
      ...(details.hint ? { hint: details.hint } : {}),
    },
  })
}
