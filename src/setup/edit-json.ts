import { isDeepStrictEqual } from 'node:util'
import { type Node, parseTree } from 'jsonc-parser'
import { JsoncError, parseJsonc } from '../config/jsonc.ts'
import { PegboardError } from '../core/errors.ts'
import { isRecord, type Json } from '../core/is-record.ts'

export type EditPath = ReadonlyArray<string | number>

export interface Change {
  readonly path: EditPath
  /** Undefined removes what is at the path. */
  readonly value: unknown
}

/**
 * Changes values in JSON with comments. All other bytes stay as they are: comments, order, indentation, line ends.
 * The functions of jsonc-parser for this format neighbouring lines, and lose comments. An empty text counts as `{}`. A
 * number in a path that equals the length of its list appends to it.
 * @throws PegboardError E_EDIT_SYNTAX if the text is not JSON, or a path leads through a value that is not an object or list
 */
export function editJson(text: string, changes: readonly Change[]): string {
  const mark = text.startsWith('\ufeff') ? '\ufeff' : ''
  let edited = text.slice(mark.length)
  if (edited.trim() === '') edited = '{}\n'
  for (const change of changes) edited = editOnce(edited, change)
  return mark + edited
}

function editOnce(text: string, { path, value }: Change): string {
  const expected = setIn(parseForEdit(text), path, value)
  const root = parseTree(text, [], { allowTrailingComma: true }) as Node
  const edited = value === undefined ? remove(text, root, path) : set(text, root, path, value)
  // A wrong edit must not reach the file of another program.
  if (!isDeepStrictEqual(parseForEdit(edited), expected))
    throw createSyntaxError(`"${path.join('.')}" cannot be changed.`)
  return edited
}

const createSyntaxError = (message: string): PegboardError => new PegboardError('E_EDIT_SYNTAX', message)

export function parseForEdit(text: string): unknown {
  try {
    return parseJsonc(text, { roundIntegers: true }).value
  } catch (error) {
    if (!(error instanceof JsoncError)) throw error
    throw createSyntaxError(
      `The file is not valid JSON at line ${error.line}, column ${error.column}: ${error.message}.`,
    )
  }
}

/** A copy with the change, as the edited text must read. */
export function setIn(root: unknown, path: EditPath, value: unknown): unknown {
  const [step, ...rest] = path
  if (step === undefined) return JSON.parse(JSON.stringify(value))
  if (typeof step === 'number' && Array.isArray(root) && step <= root.length) return setInList(root, step, rest, value)
  if (typeof step === 'string' && step !== '__proto__' && isRecord(root)) return setInObject(root, step, rest, value)
  throw createSyntaxError(`"${step}" cannot be set: it is not in ${typeof step === 'string' ? 'an object' : 'a list'}.`)
}

function setInList(list: readonly unknown[], index: number, rest: EditPath, value: unknown): readonly unknown[] {
  if (value === undefined && index === list.length) return list
  if (value === undefined && rest.length === 0) return list.toSpliced(index, 1)
  return list.toSpliced(index, 1, setIn(list[index] ?? {}, rest, value))
}

function setInObject(object: Json, key: string, rest: EditPath, value: unknown): Json {
  const hasKey = Object.hasOwn(object, key)
  if (value === undefined && !hasKey) return object
  if (value !== undefined || rest.length > 0) return { ...object, [key]: setIn(hasKey ? object[key] : {}, rest, value) }
  const { [key]: _removed, ...others } = object
  return others
}

/** The value at a step, and the part of the text that is removed with it. */
function childAt(parent: Node, step: string | number): { readonly item: Node; readonly value: Node } | undefined {
  const children = parent.children ?? []
  if (typeof step === 'number') {
    const item = children[step]
    return item && { item, value: item }
  }
  const item = children.find(({ children: pair }) => pair?.[0]?.value === step)
  const value = item?.children?.[1]
  return item && value && { item, value }
}

const endOf = ({ offset, length }: Node): number => offset + length
const splice = (text: string, from: number, to: number, by: string): string => text.slice(0, from) + by + text.slice(to)

function set(text: string, root: Node, path: EditPath, value: unknown): string {
  let parent = root
  for (const [index, step] of path.entries()) {
    const child = childAt(parent, step)
    if (!child) return append(text, parent, step, path.slice(index + 1), value)
    parent = child.value
  }
  return splice(text, parent.offset, endOf(parent), format(value, text, indentAt(text, parent.offset)))
}

function append(text: string, parent: Node, step: string | number, rest: EditPath, value: unknown): string {
  const nested = rest.reduceRight<unknown>(
    (inner, key) => (typeof key === 'number' ? [inner] : { [key]: inner }),
    value,
  )
  const children = parent.children ?? []
  const outer = indentAt(text, parent.offset)
  const first = children[0]
  const inside = text.slice(parent.offset + 1, first?.offset ?? endOf(parent) - 1)
  const isOneLine = first !== undefined && !inside.includes('\n')
  const indent = first && !isOneLine ? indentAt(text, first.offset) : outer + indentUnit(text)
  const key = typeof step === 'number' ? '' : `${JSON.stringify(step)}: `
  const item = key + (isOneLine ? JSON.stringify(nested) : format(nested, text, indent))
  const last = children.at(-1)
  const eol = eolOf(text)
  if (!last) {
    const close = endOf(parent) - 1
    const from = parent.offset + 1 + inside.trimEnd().length
    return splice(text, from, close, `${eol}${indent}${item}${eol}${outer}`)
  }
  const { comma, lineEnd } = findLineEnd(text, endOf(last), endOf(parent) - 1)
  if (isOneLine) return splice(text, endOf(last), endOf(last), `, ${item}`)
  const added = splice(text, lineEnd, lineEnd, `${eol}${indent}${item}${comma === undefined ? '' : ','}`)
  return comma === undefined ? splice(added, endOf(last), endOf(last), ',') : added
}

function remove(text: string, root: Node, path: EditPath): string {
  let parent = root
  for (const [index, step] of path.entries()) {
    const child = childAt(parent, step)
    if (!child) return text
    if (index === path.length - 1) return removeItem(text, parent, child.item)
    parent = child.value
  }
  return text
}

function removeItem(text: string, parent: Node, item: Node): string {
  const close = endOf(parent) - 1
  const children = parent.children ?? []
  const at = children.indexOf(item)
  const before = children[at - 1]
  if (children.length === 1 && text.slice(parent.offset + 1, item.offset).trim() === '') {
    const end = findLineEnd(text, endOf(item), close).lineEnd
    if (text.slice(end, close).trim() === '') return splice(text, parent.offset + 1, close, '')
  }
  const { comma, lineEnd } = findLineEnd(text, endOf(item), close)
  const previous = before && comma === undefined ? findLineEnd(text, endOf(before), item.offset).comma : undefined
  const end = comma === undefined ? endOf(item) : comma + 1
  const lineStart = text.lastIndexOf('\n', item.offset - 1) + 1
  const hasOwnLine = text.slice(lineStart, item.offset).trim() === '' && /^\r?\n/.test(text.slice(lineEnd, lineEnd + 2))
  const spaceBefore = /[ \t]*$/.exec(text.slice(lineStart, item.offset))?.[0].length ?? 0
  const spaceAfter = /^[ \t]*/.exec(text.slice(end, end + 80))?.[0].length ?? 0
  const from = hasOwnLine ? lineStart : item.offset - (comma === undefined ? spaceBefore : 0)
  const to = hasOwnLine ? text.indexOf('\n', lineEnd) + 1 : end + (comma === undefined ? 0 : spaceAfter)
  const removed = splice(text, from, to, '')
  // Without a comma of its own, the item was the last one.
  return previous === undefined ? removed : splice(removed, previous, previous + 1, '')
}

/** The comma after an item, and the end of its line including a comment there. */
function findLineEnd(text: string, from: number, close: number): { readonly comma?: number; readonly lineEnd: number } {
  const token = /([ \t]+)|(\r?\n)|(,)|\/\/[^\r\n]*|\/\*[\s\S]*?\*\//y
  let comma: number | undefined
  let lineEnd = from
  let isOnLine = true
  token.lastIndex = from
  for (let found = token.exec(text); found && found.index < close; found = token.exec(text)) {
    const [, space, lineBreak, isComma] = found
    if (isComma !== undefined) {
      if (comma !== undefined) break
      comma = found.index
      lineEnd = token.lastIndex
      isOnLine = true
    } else if (lineBreak !== undefined) {
      if (comma !== undefined) break
      isOnLine = false
    } else if (space === undefined && isOnLine) lineEnd = token.lastIndex
  }
  return { ...(comma === undefined ? {} : { comma }), lineEnd }
}

const eolOf = (text: string): string => (text.includes('\r\n') ? '\r\n' : '\n')
/** As the first indented line has it. */
const indentUnit = (text: string): string => /\n([ \t]+)[^\s/*]/.exec(text)?.[1] ?? '  '

function indentAt(text: string, offset: number): string {
  const lineStart = text.lastIndexOf('\n', offset - 1) + 1
  return /^[ \t]*/.exec(text.slice(lineStart, offset))?.[0] ?? ''
}

const format = (value: unknown, text: string, indent: string): string =>
  JSON.stringify(value, null, indentUnit(text)).replaceAll('\n', `${eolOf(text)}${indent}`)
