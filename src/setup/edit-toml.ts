import { isDeepStrictEqual } from 'node:util'
import { parse, stringify } from 'smol-toml'
import { messageOf, PegboardError } from '../core/errors.ts'
import { isRecord } from '../core/is-record.ts'
import { tryParseJson } from '../core/try-parse-json.ts'
import { type Change, setIn } from './edit-json.ts'

/**
 * Sets or removes tables in TOML. A new table is added at the end, a removed one takes its lines with it, and all other
 * bytes stay as they are.
 * @throws PegboardError E_EDIT_SYNTAX if the text is not TOML, or writes the table in a form that has no lines of its own
 */
export function editToml(text: string, changes: readonly Change[]): string {
  let edited = text
  for (const { path, value } of changes) {
    const before = parseToml(edited)
    const keys = path.map(String)
    edited = removeTable(edited, keys)
    if (value !== undefined) edited = addTable(edited, keys, value)
    if (!isDeepStrictEqual(plain(parseToml(edited)), plain(setIn(before, keys, value))))
      throw new PegboardError('E_EDIT_SYNTAX', `"${keys.join('.')}" has a form that Pegboard cannot edit.`, {
        hint: `Write it as a table of its own: [${keys.join('.')}].`,
      })
  }
  return edited
}

export function parseToml(text: string): Record<string, unknown> {
  try {
    return parse(text.replace(/^\ufeff/, ''), { integersAsBigInt: 'asNeeded' })
  } catch (error) {
    // The first line of the message; the others quote the file.
    const [what = ''] = messageOf(error).split('\n')
    const { line, column } = error as { line?: number; column?: number }
    throw new PegboardError('E_EDIT_SYNTAX', `The file is not valid TOML at line ${line}, column ${column}: ${what}.`)
  }
}

/** Without the prototypes of the parser, and without tables that became empty by a removal. */
function plain(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(plain)
  if (!isRecord(value) || value instanceof Date) return value
  const entries = Object.entries(value).map(([key, one]) => [key, plain(one)] as const)
  return Object.fromEntries(entries.filter(([, one]) => !isRecord(one) || Object.keys(one).length > 0))
}

/** `[a.b]` or `[[a.b]]`, with quoted keys and a comment. */
const HEADER =
  /^[ \t]*\[\[?[ \t]*((?:[\w-]+|"(?:[^"\\]|\\.)*"|'[^']*')(?:[ \t]*\.[ \t]*(?:[\w-]+|"(?:[^"\\]|\\.)*"|'[^']*'))*)[ \t]*\]\]?[ \t]*(?:#.*)?$/
const KEY = /[\w-]+|"(?:[^"\\]|\\.)*"|'[^']*'/g

function keysOf(line: string): readonly string[] | undefined {
  const name = HEADER.exec(line)?.[1]
  return name
    ?.match(KEY)
    ?.map((key) => (key.startsWith('"') ? String(tryParseJson(key) ?? key) : key.replaceAll("'", '')))
}

/** Removes the table and the tables below it. A header inside a text of several lines is found by the check afterwards. */
function removeTable(text: string, path: readonly string[]): string {
  let isInside = false
  const remainingLines: string[] = []
  for (const line of text.split(/(?<=\n)/)) {
    const keys = keysOf(line.trimEnd())
    if (keys) isInside = path.every((key, index) => keys[index] === key)
    if (!isInside) remainingLines.push(line)
  }
  return remainingLines.join('')
}

function addTable(text: string, path: readonly string[], value: unknown): string {
  const eol = text.includes('\r\n') ? '\r\n' : '\n'
  const nested = path.reduceRight<unknown>((inner, key) => ({ [key]: inner }), value)
  const table = stringify(nested).trimEnd().replaceAll('\n', eol)
  const gap = text === '' ? '' : text.endsWith(`${eol}${eol}`) ? '' : text.endsWith('\n') ? eol : eol + eol
  return `${text}${gap}${table}${eol}`
}
