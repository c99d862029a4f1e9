// npm run train:fusion: learns how to combine the encoder with keywords and the embedding table, and writes the weights into
// the header of models/encoder.bin.
//   --data DIR       folder with train/ and dev/
//   --judged FILE    what search knows about each labelled query: read if it exists, otherwise written (25 minutes)
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { ownPackage } from '../src/app/package-info.ts'
import { silentLog } from '../src/core/log.ts'
import { type Atlas, createAtlas } from '../src/search/atlas.ts'
import { createIncludedEncoder } from '../src/search/embedders/included-encoder.ts'
import { openTable } from '../src/search/embedding-table.ts'
import { replaceFusion } from '../src/search/encoder/encoder.ts'
import type { EvalQuery, EvalTool } from '../src/search/evaluate.ts'
import { FEATURES, type FusionWeights } from '../src/search/fuse-rankings.ts'
import { createSemanticRetriever } from '../src/search/semantic-retriever.ts'
import { createBytesStore } from '../src/state/file-store.ts'
import { buildAtlas, readWrittenServers } from './atlas.ts'
import { readToolSet } from './corpus.ts'
import { isForLearning, readEveryday } from './everyday.ts'
import { ENCODER_EVIDENCE, type Judged, judge, learnRank, learnRelevance, learnShown } from './fusion.ts'
import { DEFAULTS } from './options.ts'
import { developmentQuestions, keptQuestions, missingQuestions } from './questions.ts'
import { readWritten } from './sources.ts'

/** A judged query as it is stored. */
interface Row {
  readonly set: string
  readonly lang: string
  readonly relevant: readonly string[]
  /** Per candidate: id, 1 if the query names it, features. */
  readonly c: readonly (readonly [id: string, exact: number, ...features: number[]])[]
}

const CANDIDATES = 48
/** Share of the labelled queries with the right tool first that may be answered as if nothing matched. */
const REFUSED = 0.02

const { values: options } = parseArgs({
  options: { data: { type: 'string', default: DEFAULTS.data }, judged: { type: 'string' } },
})
const say = (text: string): void => void process.stderr.write(`${text}\n`)
const files = ownPackage()

const rows = options.judged && existsSync(options.judged) ? readRows(options.judged) : await judgeAll()
if (options.judged && !existsSync(options.judged)) writeFileSync(options.judged, JSON.stringify(rows))

const isDev = ({ set }: { readonly set: string }): boolean => !/^(kept|missing|atlas|everyday)|none$/.test(set)
// The requests left out of the atlas have one right tool each, although other servers have its like.
const ordered = rows.filter(({ set, relevant }) => relevant.length > 0 && set !== 'atlas')
const rank = learnRank(ordered.map(judgedOf), { weightOf: (set) => (isDev({ set }) ? 2 : 1) })
// Fixed by hand: the development sets hardly ever name a server. Of everyday requests it raises the right tool first from 73.4 to
// 74.5 %, and "a new page in Notion" no longer finds the tables of SQLite.
rank['ownerNamed'] = 2
// Learned: -0.2, because names of the development sets seldom say what a tool does. With 0.8, "commit my changes" finds git_commit
// before git_reset. The right tool is first for 73.2 instead of 72.8 % of English everyday requests, and the average nDCG@10 of the
// development sets alone is 77.5 instead of 77.2 %.
rank['nameCovered'] = 0.8
const bestOf = ({ c }: Row) => {
  const scored = c.map(([id, exact, ...features]) => ({
    id,
    exact,
    features,
    score: features.reduce((sum, value, k) => sum + value * (rank[FEATURES[k] as string] ?? 0), 0),
  }))
  if (scored.some(({ exact }) => exact)) return undefined
  const [best, next] = scored.sort((a, b) => b.score - a.score)
  return best && { ...best, margin: best.score - (next?.score ?? Number.NEGATIVE_INFINITY) }
}
const sizes = new Map<string, number>()
for (const { set } of rows) sizes.set(set, (sizes.get(set) ?? 0) + 1)
const tops = rows
  .filter(({ set, lang }) => lang === 'en' && !set.includes('among') && set !== 'kept, all')
  .flatMap((row) => {
    const best = bestOf(row)
    const weight = Math.sqrt(2_000 / (sizes.get(row.set) ?? 1))
    if (!best) return []
    const { id, features, margin } = best
    return [{ row, features, margin, relevant: row.relevant.includes(id), weight }]
  })
const relevance = learnRelevance(tops, ENCODER_EVIDENCE)
const certaintyOf = (features: readonly number[]): number =>
  FEATURES.reduce((sum, name, k) => sum + (relevance[name] ?? 0) * (features[k] ?? 0), relevance['bias'] ?? 0)
const leastOf = (certainties: readonly number[]): number => {
  const least = [...certainties].sort((a, b) => a - b)[Math.floor(certainties.length * REFUSED)] ?? 0
  return 1 / (1 + Math.exp(-least))
}
relevance['least'] = leastOf(
  tops.filter(({ row, relevant }) => isDev(row) && relevant).map(({ features }) => certaintyOf(features)),
)
// In other languages there are few keywords, and everything is a little less similar.
const foreign = rows
  .filter(({ set, lang }) => set === 'kept, few' && lang !== 'en')
  .flatMap((row) => {
    const best = bestOf(row)
    return best && row.relevant.includes(best.id) ? [certaintyOf(best.features)] : []
  })
relevance['leastForeign'] = Math.min(relevance['least'], leastOf(foreign))
const shown = learnShown(
  tops
    .filter(({ row }) => isDev(row) || row.set === 'everyday')
    .map((top) => ({ ...top, evidence: certaintyOf(top.features) })),
)
const fusion: FusionWeights = { rank, relevance, shown }
say(JSON.stringify(fusion, null, 2))
writeFileSync(files.encoder.model, replaceFusion(readFileSync(files.encoder.model), fusion))

function readRows(file: string): Row[] {
  return JSON.parse(readFileSync(file, 'utf8')) as Row[]
}

function judgedOf({ set, relevant, c }: Row): Judged {
  return {
    set,
    relevant: new Set(relevant),
    candidates: c.map(([id, exact, ...features]) => ({ id, features, exactName: exact === 1 })),
  }
}

async function judgeAll(): Promise<Row[]> {
  const folder = mkdtempSync(join(tmpdir(), 'pegboard-fusion-'))
  const store = createBytesStore(folder)
  const table = openTable(readFileSync(files.model))
  const found: Row[] = []
  async function ask(
    set: string,
    tools: readonly EvalTool[],
    queries: readonly EvalQuery[],
    atlas?: Atlas,
  ): Promise<void> {
    const retriever = createSemanticRetriever({
      source: createIncludedEncoder({ ...files.encoder, atlas: () => atlas }),
      queryTimeoutMs: 60_000,
      log: silentLog,
      store,
    })
    const judged = await judge(set, tools, queries, table, { semantic: retriever, ...(atlas && { atlas }) })
    judged.forEach(({ relevant, candidates }, at) => {
      found.push({
        set,
        lang: queries[at]?.lang ?? 'en',
        relevant: [...relevant],
        c: candidates.slice(0, CANDIDATES).map(({ id, exactName, features }) => [id, exactName ? 1 : 0, ...features]),
      })
    })
    say(`judged ${set}: ${judged.length} queries, ${tools.length} tools`)
  }

  const corpus = readToolSet(join(options.data, 'train'), 'mcp-corpus')
  const corpusTools = corpus.tools.map(({ line }) => line)
  // The encoder has not seen the requests written for these tools.
  const kept = readWritten(corpus.tools).filter((_, index) => index % DEFAULTS.fold === 0)
  const dev = join(options.data, 'dev')
  const devSets = readdirSync(dev).map((name) => readToolSet(dev, name))
  for (const { set, tools, queries } of [
    ...developmentQuestions(devSets, corpusTools),
    ...keptQuestions(kept, corpusTools),
    ...missingQuestions(kept, corpusTools),
  ])
    await ask(set, tools, queries)
  await askAtlas(ask)
  await askEveryday(ask)
  rmSync(folder, { recursive: true })
  return found
}

/** Half of the everyday requests: of known tools, and with every second server unknown. */
async function askEveryday(
  ask: (set: string, tools: readonly EvalTool[], queries: readonly EvalQuery[], atlas: Atlas) => Promise<void>,
): Promise<void> {
  const { tools, queries } = readEveryday()
  const half = queries.filter(isForLearning)
  const known = readWrittenServers()
  for (const [set, servers] of [
    ['everyday', known],
    ['everyday, half known', known.filter((_, at) => at % 2 === 0)],
    ['everyday, other half known', known.filter((_, at) => at % 2 === 1)],
  ] as const) {
    const { index, files: parts } = buildAtlas(servers, files.encoder.model)
    await ask(
      set,
      tools,
      half,
      createAtlas(index, (server) => parts.get(server)),
    )
  }
}

/**
 * Known tools: two of the six requests of each tool, and one in another language, are left out of the atlas and asked.
 * Users with a fifth of the servers also ask for what only another server has.
 */
async function askAtlas(
  ask: (set: string, tools: readonly EvalTool[], queries: readonly EvalQuery[], atlas: Atlas) => Promise<void>,
): Promise<void> {
  const servers = readWrittenServers()
  const queries = servers.flatMap(({ tools }) =>
    tools.flatMap(({ definition: { id }, requests, foreign }, at) =>
      [
        ...requests.slice(4).map((query) => ({ query, lang: 'en' })),
        { query: foreign[at % foreign.length], lang: 'xx' },
      ]
        .filter(({ query }) => query !== undefined)
        .map(({ query = '', lang }) => ({ id: '', query, relevant: [id], lang })),
    ),
  )
  const { index, files: parts } = buildAtlas(
    servers.map((server) => ({
      ...server,
      tools: server.tools.map((tool, at) => ({
        ...tool,
        requests: tool.requests.slice(0, 4),
        foreign: tool.foreign.filter((_, language) => language !== at % tool.foreign.length),
      })),
    })),
    files.encoder.model,
  )
  const atlas = createAtlas(index, (server) => parts.get(server))
  const definitions = servers.flatMap(({ tools }) => tools.map(({ definition }) => definition))
  await ask('atlas', definitions, queries, atlas)
  for (let user = 0; user < 5; user++) {
    const own = new Set(servers.filter((_, at) => at % 5 === user).map(({ server }) => server))
    const isOwn = (id: string): boolean => own.has(id.split('/')[0] ?? '')
    await ask(
      'atlas missing',
      definitions.filter(({ id }) => isOwn(id)),
      queries
        .filter(({ relevant: [id = ''] }, at) => !isOwn(id) && at % 5 === 0)
        .map((one) => ({ ...one, relevant: [] })),
      atlas,
    )
  }
}
