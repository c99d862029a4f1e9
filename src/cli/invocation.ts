import { basename, isAbsolute, relative, resolve, sep } from 'node:path'
import type { Environment } from '../config/machine.ts'
import { quoteWord } from '../core/quote-word.ts'
import { type Args, readOption } from './args.ts'
import { commands } from './commands.ts'
import type { Io } from './io.ts'

/**
 * How this program was started: `pegboard`, `npx pegboard` or `node …/dist/cli/main.js`. @param script path as typed
 */
export function describeInvocation(script: string, env: Environment, cwd: string): string {
  if (env['npm_lifecycle_event'] === 'npx' || script.includes(`${sep}node_modules${sep}.bin${sep}`))
    return 'npx pegboard'
  if (/^pegboard(?:\.cmd)?$/.test(basename(script))) return 'pegboard'
  const relativePath = relative(cwd, script)
  return `node ${quoteWord(relativePath.startsWith('..') || isAbsolute(relativePath) ? script : relativePath)}`
}

const COMMAND = new RegExp(`(?<![\\w/.-]|npx )pegboard (?=(?:${commands.map(({ name }) => name).join('|')})\\b)`, 'g')
const HELP = /(?<![\w/.-]|npx )pegboard help\b/g

/** Replaces commands in a text by what the reader has to type. @param config value of --config */
export function toTypedCommands(text: string, config: string | undefined, { self, input, cwd }: Io): string {
  // The output of a child is read in another folder.
  const file = config === undefined || input.isTTY ? config : resolve(cwd, config)
  const start = `${self.called} ${file === undefined ? '' : `--config ${quoteWord(file)} `}`
  // Log lines are JSON.
  const escapeText = (typed: string): string => (text.startsWith('{') ? JSON.stringify(typed).slice(1, -1) : typed)
  return text.replaceAll(HELP, () => escapeText(`${self.called} help`)).replaceAll(COMMAND, () => escapeText(start))
}

/** A text of Pegboard itself, with commands as the reader has to type them. */
export const withTypedCommands = (text: string, args: Args, io: Io): string =>
  toTypedCommands(text, readOption(args, 'config'), io)

/** The value of --config, at any position. */
export function findConfigOption(argv: readonly string[]): string | undefined {
  for (const [index, word] of argv.entries()) {
    if (word === '--config' || word === '-c') return argv[index + 1]
    if (word.startsWith('--config=')) return word.slice('--config='.length)
  }
  return undefined
}
