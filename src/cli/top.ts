import { formatCount } from '../core/format-count.ts'
import { toPrintable } from '../core/printable.ts'
import type { CallRow, ClientRow, LiveEvent, Overview, OwnerRow, TokenUsage } from '../ui/api-types.ts'
import type { Args } from './args.ts'
import { formatTable, type Io, writeJson } from './io.ts'
import { openConfig } from './open-app.ts'
import { followPage } from './page-client.ts'
import { readPageAddress } from './served-page.ts'

/** What the server sent so far. */
interface TopState {
  overview?: Overview
  owners: readonly OwnerRow[]
  clients: readonly ClientRow[]
  calls: readonly CallRow[]
}

const SCREEN = {
  enter: '\x1b[?1049h\x1b[?25l',
  leave: '\x1b[?25h\x1b[?1049l',
  home: '\x1b[H',
  below: '\x1b[J',
  end: '\x1b[K',
}
const MAX_CALLS = 200

/** `pegboard top`: servers, clients and calls of a running server, until Ctrl-C. One snapshot without a terminal. */
export async function run(args: Args, io: Io): Promise<number> {
  const { config } = await openConfig(args, io)
  const address = await readPageAddress(config)
  const isLive = io.terminal?.out === true && args.values['json'] !== true && args.values['once'] !== true
  const state: TopState = { owners: [], clients: [], calls: [] }
  const abort = new AbortController()
  const signal = AbortSignal.any([io.stop, abort.signal])
  const output = isLive ? io.claimOutput() : undefined
  output?.write(SCREEN.enter)
  try {
    for await (const event of followPage(address, signal)) {
      applyEvent(state, event)
      // The first events come together and end with this one.
      if (!isLive && event.kind === 'tools') break
      if (output && state.overview)
        output.write(formatScreen(state, process.stdout.columns ?? 80, process.stdout.rows ?? 24))
    }
  } finally {
    abort.abort()
    output?.write(SCREEN.leave)
  }
  if (args.values['json'] === true) writeJson(io, state)
  else if (!isLive) io.stdout(`${formatState(state, 20).join('\n')}\n`)
  return 0
}

function applyEvent(state: TopState, event: LiveEvent): void {
  if (event.kind === 'overview') state.overview = event.overview
  else if (event.kind === 'owners') state.owners = event.owners
  else if (event.kind === 'clients') state.clients = event.clients
  else if (event.kind === 'calls') state.calls = [...state.calls, ...event.calls].slice(-MAX_CALLS)
}

/** Redraws every line in place, so that nothing flickers. */
export function formatScreen(state: TopState, columns: number, rows: number): string {
  const lines = formatState(state, rows).slice(0, rows - 1)
  return `${SCREEN.home}${lines.map((line) => `${toPrintable(line).slice(0, columns)}${SCREEN.end}`).join('\r\n')}\r\n${SCREEN.below}`
}

/** @param rows of the screen, of which calls get what is left */
export function formatState({ overview, owners, clients, calls }: TopState, rows: number): readonly string[] {
  if (!overview) return []
  const { total, failed, running, lastMinute } = overview.calls
  const head = [
    `Pegboard ${overview.version} at ${overview.url}`,
    `${formatCount(overview.tools, 'tool')} in ${overview.mode} mode: a client lists about ${overview.listed} tokens`,
    ...(overview.spent ? [`Tokens since the start: ${overview.spent.tokens}, ${describeSaved(overview.spent)}`] : []),
    `Calls: ${total} in all, ${failed} failed, ${running} running, ${lastMinute} in the last minute`,
    ...(overview.toReview > 0
      ? [
          `${formatCount(overview.toReview, 'tool')} ${overview.toReview === 1 ? 'waits' : 'wait'} for a review: pegboard review`,
        ]
      : []),
  ]
  const servers = formatSection(
    'Servers',
    ['NAME', 'STATE', 'TOOLS', 'TOKENS', 'REASON'],
    owners
      .filter(({ kind }) => kind !== 'module')
      .map(({ id, state, tools, tokens, reason }) => [id, state, `${tools}`, `${tokens}`, reason ?? '']),
  )
  const clientLines = formatSection(
    'Clients',
    ['NAME', 'PRINCIPAL', 'PROTOCOL', 'MODE', 'TOOLS', 'TOKENS', 'SAVED'],
    clients.map(({ name, principal, protocol, mode, tools, spent }) => [
      name,
      principal,
      protocol,
      mode,
      `${tools}`,
      spent ? `${spent.tokens}` : '–',
      spent ? percentSaved(spent) : '–',
    ]),
  )
  const missing =
    clients.length > 0
      ? []
      : [
          '',
          'Clients: none is connected to this server. A client that starts Pegboard over stdio has its own process, which is not shown here.',
          `To see a client here, connect it to ${overview.url}/mcp.`,
        ]
  const callRows = Math.max(5, rows - head.length - servers.length - clientLines.length - missing.length - 4)
  const latest = formatSection(
    'Latest calls',
    ['TIME', 'TOOL', 'CLIENT', 'MS', 'OUTCOME'],
    calls
      .slice(-callRows)
      .reverse()
      .map(({ at, tool, client, ms, outcome }) => [
        new Date(at).toISOString().slice(11, 19),
        tool,
        client || '–',
        `${ms}`,
        outcome,
      ]),
  )
  return [...head, ...servers, ...clientLines, ...missing, ...latest]
}

const percentSaved = ({ tokens, direct }: TokenUsage): string =>
  direct === 0 ? '–' : `${Math.round(100 * (1 - tokens / direct))} %`

const describeSaved = (spent: TokenUsage): string =>
  spent.tokens > spent.direct
    ? `${spent.tokens - spent.direct} more than without Pegboard`
    : `${spent.direct - spent.tokens} (${percentSaved(spent)}) less than without Pegboard`

const formatSection = (
  title: string,
  head: readonly string[],
  rows: readonly (readonly string[])[],
): readonly string[] =>
  rows.length === 0
    ? []
    : [
        '',
        title,
        ...formatTable([head, ...rows])
          .trimEnd()
          .split('\n'),
      ]
