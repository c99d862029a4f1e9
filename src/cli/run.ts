import { parseArgs } from 'node:util'
import { isPegboardError, messageOf, type PegboardError, sentences } from '../core/errors.ts'
import { nearest } from '../core/names.ts'
import { plain } from '../core/plain.ts'
import { withoutUnseen } from '../core/unseen.ts'
import { type Args, type Command, commands, commonOptions } from './commands.ts'
import { commandHelp, generalHelp } from './help.ts'
import { configIn, typable } from './invocation.ts'
import { type Io, steady, UsageError } from './io.ts'

/**
 * Runs one command line. Nothing is thrown: failures are told on stderr as `pegboard: CODE: what. what next`, as JSON
 * with --json.
 * @returns the exit code: 0 done, 1 failed, 2 the command line is wrong
 */
export async function run(argv: readonly string[], world: Io): Promise<number> {
  const config = configIn(argv)
  const io: Io = {
    ...world,
    // A script gets what a tool said, without commands to a terminal: what is piped ends on one often enough.
    stdout: (text) => world.stdout(world.terminal?.out === false ? withoutUnseen(text) : plain(text)),
    stderr: (text) => world.stderr(steady(typable(text, config, world))),
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
  const { run: perform } = await command.load()
  return perform(args, io)
}

/** The first word that is neither an option nor the value of --config. */
function commandAt(argv: readonly string[]): number {
  return argv.findIndex((word, index) => !word.startsWith('-') && !['--config', '-c'].includes(argv[index - 1] ?? ''))
}

async function withoutCommand(argv: readonly string[], io: Io): Promise<number> {
  if (argv.includes('--version') || argv.includes('-V')) {
    const { ownPackage } = await import('../package.ts')
    io.stdout(`${ownPackage().version}\n`)
    return 0
  }
  if (argv.includes('--help') || argv.includes('-h')) return help(undefined, io)
  if (argv.length > 0) throw new UsageError(`unknown option ${argv[0]}`)
  io.stderr(generalHelp())
  return 2
}

function help(name: string | undefined, io: Io): number {
  io.stdout(name === undefined || name.startsWith('-') ? generalHelp() : commandHelp(find(name)))
  return 0
}

function find(name: string): Command {
  const command = commands.find((one) => one.name === name)
  if (command) return command
  const [near] = nearest(name, [...commands.map((one) => one.name), 'help'], 2)
  throw new UsageError(`unknown command "${name}"${near ? `; did you mean "${near}"?` : ''}`)
}

function read(command: Command, words: readonly string[]): Args {
  const known = { ...commonOptions, ...command.options }
  const options = Object.fromEntries(
    Object.entries(known).map(([name, { type, short, multiple }]) => [
      name,
      { type, ...(short ? { short } : {}), ...(multiple ? { multiple } : {}) },
    ]),
  )
  let args: Args
  try {
    args = simpleArgs(words, options) ?? parseArgs({ args: [...words], options, allowPositionals: true, strict: true })
  } catch (error) {
    const [, unknown] = /^Unknown option '--?([\w-]+)/.exec(messageOf(error)) ?? []
    if (unknown === undefined) throw new UsageError(messageOf(error))
    const [near] = nearest(unknown, Object.keys(known))
    throw new UsageError(`unknown option --${unknown} for ${command.name}${near ? `; did you mean --${near}?` : ''}`)
  }
  const extra = args.positionals[command.maxOperands]
  if (extra !== undefined) throw new UsageError(`${command.name} does not take "${extra}"`)
  return args
}

/** As Node's parser, which takes half a millisecond to read; undefined for what only that one understands, or refuses. */
function simpleArgs(
  words: readonly string[],
  options: Readonly<Record<string, { readonly type: 'string' | 'boolean'; readonly multiple?: boolean }>>,
): Args | undefined {
  const values: Record<string, string | true> = Object.create(null)
  for (let at = 0; at < words.length; at++) {
    const name = words[at]?.startsWith('--') ? (words[at] as string).slice(2) : ''
    const option = Object.hasOwn(options, name) ? options[name] : undefined
    if (!option || option.multiple) return undefined
    const value = option.type === 'boolean' ? true : words[++at]
    if (value === undefined || (value !== true && value.startsWith('-'))) return undefined
    values[name] = value
  }
  return { values, positionals: [] }
}

function failureText(error: unknown): string {
  if (!isPegboardError(error)) return `pegboard: E_INTERNAL: ${messageOf(error)}`
  // Several problems come as lines of their own.
  const text = error.message.endsWith('\n') ? `${error.message}${error.hint}` : sentences(error.message, error.hint)
  return `pegboard: ${error.code}: ${text}`
}

function failureJson(error: unknown): string {
  const known: Partial<PegboardError> & { message: string } = isPegboardError(error)
    ? error
    : { message: messageOf(error) }
  return JSON.stringify({
    error: { code: known.code ?? 'E_INTERNAL', message: known.message, ...(known.hint ? { hint: known.hint } : {}) },
  })
}
