import { type Command, commands, commonOptions, type Option } from './commands.ts'
import { wrapWords } from './text-width.ts'

/** Help also fits a narrow terminal, and is the same in a pipe. */
const COLUMNS = 80

export function formatGeneralHelp(): string {
  return [
    'Usage: pegboard <command> [options]\n\n',
    formatRows(commands.map(({ name, summary }) => [`  ${name}`, summary])),
    '\nOptions of every command:\n',
    formatOptions(commonOptions),
    '\nRun pegboard help <command> for details, or pegboard --version for the version.\n',
  ].join('')
}

export function formatCommandHelp(command: Command): string {
  const options = formatOptions({ ...command.options, ...commonOptions })
  const usage = wrap(['Usage:', ...usageOf(command)], 'Usage: '.length)
  return `${usage}\n${wrap(command.summary.split(' '))}\nOptions:\n${options}`
}

/** `pegboard search <query> [--limit N] …`, without the common options. */
export const formatUsage = (command: Command): string => usageOf(command).join(' ')

/** The parts of the usage, which stay together in a line. */
function usageOf({ name, operands, options = {} }: Command): readonly string[] {
  const flags = Object.entries(options).map(([flag, { value }]) => `[--${flag}${value ? ` ${value}` : ''}]`)
  return ['pegboard', name, ...(operands === undefined ? [] : [operands]), ...flags]
}

const formatOptions = (options: Readonly<Record<string, Option>>): string =>
  formatRows(
    Object.entries(options).map(([name, { short, value, about }]) => [
      `  ${short ? `-${short}, ` : '    '}--${name}${value ? ` ${value}` : ''}`,
      about,
    ]),
  )

/** A table of two columns. */
function formatRows(rows: ReadonlyArray<readonly [label: string, text: string]>): string {
  const indent = Math.max(...rows.map(([label]) => label.length)) + 2
  return rows.map(([label, text]) => wrap([label.padEnd(indent - 1), ...text.split(' ')], indent)).join('')
}

const wrap = (words: readonly string[], indent = 0): string => `${wrapWords(words, COLUMNS, indent).join('\n')}\n`
