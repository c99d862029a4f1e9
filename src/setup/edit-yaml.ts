import { isDeepStrictEqual } from 'node:util'
import { isMap, type Pair, parseDocument, type Scalar, stringify, type YAMLMap } from 'yaml'
import { PegboardError } from '../core/errors.ts'
import { isRecord } from '../core/is-record.ts'
import { type Change, setIn } from './edit-json.ts'

/** Anchors that expand each other could fill the memory. */
const OPTIONS = { maxAliasCount: 100 } as const

/**
 * Sets or removes entries `section.name` in YAML, each with lines of its own. All other bytes stay as they are.
 * @throws PegboardError E_EDIT_SYNTAX if the text is not YAML, or writes the section in one line
 */
export function editYaml(text: string, changes: readonly Change[]): string {
  let edited = text
  for (const { path, value } of changes) {
    const before = parseYaml(edited)
    const [section = '', name = ''] = path.map(String)
    edited = removeEntry(edited, section, name)
    if (value !== undefined) edited = addEntry(edited, section, name, value)
    const after = withoutEmpty(parseYaml(edited))
    if (!isDeepStrictEqual(after, withoutEmpty(setIn(withoutEmpty(before), [section, name], value))))
      throw new PegboardError('E_EDIT_SYNTAX', `"${section}.${name}" has a form that Pegboard cannot edit.`, {
        hint: `Write "${section}" with one entry a line.`,
      })
  }
  return edited
}

export function parseYaml(text: string): unknown {
  const document = parseDocument(text)
  const [error] = document.errors
  if (error) {
    const at = error.linePos?.[0]
    throw new PegboardError('E_EDIT_SYNTAX', `The file is not valid YAML at line ${at?.line}, column ${at?.col}.`)
  }
  try {
    return document.toJS(OPTIONS)
  } catch {
    throw new PegboardError('E_EDIT_SYNTAX', 'The file has too many YAML aliases.')
  }
}

/** A section without entries may be missing, empty or null. */
const withoutEmpty = (root: unknown): unknown =>
  isRecord(root)
    ? Object.fromEntries(
        Object.entries(root).filter(
          ([, value]) => value !== null && !(isRecord(value) && Object.keys(value).length === 0),
        ),
      )
    : {}

type Entry = Pair<Scalar, YAMLMap | null>

function findEntry(map: unknown, name: string): Entry | undefined {
  return isMap(map) ? (map.items.find(({ key }) => String(key) === name) as Entry | undefined) : undefined
}

const lineStart = (text: string, offset: number): number => text.lastIndexOf('\n', offset - 1) + 1

/** The offset after a block, without the comments and empty lines that follow it. */
function blockEnd(text: string, start: number): number {
  const indentOf = (line: string): number => /^ */.exec(line)?.[0].length ?? 0
  const [head = '', ...lines] = text.slice(start).split(/(?<=\n)/)
  const indent = indentOf(head)
  let at = start + head.length
  let end = at
  for (const line of lines) {
    const isBlank = /^\s*(?:#.*)?$/.test(line)
    const isInside = indentOf(line) > indent && line.trim() !== ''
    // A list may be as far left as its key.
    if (!isBlank && !isInside && !(indentOf(line) === indent && /^ *-\s/.test(line))) break
    at += line.length
    if (!isBlank || isInside) end = at
  }
  return end
}

function removeEntry(text: string, section: string, name: string): string {
  const entries = findEntry(parseDocument(text).contents, section)?.value
  const key = findEntry(entries, name)?.key
  if (!key?.range) return text
  const start = lineStart(text, key.range[0])
  return text.slice(0, start) + text.slice(blockEnd(text, start))
}

function addEntry(text: string, section: string, name: string, value: unknown): string {
  const eol = text.includes('\r\n') ? '\r\n' : '\n'
  const pair = findEntry(parseDocument(text).contents, section)
  const entries = pair?.value
  const first = isMap(entries) ? (entries.items[0] as Entry | undefined)?.key : undefined
  const indent = first?.range ? ' '.repeat(first.range[0] - lineStart(text, first.range[0])) : '  '
  const lines = stringify({ [name]: value }, { lineWidth: 0 })
    .trimEnd()
    .split('\n')
    .map((line) => `${indent}${line}${eol}`)
    .join('')
  const whole = text === '' || text.endsWith('\n') ? text : text + eol
  if (!pair) return `${whole}${section}:${eol}${lines}`
  const start = lineStart(text, pair.key.range?.[0] ?? 0)
  const isEmpty = !isMap(entries) || entries.items.length === 0
  if (!isEmpty) {
    const end = blockEnd(whole, start)
    return whole.slice(0, end) + lines + whole.slice(end)
  }
  // `section:`, `section: {}` or `section: null`
  const end = whole.indexOf('\n', start) + 1
  const head = whole.slice(start, end).replace(/:\s*(?:\{\s*\}|null|~)?[ \t]*(\r?\n)$/, ':$1')
  return whole.slice(0, start) + head + lines + whole.slice(end)
}
