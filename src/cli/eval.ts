import { stat, writeFile } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { createMeasuredSearch } from '../app/measured-search.ts'
import { includedEncoderFiles } from '../app/package-info.ts'
import { messageOf, PegboardError } from '../core/errors.ts'
import { distractorsFor, type EvalReport, type EvalScores, evaluate, macroAverage } from '../search/evaluate.ts'
import { type SearchSettings, searchOptions } from '../search/search-options.ts'
import { type Args, readChoice, readInteger, readList, readOption, writeAnswer } from './args.ts'
import {
  type Corpus,
  type CorpusFiles,
  findCorpora,
  findToolFiles,
  nameOfCorpus,
  readCorpus,
  readTools,
} from './corpora.ts'
import { ERASE, formatTable, type Io, UsageError, writeWarning } from './io.ts'
import { createModelProgress } from './progress.ts'
import { RANKERS, round } from './search.ts'

type Ranker = (typeof RANKERS)[number]
const WARNINGS_SHOWN = 5

interface EvalResult {
  readonly name: string
  readonly distractors: number
  readonly report: EvalReport
}

/** `pegboard eval`: runs the product's search on labelled queries, optionally with more tools to search among. */
export async function run(args: Args, io: Io): Promise<number> {
  const ranker = readChoice(args, 'ranker', RANKERS, 'hybrid')
  const evalSettings = await readEvalSettings(args, io)
  const files = await listCorpora(args, io.cwd)
  const pool = readOption(args, 'pool')
  if (pool === undefined && readOption(args, 'pool-size') !== undefined)
    throw new UsageError('--pool-size needs --pool')
  const poolSize = readInteger(args, 'pool-size', 1, 1_000_000, 1_000_000)
  const poolFiles = pool === undefined ? [] : await findToolFiles(pool, io.cwd)
  const perQuery = readOption(args, 'per-query')
  if (perQuery !== undefined) {
    const config = evalSettings.config === undefined ? [] : [evalSettings.config]
    const inputs = [...files.flatMap(({ tools, queries }) => [tools, queries]), ...poolFiles, ...config]
    const input = await findSameFile(perQuery, inputs, io.cwd)
    if (input !== undefined) throw new UsageError(`--per-query ${perQuery} would overwrite ${input}, which eval reads`)
  }
  const candidates = await readTools(poolFiles, io.cwd)
  const corpora: Corpus[] = []
  for (const corpusFiles of files) corpora.push(await readCorpus(corpusFiles, io.cwd))
  writeWarnings(corpora, io)
  if (perQuery !== undefined) await writeOutput(perQuery, '', io.cwd)
  const results: EvalResult[] = []
  for (const { name, tools, queries } of corpora) {
    const distractors = distractorsFor(tools, queries, candidates, poolSize)
    const onProgress = createProgress(name, io)
    const models = createModelProgress(io)
    const { search, close } = createMeasuredSearch({
      ...evalSettings,
      ranker,
      onProgress: models.show,
      onIndexed: models.done,
      onWarning: (message) => writeWarning(io, `${message}.`),
    })
    try {
      const report = await evaluate([...tools, ...distractors], queries, search, { onProgress, signal: io.stop })
      results.push({ name, distractors: distractors.length, report })
    } catch (error) {
      if (!io.stop.aborted) throw error
      throw new PegboardError('E_CANCELLED', 'Interrupted before the first measurement was complete.', { cause: error })
    } finally {
      onProgress()
      await close()
    }
  }
  if (perQuery !== undefined) await writeOutput(perQuery, perQueryLines(results), io.cwd)
  writeAnswer(args, io, figuresOf(ranker, results), formatReport(results))
  return 0
}

interface EvalSettings {
  /** The configuration file, if any. */
  readonly config: string | undefined
  readonly settings: SearchSettings
  readonly places: { readonly cacheDir: string; readonly baseDir: string }
}

/** Search settings: --embedder, then those of the configuration. */
async function readEvalSettings(args: Args, io: Io): Promise<EvalSettings> {
  const { loadConfig } = await import('../config/load-config.ts')
  const { config } = await loadConfig({ env: io.env, cwd: io.cwd }, readOption(args, 'config'))
  const embedder = readOption(args, 'embedder') ?? config.search.embedder
  const parsed = searchOptions.unwrap().shape.embedder.safeParse(embedder)
  if (!parsed.success) throw new UsageError(`--embedder ${parsed.error.issues[0]?.message}`)
  const baseDir = config.file === undefined ? io.cwd : dirname(config.file)
  const places = { cacheDir: config.dirs.cache, baseDir, encoder: includedEncoderFiles() }
  return { config: config.file, settings: { ...config.search, embedder }, places }
}

/** Pairs tools and queries in the order given. */
async function listCorpora(args: Args, cwd: string): Promise<CorpusFiles[]> {
  const [tools = [], queries = [], dirs = []] = ['tools', 'queries', 'dir'].map((name) => readList(args, name))
  if (tools.length !== queries.length)
    throw new UsageError(`eval needs a --queries FILE for each --tools FILE, not ${queries.length} for ${tools.length}`)
  if (tools.length + dirs.length === 0) throw new UsageError('eval needs --tools FILE and --queries FILE, or --dir DIR')
  const files = tools.map((path, index) => ({
    name: nameOfCorpus(path, cwd),
    tools: path,
    queries: queries[index] ?? '',
  }))
  for (const dir of dirs) files.push(...(await findCorpora(dir, cwd)))
  return files
}

function writeWarnings(corpora: readonly Corpus[], io: Io): void {
  const warnings = corpora.flatMap((corpus) => corpus.warnings)
  for (const warning of warnings.slice(0, WARNINGS_SHOWN)) writeWarning(io, warning)
  if (warnings.length > WARNINGS_SHOWN) writeWarning(io, `${warnings.length - WARNINGS_SHOWN} more like these.`)
}

/** Shows progress in one line; without figures it clears the line. Silent without a terminal. */
function createProgress(name: string, io: Io): (done?: number, all?: number) => void {
  let shown = false
  return (done, all) => {
    if (done !== undefined && process.stderr.isTTY) io.stderr(`${ERASE}${name}: ${done} of ${all} queries`)
    else if (shown) io.stderr(ERASE)
    shown = done !== undefined && process.stderr.isTTY
  }
}

const perQueryLines = (results: readonly EvalResult[]): string =>
  results
    .flatMap(({ name, report: evalReport }) =>
      evalReport.rows.map((row) => `${JSON.stringify({ set: name, ...row })}\n`),
    )
    .join('')

/** The first of `others` that is the same file, through links or other spellings. */
async function findSameFile(file: string, others: readonly string[], cwd: string): Promise<string | undefined> {
  const statOf = (path: string) => stat(resolve(cwd, path), { bigint: true }).catch(() => undefined)
  const fileStat = await statOf(file)
  if (!fileStat) return undefined
  for (const other of others) {
    const otherStat = await statOf(other)
    if (otherStat && otherStat.dev === fileStat.dev && otherStat.ino === fileStat.ino) return other
  }
  return undefined
}

/** @throws PegboardError E_NOT_FOUND; also called before the work, so that it fails early */
async function writeOutput(file: string, content: string, cwd: string): Promise<void> {
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
const SCORE_COLUMNS = ['queries', 'recall@1', 'recall@3', 'recall@5', 'recall@10', 'nDCG@10', 'MRR', 'refused'] as const

/** In the order of `HEAD`. */
const formatScores = ({ queries, recall, ndcg10, mrr, refused }: EvalScores): string[] => [
  String(queries),
  ...[recall[1], recall[3], recall[5], recall[10], ndcg10, mrr, refused].map(percent),
]

function formatReport(results: readonly EvalResult[]): string {
  const rows = results.map(({ name, report: evalReport }) => [
    name,
    String(evalReport.tools),
    ...formatScores(evalReport),
    evalReport.noMatch.queries > 0 ? percent(evalReport.noMatch.answered) : '–',
    evalReport.latencyMs.p50.toFixed(3),
    evalReport.latencyMs.p95.toFixed(3),
  ])
  if (results.length > 1)
    rows.push(['average', '', ...formatScores(macroAverage(results.map(({ report: evalReport }) => evalReport)))])
  const sets = formatTable([['set', 'tools', ...SCORE_COLUMNS, 'no-match answered', 'p50 ms', 'p95 ms'], ...rows])
  const languages = results.flatMap(({ name, report: evalReport }) =>
    [...evalReport.languages].map(([lang, scores]) => [name, lang, ...formatScores(scores)]),
  )
  const legend = 'Shares in %; refused: labelled queries without any answer; no-match answered: the opposite mistake.\n'
  return `${sets}${languages.length > 0 ? `\n${formatTable([['set', 'language', ...SCORE_COLUMNS], ...languages])}` : ''}\n${legend}`
}

function figuresOf(ranker: Ranker, results: readonly EvalResult[]) {
  return {
    ranker,
    sets: results.map(({ name, distractors, report: evalReport }) => ({
      set: name,
      tools: evalReport.tools,
      distractors,
      ...scoreFigures(evalReport),
      no_match: { queries: evalReport.noMatch.queries, answered: round(evalReport.noMatch.answered) },
      latency_p50_ms: roundMs(evalReport.latencyMs.p50),
      latency_p95_ms: roundMs(evalReport.latencyMs.p95),
      ...(evalReport.languages.size > 0 && {
        languages: Object.fromEntries([...evalReport.languages].map(([lang, scores]) => [lang, scoreFigures(scores)])),
      }),
    })),
    average: scoreFigures(macroAverage(results.map(({ report: evalReport }) => evalReport))),
  }
}

const roundMs = (value: number): number => Math.round(value * 1e3) / 1e3

const scoreFigures = ({ queries, recall, ndcg10, mrr, refused }: EvalScores) => ({
  queries,
  'recall@1': round(recall[1]),
  'recall@3': round(recall[3]),
  'recall@5': round(recall[5]),
  'recall@10': round(recall[10]),
  'nDCG@10': round(ndcg10),
  MRR: round(mrr),
  refused: round(refused),
})
