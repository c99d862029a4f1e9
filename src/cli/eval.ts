import { stat, writeFile } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { createMeasuredSearch } from '../app/measured-search.ts'
import { includedEncoderFiles } from '../app/package-info.ts'
import { messageOf, PegboardError } from '../core/errors.ts'
import { distractorsFor, type EvalReport, type EvalScores, evaluate, macroAverage } from '../search/evaluate.ts'
import { type SearchSettings, searchOptions } from '../search/search-options.ts'
import { type Args, oneOf, readInteger, readList, readOption, writeAnswer } from './args.ts'
import {
  type Corpus,
  type CorpusFiles,
  corporaIn,
  nameOfCorpus,
  readCorpus,
  readTools,
  toolFilesIn,
} from './corpora.ts'
import { ERASE, formatTable, type Io, UsageError, writeWarning } from './io.ts'
import { modelProgress } from './progress.ts'
import { LANES, rounded } from './search.ts'

type Ranker = (typeof LANES)[number]
const WARNINGS_SHOWN = 5

interface EvalResult {
  readonly name: string
  readonly distractors: number
  readonly report: EvalReport
}

/** `pegboard eval`: runs the product's search on labelled queries, optionally with more tools to search among. */
export async function run(args: Args, io: Io): Promise<number> {
  const ranker = oneOf(args, 'ranker', LANES, 'hybrid')
  const product = await readProduct(args, io)
  const files = await filesOf(args, io.cwd)
  const pool = readOption(args, 'pool')
  if (pool === undefined && readOption(args, 'pool-size') !== undefined)
    throw new UsageError('--pool-size needs --pool')
  const poolSize = readInteger(args, 'pool-size', 1, 1_000_000, 1_000_000)
  const poolFiles = pool === undefined ? [] : await toolFilesIn(pool, io.cwd)
  const perQuery = readOption(args, 'per-query')
  if (perQuery !== undefined) {
    const config = product.config === undefined ? [] : [product.config]
    const inputs = [...files.flatMap(({ tools, queries }) => [tools, queries]), ...poolFiles, ...config]
    const input = await sameFile(perQuery, inputs, io.cwd)
    if (input !== undefined) throw new UsageError(`--per-query ${perQuery} would overwrite ${input}, which eval reads`)
  }
  const candidates = await readTools(poolFiles, io.cwd)
  const corpora: Corpus[] = []
  for (const each of files) corpora.push(await readCorpus(each, io.cwd))
  warn(corpora, io)
  if (perQuery !== undefined) await write(perQuery, '', io.cwd)
  const measured: EvalResult[] = []
  for (const { name, tools, queries } of corpora) {
    const distractors = distractorsFor(tools, queries, candidates, poolSize)
    const onProgress = progressOf(name, io)
    const models = modelProgress(io)
    const { search, close } = createMeasuredSearch({
      ...product,
      ranker,
      onProgress: models.show,
      onIndexed: models.done,
      onWarning: (message) => writeWarning(io, `${message}.`),
    })
    try {
      const report = await evaluate([...tools, ...distractors], queries, search, { onProgress, signal: io.stop })
      measured.push({ name, distractors: distractors.length, report })
    } catch (error) {
      if (!io.stop.aborted) throw error
      throw new PegboardError('E_CANCELLED', 'Interrupted before the first measurement was complete.', { cause: error })
    } finally {
      onProgress()
      await close()
    }
  }
  if (perQuery !== undefined) await write(perQuery, perQueryLines(measured), io.cwd)
  writeAnswer(args, io, figuresOf(ranker, measured), report(measured))
  return 0
}

interface EvalSettings {
  /** The configuration file, if any. */
  readonly config: string | undefined
  readonly settings: SearchSettings
  readonly places: { readonly cacheDir: string; readonly baseDir: string }
}

/** Search settings: --embedder, then those of the configuration. */
async function readProduct(args: Args, io: Io): Promise<EvalSettings> {
  const { loadConfig } = await import('../config/load-config.ts')
  const { config } = await loadConfig({ env: io.env, cwd: io.cwd }, readOption(args, 'config'))
  const embedder = readOption(args, 'embedder') ?? config.search.embedder
  const read = searchOptions.unwrap().shape.embedder.safeParse(embedder)
  if (!read.success) throw new UsageError(`--embedder ${read.error.issues[0]?.message}`)
  const baseDir = config.file === undefined ? io.cwd : dirname(config.file)
  const places = { cacheDir: config.dirs.cache, baseDir, encoder: includedEncoderFiles() }
  return { config: config.file, settings: { ...config.search, embedder }, places }
}

/** Pairs tools and queries in the order given. */
async function filesOf(args: Args, cwd: string): Promise<CorpusFiles[]> {
  const [tools = [], queries = [], dirs = []] = ['tools', 'queries', 'dir'].map((name) => readList(args, name))
  if (tools.length !== queries.length)
    throw new UsageError(`eval needs a --queries FILE for each --tools FILE, not ${queries.length} for ${tools.length}`)
  if (tools.length + dirs.length === 0) throw new UsageError('eval needs --tools FILE and --queries FILE, or --dir DIR')
  const files = tools.map((path, at) => ({ name: nameOfCorpus(path, cwd), tools: path, queries: queries[at] ?? '' }))
  for (const dir of dirs) files.push(...(await corporaIn(dir, cwd)))
  return files
}

function warn(corpora: readonly Corpus[], io: Io): void {
  const warnings = corpora.flatMap((corpus) => corpus.warnings)
  for (const warning of warnings.slice(0, WARNINGS_SHOWN)) writeWarning(io, warning)
  if (warnings.length > WARNINGS_SHOWN) writeWarning(io, `${warnings.length - WARNINGS_SHOWN} more like these.`)
}

/** Shows progress in one line; without figures it clears the line. Silent without a terminal. */
function progressOf(name: string, io: Io): (done?: number, all?: number) => void {
  let shown = false
  return (done, all) => {
    if (done !== undefined && process.stderr.isTTY) io.stderr(`${ERASE}${name}: ${done} of ${all} queries`)
    else if (shown) io.stderr(ERASE)
    shown = done !== undefined && process.stderr.isTTY
  }
}

const perQueryLines = (measured: readonly EvalResult[]): string =>
  measured
    .flatMap(({ name, report: of }) => of.rows.map((row) => `${JSON.stringify({ set: name, ...row })}\n`))
    .join('')

/** The first of `others` that is the same file, through links or other spellings. */
async function sameFile(file: string, others: readonly string[], cwd: string): Promise<string | undefined> {
  const identity = (path: string) => stat(resolve(cwd, path), { bigint: true }).catch(() => undefined)
  const own = await identity(file)
  if (!own) return undefined
  for (const other of others) {
    const found = await identity(other)
    if (found && found.dev === own.dev && found.ino === own.ino) return other
  }
  return undefined
}

/** @throws PegboardError E_NOT_FOUND; also called before the work, so that it fails early */
async function write(file: string, content: string, cwd: string): Promise<void> {
  try {
    await writeFile(resolve(cwd, file), content)
  } catch (error) {
    throw new PegboardError('E_NOT_FOUND', `${file} cannot be written: ${messageOf(error)}.`, {
      hint: 'Check the path.',
      cause: error,
    })
  }
}

const percent = (share: number): string => (100 * share).toFixed(1)
const HEAD = ['queries', 'recall@1', 'recall@3', 'recall@5', 'recall@10', 'nDCG@10', 'MRR', 'refused'] as const

/** In the order of `HEAD`. */
const cells = ({ queries, recall, ndcg10, mrr, refused }: EvalScores): string[] => [
  String(queries),
  ...[recall[1], recall[3], recall[5], recall[10], ndcg10, mrr, refused].map(percent),
]

function report(measured: readonly EvalResult[]): string {
  const rows = measured.map(({ name, report: of }) => [
    name,
    String(of.tools),
    ...cells(of),
    of.noMatch.queries > 0 ? percent(of.noMatch.answered) : '–',
    of.latencyMs.p50.toFixed(3),
    of.latencyMs.p95.toFixed(3),
  ])
  if (measured.length > 1) rows.push(['average', '', ...cells(macroAverage(measured.map(({ report: of }) => of)))])
  const sets = formatTable([['set', 'tools', ...HEAD, 'no-match answered', 'p50 ms', 'p95 ms'], ...rows])
  const languages = measured.flatMap(({ name, report: of }) =>
    [...of.languages].map(([lang, scores]) => [name, lang, ...cells(scores)]),
  )
  const explained =
    'Shares in %; refused: labelled queries without any answer; no-match answered: the opposite mistake.\n'
  return `${sets}${languages.length > 0 ? `\n${formatTable([['set', 'language', ...HEAD], ...languages])}` : ''}\n${explained}`
}

function figuresOf(ranker: Ranker, measured: readonly EvalResult[]) {
  return {
    ranker,
    sets: measured.map(({ name, distractors, report: of }) => ({
      set: name,
      tools: of.tools,
      distractors,
      ...scoreFigures(of),
      no_match: { queries: of.noMatch.queries, answered: rounded(of.noMatch.answered) },
      latency_p50_ms: ms(of.latencyMs.p50),
      latency_p95_ms: ms(of.latencyMs.p95),
      ...(of.languages.size > 0 && {
        languages: Object.fromEntries([...of.languages].map(([lang, scores]) => [lang, scoreFigures(scores)])),
      }),
    })),
    average: scoreFigures(macroAverage(measured.map(({ report: of }) => of))),
  }
}

const ms = (value: number): number => Math.round(value * 1e3) / 1e3

const scoreFigures = ({ queries, recall, ndcg10, mrr, refused }: EvalScores) => ({
  queries,
  'recall@1': rounded(recall[1]),
  'recall@3': rounded(recall[3]),
  'recall@5': rounded(recall[5]),
  'recall@10': rounded(recall[10]),
  'nDCG@10': rounded(ndcg10),
  MRR: rounded(mrr),
  refused: rounded(refused),
})
