import { openAppState } from '../app/app-state.ts'
import type { Config } from '../config/load-config.ts'
import { systemClock } from '../core/clock.ts'
import { formatCount, formatNumber } from '../core/format-count.ts'
import type { Log } from '../core/log.ts'
import {
  type CountsTable,
  type DailyCounts,
  isDailyCounts,
  KEPT_DAYS,
  readDailyCounts,
} from '../receipts/daily-counts.ts'
import { GROUPS, reportUsage, type UsageReport, type UsageSums } from '../receipts/usage-report.ts'
import { type Args, readChoice, readInteger, readOption, writeAnswer } from './args.ts'
import { formatTable, type Io } from './io.ts'
import { openConfig, openLog } from './open-app.ts'

/** `pegboard usage`: tokens by day, tool, client or principal. A running server stores its counts every 30 seconds. */
export async function run(args: Args, io: Io): Promise<number> {
  const by = readChoice(args, 'by', GROUPS, 'day')
  const days = readInteger(args, 'days', 1, KEPT_DAYS, 30)
  const { config } = await openConfig(args, io)
  const rows = await readRows(config, openLog(args, io, 'warn', config.log.format), readOption(args, 'principal'))
  const report = reportUsage(rows, systemClock.now(), by, days)
  writeAnswer(args, io, { by, ...report }, describeUsage(by, report))
  return 0
}

async function readRows(config: Config, log: Log, principal: string | undefined): Promise<readonly DailyCounts[]> {
  const { shared } = await openAppState(config, log)
  try {
    const table = (): CountsTable => shared.store().table('tokens', isDailyCounts)
    return shared.mayHaveData ? await readDailyCounts(table(), principal) : []
  } finally {
    await shared.close()
  }
}

export function describeUsage(by: string, { since, counted, estimate_error, total, rows }: UsageReport): string {
  if (rows.length === 0) return `No calls since ${since}.\n`
  const head = [by, 'calls', 'failed', 'menu', 'search', 'schemas', 'results', 'retries', 'tokens', 'direct', 'saved']
  const lines = [...rows.map((row) => cellsOf(row.name, row)), ...(rows.length > 1 ? [cellsOf('total', total)] : [])]
  const deviation = `${estimate_error < 0 ? '' : '+'}${percent(estimate_error)}`
  return [
    formatTable([head, ...lines]),
    `\nSince ${since}, ${formatCount(total.sessions, 'session')}. "direct": all results whole, and all tools known when the client last called one (name, description, input schema).\n`,
    counted === 1 && total.tokens > 0
      ? `Counted with o200k. The estimate that limits use would be off by ${deviation}.\n`
      : `${percent(counted)} counted with o200k${counted > 0 ? ` (the estimate would be off by ${deviation})` : ''}, the rest estimated.\n`,
  ].join('')
}

function cellsOf(name: string, { calls, failures, by, tokens, direct, saved }: UsageSums): readonly string[] {
  const { menu, search, schemas, results, retries } = by
  const numbers = [calls, failures, menu, search, schemas, results, retries, tokens, direct]
  return [name, ...numbers.map(formatNumber), direct === 0 ? '' : percent(saved)]
}

const percent = (share: number): string => `${Math.round(1_000 * share) / 10} %`
