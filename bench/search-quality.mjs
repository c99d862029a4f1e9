// npm run bench:search [-- --data DIR] [--sets NAME,NAME] [--lanes lexical,vector,hybrid] [--alone] [--no-atlas] [--markdown] [--json FILE]
// How often search finds the right tool: the product's lanes against MiniSearch and other lexical rankers, on labelled
// corpora alone and among 13,000 other tools, and with queries in twelve languages.
import { existsSync } from 'node:fs'
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { crossLingualSets } from './cross-lingual.mjs'
import { machine } from './measure.mjs'
import { perFieldBm25, plainBm25 } from './rankers/bm25.mjs'
import { minisearchDefault, minisearchTuned } from './rankers/minisearch.mjs'
import { loadProduct, productRankers } from './rankers/product.mjs'
import { reference } from './rankers/reference.mjs'
import { tfidf } from './rankers/tfidf.mjs'

const POOL = 13_000
const MOST_LOST = 0.01
const LANES = ['lexical', 'vector', 'hybrid']
/** What this product set out to reach, alone: recall@5 and nDCG@10. */
const TARGETS = {
  'vendor-evals-dev': [0.92, 0.82],
  'mcp-server-selection': [0.72, 0.68],
  'mcp-tool-router-dev': [0.46, 0.41],
  restgpt: [0.6, 0.62],
  toolalpaca: [0.94, 0.88],
  'ironclaw-golden': [0.96, 0.95],
}
const LANGUAGE_TARGET = 0.8
const METRICS = {
  'recall@1': ({ recall }) => recall[1],
  'recall@5': ({ recall }) => recall[5],
  'nDCG@10': ({ ndcg10 }) => ndcg10,
}

const { values: options } = parseArgs({
  options: {
    data: { type: 'string', default: fileURLToPath(new URL('../../shared/data', import.meta.url)) },
    sets: { type: 'string' },
    lanes: { type: 'string', default: LANES.join(',') },
    alone: { type: 'boolean', default: false },
    'no-atlas': { type: 'boolean', default: false },
    markdown: { type: 'boolean', default: false },
    json: { type: 'string' },
  },
})
if (!existsSync(join(options.data, 'dev')))
  throw new Error(`${options.data} has no dev/: --data names a folder with dev/<set>/tools.jsonl and queries.jsonl.`)
const asked = options.lanes.split(',')
const strange = asked.find((lane) => !LANES.includes(lane))
if (strange !== undefined) throw new Error(`--lanes takes ${LANES.join(', ')}, not ${strange}.`)
const lanes = LANES.filter((lane) => asked.includes(lane))

const product = await loadProduct()
const lexicalRankers = [minisearchDefault, minisearchTuned, plainBm25, perFieldBm25, tfidf, reference]
const rankers = [...lexicalRankers, ...productRankers(product, lanes, { withAtlas: !options['no-atlas'] })]
const lexicalNames = new Set([...lexicalRankers.map(({ name }) => name), 'lexical'])
/** The lane that the promises are about. */
const shipped = lanes.at(-1)

const print = (text) => process.stdout.write(`${text}\n`)
const progress = (text) => process.stderr.isTTY && process.stderr.write(`\r\x1b[K${text}`)

async function readLines(file) {
  return (await readFile(file, 'utf8')).split('\n').filter(Boolean).map(JSON.parse)
}

async function readSets() {
  const wanted = options.sets?.split(',')
  const sets = []
  for (const name of (await readdir(join(options.data, 'dev'))).sort()) {
    const folder = join(options.data, 'dev', name)
    if (!existsSync(join(folder, 'queries.jsonl')) || (wanted && !wanted.includes(name))) continue
    const [tools, queries] = await Promise.all(
      ['tools', 'queries'].map((kind) => readLines(join(folder, `${kind}.jsonl`))),
    )
    sets.push({ name, tools, queries })
  }
  if (sets.length === 0) throw new Error(`${options.data}/dev has no set${wanted ? ` called ${options.sets}` : ''}.`)
  return sets
}

/** The report of one ranker, with the milliseconds it took to take in the tools. */
async function measure(ranker, { name, tools, queries }) {
  progress(`${name}, ${tools.length} tools: ${ranker.name}`)
  let search
  let loadMs = 0
  const report = await product.evaluate(tools, queries, {
    async load() {
      const started = performance.now()
      search = await ranker.create(tools)
      loadMs = performance.now() - started
    },
    query: async (query, limit) => {
      const found = await search(query, limit)
      return Array.isArray(found) ? { ids: found } : found
    },
  })
  return { ...report, rows: undefined, languages: Object.fromEntries(report.languages), loadMs }
}

/** @returns set name → ranker name → report */
async function measureAll(sets, measured = rankers) {
  const results = {}
  for (const set of sets) {
    results[set.name] = {}
    for (const ranker of measured) results[set.name][ranker.name] = await measure(ranker, set)
  }
  progress('')
  return results
}

const percent = (share) => (share === undefined || Number.isNaN(share) ? '–' : (100 * share).toFixed(1))
const signed = (share) => `${share < 0 ? '−' : '+'}${percent(Math.abs(share))}`
const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length

function printTable(title, head, rows) {
  print(`\n${options.markdown ? '**' : ''}${title}${options.markdown ? '**' : ''}\n`)
  if (options.markdown) {
    const line = (cells) => `| ${cells.join(' | ')} |`
    print([line(head), line(head.map((_, at) => (at === 0 ? '---' : '--:'))), ...rows.map(line)].join('\n'))
    return
  }
  const widths = head.map((_, at) => Math.max(...[head, ...rows].map((row) => row[at].length)))
  for (const row of [head, ...rows])
    print(
      row
        .map((cell, at) => (at === 0 ? cell.padEnd(widths[at]) : cell.padStart(widths[at])))
        .join('  ')
        .trimEnd(),
    )
}

/** One table a metric; the last columns say what the shipped lane is worth. */
function printMetrics(results, where, targets) {
  for (const [at, [metric, pick]] of Object.entries(METRICS).entries()) {
    const rows = []
    const columns = rankers.map(() => [])
    const bests = []
    for (const [set, reports] of Object.entries(results)) {
      const values = rankers.map(({ name }) => pick(reports[name]))
      const best = Math.max(...values.filter((_, index) => lexicalNames.has(rankers[index].name)))
      const target = at === 0 ? undefined : targets[set]?.[at - 1]
      for (const [index, value] of values.entries()) columns[index].push(value)
      bests.push(best)
      rows.push([set, ...values.map(percent), ...verdict(metric, values.at(-1), best, target)])
    }
    const average = columns.map(mean)
    rows.push(['average', ...average.map(percent), percent(mean(bests)), signed(average.at(-1) - mean(bests)), '', ''])
    const head = ['set', ...rankers.map(({ name }) => name), 'best lexical', `${shipped} − best`, 'target', '']
    printTable(`${metric}, ${where}, %`, head, rows)
  }
}

function verdict(metric, value, best, target) {
  const flags = []
  if (metric === 'nDCG@10' && value < best - MOST_LOST) flags.push('below best lexical')
  if (target !== undefined && Math.round(value * 1000) < Math.round(target * 1000)) flags.push('below target')
  return [percent(best), signed(value - best), target === undefined ? '' : percent(target), flags.join(', ')]
}

function printCosts(alone, pool) {
  const of = (results, name, pick) =>
    results ? mean(Object.values(results).map((set) => pick(set[name]))) : Number.NaN
  const cell = (value, digits) => (Number.isNaN(value) ? '–' : value.toFixed(digits))
  const rows = rankers.map(({ name }) => [
    name,
    cell(
      of(alone, name, ({ latencyMs }) => latencyMs.p50),
      3,
    ),
    cell(
      of(pool, name, ({ latencyMs }) => latencyMs.p50),
      3,
    ),
    cell(
      of(pool, name, ({ latencyMs }) => latencyMs.p95),
      3,
    ),
    cell(
      of(pool, name, ({ loadMs }) => loadMs),
      0,
    ),
    percent(of(alone, name, ({ refused }) => refused)),
    percent(of(pool, name, ({ refused }) => refused)),
  ])
  const head = [
    'ranker',
    'p50 ms, alone',
    'p50 ms, pool',
    'p95 ms, pool',
    'index ms, pool',
    'refused %, alone',
    'refused %, pool',
  ]
  printTable('Cost, and labelled queries without any answer; means over the sets', head, rows)
  print('\nLanes of the product share one index: the first of them pays for it.')
}

function printLanguages(results) {
  for (const [set, reports] of Object.entries(results)) {
    const shown = [reference.name, ...lanes]
    const rows = []
    const sums = shown.map(() => [0, 0])
    const languages = Object.keys(reports[shipped].languages).filter((language) => !language.endsWith('in English'))
    for (const language of languages) {
      const cells = shown.flatMap((name, at) => {
        const own = reports[name].languages[language].recall[5]
        const english = reports[name].languages[`${language} in English`].recall[5]
        sums[at][0] += own
        sums[at][1] += english
        return [percent(own), percent(english), percent(own / english)]
      })
      rows.push([language, String(reports[shipped].languages[language].queries), ...cells])
    }
    const averages = sums.map(([own, english]) => [own / languages.length, english / languages.length, own / english])
    rows.push(['average', '', ...averages.flat().map(percent)])
    const head = ['language', 'queries', ...shown.flatMap((name) => [name, 'English', 'share'])]
    const about = {
      page: 'the tool is a page, the query one of its examples, translated or in English',
      line: 'the tool is a line, the query its translation, or in English two thirds of the line itself',
    }
    printTable(`recall@5 across languages, ${reports[shipped].tools} English tools, %; ${about[set]}`, head, rows)
    print(
      `\n${set}: ${shipped} reaches ${percent(averages.at(-1)[2])} % of English; target ${percent(LANGUAGE_TARGET)}.`,
    )
  }
}

const sets = await readSets()
const alone = await measureAll(sets)
printMetrics(alone, 'alone', TARGETS)
let pool
if (!options.alone) {
  const corpus = await readLines(join(options.data, 'train/mcp-corpus/tools.jsonl'))
  pool = await measureAll(
    sets.map(({ name, tools, queries }) => ({
      name,
      queries,
      tools: [...tools, ...product.distractorsFor(tools, queries, corpus, POOL)],
    })),
  )
  printMetrics(pool, `among ${POOL.toLocaleString('en')} more tools`, {})
}
printCosts(alone, pool)
const languages = await measureAll(
  await crossLingualSets(join(options.data, 'train/pairs'), product.fnv1a),
  rankers.filter(({ name }) => name === reference.name || lanes.includes(name)),
)
printLanguages(languages)
if (options.json !== undefined)
  await writeFile(options.json, `${JSON.stringify({ machine: machine(), alone, pool, languages }, null, 1)}\n`)
