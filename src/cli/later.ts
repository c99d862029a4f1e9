import { PegboardError } from '../core/errors.ts'
import type { LaterRow } from '../ui/api-types.ts'
import { type Args, writeAnswer } from './args.ts'
import { formatTable, type Io, UsageError } from './io.ts'
import { openConfig } from './open-app.ts'
import { listLater, stopLater } from './page-client.ts'
import { readPageAddress } from './served-page.ts'

/** `pegboard later`: background tasks, watchers and schedules of all users, as the running server has them. */
export async function run(args: Args, io: Io): Promise<number> {
  const [action = 'list', id, ...more] = args.positionals
  if ((action !== 'list' && action !== 'stop') || more.length > 0 || (action === 'list') !== (id === undefined))
    throw new UsageError('later takes list or stop <id>')
  const { config } = await openConfig(args, io)
  const address = await readPageAddress(config)
  const rows = await listLater(address)
  if (id === undefined) {
    writeAnswer(args, io, rows.map(toJson), formatRows(rows))
    return 0
  }
  const row = rows.find((one) => one.id === id)
  if (!row?.stoppable)
    throw new PegboardError(
      'E_NOT_FOUND',
      row ? `The ${row.kind} "${row.what}" has ended already.` : `Nothing with the id "${id.slice(0, 80)}" is planned.`,
      { hint: 'pegboard later shows what runs or is planned.' },
    )
  await stopLater(address, row)
  const text = `Stopped: the ${row.kind} "${row.what}" of ${row.owner}.\n`
  writeAnswer(args, io, { stopped: { kind: row.kind, id } }, text)
  return 0
}

const toIso = (at: number): string => new Date(at).toISOString()

function formatRows(rows: readonly LaterRow[]): string {
  if (rows.length === 0) return 'No background task, watcher or schedule exists.\n'
  return formatTable([
    ['ID', 'KIND', 'OWNER', 'WHAT', 'TOOL', 'STATE', 'NEXT'],
    ...rows.map(({ id, kind, owner, what, tool, state, nextAt }) => [
      id,
      kind,
      owner,
      what,
      tool ?? '–',
      state,
      nextAt === undefined ? '–' : toIso(nextAt),
    ]),
  ])
}

const toJson = ({ nextAt, at, ...row }: LaterRow): object => ({
  ...row,
  next_at: nextAt === undefined ? null : toIso(nextAt),
  created_at: toIso(at),
})
