import { signatureOf } from '../core/signature.ts'
import { riskOf } from '../core/tool.ts'
import { waitFor } from '../meta/standing.ts'
import { shownEmbedder } from '../search/deferred.ts'
import type { SearchHit } from '../search/index.ts'
import { firstSentence } from '../view/listing.ts'
import type { Args } from './commands.ts'
import { type Io, table, UsageError, writeJson } from './io.ts'
import { oneOf, whole, withApp } from './open.ts'
import { modelProgress } from './progress.ts'

export const LANES = ['hybrid', 'lexical', 'vector'] as const

/** `pegboard search <query>`: what a client's search_tools finds, with scores. */
export async function run(args: Args, io: Io): Promise<number> {
  const query = args.positionals.join(' ').trim()
  if (query === '') throw new UsageError('search needs a query, such as pegboard search "read a file"')
  const limit = whole(args, 'limit', 1, 100, 5)
  const lanes = oneOf(args, 'lanes', LANES, 'hybrid')
  const explain = args.values['explain'] === true
  const progress = modelProgress(io)
  const find = async ({ app, config, caller }: Parameters<Parameters<typeof withApp>[2]>[0]): Promise<number> => {
    await app.indexed()
    progress.done()
    const { embedded, semantic } = app.searchStatus()
    if (semantic?.state === 'unavailable')
      io.stderr(`pegboard: warning: ${shownEmbedder(config.search.embedder)} is unavailable: ${semantic.reason}\n`)
    if (embedded === 'unavailable')
      io.stderr('pegboard: warning: the search model cannot be used; words alone count.\n')
    const view = app.view(caller)
    const { owners } = app.catalog.snapshot()
    const { hits } = await app.search(query, caller, limit, { lanes, explain })
    const rows = hits.flatMap((hit) => {
      const entry = view.byId.get(hit.id)
      if (!entry) return []
      const row = {
        name: hit.id,
        score: rounded(hit.score),
        description: firstSentence(entry.description, 120),
        params_summary: signatureOf(entry.input.json),
        risk_level: riskOf(entry.tool.effect),
        ...waitFor(owners.get(entry.tool.module)),
        ...(hit.why && { matched: hit.matched, why: whyOf(hit.why) }),
      }
      return [row]
    })
    if (args.values['json'] === true) writeJson(io, rows)
    else if (rows.length === 0) io.stdout('Nothing matches.\n')
    else if (explain) io.stdout(explained(hits))
    else io.stdout(table(rows.map((row) => [row.score.toFixed(2), row.name, row.risk_level, row.description])))
    return 0
  }
  try {
    return await withApp(args, io, find, {
      onModelProgress: progress.show,
      // What is known from disk is searched, wherever its server is.
      awaited: ({ tools }) => tools === 0,
      waitS: 3,
    })
  } finally {
    progress.done()
  }
}

const rounded = (value: number): number => Math.round(value * 1e4) / 1e4

const whyOf = (why: NonNullable<SearchHit['why']>) =>
  Object.fromEntries(
    Object.entries(why).map(([name, value]) => [name, typeof value === 'number' ? rounded(value) : value]),
  )

/** A line a hit: its score, and what went into it. */
function explained(hits: readonly SearchHit[]): string {
  const head = ['score', 'tool', 'words', 'meaning', 'covered', 'name covered', 'calls', 'model', 'matched words']
  const rows = hits.map(({ id, score, matched, why }) => [
    score.toFixed(2),
    id,
    ...[why?.lexical, why?.cosine, why?.covered, why?.nameCovered].map((value) => (value ?? 0).toFixed(2)),
    String(why?.calls ?? 0),
    why?.external === undefined ? '–' : why.external.toFixed(2),
    `${why?.exactName ? '(its name) ' : ''}${matched.join(' ')}`,
  ])
  const external = hits.some(({ why }) => why?.external !== undefined)
  const shown = [head, ...rows].map((row) => row.filter((_, at) => external || head[at] !== 'model'))
  return table(shown)
}
