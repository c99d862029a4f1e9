import type { ToolError } from 'pegboard'
import { invalid } from '../_errors.ts'
import type { Token } from './sql.ts'

/** Values for placeholders. */
export type Param = string | number | boolean | null | readonly unknown[] | Readonly<Record<string, unknown>>
export type Params = readonly Param[] | Readonly<Record<string, Param>>

export interface BoundStatement {
  readonly sql: string
  readonly params: readonly Param[]
}

/**
 * Replaces `:p0` of a list, `:name` of an object, and `?` and `$1` of a list by the database's own placeholders;
 * values are never inserted into the text.
 */
export function bind(
  sql: string,
  tokens: readonly Token[],
  given: Params,
  placeholder: (position: number) => string,
): BoundStatement {
  const list = Array.isArray(given) ? (given as readonly Param[]) : undefined
  const named = new Map(
    list
      ? list.map((value, index): [string, Param] => [`p${index}`, value])
      : Object.entries(given as Record<string, Param>),
  )
  const questionMarks = tokens.filter(isQuestionMark).length
  // In PostgreSQL `?` is also an operator, so it counts as a placeholder only if there is exactly one value for each.
  const usesQuestionMarks =
    questionMarks > 0 &&
    list !== undefined &&
    list.length === questionMarks &&
    !tokens.some((_, index) => isNumbered(tokens, index))
  const params: Param[] = []
  const used = new Set<string>()
  let text = ''
  let copied = 0
  let nextValue = 0
  const replace = (start: number, end: number, value: Param): void => {
    params.push(value)
    text += sql.slice(copied, start) + placeholder(params.length)
    copied = end
  }
  for (const [index, token] of tokens.entries()) {
    const after = tokens[index + 1]
    if (usesQuestionMarks && isQuestionMark(token)) {
      replace(token.start, token.end, list[nextValue] as Param)
      used.add(`p${nextValue++}`)
    } else if (isMark(token, ':') && after?.kind === 'word' && after.start === token.end && !isCast(tokens, index)) {
      const value = named.get(after.text)
      if (value === undefined) continue
      replace(token.start, after.end, value)
      used.add(after.text)
    } else if (isMark(token, '$') && after?.kind === 'number' && after.start === token.end) {
      const name = `p${Number(after.text) - 1}`
      const value = list && named.get(name)
      if (value === undefined) throw createMissingValueError(`$${after.text}`)
      replace(token.start, after.end, value)
      used.add(name)
    }
  }
  const unused = [...named.keys()].filter((name) => !used.has(name))
  if (unused.length > 0)
    throw invalid(
      list ? `${list.length} values for ${used.size} placeholders.` : `No placeholder :${unused[0]} in the statement.`,
      'Use :p0, :p1 … or ? with a list, and :name with an object.',
    )
  return { sql: text + sql.slice(copied), params }
}

const isMark = ({ kind, text }: Token, mark: string): boolean => kind === 'mark' && text === mark
const isQuestionMark = (token: Token): boolean => isMark(token, '?')
/** `x::text` */
const isCast = (tokens: readonly Token[], index: number): boolean => {
  const before = tokens[index - 1]
  return before !== undefined && isMark(before, ':') && before.end === tokens[index]?.start
}
/** `:p0` or `$1` */
const isNumbered = (tokens: readonly Token[], index: number): boolean => {
  const [mark, name] = tokens.slice(index, index + 2)
  if (!mark || !name || name.start !== mark.end) return false
  return (isMark(mark, ':') && /^p\d+$/.test(name.text)) || (isMark(mark, '$') && name.kind === 'number')
}
const createMissingValueError = (placeholder: string): ToolError =>
  invalid(`No value for ${placeholder}.`, 'Add it to params.')
