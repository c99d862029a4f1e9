import { basename, isAbsolute, relative, resolve, sep } from 'node:path'
import type { Environment } from '../config/places.ts'
import { commands } from './commands.ts'
import type { Io } from './io.ts'
import { quoted } from './snippets.ts'

/** How a person starts this program: `pegboard`, `npx pegboard` or `node …/dist/cli/main.js`. @param script as it was started */
export function calledAs(script: string, env: Environment, cwd: string): string {
  if (env['npm_lifecycle_event'] === 'npx' || script.includes(`${sep}node_modules${sep}.bin${sep}`))
    return 'npx pegboard'
  if (/^pegboard(?:\.cmd)?$/.test(basename(script))) return 'pegboard'
  const near = relative(cwd, script)
  return `node ${quoted(near.startsWith('..') || isAbsolute(near) ? script : near)}`
}

const COMMAND = new RegExp(`(?<![\\w/.-]|npx )pegboard (?=(?:${commands.map(({ name }) => name).join('|')})\\b)`, 'g')
const HELP = /(?<![\w/.-]|npx )pegboard help\b/g

/** Commands in a text of ours as they have to be typed here. @param config as --config named it */
export function typable(text: string, config: string | undefined, { self, input, cwd }: Io): string {
  // Whoever reads what a client's child wrote is in some other folder.
  const file = config === undefined || input.isTTY ? config : resolve(cwd, config)
  const start = `${self.called} ${file === undefined ? '' : `--config ${quoted(file)} `}`
  // A line of the log is JSON.
  const asked = text.replaceAll(HELP, () => `${self.called} help`)
  return asked.replaceAll(COMMAND, () => (text.startsWith('{') ? JSON.stringify(start).slice(1, -1) : start))
}

/** The value of --config, in whatever place. */
export function configIn(argv: readonly string[]): string | undefined {
  for (const [at, word] of argv.entries()) {
    if (word === '--config' || word === '-c') return argv[at + 1]
    if (word.startsWith('--config=')) return word.slice('--config='.length)
  }
  return undefined
}
