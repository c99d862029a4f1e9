import { parseArgs } from 'node:util'
import { isPegboardError, joinSentences, messageOf, type PegboardError } from '../core/errors.ts'
import { removeInvisible } from '../core/invisible-characters.ts'
import { toPrintable } from '../core/printable.ts'
import { didYouMean, findNearest } from '../core/tool-names.ts'
import type { Args } from './args.ts'
import { type Command, commands, commonOptions, guessedCommands } from './commands.ts'
import { commandHelp, generalHelp } from './help.ts'
import { configIn, toTypedCommands } from './invocation.ts'
import { type Io, makePrintable, UsageError } from './io.ts'

/** The code of each command is loaded when the command runs, because clients wait for `serve --stdio` to start. */
const programs: Readonly<Record<string, () => Promise<{ run(args: Args, io: Io, command: string): Promise<number> }>>> =
  {
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
    usage: () => import('./token-usage.ts'),
    later: () => import('./later.ts'),
    completion: () => import('./completion.ts'),
  }

/**
 * Runs one command line. Never throws: errors go to stderr as `pegboard: CODE: message. hint`, or as JSON with --json.
 * @returns exit code: 0 success, 1 failure, 2 wrong command line; `doctor` has more
 */
export async function run(argv: readonly string[], world: Io): Promise<number> {
  const config = configIn(argv)
  const io: Io = {
    ...world,
    // Piped output often ends on a terminal, so invisible characters are removed.
    stdout: (text) => world.stdout(world.terminal?.out === false ? removeInvisible(text) : toPrintable(text)),
    stderr: (text) => world.stderr(makePrintable(toTypedCommands(text, config, world))),
  }
  try {
    return await dispatch(argv, io)
  } catch (error) {
    if (error instanceof UsageError) {
      const name = argv[commandAt(argv)]
      const own = commands.some((one) => one.name === name) ? ` ${name}` : ''
      io.stderr(`pegboard: ${error.message}\nSee pegboard help${own}.\n`)
      return 2
    }
    io.stderr(`${argv.includes('--json') ? failureJson(error) : failureText(error)}\n`)
    return 1
  }
}

async function dispatch(argv: readonly string[], io: Io): Promise<number> {
  const at = commandAt(argv)
  const name = at < 0 ? undefined : argv[at]
  if (name === undefined) return withoutCommand(argv, io)
  const rest = argv.filter((_word, index) => index !== at)
  if (name === 'help') return help(rest[0], io)
  const command = find(name)
  const args = read(command, rest)
  if (args.values['help'] === true) return help(name, io)
  const { run: perform } = await programs[command.name]!()
  return perform(args, io, command.name)
}

/** The first word that is neither an option nor the value of --config. */
function commandAt(argv: readonly string[]): number {
  return argv.findIndex((word, index) => !word.startsWith('-') && !['--config', '-c'].includes(argv[index - 1] ?? ''))
}

async function withoutCommand(argv: readonly string[], io: Io): Promise<number> {
  if (argv.includes('--version') || argv.includes('-V')) {
    const { ownPackage } = await import('../app/package-info.ts')
    io.stdout(`${ownPackage().version}\n`)
    return 0
  }
  if (argv.includes('--help') || argv.includes('-h')) return help(undefined, io)
  if (argv.length > 0) throw new UsageError(`unknown option ${argv[0]}`)
  // An MCP client starts Pegboard as `npx pegboard`.
  if (io.input.isTTY !== true) return await run(['serve'], io)
  const [{ run: show }, { ownPackage }] = await Promise.all([import('./overview.ts'), import('../app/package-info.ts')])
  return show(ownPackage().version, io)
}

function help(name: string | undefined, io: Io): number {
  io.stdout(name === undefined || name.startsWith('-') ? generalHelp() : commandHelp(find(name)))
  return 0
}

function find(name: string): Command {
  const command = commands.find((one) => one.name === name)
  if (command) return command
  const names = [...commands.map((one) => one.name), 'help']
  const guessed = guessedCommands.get(name)
  const suggestion = guessed === undefined ? didYouMean(name, names, '', 2) : `; did you mean "${guessed}"?`
  throw new UsageError(`unknown command "${name}"${suggestion}`)
}

function read(command: Command, words: readonly string[]): Args {
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
    const [, unknown] = /^Unknown option '--?([\w-]+)/.exec(messageOf(error)) ?? []
    if (unknown === undefined) throw new UsageError(messageOf(error))
    const [near] = findNearest(unknown, Object.keys(knownOptions))
    throw new UsageError(`unknown option --${unknown} for ${command.name}${near ? `; did you mean --${near}?` : ''}`)
  }
  const extra = args.positionals[command.maxOperands ?? 0]
  if (extra !== undefined) throw new UsageError(`${command.name} does not take "${extra}"`)
  return args
}

function failureText(error: unknown): string {
  if (!isPegboardError(error)) return `pegboard: E_INTERNAL: ${messageOf(error)}`
  // Prints each problem on its own line.
  const text = error.message.endsWith('\n') ? `${error.message}${error.hint}` : joinSentences(error.message, error.hint)
  return `pegboard: ${error.code}: ${text}`
}

function failureJson(error: unknown): string {
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
