import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { openTable, type TableSettings } from '../src/search/embedding-table.ts'
import { type EvalQuery, type EvalTool, evaluate } from '../src/search/evaluate.ts'
import { FEATURES, type FusionWeights, relevanceOf } from '../src/search/fuse-rankings.ts'
import { createToolSearch } from '../src/search/tool-search.ts'
import { readColumns, readPairSets, readToolSet, type Text, textOf } from './corpus.ts'
import { batchCount, batchesOf } from './epoch.ts'
import { FIRST_FUSION, type Judged, judge, learnRank, learnRelevance, TABLE_EVIDENCE } from './fusion.ts'
import { createMatrices } from './matrices.ts'
import { createModel, floatsFor } from './model.ts'
import { FIELDS, readOptions } from './options.ts'
import { packModel } from './pack.ts'
import { developmentQuestions, keptQuestions, missingQuestions, type Questions } from './questions.ts'
import { createRandom } from './random.ts'
import { createSources, readWritten } from './sources.ts'
import { createVocabulary } from './vocabulary.ts'

/** Sets of train/ that are learnt from. Others that lie there are not: see models/README.md. */
const SETS = [
  'mcp-corpus',
  'metatool',
  'traject-bench',
  'acebench',
  'api-bank',
  'seal-tools',
  'toolbench',
  'bfcl',
  'apibench',
  'nestful',
  'mtu-bench',
]
const MIXED_LANGUAGE_COUNT = 2
const WRITTEN_COUNT = 2
const LEXICON_COUNT = 6
/** Share of the labelled queries whose best answer may be thought irrelevant. */
const REFUSED = 0.009
const REFUSED_FOREIGN = 0.03

const options = optionsOrExit()
const started = performance.now()
const say = (text: string): void => {
  process.stderr.write(`${((performance.now() - started) / 1000).toFixed(0).padStart(5)} s  ${text}\n`)
}
const random = createRandom(options.seed)

// What there is to learn from, without the tools and queries that the result is measured on.
const train = join(options.data, 'train')
const dev = join(options.data, 'dev')
const devSets = existsSync(dev) ? readdirSync(dev).map((name) => readToolSet(dev, name)) : []
const heldOut = new Set(devSets.flatMap(({ tools }) => tools.map(({ key }) => key)))
const heldOutQueries = new Set(devSets.flatMap(({ queries }) => queries.map(({ query }) => query.toLowerCase())))
const sets = SETS.filter((name) => existsSync(join(train, name))).map((name) => readToolSet(train, name))
const corpus = sets.find(({ name }) => name === 'mcp-corpus')
const written = readWritten(corpus?.tools ?? [])
const pairs = readPairSets(join(train, 'pairs'))
say(`read ${sets.length} sets and ${pairs.length} lists of pairs; ${written.length} tools with queries of our own`)

const counts = new Map<string, number>()
const count = (text: Text, weight: number): void => {
  for (const stem of text) counts.set(stem, (counts.get(stem) ?? 0) + weight)
}
for (const { tools, queries } of sets) {
  for (const { name, description, parameters, module } of tools) {
    count(name, 2)
    count(description, 1)
    count(parameters, 0.5)
    count(module, 0.5)
  }
  for (const { query } of queries) count(textOf(query), 1)
}
for (const { name, pairs: list } of pairs)
  for (const { a, b, language } of list) {
    const weight = name === 'wordnet' ? 0.5 : 1
    count(a, language === 'en' ? weight : MIXED_LANGUAGE_COUNT)
    count(b, language === 'en' ? weight : 0.3)
  }
for (const { queries } of written) for (const { text } of queries) count(textOf(text), WRITTEN_COUNT)
for (const name of ['lexicon', 'phrases'])
  for (const row of readColumns(join('training', `${name}.tsv`)))
    for (const cell of row) for (const form of cell.split('|')) count(textOf(form), LEXICON_COUNT)
for (const name of ['servers', 'questions'])
  for (const [, ...texts] of readColumns(join('training', `${name}.tsv`)))
    for (const text of texts) count(textOf(text), 1)
const vocabulary = createVocabulary(counts, options.stems, options.grams, options.leastCount)
say(`${vocabulary.stems.length} of ${counts.size} stems have a row of their own`)

// How telling a stem is: its rarity among all tools.
const documents = new Map<string, number>()
let toolCount = 0
for (const { tools } of sets)
  for (const { name, description, parameters, module } of tools) {
    toolCount++
    for (const stem of new Set([...name, ...description, ...parameters.slice(0, 40), ...module]))
      documents.set(stem, (documents.get(stem) ?? 0) + 1)
  }
const rarityOf = (stem: string): number =>
  Math.log(1 + toolCount / ((documents.get(stem) ?? 0) + 3)) / Math.log(1 + toolCount / 3)

const sources = createSources(
  {
    sets,
    pairs,
    written,
    isHeldOut: ({ key }) => heldOut.has(key),
    isHeldOutQuery: (query) => heldOutQueries.has(query.toLowerCase()),
  },
  vocabulary,
  options,
  random,
)
say(sources.map(({ name, count: size, weight }) => `${name} ${size} × ${weight.toFixed(2)}`).join(', '))
const matrices = createMatrices(floatsFor(vocabulary.rows, options.dims, options.batch))
const model = createModel(vocabulary, matrices, { ...options, seed: options.seed + 1 })
const steps = batchCount(sources, options.batch) * options.epochs
let step = 0
let loss = 0
for (let epoch = 1; epoch <= options.epochs; epoch++)
  for (const batch of batchesOf(sources, options, random)) {
    const left = Math.max(0.05, 1 - step++ / steps)
    loss += (model.learn(batch, options.rate * left, options.weightRate * left) - loss) / Math.min(step, 200)
    if (step % 200 === 0) say(`epoch ${epoch}, batch ${step} of about ${steps}, loss ${loss.toFixed(3)}`)
  }

// The fusion: on queries of ours that the table has not seen, among all tools and among few, and on the dev sets.
const settings = (fusion: FusionWeights, id = ''): Omit<TableSettings, 'dims' | 'stems' | 'grams'> => ({
  id,
  fields: FIELDS,
  fusion,
})
const table = openTable(packModel(model, vocabulary, rarityOf, settings(FIRST_FUSION)))
const kept = written.filter((_, index) => index % options.fold === 0)
const corpusTools = corpus?.tools.map(({ line }) => line) ?? []
const keptSets = keptQuestions(kept, corpusTools)
const judged = await judgeAll([...keptSets, ...developmentQuestions(devSets, corpusTools)])
const rank = learnRank(judged)
say(`order: ${JSON.stringify(rank)}`)

// What "nothing matches" looks like: users with some servers, asking for what only another server has.
const unanswered = await judgeAll(missingQuestions(kept, corpusTools))
const bestOf = ({ candidates }: Judged): readonly number[] | undefined =>
  [...candidates].filter(({ exactName }) => !exactName).sort((a, b) => orderOf(b.features) - orderOf(a.features))[0]
    ?.features
const orderOf = (features: readonly number[]): number =>
  features.reduce((sum, value, k) => sum + value * (rank[FEATURES[k] as string] ?? 0), 0)
const answered = judged.filter(({ set }) => !set.includes('among') && set !== 'kept, all')
const right = answered.flatMap(({ candidates, relevant }) =>
  candidates.filter(({ id, exactName }) => relevant.has(id) && !exactName),
)
const relevance = learnRelevance(
  [
    ...right.map(({ features }) => ({ features, relevant: true, weight: 1 / right.length })),
    ...unanswered.flatMap((one) => {
      const features = bestOf(one)
      return features ? [{ features, relevant: false, weight: 1 / unanswered.length }] : []
    }),
  ],
  TABLE_EVIDENCE,
)
const certainty = (one: Judged): number => {
  const best = bestOf(one)
  const features = Object.fromEntries(FEATURES.map((name, k) => [name, best?.[k] ?? 0])) as never
  return best ? relevanceOf(features, { rank, relevance }) : one.candidates.length > 0 ? 1 : 0
}
const leastOf = (queries: readonly Judged[], share: number): number => {
  const certainties = queries.map(certainty).sort((a, b) => a - b)
  return certainties[Math.floor(certainties.length * share)] ?? 0
}
// In other languages there are no keywords, and everything is a little farther away: a bar of their own.
const ofDev = answered.filter(({ set }) => !set.startsWith('kept'))
const foreign = answered.filter(
  ({ set }, index) => set === 'kept, few' && (keptSets[0]?.queries[index]?.lang ?? 'en') !== 'en',
)
relevance['least'] = leastOf(ofDev, REFUSED)
relevance['leastForeign'] = Math.min(relevance['least'], leastOf(foreign, REFUSED_FOREIGN))
const stillAnswered = unanswered.filter((one) => certainty(one) >= (relevance['least'] ?? 0)).length / unanswered.length
say(
  `relevance: ${JSON.stringify(relevance)}; ${(100 * stillAnswered).toFixed(0)} % of queries for missing servers answered`,
)

function optionsOrExit() {
  try {
    return readOptions(process.argv.slice(2))
  } catch (error) {
    process.stderr.write(`${error instanceof RangeError ? error.message : error}\n`)
    process.exit(2)
  }
}

async function judgeAll(all: readonly Questions[]): Promise<Judged[]> {
  const found: Judged[] = []
  for (const { set, tools, queries } of all) {
    found.push(...(await judge(set, tools, queries, table)))
    say(`judged ${set}: ${queries.length} queries, ${tools.length} tools`)
  }
  return found
}

const digest = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex').slice(0, 12)
const id = digest(packModel(model, vocabulary, rarityOf, settings({ rank, relevance })))
const file = packModel(model, vocabulary, rarityOf, settings({ rank, relevance }, id))
mkdirSync(dirname(options.out), { recursive: true })
writeFileSync(options.out, file)
say(`${options.out}: ${(file.length / 1e6).toFixed(2)} MB, model ${id}`)

const result = openTable(file)
for (const { name, tools, queries } of devSets.filter(({ queries }) =>
  queries.some(({ relevant }) => relevant.length > 0),
)) {
  const report = await reportOf(
    tools.map(({ line }) => line),
    queries,
  )
  say(`${name.padEnd(22)} recall@5 ${(100 * report.recall[5]).toFixed(1)}  nDCG@10 ${(100 * report.ndcg10).toFixed(1)}`)
}

async function reportOf(tools: readonly EvalTool[], queries: readonly EvalQuery[]) {
  const search = createToolSearch({ table: () => result })
  return evaluate(tools, queries, {
    load: async (lines) => {
      search.sync(lines, 1)
      await search.warm()
    },
    query: async (query, limit) => {
      const { hits, unanswered } = await search.query(query.replaceAll('\n', ' '), { limit, visible: () => true })
      return { ids: hits.map(({ id: tool }) => tool), unlikely: unanswered !== undefined }
    },
  })
}
