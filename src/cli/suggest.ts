import { type AliasReport, editAliases, type PlacedProposal, reportAliases } from '../app/alias-proposals.ts'
import { missesFile } from '../app/search-misses.ts'
import { systemClock } from '../core/clock.ts'
import { formatCount } from '../core/format-count.ts'
import { getOrInsert } from '../core/get-or-insert.ts'
import type { EvalScores } from '../search/evaluate.ts'
import { clearMisses } from '../search/misses.ts'
import { diffOf } from '../setup/edit-diff.ts'
import { applyEdits } from '../setup/file-edits.ts'
import { type Args, writeAnswer } from './args.ts'
import { ERASE, formatTable, type Io } from './io.ts'
import { setupDir } from './machine-of.ts'
import { openConfig, type Session, withApp } from './open-app.ts'
import { round } from './search.ts'

const SHOWN_UNUSED = 10
const SHOWN_QUERIES = 3

/** `pegboard suggest`: aliases that answer the recorded queries better, with figures. */
export async function run(args: Args, io: Io): Promise<number> {
  if (args.values['clear'] === true) {
    const { config } = await openConfig(args, io)
    clearMisses(missesFile(config.dirs.state))
    io.stdout('The recorded queries are deleted.\n')
    return 0
  }
  // Tools known from disk need no running server.
  return withApp(args, io, (session) => suggest(session, args, io), {
    shouldWaitFor: ({ tools }) => tools === 0,
    waitS: 3,
  })
}

async function suggest(session: Session, args: Args, io: Io): Promise<number> {
  const { app, config, caller } = session
  const isTerminal = io.terminal?.err === true
  const report = await reportAliases(session, Date.now(), {
    signal: io.stop,
    ...(isTerminal && { onProgress: (done, all) => io.stderr(`${ERASE}measured ${done} of ${all} aliases`) }),
  })
  if (isTerminal) io.stderr(ERASE)
  const isApplied = args.values['apply'] === true
  const { edit, placed, unplaced } = isApplied
    ? await editAliases(app, config, caller, report.proposals)
    : { edit: undefined, placed: [], unplaced: report.proposals }
  if (!edit) {
    writeAnswer(
      args,
      io,
      toJson(report),
      `${formatReport(report)}${formatSettings(unplaced)}${hintFor(unplaced, isApplied)}`,
    )
    return 0
  }
  const { id } = await applyEdits([edit], {
    // Not `dirs.state` of the configuration: `undo` reads no configuration.
    stateDir: setupDir(io),
    clock: systemClock,
    reason: 'suggest',
    config: edit.path,
  })
  const answer = { ...toJson(report), applied: placed.map(({ setting }) => setting), undo: id }
  const changes = `\n${diffOf([edit], config.secrets)}\nWritten to ${edit.path}.\n${formatSettings(unplaced)}`
  writeAnswer(args, io, answer, `${formatReport(report)}${changes}`)
  return 0
}

const hintFor = (unplaced: readonly PlacedProposal[], isApplied: boolean): string =>
  !isApplied && unplaced.some(({ setting }) => setting !== undefined)
    ? '\nTo write them to the configuration: pegboard suggest --apply\n'
    : ''

/** The settings for proposals that are not in the file. */
function formatSettings(proposals: readonly PlacedProposal[]): string {
  const settings = new Map<string, string[]>()
  for (const { setting, alias } of proposals)
    if (setting !== undefined) getOrInsert(settings, setting, () => []).push(alias)
  if (settings.size === 0) return ''
  const lines = [...settings].map(([setting, aliases]) => `  ${setting}: ${JSON.stringify(aliases)}\n`)
  return `\nSettings:\n${lines.join('')}`
}

const formatRank = (rank: number): string => (rank === 0 ? '–' : String(rank))
const percent = (share: number): string => `${(100 * share).toFixed(0)} %`

function formatReport({ misses, proposals, before, after, unused }: AliasReport): string {
  if (misses.length === 0)
    return 'No queries are recorded. Pegboard records a query if the model then calls no tool, or another tool than the first result.\n'
  const head = `${formatCount(misses.length, 'recorded query', 'recorded queries')}; ${before.queries} different ones led to a call.\n`
  const figures = formatTable([
    ['', 'called tool first', 'among five', 'nDCG@10'],
    ['now', percent(before.recall[1]), percent(before.recall[5]), before.ndcg10.toFixed(3)],
    ...(proposals.length > 0
      ? [['with aliases', percent(after.recall[1]), percent(after.recall[5]), after.ndcg10.toFixed(3)]]
      : []),
  ])
  const rows = proposals.map(({ tool, alias, queries, setting }) => {
    const shownQueries = queries.slice(0, SHOWN_QUERIES)
    const ranks = shownQueries
      .map((entry) => `"${entry.query}" ${formatRank(entry.before)} → ${formatRank(entry.after)}`)
      .join('; ')
    const more = queries.length > SHOWN_QUERIES ? ` and ${queries.length - SHOWN_QUERIES} more` : ''
    return [tool, alias, `${ranks}${more}${setting === undefined ? ' (aliases of a module are in its code)' : ''}`]
  })
  const proposalTable =
    rows.length > 0
      ? `\n${formatTable([['tool', 'alias', 'rank for recorded queries'], ...rows])}`
      : '\nNo alias answers a recorded query better without answering another one worse.\n'
  const unusedRows = unused.slice(0, SHOWN_UNUSED).map(({ query, times }) => [`${times} ×`, query])
  const unusedTable = unusedRows.length > 0 ? `\nNo call followed:\n${formatTable(unusedRows)}` : ''
  return `${head}${before.queries > 0 ? figures : ''}${proposalTable}${unusedTable}`
}

const formatScores = ({ queries, recall, ndcg10, mrr }: EvalScores) => ({
  queries,
  'recall@1': round(recall[1]),
  'recall@5': round(recall[5]),
  'nDCG@10': round(ndcg10),
  MRR: round(mrr),
})

const toJson = ({ misses, proposals, before, after, unused }: AliasReport) => ({
  recorded: misses.length,
  before: formatScores(before),
  after: formatScores(after),
  proposals,
  unused,
})
