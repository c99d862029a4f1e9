import { raceAbort } from '../core/abort.ts'
import { firstSentence } from '../core/first-sentence.ts'
import { riskOf } from '../core/tool.ts'
import { signatureOf } from '../core/tool-signature.ts'
import { callState } from '../meta/call-needs.ts'
import { describeEmbedder } from '../search/configured-retriever.ts'
import type { SearchHit } from '../search/tool-search.ts'
import { type Args, readChoice, readInteger } from './args.ts'
import { callerForOptions } from './client-report.ts'
import { formatTable, type Io, UsageError, writeJson, writeWarning } from './io.ts'
import { type Session, withApp } from './open-app.ts'
import { createModelProgress } from './progress.ts'

export const RANKERS = ['hybrid', 'lexical', 'vector'] as const

/**
 * `pegboard search <query>`: the results of search_tools, with scores. Exit code 1 if nothing matches because the
 * configuration is not read.
 */
export async function run(args: Args, io: Io): Promise<number> {
  const query = args.positionals.join(' ').trim()
  if (query === '') throw new UsageError('search needs a query, such as pegboard search "read a file"')
  const limit = readInteger(args, 'limit', 1, 100, 5)
  const ranker = readChoice(args, 'ranker', RANKERS, 'hybrid')
  const explain = args.values['explain'] === true
  const brief = !explain && args.values['limit'] === undefined
  const progress = createModelProgress(io)
  const searchTools = async (session: Session): Promise<number> => {
    const { app, config, ignored } = session
    const caller = callerForOptions(args, session.caller)
    await raceAbort(app.indexed(), io.stop)
    progress.done()
    const { embedded, semantic } = app.searchStatus()
    if (semantic?.state === 'unavailable')
      writeWarning(io, `${describeEmbedder(config.search.embedder)} is unavailable: ${semantic.reason}`)
    if (embedded === 'unavailable')
      io.stderr('pegboard: warning: the search model is unavailable; search uses keywords only.\n')
    const view = app.view(caller)
    const { owners } = app.catalog.snapshot()
    const answer = await app.search(query, caller, limit, { ranker, explain, brief })
    // With a configuration that is ignored, the nearest tools are not those that the user means.
    const hits = answer.unanswered && ignored !== undefined ? [] : answer.hits
    if (answer.unanswered && hits.length > 0) io.stderr('No close match; these are the nearest.\n')
    const rows = hits.flatMap((hit) => {
      const entry = view.byId.get(hit.id)
      if (!entry) return []
      const row = {
        name: hit.id,
        score: round(hit.score),
        description: firstSentence(entry.description, 120),
        params_summary: signatureOf(entry.input.json),
        risk_level: riskOf(entry.tool.effect),
        ...callState(entry, owners.get(entry.tool.module), app),
        ...(hit.why && { matched: hit.matched, why: roundFeatures(hit.why) }),
      }
      return [row]
    })
    if (args.values['json'] === true) writeJson(io, rows)
    else if (rows.length === 0)
      io.stdout(ignored === undefined ? 'Nothing matches.\n' : `Nothing matches: ${ignored} is ignored.\n`)
    else if (explain) io.stdout(formatExplained(hits))
    else io.stdout(formatHits(rows, io.terminal?.columns))
    return rows.length === 0 && ignored !== undefined ? 1 : 0
  }
  try {
    return await withApp(args, io, searchTools, {
      onModelProgress: progress.show,
      // Tools known from disk are searched without waiting for their server.
      shouldWaitFor: ({ tools }) => tools === 0,
      waitS: 3,
    })
  } finally {
    progress.done()
  }
}

interface Row {
  readonly name: string
  readonly score: number
  readonly description: string
  readonly risk_level: string
  readonly needs?: string
}

/** @param width of the terminal, in columns */
function formatHits(rows: readonly Row[], width: number | undefined): string {
  const cells = rows.map(({ score, name, risk_level, description, needs }) => {
    const need = needs === undefined ? '' : `Needs: ${needs}.`
    // A shortened description must not cut what a call needs.
    const about = width ? [description, need] : [`${description} ${need}`.trimEnd()]
    return [score.toFixed(2), name, risk_level, ...about]
  })
  return formatTable(cells, { column: 3, width })
}

export const round = (value: number): number => Math.round(value * 1e4) / 1e4

const roundFeatures = (why: NonNullable<SearchHit['why']>) =>
  Object.fromEntries(
    Object.entries(why).map(([name, value]) => [name, typeof value === 'number' ? round(value) : value]),
  )

/** One line per result, with the parts of its score. */
function formatExplained(hits: readonly SearchHit[]): string {
  const head = ['score', 'tool', 'words', 'meaning', 'covered', 'name covered', 'calls', 'model', 'matched words']
  const rows = hits.map(({ id, score, matched, why }) => [
    score.toFixed(2),
    id,
    ...[why?.lexical, why?.cosine, why?.covered, why?.nameCovered].map((value) => (value ?? 0).toFixed(2)),
    String(why?.calls ?? 0),
    why?.external === undefined ? '–' : why.external.toFixed(2),
    `${why?.exactName ? '(its name) ' : ''}${matched.join(' ')}`,
  ])
  const hasExternal = hits.some(({ why }) => why?.external !== undefined)
  const visibleRows = [head, ...rows].map((row) => row.filter((_, at) => hasExternal || head[at] !== 'model'))
  return formatTable(visibleRows)
}
