import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs, promisify } from 'node:util'
import { MOST_TOOLS, makeFleet, makeQuestions, makeTools } from './catalogue.mjs'
import { median, now, quantile, table } from './measure.mjs'
import { inFolder } from './pegboard.mjs'
import { loadProduct } from './rankers/product.mjs'

const SIZES = [1_000, 10_000, 100_000]
const LANES = { lexical: 'keyword', vector: 'vector', hybrid: 'hybrid' }
const QUESTIONS = 60
const ROUNDS = 5
const MB = 1_000_000
const HERE = fileURLToPath(import.meta.url)

/**
 * Search by itself, without a protocol: a process that indexes from nothing, asks and keeps the index, and another one that loads
 * it. In memory is what a forced collection leaves, less what there was before: tools and code are not counted, the model is.
 */
export async function measureSearchScale() {
  const rows = []
  for (const tools of SIZES)
    rows.push(
      await inFolder(async (folder) => {
        const child = async (part) => {
          const args = ['--expose-gc', HERE, '--tools', String(tools), '--part', part, '--folder', folder]
          const { stdout } = await promisify(execFile)(process.execPath, args, { maxBuffer: MB })
          return JSON.parse(stdout)
        }
        return { tools, ...(await child('make')), ...(await child('load')) }
      }),
    )
  const goals =
    'goals: 10,000 indexed in 2,000 ms and loaded in 20 ms, under 20 MB; 100,000 under 150 MB; a query’s vector in 0.1 ms'
  return { rows, text: table(`Search in process (${QUESTIONS} questions × ${ROUNDS}; ${goals})`, rows) }
}

const fleetOf = (total) => makeFleet(Math.max(10, Math.ceil(total / MOST_TOOLS)), total)

function sourcesOf(fleet, { sourceOfEvalTool }) {
  return fleet.flatMap(({ id, server, tools }) =>
    makeTools(server, tools).map((tool) => sourceOfEvalTool({ ...tool, id: `${id}.${tool.name}`, server: id })),
  )
}

/** The index of a product's search, kept in `folder` the way the product keeps it. */
async function storeIn(folder) {
  const file = join(folder, 'index.bin')
  let bytes = existsSync(file) ? await readFile(file) : undefined
  const set = (_, given) => {
    bytes = given
  }
  return { file, get: () => bytes, set, written: () => writeFile(file, bytes) }
}

function memory() {
  globalThis.gc()
  const { rss, heapUsed, external } = process.memoryUsage()
  return { rss, held: heapUsed + external }
}

async function make(total, folder) {
  const product = await loadProduct()
  const fleet = fleetOf(total)
  const sources = sourcesOf(fleet, product)
  const store = await storeIn(folder)
  const visible = () => true
  const before = memory()
  const search = product.createToolSearch({ table: product.embeddedTable, store })
  const questions = makeQuestions(fleet, QUESTIONS).map(({ query }) => query)

  const began = now()
  search.sync(sources, 1)
  const indexing = search.warm()
  await setImmediate()
  await search.query(questions[0], { limit: 5, visible })
  const answered = now() - began
  while (search.status.embedded === 'loading') await setImmediate()
  const embedded = now() - began
  await indexing
  const after = memory()
  await store.written()

  const times = {}
  for (const [ranker, name] of Object.entries(LANES)) {
    const ms = []
    for (let round = 0; round <= ROUNDS; round++)
      for (const query of questions) {
        const start = now()
        await search.query(query, { limit: 5, visible, ranker })
        if (round > 0) ms.push(now() - start)
      }
    times[`${name} p50 ms`] = median(ms)
    times[`${name} p95 ms`] = quantile(ms, 0.95)
  }
  const asked = memory()
  return {
    'first answer ms': answered,
    'indexed ms': embedded,
    ...times,
    'embed ms': embedMs(product, questions),
    'in memory MB': (after.held - before.held) / MB,
    'after queries MB': (asked.held - before.held) / MB,
    'resident MB': (asked.rss - before.rss) / MB,
    'on disk MB': (await stat(store.file)).size / MB,
  }
}

function embedMs({ embeddedTable }, questions) {
  const model = embeddedTable()
  const ms = []
  for (let round = 0; round < 50; round++)
    for (const query of questions) {
      const start = now()
      model.query(query)
      ms.push(now() - start)
    }
  return median(ms)
}

/** In a new process, as a start finds it. The file is read before: that is the disk's business. */
async function load(total, folder) {
  const product = await loadProduct()
  const sources = sourcesOf(fleetOf(total), product)
  const store = await storeIn(folder)
  const model = product.embeddedTable()
  const corpus = product.createCorpus({ table: () => model, store })
  const began = now()
  corpus.follow(sources).next()
  const loaded = now() - began
  if (!corpus.usable() || corpus.lexical.size !== total) throw new Error('the index was not taken over')
  return { 'load ms': loaded }
}

if (process.argv[1] === HERE) {
  const { values } = parseArgs({
    options: { tools: { type: 'string' }, part: { type: 'string' }, folder: { type: 'string' } },
  })
  const result = await { make, load }[values.part](Number(values.tools), values.folder)
  process.stdout.write(`${JSON.stringify(result)}\n`)
}
