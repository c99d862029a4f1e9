import { serializeTools, TOOL_FORMATS } from '../agent/serialize.ts'
import { hiddenReason, knownTools } from '../app/explain-tool.ts'
import { shownState } from '../catalog/owner-state.ts'
import { clashesOf } from '../catalog/resource-owner.ts'
import type { Config } from '../config/load-config.ts'
import { firstSentence } from '../core/first-sentence.ts'
import { riskOf, type Tool } from '../core/tool.ts'
import type { ApiStatus } from '../openapi/api.ts'
import type { UpstreamStatus } from '../upstream/upstream.ts'
import { describeReach } from '../upstream/upstream-settings.ts'
import type { View } from '../view/view.ts'
import { type Args, readChoice, readOption } from './args.ts'
import { withTypedCommands } from './invocation.ts'
import { formatTable, type Io, UsageError, writeJson, writeWarning } from './io.ts'
import { describeStarting, type Session, withApp } from './open-app.ts'

type Row = Readonly<Record<string, unknown>>

/** `pegboard list [tools|modules|servers]`. */
export async function run(args: Args, io: Io): Promise<number> {
  const what = args.positionals[0] ?? 'tools'
  const listing = Object.hasOwn(LISTINGS, what) ? LISTINGS[what] : undefined
  if (!listing) throw new UsageError(`list takes tools, modules or servers, not "${what}"`)
  const format =
    readOption(args, 'format') === undefined ? undefined : readChoice(args, 'format', TOOL_FORMATS, 'openai')
  if (format !== undefined && what !== 'tools') throw new UsageError(`--format is for tools, not for ${what}`)
  const json = args.values['json'] === true
  const includeHidden = args.values['hidden'] === true
  const printedKeys = new Set<unknown>()
  /** Prints the rows that were not printed before. */
  const print = (rows: readonly Row[]): void => {
    const newRows = rows.filter((row) => !printedKeys.has(keyOf(row)))
    if (newRows.length > 0)
      io.stdout(withTypedCommands(formatRows(listing, newRows, io, printedKeys.size === 0), args, io))
    for (const row of newRows) printedKeys.add(keyOf(row))
  }
  const printEarly = (session: Session): void => {
    if (json || format !== undefined) return
    const startingModules = new Set(
      session.app.upstreams.status().flatMap((server) => (server.pending ? [server.module] : [])),
    )
    print(
      listing
        .rows(session, includeHidden, true)
        .filter((row) => !startingModules.has(String(what === 'tools' ? row['module'] : row['id']))),
    )
  }
  const finish = (session: Session): number => {
    if (what === 'tools') for (const line of findFailing(session)) writeWarning(io, line)
    if (format !== undefined) {
      const { app, caller } = session
      writeJson(io, serializeTools(app.surface.list(caller, app.exposure(caller).mode), format))
      return 0
    }
    const rows = listing.rows(session, includeHidden, !json)
    const { ignored } = session
    if (json) writeJson(io, rows)
    else if (rows.length === 0)
      io.stdout(ignored === undefined ? `No ${what}.\n` : `No ${what}: ${ignored} is ignored.\n`)
    else print(rows)
    if (what === 'servers' && !json && io.terminal?.out) io.stderr(describeUnsandboxed(session.config))
    return rows.length === 0 && ignored !== undefined ? 1 : 0
  }
  return withApp(args, io, finish, { early: printEarly, shouldWaitFor: () => what !== 'modules' })
}

const SHORTENED_COLUMNS = new Set(['description', 'summary', 'may_touch'])

const keyOf = (row: Row): unknown => row['name'] ?? row['id']

/** Adds a header on a terminal; scripts get only rows. */
function formatRows({ columns }: Listing, rows: readonly Row[], { terminal }: Io, isFirst: boolean): string {
  const usedColumns = columns.filter((column) => rows.some((row) => row[column] !== undefined))
  // Scripts count columns. Of those that were added later, they get only `instance`, and only if it has a value.
  const allColumns = columns.filter(
    (column) => column !== 'may_touch' && (column !== 'instance' || usedColumns.includes(column)),
  )
  const head = terminal?.out && isFirst ? [usedColumns.map((column) => column.toUpperCase().replace('_', ' '))] : []
  const shownColumns = terminal?.out ? usedColumns : allColumns
  const lines = rows.map((row) => shownColumns.map((column) => String(row[column] ?? '')))
  const column = shownColumns.findIndex((name) => SHORTENED_COLUMNS.has(name))
  return formatTable([...head, ...lines], { column, width: terminal?.columns })
}

interface Listing {
  readonly columns: readonly string[]
  /**
   * @param short shortens descriptions to one line, and adds the next attempt to the reason instead of a field of its
   * own
   */
  rows(session: Session, includeHidden: boolean, short: boolean): Row[]
}

const LISTINGS: Readonly<Record<string, Listing>> = {
  tools: { columns: ['name', 'risk_level', 'description', 'hidden'], rows: listTools },
  modules: { columns: ['id', 'state', 'tools', 'summary', 'reason'], rows: listModules },
  servers: {
    columns: ['id', 'state', 'tools', 'transport', 'era', 'instance', 'may_touch', 'reason'],
    rows: listServers,
  },
}

function listTools({ app, caller, config }: Session, includeHidden: boolean, short: boolean): Row[] {
  const view = app.view(caller)
  const row = (tool: Tool, description: string): Row => ({
    name: tool.id,
    wire_name: tool.name,
    module: tool.module,
    risk_level: riskOf(tool.effect),
    description: short ? firstSentence(description, 100) : description,
  })
  const rows = view.tools.map((entry) => row(entry.tool, entry.description))
  if (!includeHidden) return rows
  const byId = knownTools(app)
  for (const [id, why] of view.hidden) {
    const tool = byId.get(id)
    if (tool) rows.push({ ...row(tool, tool.description), hidden: `hidden: ${hiddenReason(why)}` })
  }
  // Tools of modules that were not loaded are unknown.
  for (const { id, reason } of listSkipped(config, /^(?:modules|openapi)\./))
    rows.push({ name: `${id}.*`, module: id, hidden: `hidden: ${reason}` })
  return rows
}

function listModules({ app, caller, config }: Session): Row[] {
  const view = app.view(caller)
  const loaded = [...app.catalog.snapshot().owners.values()]
    .filter((owner) => owner.origin === 'module')
    .map(({ id, state, summary, reason, tools }) => {
      const count = view.count(id)
      const unavailableReason = reason ?? (count > 0 ? findFailedCheck(view, tools) : findHiddenReason(view, tools))
      const visibleState = state === 'ready' && count === 0 && unavailableReason !== undefined ? 'unavailable' : state
      return { id, state: visibleState, tools: count, summary, ...(unavailableReason && { reason: unavailableReason }) }
    })
  const failed = app
    .failed()
    .map(({ file, error }) => ({ id: file, state: 'failed', tools: 0, summary: '', reason: error }))
  const broken = listSkipped(config, /^modules\./).map(skippedRow)
  return [...loaded, ...failed, ...broken]
}

/** What would make tools of a module without visible tools visible. */
function findHiddenReason({ hidden }: View, tools: readonly Tool[]): string | undefined {
  // Tools that only read need the least.
  const readFirst = [...tools.filter(({ effect }) => effect === 'read'), ...tools]
  const reasons = readFirst.map(({ id }) => {
    const why = hidden.get(id)
    return why && hiddenReason(why)
  })
  return reasons.find(Boolean)
}

/** The first tool that is hidden because a check of the module failed, with the error. */
function findFailedCheck({ hidden }: View, tools: readonly Tool[]): string | undefined {
  const failed = tools.find(({ id }) => hidden.get(id)?.failure !== undefined)
  const why = failed && hidden.get(failed.id)
  return why && `${failed.id}: ${hiddenReason(why)}`
}

/** Modules and APIs that lack a variable, by category. */
const listSkipped = ({ missing }: Config, section: RegExp): { readonly id: string; readonly reason: string }[] =>
  Object.entries(missing).flatMap(([key, reason]) =>
    section.test(key) ? [{ id: key.replace('modules.', '').replace('openapi.', 'api_'), reason }] : [],
  )

const skippedRow = ({ id, reason }: { readonly id: string; readonly reason: string }): Row => ({
  id,
  state: 'skipped',
  tools: 0,
  summary: '',
  reason,
})

/** Warnings about servers whose tools may be missing. Servers that are still starting were named before. */
const findFailing = ({ app, config }: Session): readonly string[] => [
  ...config.skipped.map(({ id, reason }) => `mcp_${id}: ${reason}`),
  ...app.upstreams.status().flatMap(({ module, state, detail, reason, pending, tools, nextAttemptAt }) => {
    const why = detail ?? reason
    if (state !== 'failing' || why === undefined || (pending && tools === 0)) return []
    return [`${module}: ${addNextAttempt(why, nextAttemptAt, Date.now())}`]
  }),
]

function addNextAttempt(reason: string, nextAttemptAt: number | undefined, now: number): string {
  // The time of a running attempt has passed.
  const inMs = nextAttemptAt === undefined ? 0 : nextAttemptAt - now
  return inMs > 0 ? `${reason} (retry in ${Math.ceil(inMs / 1_000)} s)` : reason
}

/** What a local server may touch. */
function reachOf({ servers }: Config, id: string): Row {
  const settings = servers[id]
  return settings?.target.kind === 'stdio' ? { may_touch: describeReach(settings) } : {}
}

/** One line about servers without a sandbox; empty if there is none. */
function describeUnsandboxed({ servers }: Config): string {
  const unsandboxed = Object.values(servers).filter(
    ({ enabled, target }) => enabled && target.kind === 'stdio' && target.sandbox === undefined,
  )
  if (unsandboxed.length === 0) return ''
  const subject = unsandboxed.length === 1 ? '1 local server runs' : `${unsandboxed.length} local servers run`
  return `${subject} without a sandbox and can read and write all your files. To limit a server, set its "sandbox".\n`
}

/** All configured servers and APIs, each in the order of the file. */
function listServers(session: Session, _hidden: boolean, short: boolean): Row[] {
  const { app, config } = session
  const now = Date.now()
  const unreadable = [
    ...config.skipped.map(({ id, reason }) => ({ id: `mcp_${id}`, reason })),
    ...listSkipped(config, /^openapi\./),
  ]
  const disabledApis = Object.entries(config.openapi).flatMap(([id, { enabled }]) =>
    enabled || Object.hasOwn(config.missing, `openapi.${id}`)
      ? []
      : [{ id: `api_${id}`, state: 'disabled', tools: 0, summary: '' }],
  )
  return [
    ...app.upstreams.status().map((server) => serverRow(session, server, short, now)),
    ...unreadable.map(skippedRow),
    ...app.apis.status().map((api) => apiRow(session, api)),
    ...disabledApis,
  ]
}

function serverRow({ app, config, caller }: Session, server: UpstreamStatus, short: boolean, now: number): Row {
  const { module, transport, era, start, startMs, nextAttemptAt, instances } = server
  const { owners } = app.catalog.snapshot()
  const owner = owners.get(module)
  const reason = reasonOf(server)
  if (!owner) {
    const state = reason === 'disabled' ? reason : server.state
    return { id: module, state, tools: 0, summary: '', transport, start }
  }
  const view = app.view(caller)
  const clashes = clashesOf([...owners.values()], owner)
  const message = reason ?? owner.notice ?? clashes[0]
  const nextAttempt = nextAttemptAt === undefined ? {} : nextAttemptFields(Math.max(0, nextAttemptAt - now))
  return {
    id: module,
    state: shownState(owner, owner.tools.length),
    tools: view.count(module),
    summary: app.categoryLine(owner, view),
    ...(message === undefined ? {} : { reason: short ? addNextAttempt(message, nextAttemptAt, now) : message }),
    ...nextAttempt,
    transport,
    ...(era === undefined ? {} : { era }),
    start,
    ...(startMs === undefined ? {} : { start_ms: startMs }),
    ...(short || clashes.length === 0 ? {} : { clashes }),
    ...instanceOf(server, short),
    ...(instances === undefined ? {} : { instances }),
    ...reachOf(config, server.id),
  }
}

function reasonOf(server: UpstreamStatus): string | undefined {
  const { detail, reason, pending, tools } = server
  const isFirstStart = pending && tools === 0
  return detail ?? reason ?? (isFirstStart ? describeStarting(server).replace(/^is still /, '') : undefined)
}

const nextAttemptFields = (inMs: number): Row => ({
  next_attempt: `in ${Math.ceil(inMs / 1_000)} s`,
  next_attempt_in_ms: inMs,
})

/** Most servers are shared, so the table needs no column for that. */
function instanceOf({ instance }: UpstreamStatus, short: boolean): Row {
  if (!short) return { instance }
  return instance === 'shared' ? {} : { instance: `one per ${instance}` }
}

function apiRow({ app, caller }: Session, { module, state, reason: ownReason }: ApiStatus): Row {
  const view = app.view(caller)
  const owner = app.catalog.snapshot().owners.get(module)
  const reason = ownReason ?? owner?.notice
  return {
    id: module,
    state,
    tools: view.count(module),
    summary: owner ? app.categoryLine(owner, view) : '',
    ...(reason === undefined ? {} : { reason }),
  }
}
