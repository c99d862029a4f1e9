import { type Command, commands, commonOptions, type Option } from './commands.ts'
import { formatTable } from './io.ts'

export function formatGeneralHelp(): string {
  return [
    'Usage: pegboard <command> [options]\n\n',
    formatTable(commands.map(({ name, summary }) => [`  ${name}`, summary])),
    '\nOptions of every command:\n',
    formatOptions(commonOptions),
    '\nRun pegboard help <command> for details, or pegboard --version for the version.\n',
  ].join('')
}

export function formatCommandHelp(command: Command): string {
  const options = formatOptions({ ...command.options, ...commonOptions })
  return `Usage: ${formatUsage(command)}\n\n${command.summary}\n\nOptions:\n${options}`
}

/** `pegboard search <query> [--limit N] …`, without the common options. */
export function formatUsage(command: Command): string {
  const { name, operands, options = {} } = command
  const flags = Object.entries(options).map(([flag, { value }]) => `[--${flag}${value ? ` ${value}` : ''}]`)
  return ['pegboard', name, operands, ...flags].filter(Boolean).join(' ')
}

const formatOptions = (options: Readonly<Record<string, Option>>): string =>
  formatTable(
    Object.entries(options).map(([name, { short, value, about }]) => [
      `  ${short ? `-${short}, ` : '    '}--${name}${value ? ` ${value}` : ''}`,
      about,
    ]),
  )
