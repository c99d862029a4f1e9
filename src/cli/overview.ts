import { commands } from './commands.ts'
import { findConfig } from './find-config.ts'
import { formatTable, type Io } from './io.ts'

/** What a newcomer does next, in this order. */
const NEXT_COMMANDS: readonly (readonly [command: string, words: string, about: string])[] = [
  ['init', 'init', 'Find the servers of your clients, and set up Pegboard.'],
  ['serve', 'serve', 'Serve all tools over HTTP, and show the lines to paste into clients.'],
  ['search', 'search "what you want to do"', 'Search the tools as a client does.'],
  ['list', 'list servers', 'Show your servers and whether they work.'],
  ['help', 'help', 'Show every command.'],
]

/** `pegboard` without arguments in a terminal. */
export async function run(version: string, io: Io): Promise<number> {
  // Nobody is asked here whether to use the configuration of a project.
  const { file, ignored } = await findConfig(undefined, { ...io, terminal: { out: false, err: false } })
  const configuration =
    file ??
    (ignored === undefined
      ? 'none yet. The bundled modules work without one'
      : `${ignored} waits for your confirmation: run a command such as list`)
  const listedCommands = NEXT_COMMANDS.filter(
    ([name]) => name === 'help' || commands.some((command) => command.name === name),
  )
  io.stdout(
    [
      `Pegboard ${version}: one MCP server in front of every tool an agent has.\n`,
      `Configuration: ${configuration}.\n\n`,
      formatTable(listedCommands.map(([, words, about]) => [`  ${io.self.called} ${words}`, about])),
      '\nMCP clients start Pegboard with the same command. Without a terminal it serves MCP on stdin and stdout.\n',
    ].join(''),
  )
  return 0
}
