import { ToolError } from 'pegboard'
import { invalid } from '../_errors.ts'

/** How one kind of database tokenizes a statement. */
export interface LexicalRules {
  /** `\'` inside strings. */
  readonly backslashes: boolean
  /** `# to the end`, `-- ` with a space, and executable comments. */
  readonly mysqlComments: boolean
  readonly nestedComments: boolean
  /** `$tag$text$tag$`. */
  readonly dollarQuotes: boolean
  /** `[name]`. */
  readonly brackets: boolean
  /** `"text"` is a string. */
  readonly doubleQuotedStrings: boolean
  /** `$name(any text)` is one variable. */
  readonly suffixedVariables: boolean
}

export interface Token {
  readonly kind: 'word' | 'quoted' | 'string' | 'number' | 'mark'
  /** As written; for quoted names and strings the content of the quotes. */
  readonly text: string
  /** For words: in capitals. */
  readonly word: string
  readonly start: number
  readonly end: number
}

// Not `\s`: all databases treat other spaces, such as U+00A0, as letters.
const SPACE = /[ \t\n\v\f\r]/
const WORD = /[A-Za-z_\u0080-\uffff][\w$\u0080-\uffff]*/y
const NUMBER = /[0-9][\w.]*/y
const DOLLAR_QUOTE = /\$(?:[A-Za-z_\u0080-\uffff][\w\u0080-\uffff]*)?\$/y
/** SQLite reads to the closing parenthesis, including quotes. */
const SUFFIXED_VARIABLE = /[$@:#][\w$\u0080-\uffff]*(?:::|(?<=[\w$\u0080-\uffff])\()/y

/**
 * The words and symbols of a statement, without comments. Only a tokenizer: read-only statements also run in a
 * read-only transaction.
 * @throws ToolError E_VALIDATION for an unclosed quote or comment, and for text that only some servers treat as a
 * comment
 */
export function tokenize(sql: string, rules: LexicalRules): readonly Token[] {
  // Some databases stop reading at a NUL character.
  if (sql.includes('\0')) throw invalid('The statement holds a NUL character.', 'Leave it out.')
  const tokens: Token[] = []
  let position = 0
  while (position < sql.length) {
    const end = skipSpaceOrComment(sql, position, rules)
    if (end > position) {
      position = end
      continue
    }
    const token = readToken(sql, position, rules, tokens)
    tokens.push(token)
    position = token.end
  }
  return tokens
}

/** @returns the end of the space or comment at the position, or the position if there is neither */
function skipSpaceOrComment(sql: string, position: number, rules: LexicalRules): number {
  if (SPACE.test(sql[position] as string)) return position + 1
  if (isLineComment(sql, position, rules)) return findLineEnd(sql, position)
  return sql.startsWith('/*', position) ? findCommentEnd(sql, position, rules) : position
}

function readToken(sql: string, start: number, rules: LexicalRules, before: readonly Token[]): Token {
  const char = sql[start] as string
  if (char === '\ufeff') throw createUnsupportedError('A byte order mark', 'Leave it out.')
  if (rules.suffixedVariables && matchAt(SUFFIXED_VARIABLE, sql, start) !== undefined)
    throw createUnsupportedError('A variable with a parenthesis or two colons', 'Use :name or ?.')
  if (char === "'" || char === '"' || char === '`') return readQuoted(sql, start, rules, before)
  if (char === '[' && rules.brackets) {
    const close = findEnd(sql, ']', start + 1)
    return createToken('quoted', sql.slice(start + 1, close), start, close + 1)
  }
  const tag = rules.dollarQuotes ? matchAt(DOLLAR_QUOTE, sql, start) : undefined
  if (tag !== undefined) {
    const from = start + tag.length
    const close = findEnd(sql, tag, from)
    return createToken('string', sql.slice(from, close), start, close + tag.length)
  }
  const word = matchAt(WORD, sql, start)
  if (word !== undefined) return createToken('word', word, start)
  const number = matchAt(NUMBER, sql, start)
  return number === undefined ? createToken('mark', char, start) : createToken('number', number, start)
}

const createToken = (kind: Token['kind'], text: string, start: number, end = start + text.length): Token => ({
  kind,
  text,
  word: kind === 'word' ? text.toUpperCase() : '',
  start,
  end,
})

/** The text that a sticky pattern matches at a position. */
function matchAt(pattern: RegExp, sql: string, position: number): string | undefined {
  pattern.lastIndex = position
  return pattern.exec(sql)?.[0]
}

/** The error for text that the database would tokenize differently. */
const createUnsupportedError = (what: string, hint: string): ToolError =>
  invalid(`${what} is not supported in a statement.`, hint)

const createUnclosedError = (what: string): ToolError =>
  invalid(`The statement has ${what} without an end.`, 'Close it.')

function findEnd(sql: string, end: string, from: number): number {
  const index = sql.indexOf(end, from)
  if (index < 0) throw createUnclosedError('a quote')
  return index
}

const isLineComment = (sql: string, position: number, { mysqlComments }: LexicalRules): boolean =>
  mysqlComments
    ? sql[position] === '#' ||
      (sql.startsWith('--', position) &&
        (position + 2 >= sql.length || CONTROL_OR_SPACE.test(sql[position + 2] as string)))
    : sql.startsWith('--', position)

// After `--`, MySQL treats each of them as a space.
const CONTROL_OR_SPACE = /[\0-\x20\x7f]/

function findLineEnd(sql: string, from: number): number {
  const index = sql.indexOf('\n', from)
  const end = index < 0 ? sql.length : index + 1
  // For some databases a comment ends there.
  if (/\r(?!\n)/.test(sql.slice(from, end)))
    throw createUnsupportedError('A comment with a carriage return', 'End its line with \\n.')
  return end
}

function findCommentEnd(sql: string, from: number, { nestedComments, mysqlComments }: LexicalRules): number {
  // MySQL and MariaDB execute the content of these comments.
  if (mysqlComments && /^\/\*M?!/i.test(sql.slice(from, from + 4)))
    throw invalid('A comment that some servers execute is not allowed.', 'Write the statement without /*! … */.')
  if (!nestedComments) {
    const close = sql.indexOf('*/', from + 2)
    if (close < 0) throw createUnclosedError('a comment')
    // In optimizer hints MySQL honours quotes, so quoted text does not end the comment.
    if (mysqlComments && sql[from + 2] === '+' && /[`'"]/.test(sql.slice(from, close)))
      throw createUnsupportedError('A hint with quotes', 'Write the hint without them.')
    return close + 2
  }
  const marks = /\/\*|\*\//g
  marks.lastIndex = from + 2
  for (let depth = 1; ; ) {
    const mark = marks.exec(sql)
    if (!mark) throw createUnclosedError('a comment')
    depth += mark[0] === '/*' ? 1 : -1
    if (depth === 0) return marks.lastIndex
  }
}

function readQuoted(sql: string, start: number, rules: LexicalRules, before: readonly Token[]): Token {
  const quote = sql[start] as string
  const [previous, last] = [before.at(-2), before.at(-1)]
  // In PostgreSQL a string that continues on the next line keeps its escape rules.
  if (quote === "'" && rules.dollarQuotes && last && isEscapeString(sql, last.start, previous))
    throw createUnsupportedError("E'…' in several pieces", 'Write it as one.')
  const isEscaped = quote !== '`' && (rules.backslashes || isEscapeString(sql, start, last))
  const isString = quote === "'" || (quote === '"' && rules.doubleQuotedStrings)
  const { text, end } = unquote(sql, start, quote, isEscaped)
  return createToken(isString ? 'string' : 'quoted', text, start, end)
}

/** `E'…'` has backslash escapes even if other strings do not. */
const isEscapeString = (sql: string, start: number, before: Token | undefined): boolean =>
  sql[start] === "'" && before?.word === 'E' && before.end === start

function unquote(sql: string, from: number, quote: string, isEscaped: boolean): { text: string; end: number } {
  let text = ''
  for (let position = from + 1; position < sql.length; position++) {
    const char = sql[position] as string
    if (char === quote && sql[position + 1] !== quote) return { text, end: position + 1 }
    const isPair = char === quote || (isEscaped && char === '\\')
    if (isPair) position++
    text += isPair ? (sql[position] ?? '') : char
  }
  throw createUnclosedError('a quote')
}

/**
 * The only statement, without the final semicolon.
 * @throws ToolError E_VALIDATION for none, E_SQL_MULTI_STATEMENT for several
 */
export function singleStatement(tokens: readonly Token[]): readonly Token[] {
  const isInBody = createBodyCheck(tokens)
  const semicolons = tokens.flatMap(({ kind, text }, index) =>
    kind === 'mark' && text === ';' && !isInBody(index) ? [index] : [],
  )
  const parts = [...semicolons, tokens.length]
    .map((end, index) => tokens.slice(index === 0 ? 0 : (semicolons[index - 1] as number) + 1, end))
    .filter(({ length }) => length > 0)
  if (parts.length > 1)
    throw new ToolError(`${parts.length} statements were sent where one is allowed; none was run.`, {
      code: 'E_SQL_MULTI_STATEMENT',
      hint: 'Send one at a time, or use batch_execute or transaction.',
    })
  const [statement] = parts
  if (!statement) throw invalid('The statement is empty.', 'Send one statement.')
  return statement
}

/** Triggers and routines contain statements: BEGIN … END. */
function createBodyCheck(tokens: readonly Token[]): (index: number) => boolean {
  const none = (): boolean => false
  if (tokens[0]?.word !== 'CREATE') return none
  const kind = tokens.slice(1, 8).findIndex(({ word }) => /^(?:TRIGGER|FUNCTION|PROCEDURE|EVENT)$/.test(word))
  const begin = kind < 0 ? -1 : tokens.findIndex(({ word }) => word === 'BEGIN')
  if (begin < 0) return none
  let depth = 0
  let end = tokens.length
  for (let index = begin; index < tokens.length && end === tokens.length; index++) {
    const { word } = tokens[index] as Token
    if (word === 'BEGIN' || word === 'CASE') depth++
    else if (word === 'END' && --depth === 0) end = index
  }
  return (index) => index > begin && index < end
}

/** The first word of the statement after any parentheses. */
export const verbOf = (tokens: readonly Token[]): string =>
  tokens.find(({ kind, text }) => !(kind === 'mark' && text === '('))?.word ?? ''

/** Lower-case names followed by a parenthesis: function calls. */
export const listFunctionCalls = (tokens: readonly Token[]): readonly string[] => [
  ...new Set(
    tokens.flatMap(({ kind, text }, index) => {
      const next = tokens[index + 1]
      return (kind === 'word' || kind === 'quoted') && next?.kind === 'mark' && next.text === '('
        ? [text.toLowerCase()]
        : []
    }),
  ),
]

/** Lower-case names after a dot: in PostgreSQL `(x).f` calls `f(x)` if there is no such column. */
export const listNamesAfterDot = (tokens: readonly Token[]): readonly string[] => [
  ...new Set(
    tokens.flatMap(({ kind, text }, index) => {
      const before = tokens[index - 1]
      return (kind === 'word' || kind === 'quoted') && before?.kind === 'mark' && before.text === '.'
        ? [text.toLowerCase()]
        : []
    }),
  ),
]

/** All names in lower case. */
export const listNames = (tokens: readonly Token[]): readonly string[] => [
  ...new Set(tokens.flatMap(({ kind, text }) => (kind === 'word' || kind === 'quoted' ? [text.toLowerCase()] : []))),
]
