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
  placeholder: (at: number) => string,
): BoundStatement {
  const list = Array.isArray(given) ? (given as readonly Param[]) : undefined
  const named = new Map(
    list ? list.map((value, at): [string, Param] => [`p${at}`, value]) : Object.entries(given as Record<string, Param>),
  )
  const questions = tokens.filter(isQuestion).length
  // In PostgreSQL `?` is also an operator, so it counts as a placeholder only if there is exactly one value for each.
  const takesQuestions =
    questions > 0 && list !== undefined && list.length === questions && !tokens.some((_, at) => isNumbered(tokens, at))
  const params: Param[] = []
  const used = new Set<string>()
  let text = ''
  let from = 0
  let next = 0
  const put = (start: number, end: number, value: Param): void => {
    params.push(value)
    text += sql.slice(from, start) + placeholder(params.length)
    from = end
  }
  for (const [at, token] of tokens.entries()) {
    const after = tokens[at + 1]
    if (takesQuestions && isQuestion(token)) {
      put(token.start, token.end, list[next] as Param)
      used.add(`p${next++}`)
    } else if (isMark(token, ':') && after?.kind === 'word' && after.start === token.end && !isCast(tokens, at)) {
      const value = named.get(after.text)
      if (value === undefined) continue
      put(token.start, after.end, value)
      used.add(after.text)
    } else if (isMark(token, '$') && after?.kind === 'number' && after.start === token.end) {
      const name = `p${Number(after.text) - 1}`
      const value = list && named.get(name)
      if (value === undefined) throw missing(`$${after.text}`)
      put(token.start, after.end, value)
      used.add(name)
    }
  }
  const spare = [...named.keys()].filter((name) => !used.has(name))
  if (spare.length > 0)
    throw invalid(
      list ? `${list.length} values for ${used.size} placeholders.` : `No placeholder :${spare[0]} in the statement.`,
      'Use :p0, :p1 … or ? with a list, and :name with an object.',
    )
  return { sql: text + sql.slice(from), params }
}

const isMark = ({ kind, text }: Token, mark: string): boolean => kind === 'mark' && text === mark
const isQuestion = (token: Token): boolean => isMark(token, '?')
/** `x::text` */
const isCast = (tokens: readonly Token[], at: number): boolean => {
  const before = tokens[at - 1]
  return before !== undefined && isMark(before, ':') && before.end === tokens[at]?.start
}
/** `:p0` or `$1` */
const isNumbered = (tokens: readonly Token[], at: number): boolean => {
  const [mark, name] = tokens.slice(at, at + 2)
  if (!mark || !name || name.start !== mark.end) return false
  return (isMark(mark, ':') && /^p\d+$/.test(name.text)) || (isMark(mark, '$') && name.kind === 'number')
}
const missing = (placeholder: string): ToolError => invalid(`No value for ${placeholder}.`, 'Add it to params.')
