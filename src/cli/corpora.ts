import { readdir, readFile, stat } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import { messageOf, PegboardError } from '../core/errors.ts'
import { isRecord } from '../core/is-record.ts'
import type { EvalQuery, EvalTool } from '../search/evaluate.ts'

/** Tools and labelled queries. `warnings` are mistakes in them, with file and line. */
export interface Corpus {
  readonly name: string
  readonly tools: readonly EvalTool[]
  readonly queries: readonly EvalQuery[]
  readonly warnings: readonly string[]
}

/** Paths as typed. */
export interface CorpusFiles {
  readonly name: string
  readonly tools: string
  readonly queries: string
}

const TOOLS = 'tools.jsonl'
const QUERIES = 'queries.jsonl'

/** The name of a corpus: that of its file, or of its folder if the file has the usual name. */
export const nameOfCorpus = (tools: string, cwd: string): string => {
  const path = resolve(cwd, tools)
  return basename(path) === TOOLS ? basename(dirname(path)) : basename(path).replace(/\.jsonl$/, '')
}

/**
 * The corpora in a folder: the folder itself if it has `tools.jsonl`, else each subfolder with `tools.jsonl` and
 * `queries.jsonl`.
 * @throws PegboardError E_NOT_FOUND if there is none
 */
export async function findCorpora(dir: string, cwd: string): Promise<CorpusFiles[]> {
  const folders = (await isFile(resolve(cwd, dir, TOOLS))) ? [dir] : await listFolders(dir, cwd)
  const corpora: CorpusFiles[] = []
  for (const folder of folders) {
    const [tools, queries] = [join(folder, TOOLS), join(folder, QUERIES)]
    if ((await isFile(resolve(cwd, tools))) && (await isFile(resolve(cwd, queries))))
      corpora.push({ name: nameOfCorpus(tools, cwd), tools, queries })
  }
  if (corpora.length > 0) return corpora
  throw new PegboardError('E_NOT_FOUND', `${dir} has no corpus.`, {
    hint: `A corpus is a folder with ${TOOLS} and ${QUERIES}.`,
  })
}

/** Reads a corpus. @throws PegboardError E_NOT_FOUND, E_VALIDATION with file and line, or for an empty file */
export async function readCorpus({ name, tools, queries }: CorpusFiles, cwd: string): Promise<Corpus> {
  const warnings: string[] = []
  const byId = new Map<string, EvalTool>()
  for (const { row, line } of await readLines(tools, cwd, parseTool)) {
    if (byId.has(row.id)) warnings.push(`${tools}:${line}: duplicate id "${row.id}"; the line is ignored.`)
    else byId.set(row.id, row)
  }
  if (byId.size === 0) throw createEmptyFileError(tools, 'tools')
  const lines = await readLines(queries, cwd, parseQuery)
  if (lines.length === 0) throw createEmptyFileError(queries, 'queries')
  for (const { row, line } of lines) {
    const unknown = row.relevant.find((id) => !byId.has(id))
    if (unknown !== undefined) warnings.push(`${queries}:${line}: no tool is called "${unknown}"; it counts as missed.`)
  }
  return { name, tools: [...byId.values()], queries: lines.map(({ row }) => row), warnings }
}

/**
 * The file itself, or the `tools.jsonl` of a folder and its subfolders.
 * @throws PegboardError E_NOT_FOUND if there is none
 */
export async function findToolFiles(path: string, cwd: string): Promise<string[]> {
  if (await isFile(resolve(cwd, path))) return [path]
  const files: string[] = []
  for (const folder of [path, ...(await listFolders(path, cwd))])
    if (await isFile(resolve(cwd, folder, TOOLS))) files.push(join(folder, TOOLS))
  if (files.length > 0) return files
  throw new PegboardError('E_NOT_FOUND', `${path} has no ${TOOLS}.`, { hint: 'Name a file or such a folder.' })
}

/** The tools of all files. @throws PegboardError E_NOT_FOUND, E_VALIDATION with file and line, or for an empty file */
export async function readTools(files: readonly string[], cwd: string): Promise<EvalTool[]> {
  const tools: EvalTool[] = []
  for (const file of files) {
    const lines = await readLines(file, cwd, parseTool)
    if (lines.length === 0) throw createEmptyFileError(file, 'tools')
    for (const { row } of lines) tools.push(row)
  }
  return tools
}

async function isFile(path: string): Promise<boolean> {
  return (await stat(path).catch(() => undefined))?.isFile() ?? false
}

async function listFolders(dir: string, cwd: string): Promise<string[]> {
  try {
    const entries = await readdir(resolve(cwd, dir), { withFileTypes: true })
    return entries
      .filter((entry) => entry.isDirectory() || entry.isSymbolicLink())
      .map(({ name }) => join(dir, name))
      .sort()
  } catch (error) {
    throw createReadError(dir, error)
  }
}

async function readLines<T>(
  file: string,
  cwd: string,
  parseRow: (value: unknown) => T | string,
): Promise<{ readonly row: T; readonly line: number }[]> {
  let content: string
  try {
    content = await readFile(resolve(cwd, file), 'utf8')
  } catch (error) {
    throw createReadError(file, error)
  }
  const rows: { row: T; line: number }[] = []
  const lines = content.replace(/^\ufeff/, '').split('\n')
  for (const [index, line] of lines.entries()) {
    if (line.trim() === '') continue
    let row: T | string
    try {
      row = parseRow(JSON.parse(line))
    } catch (error) {
      row = `it is not JSON (${messageOf(error)})`
    }
    if (typeof row === 'string')
      throw new PegboardError('E_VALIDATION', `${file}:${index + 1}: ${row}.`, {
        hint: 'Each line is one JSON object.',
      })
    rows.push({ row, line: index + 1 })
  }
  return rows
}

const createEmptyFileError = (file: string, contents: string): PegboardError =>
  new PegboardError('E_VALIDATION', `${file} has no ${contents}.`, { hint: 'Each line is one JSON object.' })

const createReadError = (path: string, error: unknown): PegboardError =>
  new PegboardError('E_NOT_FOUND', `${path} cannot be read: ${messageOf(error)}.`, {
    hint: 'Check the path.',
    cause: error,
  })

function parseTool(value: unknown): EvalTool | string {
  if (!isRecord(value)) return 'it is not an object'
  const { id, name, server = '', description, serverDescription, inputSchema } = value
  if (typeof id !== 'string' || typeof name !== 'string' || typeof server !== 'string')
    return '"id", "name" and "server" must be strings'
  return {
    id,
    name,
    server,
    ...(typeof description === 'string' ? { description } : {}),
    ...(typeof serverDescription === 'string' ? { serverDescription } : {}),
    ...(isRecord(inputSchema) ? { inputSchema } : {}),
  }
}

function parseQuery(value: unknown): EvalQuery | string {
  if (!isRecord(value)) return 'it is not an object'
  const { query, relevant, lang } = value
  if (typeof query !== 'string' || !Array.isArray(relevant))
    return '"query" must be a string and "relevant" a list of ids'
  return {
    id: String(value['id'] ?? ''),
    query,
    relevant: relevant.map(String),
    ...(typeof lang === 'string' && lang ? { lang } : {}),
  }
}
