import {
  addCounts,
  type Counts,
  type DailyCounts,
  firstDay,
  KINDS,
  type UsageKind,
  zeroCounts,
} from './daily-counts.ts'

export const GROUPS = ['day', 'tool', 'client', 'principal'] as const
export type UsageGroup = (typeof GROUPS)[number]

/** Tokens that models spent, and would have spent if all tools were listed and all results sent whole. */
export interface UsageSums {
  readonly sessions: number
  readonly calls: number
  readonly failures: number
  /** Tokens that models read, and of searches, schemas and failed calls also those that they wrote. */
  readonly tokens: number
  readonly by: Readonly<Record<UsageKind, number>>
  /** Tokens with every tool listed and every result sent whole. */
  readonly direct: number
  /** What was saved, as a share of `direct`; negative if more was spent. */
  readonly saved: number
}

export interface UsageReport {
  /** First day, UTC. */
  readonly since: string
  readonly tokenizer: 'o200k'
  /** Share of the tokens that was counted. The rest was estimated. */
  readonly counted: number
  /** How far the estimate of the counted texts is off: 0.05 is 5 % too high. */
  readonly estimate_error: number
  readonly total: UsageSums
  readonly rows: readonly (UsageSums & { readonly name: string })[]
}

/** The name of the row for lists of tools, where rows are tools. */
const LISTS = '(lists of tools)'

/**
 * Sums up rows of the last days.
 * @param now milliseconds since the epoch
 * @param by what a row is; days are sorted by date, other rows by tokens
 * @param days default 30
 */
export function reportUsage(rows: readonly DailyCounts[], now: number, by: UsageGroup, days = 30): UsageReport {
  const since = firstDay(now, days)
  const sums = new Map<string, Counts>()
  let total = zeroCounts()
  for (const row of rows) {
    if (row.day < since) continue
    const name = by === 'tool' && row.tool === '' ? LISTS : row[by]
    sums.set(name, addCounts(sums.get(name) ?? zeroCounts(), row))
    total = addCounts(total, row)
  }
  const found = [...sums].map(([name, counts]) => ({ name, ...sumsOf(counts) }))
  const { exact, estimate, estimated } = total
  return {
    since,
    tokenizer: 'o200k',
    counted: share(exact, exact + estimated),
    estimate_error: exact === 0 ? 0 : round(estimate / exact - 1),
    total: sumsOf(total),
    rows: found.sort((a, b) =>
      by === 'day' ? a.name.localeCompare(b.name) : b.tokens - a.tokens || a.name.localeCompare(b.name),
    ),
  }
}

export function sumsOf(counts: Counts): UsageSums {
  const { sessions, calls, failures, direct } = counts
  const by = Object.fromEntries(KINDS.map((kind) => [kind, Math.round(counts[kind])])) as Record<UsageKind, number>
  const tokens = Object.values(by).reduce((sum, one) => sum + one, 0)
  return {
    sessions,
    calls,
    failures,
    tokens,
    by,
    direct: Math.round(direct),
    saved: direct === 0 ? 0 : round(1 - tokens / direct),
  }
}

const round = (value: number): number => Math.round(value * 1_000) / 1_000
const share = (part: number, whole: number): number => (whole === 0 ? 1 : round(part / whole))
