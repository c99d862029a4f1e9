import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { type EvalQuery, type EvalTool, fnv1a, sourceOfEvalTool } from '../src/search/evaluate.ts'
import { documentOf, type SearchDocument } from '../src/search/search-document.ts'
import { stemOf } from '../src/search/tokenize.ts'
import { piecesOf } from '../src/search/word-pieces.ts'

/** A text as stems, in order. */
export type Text = readonly string[]

export const textOf = (text: string, cap = 64): Text => piecesOf(text, cap).slice(0, cap).map(stemOf)

export interface Tool {
  readonly line: EvalTool
  readonly name: Text
  readonly description: Text
  /** Of the first sentence. */
  readonly first: Text
  readonly parameters: Text
  readonly module: Text
  readonly context: Text
  /** Name and description: what tells a tool from its copies. */
  readonly key: string
}

export interface ToolSet {
  readonly name: string
  readonly tools: readonly Tool[]
  readonly queries: readonly EvalQuery[]
}

export interface Pair {
  readonly a: Text
  readonly b: Text
  /** Texts of one group are never each other's negatives. */
  readonly group: string
  readonly language: string
}

export interface PairSet {
  readonly name: string
  readonly pairs: readonly Pair[]
}

export function readJsonLines<T>(file: string): T[] {
  const bytes = readFileSync(file)
  const text = (file.endsWith('.gz') ? gunzipSync(bytes) : bytes).toString('utf8')
  const lines: T[] = []
  for (const line of text.split('\n')) if (line.trim()) lines.push(JSON.parse(line) as T)
  return lines
}

export function toolOf(line: EvalTool): Tool {
  const document = documentOf(sourceOfEvalTool(line))
  const field = (name: SearchDocument['fields'][number]['name']): string =>
    document.fields.find((one) => one.name === name)?.text ?? ''
  const description = field('description')
  const end = description.search(/[.!?。](?:\s|$)|\n/)
  return {
    line,
    name: textOf(field('name'), 20),
    description: textOf(description, 60),
    first: textOf(end > 0 ? description.slice(0, end) : description, 60),
    parameters: textOf(field('parameters'), 60),
    module: textOf(field('module'), 8),
    context: textOf(field('context'), 30),
    key: `${line.name}\n${line.description ?? ''}`.toLowerCase(),
  }
}

export function readToolSet(dir: string, name: string): ToolSet {
  const queries = join(dir, name, 'queries.jsonl')
  return {
    name,
    tools: readJsonLines<EvalTool>(join(dir, name, 'tools.jsonl')).map(toolOf),
    queries: existsSync(queries) ? readJsonLines<EvalQuery>(queries) : [],
  }
}

/** A page of tldr, without the number of the line. */
export const pageOf = (group: string): string => group.replace(/\d+$/, '')
/** A tenth of the tldr pages is kept for measuring other languages. */
const heldBack = (group: string): boolean => fnv1a(pageOf(group)) % 10 === 0

export function readPairSets(dir: string): PairSet[] {
  return readdirSync(dir)
    .filter((file) => file.endsWith('.jsonl.gz'))
    .sort()
    .map((file) => {
      const name = file.replace('.jsonl.gz', '')
      const lines = readJsonLines<{ a: string; b: string; g: string; l?: string }>(join(dir, file))
      const pairs = lines
        .filter(({ g }) => !(name.startsWith('tldr') && heldBack(g)))
        .map(({ a, b, g, l = 'en' }) => ({ a: textOf(a, 48), b: textOf(b, 48), group: g, language: l }))
      return { name, pairs: pairs.filter(({ a, b }) => a.length > 0 && b.length > 0) }
    })
}

/** Lines of tab-separated columns; those starting with # are remarks. */
export function readColumns(file: string): string[][] {
  return readFileSync(file, 'utf8')
    .split('\n')
    .filter((line) => line.trim() && !line.startsWith('#'))
    .map((line) => line.split('\t'))
}
