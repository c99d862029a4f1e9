import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { messageOf, PegboardError } from '../core/errors.ts'
import { type EvalQuery, type EvalReport, type EvalTool, evaluate } from '../search/evaluate.ts'
import { createToolSearch } from '../search/index.ts'
import type { Args } from './commands.ts'
import { isRecord } from './describe.ts'
import { type Io, table, UsageError, writeJson } from './io.ts'
import { text } from './open.ts'

/** `pegboard eval`: runs the product's own search on a corpus and labelled queries. */
export async function run(args: Args, io: Io): Promise<number> {
  const [toolsFile, queriesFile] = [text(args, 'tools'), text(args, 'queries')]
  if (toolsFile === undefined || queriesFile === undefined)
    throw new UsageError('eval needs --tools FILE and --queries FILE')
  const tools = await readLines(toolsFile, io.cwd, asTool)
  const queries = await readLines(queriesFile, io.cwd, asQuery)
  const search = createToolSearch()
  const report = evaluate(tools, queries, {
    load: (sources) => search.sync(sources, 1),
    query: (query, limit) => search.query(query, { limit, visible: () => true }).hits.map(({ id }) => id),
  })
  const figures = figuresOf(report)
  if (args.values['json'] === true) writeJson(io, figures)
  else io.stdout(table(Object.entries(figures).map(([name, value]) => [name, String(value)])))
  return 0
}

function figuresOf({ tools, queries, recall, ndcg10, mrr, latencyMs }: EvalReport) {
  const share = (value: number): number => Math.round(value * 1e4) / 1e4
  const ms = (value: number): number => Math.round(value * 1e3) / 1e3
  return {
    tools,
    queries,
    'recall@1': share(recall[1]),
    'recall@3': share(recall[3]),
    'recall@5': share(recall[5]),
    'recall@10': share(recall[10]),
    'nDCG@10': share(ndcg10),
    MRR: share(mrr),
    latency_p50_ms: ms(latencyMs.p50),
    latency_p95_ms: ms(latencyMs.p95),
  }
}

async function readLines<T>(file: string, cwd: string, accept: (value: unknown) => T | string): Promise<T[]> {
  let content: string
  try {
    content = await readFile(resolve(cwd, file), 'utf8')
  } catch (error) {
    throw new PegboardError('E_NOT_FOUND', `${file} cannot be read: ${messageOf(error)}.`, {
      hint: 'Check the path.',
      cause: error,
    })
  }
  const rows: T[] = []
  for (const [index, line] of content.split('\n').entries()) {
    if (line.trim() === '') continue
    let row: T | string
    try {
      row = accept(JSON.parse(line))
    } catch (error) {
      row = `it is not JSON (${messageOf(error)})`
    }
    if (typeof row === 'string')
      throw new PegboardError('E_VALIDATION', `${file}:${index + 1}: ${row}.`, {
        hint: 'Each line is one JSON object.',
      })
    rows.push(row)
  }
  return rows
}

function asTool(value: unknown): EvalTool | string {
  if (!isRecord(value)) return 'it is not an object'
  const { id, name, server = '', description, inputSchema } = value
  if (typeof id !== 'string' || typeof name !== 'string' || typeof server !== 'string')
    return '"id", "name" and "server" must be texts'
  return {
    id,
    name,
    server,
    ...(typeof description === 'string' ? { description } : {}),
    ...(isRecord(inputSchema) ? { inputSchema } : {}),
  }
}

function asQuery(value: unknown): EvalQuery | string {
  if (!isRecord(value)) return 'it is not an object'
  const { query, relevant } = value
  if (typeof query !== 'string' || !Array.isArray(relevant))
    return '"query" must be a text and "relevant" a list of ids'
  return { id: String(value['id'] ?? ''), query, relevant: relevant.map(String) }
}
