import type { ToolError } from 'pegboard'
import { denied } from '../_errors.ts'
import type { Settings } from './config.ts'
import {
  baseName,
  needsSandbox,
  OPTIONS_WITH_VALUE,
  obeysRepository,
  READS_OPTIONS_AFTER_DASHES,
  RISKY_OPTIONS,
  RISKY_SUBCOMMAND_OPTIONS,
  RISKY_SUBCOMMANDS,
  runsAnything,
  startsOthers,
} from './programs.ts'

interface Rule {
  readonly words: readonly string[]
  readonly denied: readonly string[]
  /** False: the operator trusts it outside the sandbox. */
  readonly sandboxed: boolean | undefined
}

const parseRules = ({ allowed_commands }: Settings): Rule[] =>
  allowed_commands.map((entry) => {
    const { command, deny_args, sandbox } =
      typeof entry === 'string' ? { command: entry, deny_args: [], sandbox: undefined } : entry
    return { words: command.trim().split(/\s+/), denied: deny_args, sandboxed: sandbox }
  })

export const allowedNames = (settings: Settings): string[] => parseRules(settings).map(({ words }) => words.join(' '))

/** Allowed programs that can start others: those that run anything, and those allowed with any argument. */
export const programsThatStartOthers = (settings: Settings): string[] =>
  parseRules(settings)
    .filter(({ words: [program = '', ...first] }) => (first.length === 0 ? startsOthers : runsAnything)(program))
    .map(({ words }) => words[0] as string)

/** Allowed commands that run programs named by a repository, outside a sandbox. */
export const commandsThatObeyRepositories = (settings: Settings): string[] =>
  parseRules(settings)
    .filter(({ words: [program = ''], sandboxed }) => {
      const outside = settings.sandbox === 'off' || (settings.sandbox === 'scripts' && sandboxed === false)
      return outside && obeysRepository(program)
    })
    .map(({ words }) => words.join(' '))

/**
 * `required`: runs only in a sandbox. `preferred`: in a sandbox if there is one. `none`: the operator trusts it without a
 * sandbox.
 */
export type SandboxNeed = 'required' | 'preferred' | 'none'

/**
 * Checks a program and its arguments.
 * @returns whether it needs a sandbox
 * @throws ToolError E_DENIED_BY_POLICY with the list of allowed commands
 */
export function checkAllowed(settings: Settings, command: string, args: readonly string[]): SandboxNeed {
  const rules = parseRules(settings)
  const matchingRules = rules.filter(
    ({ words: [program, ...first] }) => program === command && first.every((word, index) => args[index] === word),
  )
  const names = rules.map(({ words }) => words.join(' '))
  const createRefusal = (message: string): ToolError =>
    denied(message, `Allowed are: ${names.join(', ') || 'none'} (modules.shell.config.allowed_commands).`)
  if (matchingRules.length === 0)
    throw createRefusal(
      /\s/.test(command)
        ? `'${shorten(command)}' is a command line, but run starts no shell: put the program in command and each word after it in args.`
        : `'${shorten([command, ...args].join(' '))}' is not an allowed command.`,
    )
  // One matching rule is enough.
  const findDenied = (rule: Rule): string | undefined => {
    const optionsEnd = READS_OPTIONS_AFTER_DASHES.has(baseName(command)) ? -1 : args.indexOf('--')
    const options = optionsEnd < 0 ? args : args.slice(0, optionsEnd)
    const deniedPatterns = rule.denied.map(createPattern)
    const isRisky = createRiskyOptionCheck(baseName(command), options)
    return (
      (rule.words.length === 1 ? findRiskySubcommand(baseName(command), options) : undefined) ??
      args.find((arg) => deniedPatterns.some((fits) => fits.test(arg))) ??
      options.slice(rule.words.length - 1).find((arg, at) => isRisky(arg, at === 0 && rule.words.length === 1))
    )
  }
  const problems = matchingRules.map(findDenied)
  const allowingRules = matchingRules.filter((_, index) => problems[index] === undefined)
  if (allowingRules.some(({ sandboxed }) => sandboxed === false)) return 'none'
  if (allowingRules.length > 0) return needsSandbox(command) ? 'required' : 'preferred'
  throw createRefusal(`The argument '${shorten(String(problems[0]))}' is not allowed for ${command}.`)
}

/** `first`: for all arguments, which tar treats as options even without a dash. */
function createRiskyOptionCheck(program: string, args: readonly string[]): (arg: string, first: boolean) => boolean {
  const risky = [
    ...(RISKY_OPTIONS[program] ?? []),
    ...args.flatMap((word) => RISKY_SUBCOMMAND_OPTIONS[`${program} ${word}`] ?? []),
  ]
  const patterns = risky.map(createPattern)
  const names = risky.filter((option) => option.startsWith('--')).map((option) => option.replace(/[=*].*$/, ''))
  const letters = risky.flatMap((option) => /^-(\w)\*?$/.exec(option)?.[1] ?? [])
  const lettersWithValue = OPTIONS_WITH_VALUE[program]
  return (arg, first) => {
    const option = first && program === 'tar' && !arg.startsWith('-') ? `-${arg}` : arg
    if (!option.startsWith('-')) return false
    if (patterns.some((fits) => fits.test(option))) return true
    const [name = ''] = option.split('=')
    // Long options may be abbreviated while unambiguous, down to one letter.
    if (name.startsWith('--')) return name.length > 2 && names.some((one) => one.startsWith(name))
    if (lettersWithValue === undefined) return false
    // In tar's form without a dash, the values of all letters follow as separate words.
    const isWithoutDash = option !== arg
    for (const letter of name.slice(1)) {
      if (letters.includes(letter)) return true
      if (lettersWithValue.includes(letter) && !isWithoutDash) return false
    }
    return false
  }
}

const findRiskySubcommand = (program: string, args: readonly string[]): string | undefined => {
  const word = args.find((arg) => !arg.startsWith('-'))
  return word !== undefined && RISKY_SUBCOMMANDS[program]?.includes(word) ? word : undefined
}

/**
 * Checks the variables that a call sets.
 * @throws ToolError E_DENIED_BY_POLICY for variables that the operator does not list
 */
export function checkVariables({ env_allowed }: Settings, variables: Readonly<Record<string, string>>): void {
  const matchers = env_allowed.map((name) =>
    name.endsWith('*')
      ? (variable: string) => variable.startsWith(name.slice(0, -1))
      : (variable: string) => variable === name,
  )
  const deniedName = Object.keys(variables).find((name) => !matchers.some((fits) => fits(name)))
  if (deniedName === undefined) return
  throw denied(
    `A call cannot set the variable ${shorten(deniedName)}.`,
    `Allowed are: ${env_allowed.join(', ') || 'none'} (modules.shell.config.env_allowed).`,
  )
}

/** `*` matches any characters, `?` one. Unlike path globs, `*` also matches slashes. */
const createPattern = (pattern: string): RegExp =>
  new RegExp(`^${escapeRegExp(pattern).replaceAll('\\*', '.*').replaceAll('\\?', '.')}$`, 's')
const escapeRegExp = (text: string): string => text.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&')
const shorten = (text: string): string => (text.length > 80 ? `${text.slice(0, 80)}…` : text)

/**
 * Words and paths that commands must not name. Only a hint for well-meaning callers; the sandbox enforces it.
 * @throws ToolError E_DENIED_BY_POLICY
 */
export function checkWords(settings: Settings, what: string, text: string): void {
  for (const [kind, words, setting] of [
    // Existing agents expect this sentence from bash.
    ['path', settings.denied_paths, what === 'bash' ? 'tools.bash.deny_paths' : 'modules.shell.config.denied_paths'],
    ['token', settings.deny_tokens, 'modules.shell.config.deny_tokens'],
    ['token', settings.secrets_enabled ? ['curl'] : [], 'modules.shell.config.secrets_enabled'],
  ] as const)
    for (const word of words) {
      if (!new RegExp(`(?<![\\w-])${escapeRegExp(word)}(?![\\w-])`).test(text)) continue
      throw denied(
        `${what} command references denied ${kind} "${word}" (configure via ${setting})`,
        'Find another way, or ask the operator.',
      )
    }
}
