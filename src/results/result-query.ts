import { PegboardError } from '../core/errors.ts'
import { formatCount, formatNumber } from '../core/format-count.ts'
import { isRecord, type Json } from '../core/is-record.ts'
import { exceedsJsonItems } from '../core/json-item-count.ts'
import { parseJson } from '../core/parse-json-text.ts'
import { sanitize } from '../core/sanitize.ts'
import { cutText, estimateLongText } from '../core/text-tokens.ts'
import { namesOf, selectPath } from './json-path.ts'
import { shapeOf } from './result-shape.ts'

/** What to read of a result. Everything is optional; without any, the first page. */
export interface ResultQuery {
  /** Part of a JSON result. */
  readonly path?: string
  /** Conditions that rows must meet: a value, or operators such as `{">": 5}`. */
  readonly where?: Json
  /** Keys of the rows to show. */
  readonly select?: readonly string[]
  /** Lines to show, from 1: `10`, `10-20`, `10-`. Rows of a list are lines. */
  readonly lines?: string
  /** Regular expression that lines must match. */
  readonly grep?: string
  readonly ignoreCase?: boolean
  /** Lines around each match. */
  readonly context?: number
  readonly head?: number
  readonly tail?: number
  /** That many lines, spread evenly. */
  readonly sample?: number
  /** Only the number of lines, rows or matches. */
  readonly count?: boolean
  /** From 1. */
  readonly page?: number
}

export interface ResultAnswer {
  /** What is shown, and how to read on. */
  readonly note: string
  readonly text: string
}

/** What is told about a result when it is kept. */
export interface ResultSummary {
  /** True if its text is JSON. */
  readonly isJson: boolean
  readonly shape?: string
  /** Number of lines, or of rows if it is a JSON list. */
  readonly lines: number
  readonly unit: TextLines['unit']
  readonly preview: string
  /** Estimated tokens of the whole. */
  readonly tokens: number
}

/** A result as lines: those of a text, the rows of a list, or those of indented JSON and of the strings in it. */
interface TextLines {
  readonly text: string
  readonly unit: 'line' | 'row'
}

/** More rows never fit into a preview. */
const PREVIEW_ROWS = 1_000
const MAX_INDENT = 3

/** @param tokens maximum of the preview */
export function summarizeResult(text: string, tokens: number): ResultSummary {
  const value = parseResult(text)
  const shown = Array.isArray(value) ? rowsOf(value.slice(0, PREVIEW_ROWS)).join('\n') : text
  return {
    isJson: value !== undefined,
    ...(value === undefined ? {} : { shape: shapeOf(value) }),
    ...countOf(value, text),
    preview: shown.slice(0, cutText(shown, tokens)).trimEnd(),
    tokens: Math.ceil(estimateLongText(text)),
  }
}

function countOf(value: unknown, text: string): Pick<ResultSummary, 'lines' | 'unit'> {
  if (Array.isArray(value)) return { lines: value.length, unit: 'row' }
  const shown = linesOf(value ?? text)?.text ?? text
  return { lines: countLines(shown, 0, shown.length) + 1, unit: 'line' }
}

/** @param tokens maximum of the answer's text @throws PegboardError E_VALIDATION, E_NOT_FOUND */
export function queryResult(text: string, query: ResultQuery, tokens: number): ResultAnswer {
  const { path, where, select, count } = query
  let value: unknown
  if (path !== undefined || where !== undefined || select !== undefined) {
    value = parseResult(text)
    if (value === undefined)
      throw new PegboardError('E_VALIDATION', isCrowded(text) ? CROWDED : 'The result is text, not JSON.', {
        hint: 'Use lines, grep, head, tail or page.',
      })
    if (path !== undefined) value = selectPath(value, path)
    if (where !== undefined || select !== undefined) value = projectRows(tableOf(value), where, select)
  } else value = parseResult(text) ?? text
  const all = linesOf(value) ?? { text, unit: 'line' }
  if (!isSelective(query)) return pageOf(all, undefined, '', query, tokens)
  const { found, total, condition } = pickLines(all, query)
  if (count) return { note: `${formatCount(found.length, all.unit)}${condition}.`, text: '' }
  const picked = { ...all, text: found.map(({ shown }) => shown).join('\n') }
  return pageOf(picked, found, `${formatCount(total, all.unit)}${condition}`, query, tokens)
}

const isSelective = ({ lines, grep, head, tail, sample, count }: ResultQuery): boolean =>
  [lines, grep, head, tail, sample, count].some((one) => one !== undefined)

/** Parsing this many empty objects takes about 200 MB. */
const MAX_ITEMS = 2_000_000
const CROWDED = `The result has more than ${formatNumber(MAX_ITEMS)} keys and items, too many to be parsed.`
const isCrowded = (text: string): boolean => exceedsJsonItems(text, MAX_ITEMS)

/** What JSON can hide: characters written as escapes, and a line that begins like a notice. */
const MAY_HIDE = /\\[bfru]|\[NOTICE\]/

/** The value of a JSON text; undefined for other texts, and for a JSON number or string, which is read as text. */
function parseResult(text: string): unknown {
  if (!/^\s*[[{]/.test(text.slice(0, 100)) || isCrowded(text)) return undefined
  try {
    const value = parseJson(text)
    if (MAY_HIDE.test(text)) sanitize(value as object)
    return value
  } catch {
    return undefined
  }
}

/** Undefined for a value that is nested too deep to be written. */
function linesOf(value: unknown): TextLines | undefined {
  if (typeof value === 'string') return { text: value, unit: 'line' }
  let plain: string
  let indented: string
  try {
    if (Array.isArray(value)) return { text: rowsOf(value).join('\n'), unit: 'row' }
    plain = JSON.stringify(value) ?? 'null'
    indented = JSON.stringify(value, null, 1) ?? 'null'
  } catch {
    return undefined
  }
  // Deep values are mostly indent.
  if (indented.length > MAX_INDENT * plain.length) return { text: plain, unit: 'line' }
  return { text: indented.split('\n').map(breakLines).join('\n'), unit: 'line' }
}

const ESCAPES: Readonly<Record<string, string>> = { n: '\n', r: '\r', t: '\t', '"': '"', '\\': '\\' }

/** Writes a string with line breaks as its lines, as if they were a text; other strings stay JSON. */
function breakLines(jsonLine: string): string {
  const text = jsonLine.replace(/\\([nrt"\\])/g, (_, letter) => ESCAPES[letter] as string)
  return text.includes('\n') ? text : jsonLine
}

const rowsOf = (rows: readonly unknown[]): readonly string[] => rows.map((one) => JSON.stringify(one) ?? 'null')

/** The list itself, or the only list of records in an object, also inside wrappers. @throws PegboardError E_VALIDATION */
function tableOf(value: unknown): readonly unknown[] {
  if (Array.isArray(value)) return value
  const members = isRecord(value) ? Object.values(value) : []
  if (members.length === 1 && isRecord(members[0])) return tableOf(members[0])
  const lists = isRecord(value)
    ? Object.entries(value).filter(([, one]) => Array.isArray(one) && one.some(isRecord))
    : []
  if (lists.length === 1) return lists[0]?.[1] as readonly unknown[]
  throw new PegboardError('E_VALIDATION', 'where and select need a list of objects.', {
    hint:
      lists.length > 1
        ? `Name it with path: ${namesOf(lists.map(([key]) => `$.${key}`))}.`
        : `Name it with path. The shape is ${shapeOf(value, 300)}.`,
  })
}

function projectRows(
  rows: readonly unknown[],
  where: ResultQuery['where'],
  select: ResultQuery['select'],
): readonly unknown[] {
  const conditions = Object.entries(where ?? {}).map(([key, condition]) => ({ key, fits: conditionOf(key, condition) }))
  const matching = rows.filter((row) => conditions.every(({ key, fits }) => fits(valueAt(row, key))))
  return select === undefined
    ? matching
    : matching.map((row) => Object.fromEntries(select.map((key) => [key, valueAt(row, key) ?? null])))
}

/** A key of a row, or a path of keys with dots. */
function valueAt(row: unknown, key: string): unknown {
  if (!isRecord(row)) return undefined
  if (Object.hasOwn(row, key)) return row[key]
  return key
    .split('.')
    .reduce<unknown>((one, part) => (isRecord(one) && Object.hasOwn(one, part) ? one[part] : undefined), row)
}

type Predicate = (value: unknown) => boolean

const OPERATORS: Readonly<Record<string, (operand: unknown) => Predicate>> = {
  '=': (operand) => (value) => isSame(value, operand),
  '!=': (operand) => (value) => !isSame(value, operand),
  '>': (operand) => (value) => compare(value, operand) > 0,
  '>=': (operand) => (value) => compare(value, operand) >= 0,
  '<': (operand) => (value) => compare(value, operand) < 0,
  '<=': (operand) => (value) => compare(value, operand) <= 0,
  contains: (operand) => (value) =>
    Array.isArray(value)
      ? value.some((one) => isSame(one, operand))
      : String(value ?? '')
          .toLowerCase()
          .includes(String(operand).toLowerCase()),
  in: (operand) => (value) => Array.isArray(operand) && operand.some((one) => isSame(value, one)),
}

function conditionOf(key: string, condition: unknown): Predicate {
  if (!isRecord(condition)) return (OPERATORS['='] as (typeof OPERATORS)[string])(condition)
  const tests = Object.entries(condition).map(([name, operand]) => {
    const operator = Object.hasOwn(OPERATORS, name) ? OPERATORS[name] : undefined
    if (!operator)
      throw new PegboardError('E_VALIDATION', `where.${key.slice(0, 80)}: unknown operator "${name.slice(0, 20)}".`, {
        hint: `Use ${Object.keys(OPERATORS).join(', ')}.`,
      })
    return operator(operand)
  })
  return (value) => tests.every((fits) => fits(value))
}

const isSame = (value: unknown, operand: unknown): boolean =>
  value === operand ||
  (typeof value === 'object' && value !== null
    ? JSON.stringify(value) === JSON.stringify(operand)
    : value !== undefined && String(value) === String(operand))

/** NaN for values that have no order, so that every comparison is false. */
function compare(value: unknown, operand: unknown): number {
  if (value === undefined || value === null) return Number.NaN
  const [a, b] = [Number(value), Number(operand)]
  if (!Number.isNaN(a) && !Number.isNaN(b)) return a - b
  return String(value) < String(operand) ? -1 : String(value) > String(operand) ? 1 : 0
}

interface NumberedLine {
  /** From 0, in the whole text. */
  readonly at: number
  readonly shown: string
}

function pickLines(
  { text }: TextLines,
  query: ResultQuery,
): { readonly found: readonly NumberedLine[]; readonly total: number; readonly condition: string } {
  const { lines: range, grep, head, tail, sample, context = 0, ignoreCase } = query
  // A final line break ends the last line; it does not begin another.
  let found: readonly NumberedLine[] = text
    .replace(/\r?\n$/, '')
    .split(/\r?\n/)
    .map((shown, at) => ({ at, shown }))
  const total = found.length
  const parts: string[] = []
  if (range !== undefined) {
    const [from, to] = readRange(range)
    found = found.slice(from - 1, to)
    parts.push(`in ${range}`)
  }
  if (grep !== undefined) {
    const pattern = patternOf(grep, ignoreCase === true)
    const isLiteral = typeof pattern === 'string'
    const hits = found.filter(({ shown }) => (isLiteral ? shown.includes(pattern) : pattern.test(shown)))
    parts.push(`with ${isLiteral ? 'the text ' : ''}${JSON.stringify(grep)}`)
    found = query.count ? hits : withContext(found, hits, context)
  }
  if (head !== undefined) found = found.slice(0, head)
  if (tail !== undefined) found = tail === 0 ? [] : found.slice(-tail)
  if (sample !== undefined && found.length > sample) {
    const step = found.length / sample
    found = Array.from({ length: sample }, (_, at) => found[Math.floor(at * step)] as NumberedLine)
    parts.push('spread evenly')
  }
  return { found, total, condition: parts.length === 0 ? '' : ` ${parts.join(', ')}` }
}

/** @returns a text if the pattern is no regular expression */
function patternOf(grep: string, ignoreCase: boolean): RegExp | string {
  try {
    return new RegExp(grep, ignoreCase ? 'i' : '')
  } catch {
    return grep
  }
}

/** Matches with their numbers, as grep writes them: `12:` for a match, `13-` for a line beside one. */
function withContext(
  lines: readonly NumberedLine[],
  hits: readonly NumberedLine[],
  context: number,
): readonly NumberedLine[] {
  const firstAt = lines[0]?.at ?? 0
  const matched = new Set(hits.map(({ at }) => at))
  const lineNumbers = new Set<number>()
  for (const { at } of hits)
    for (let near = Math.max(firstAt, at - context); near <= at + context && near - firstAt < lines.length; near++)
      lineNumbers.add(near)
  return [...lineNumbers]
    .sort((a, b) => a - b)
    .map((at) => ({ at, shown: `${at + 1}${matched.has(at) ? ':' : '-'}${lines[at - firstAt]?.shown ?? ''}` }))
}

function readRange(range: string): readonly [from: number, to: number] {
  const [, from, dash, to] = /^\s*(\d+)\s*(-|\.\.|:)?\s*(\d*)\s*$/.exec(range) ?? []
  if (from === undefined || Number(from) === 0)
    throw new PegboardError('E_VALIDATION', `Invalid lines "${range.slice(0, 40)}".`, {
      hint: 'Write 10, 10-20 or 10-.',
    })
  return [Number(from), to ? Number(to) : dash === undefined ? Number(from) : Number.POSITIVE_INFINITY]
}

/**
 * @param found the lines that the text was made of; default all
 * @param selection what `found` was selected from, with its number, such as `1,000 lines with "x"`
 */
function pageOf(
  { text, unit }: TextLines,
  found: readonly NumberedLine[] | undefined,
  selection: string,
  { page = 1 }: ResultQuery,
  tokens: number,
): ResultAnswer {
  if (found?.length === 0) return { note: `None of ${selection}.`, text: '' }
  let [from, to, number] = [0, cutText(text, tokens), 1]
  while (number < page && to < text.length) [from, to, number] = [to, cutText(text, tokens, to), number + 1]
  const before = countLines(text, 0, from)
  const last = before + countLines(text, from, to - 1)
  const numberOf = (at: number): number => (found ? (found[at]?.at ?? at) : at) + 1
  const span = last === before ? `${unit} ${numberOf(before)}` : `${unit}s ${numberOf(before)}–${numberOf(last)}`
  const total = found
    ? `, ${formatNumber(found.length)} of ${selection}`
    : ` of ${formatCount(countLines(text, 0, text.length) + 1, unit)}`
  const pages = Math.max(number + 1, Math.round((text.length / to) * number))
  const rest =
    to < text.length
      ? `Page ${number} of about ${pages}; go on with page ${number + 1}.`
      : number > 1
        ? `Page ${number}, the last.`
        : 'All of it.'
  return { note: `${span}${total}. ${rest}`, text: text.slice(from, to).replace(/\n$/, '') }
}

function countLines(text: string, from: number, to: number): number {
  let count = 0
  for (let at = text.indexOf('\n', from); at !== -1 && at < to; at = text.indexOf('\n', at + 1)) count++
  return count
}
