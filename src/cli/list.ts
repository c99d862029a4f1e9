import { localCaller } from '../core/context.ts'
import { riskOf, type Tool } from '../core/tool.ts'
import { firstSentence } from '../view/listing.ts'
import type { Args } from './commands.ts'
import { type Io, table, UsageError, writeJson } from './io.ts'
import { type Session, withApp } from './open.ts'

type Row = Readonly<Record<string, unknown>>

/** `pegboard list [tools|modules|servers]`. */
export async function run(args: Args, io: Io): Promise<number> {
  const what = args.positionals[0] ?? 'tools'
  const listing = LISTINGS[what]
  if (!listing) throw new UsageError(`list takes tools, modules or servers, not "${what}"`)
  return withApp(args, io, (session) => {
    const json = args.values['json'] === true
    const rows = listing.rows(session, args.values['hidden'] === true, !json)
    if (json) writeJson(io, rows)
    else if (rows.length === 0) io.stdout(`No ${what}.\n`)
    else io.stdout(table(rows.map((row) => listing.columns.map((column) => String(row[column] ?? '')))))
    return 0
  })
}

interface Listing {
  readonly columns: readonly string[]
  /** @param short descriptions as one line */
  rows(session: Session, hidden: boolean, short: boolean): Row[]
}

const LISTINGS: Readonly<Record<string, Listing>> = {
  tools: { columns: ['name', 'risk_level', 'description', 'hidden'], rows: tools },
  modules: { columns: ['id', 'state', 'tools', 'summary', 'reason'], rows: modules },
  servers: { columns: ['id', 'state', 'tools', 'summary', 'reason'], rows: servers },
}

function tools({ app }: Session, hidden: boolean, short: boolean): Row[] {
  const view = app.view(localCaller)
  const row = (tool: Tool, description: string): Row => ({
    name: tool.id,
    wire_name: tool.name,
    module: tool.module,
    risk_level: riskOf(tool.effect),
    description: short ? firstSentence(description, 100) : description,
  })
  const rows = view.tools.map((entry) => row(entry.tool, entry.description))
  if (!hidden) return rows
  const { byId } = app.catalog.snapshot()
  for (const [id, { reason }] of view.hidden) {
    const tool = byId.get(id)
    if (tool) rows.push({ ...row(tool, tool.description), hidden: `hidden: ${reason}` })
  }
  return rows
}

function owners({ app }: Session, origin: 'module' | 'upstream'): Row[] {
  const view = app.view(localCaller)
  return [...app.catalog.snapshot().owners.values()]
    .filter((owner) => owner.origin === origin)
    .map((owner) => ({
      id: owner.id,
      state: owner.state,
      tools: view.count(owner.id),
      summary: owner.summary,
      ...(owner.reason ? { reason: owner.reason } : {}),
    }))
}

function modules(session: Session): Row[] {
  const failed = session.app
    .failed()
    .map(({ file, error }) => ({ id: file, state: 'failed', tools: 0, summary: '', reason: error }))
  return [...owners(session, 'module'), ...failed]
}

function servers(session: Session): Row[] {
  const { servers: configured, skipped } = session.config
  const off = Object.entries(configured).flatMap(([id, { enabled }]) =>
    enabled ? [] : [{ id: `mcp_${id}`, state: 'disabled', tools: 0, summary: '' }],
  )
  const idle = Object.entries(session.config.openapi).flatMap(([id, { enabled }]) =>
    enabled ? [] : [{ id: `api_${id}`, state: 'disabled', tools: 0, summary: '' }],
  )
  const broken = skipped.map(({ id, reason }) => ({ id: `mcp_${id}`, state: 'skipped', tools: 0, summary: '', reason }))
  return [...owners(session, 'upstream'), ...off, ...idle, ...broken]
}
