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
const WORD_START = /[\p{L}_\u0080-\uffff]/u
const WORD = /[\p{L}\p{N}_$\u0080-\uffff]/u
const DIGIT = /[0-9]/

/**
 * The words and symbols of a statement, without comments. Only a tokenizer: read-only statements also run in a
 * read-only transaction.
 * @throws ToolError E_VALIDATION for an unclosed quote or comment, and for text that only some servers treat as a
 * comment
 */
export function tokensOf(sql: string, lexis: LexicalRules): readonly Token[] {
  // Some databases stop reading at a NUL character.
  if (sql.includes('\0')) throw invalid('The statement holds a NUL character.', 'Leave it out.')
  const tokens: Token[] = []
  const escapes = new Set<number>()
  let at = 0
  const add = (kind: Token['kind'], start: number, text: string): void => {
    tokens.push({ kind, text, word: kind === 'word' ? text.toUpperCase() : '', start, end: at })
  }
  while (at < sql.length) {
    const start = at
    const char = sql[at] as string
    if (SPACE.test(char)) at++
    else if (isLineComment(sql, at, lexis)) at = lineEnd(sql, at)
    else if (char === '\ufeff') throw unclear('A byte order mark', 'Leave it out.')
    else if (lexis.suffixedVariables && startsAt(SUFFIXED, sql, at))
      throw unclear('A variable with a parenthesis or two colons', 'Use :name or ?.')
    else if (sql.startsWith('/*', at)) at = commentEnd(sql, at, lexis)
    else if (char === "'" || char === '"' || char === '`') {
      // In PostgreSQL a string that continues on the next line keeps its escape rules.
      if (char === "'" && lexis.dollarQuotes && escapes.has(tokens.length - 1))
        throw unclear("E'…' in several pieces", 'Write it as one.')
      const escaped = char !== '`' && (lexis.backslashes || isEscapeString(tokens, start, sql))
      const { text, end } = quotedToken(sql, at, char, escaped)
      at = end
      if (escaped) escapes.add(tokens.length)
      add(char === "'" || (char === '"' && lexis.doubleQuotedStrings) ? 'string' : 'quoted', start, text)
    } else if (char === '[' && lexis.brackets) {
      at = find(sql, ']', at + 1) + 1
      add('quoted', start, sql.slice(start + 1, at - 1))
    } else if (lexis.dollarQuotes && startsAt(DOLLAR, sql, at)) {
      const tag = sql.slice(at, sql.indexOf('$', at + 1) + 1)
      const close = find(sql, tag, at + tag.length)
      at = close + tag.length
      add('string', start, sql.slice(start + tag.length, close))
    } else if (WORD_START.test(char)) {
      while (at < sql.length && WORD.test(sql[at] as string)) at++
      add('word', start, sql.slice(start, at))
    } else if (DIGIT.test(char)) {
      while (at < sql.length && /[\w.]/.test(sql[at] as string)) at++
      add('number', start, sql.slice(start, at))
    } else {
      at++
      add('mark', start, char)
    }
  }
  return tokens
}

const DOLLAR = /\$(?:[A-Za-z_\u0080-\uffff][\w\u0080-\uffff]*)?\$/y
/** SQLite reads to the closing parenthesis, including quotes. */
const SUFFIXED = /[$@:#][\w$\u0080-\uffff]*(?:::|(?<=[\w$\u0080-\uffff])\()/y

function startsAt(pattern: RegExp, sql: string, at: number): boolean {
  pattern.lastIndex = at
  return pattern.test(sql)
}

/** The error for text that the database would tokenize differently. */
const unclear = (what: string, hint: string): ToolError => invalid(`${what} is not supported in a statement.`, hint)

const unended = (what: string): ToolError => invalid(`The statement has ${what} without an end.`, 'Close it.')

function find(sql: string, end: string, from: number): number {
  const at = sql.indexOf(end, from)
  if (at < 0) throw unended('a quote')
  return at
}

const isLineComment = (sql: string, at: number, { mysqlComments }: LexicalRules): boolean =>
  mysqlComments
    ? sql[at] === '#' ||
      (sql.startsWith('--', at) && (at + 2 >= sql.length || CONTROL_OR_SPACE.test(sql[at + 2] as string)))
    : sql.startsWith('--', at)

// After `--`, MySQL treats each of them as a space.
const CONTROL_OR_SPACE = /[\0-\x20\x7f]/

function lineEnd(sql: string, from: number): number {
  const at = sql.indexOf('\n', from)
  const end = at < 0 ? sql.length : at + 1
  // For some databases a comment ends there.
  if (/\r(?!\n)/.test(sql.slice(from, end))) throw unclear('A comment with a carriage return', 'End its line with \\n.')
  return end
}

function commentEnd(sql: string, from: number, { nestedComments, mysqlComments }: LexicalRules): number {
  // MySQL and MariaDB execute the content of these comments.
  if (mysqlComments && /^\/\*M?!/i.test(sql.slice(from, from + 4)))
    throw invalid('A comment that some servers execute is not allowed.', 'Write the statement without /*! … */.')
  if (!nestedComments) {
    const close = sql.indexOf('*/', from + 2)
    if (close < 0) throw unended('a comment')
    // In optimizer hints MySQL honours quotes, so quoted text does not end the comment.
    if (mysqlComments && sql[from + 2] === '+' && /[`'"]/.test(sql.slice(from, close)))
      throw unclear('A hint with quotes', 'Write the hint without them.')
    return close + 2
  }
  const marks = /\/\*|\*\//g
  marks.lastIndex = from + 2
  for (let depth = 1; ; ) {
    const mark = marks.exec(sql)
    if (!mark) throw unended('a comment')
    depth += mark[0] === '/*' ? 1 : -1
    if (depth === 0) return marks.lastIndex
  }
}

/** `E'…'` has backslash escapes even if other strings do not. */
function isEscapeString(tokens: readonly Token[], start: number, sql: string): boolean {
  const before = tokens.at(-1)
  return sql[start] === "'" && before?.word === 'E' && before.end === start
}

function quotedToken(sql: string, from: number, quote: string, escaped: boolean): { text: string; end: number } {
  let text = ''
  for (let at = from + 1; at < sql.length; at++) {
    const char = sql[at] as string
    if (escaped && char === '\\') {
      text += sql[at + 1] ?? ''
      at++
    } else if (char !== quote) text += char
    else if (sql[at + 1] === quote) {
      text += quote
      at++
    } else return { text, end: at + 1 }
  }
  throw unended('a quote')
}

/**
 * The only statement, without the final semicolon.
 * @throws ToolError E_VALIDATION for none, E_SQL_MULTI_STATEMENT for several
 */
export function singleStatement(tokens: readonly Token[]): readonly Token[] {
  const inside = bodyOf(tokens)
  const ends = tokens.flatMap(({ kind, text }, at) => (kind === 'mark' && text === ';' && !inside(at) ? [at] : []))
  const parts = [...ends, tokens.length]
    .map((end, at) => tokens.slice(at === 0 ? 0 : (ends[at - 1] as number) + 1, end))
    .filter(({ length }) => length > 0)
  if (parts.length > 1)
    throw new ToolError(`${parts.length} statements were sent where one is allowed; none was run.`, {
      code: 'E_SQL_MULTI_STATEMENT',
      hint: 'Send one at a time, or use batch_execute or transaction.',
    })
  const [one] = parts
  if (!one) throw invalid('The statement is empty.', 'Send one statement.')
  return one
}

/** Triggers and routines contain statements: BEGIN … END. */
function bodyOf(tokens: readonly Token[]): (at: number) => boolean {
  const none = (): boolean => false
  if (tokens[0]?.word !== 'CREATE') return none
  const kind = tokens.slice(1, 8).findIndex(({ word }) => /^(?:TRIGGER|FUNCTION|PROCEDURE|EVENT)$/.test(word))
  const begin = kind < 0 ? -1 : tokens.findIndex(({ word }) => word === 'BEGIN')
  if (begin < 0) return none
  let depth = 0
  let end = tokens.length
  for (let at = begin; at < tokens.length && end === tokens.length; at++) {
    const { word } = tokens[at] as Token
    if (word === 'BEGIN' || word === 'CASE') depth++
    else if (word === 'END' && --depth === 0) end = at
  }
  return (at) => at > begin && at < end
}

/** The first word of the statement after any parentheses. */
export const verbOf = (tokens: readonly Token[]): string =>
  tokens.find(({ kind, text }) => !(kind === 'mark' && text === '('))?.word ?? ''

/** Lower-case names followed by a parenthesis: function calls. */
export const calledIn = (tokens: readonly Token[]): readonly string[] => [
  ...new Set(
    tokens.flatMap(({ kind, text }, at) => {
      const next = tokens[at + 1]
      return (kind === 'word' || kind === 'quoted') && next?.kind === 'mark' && next.text === '('
        ? [text.toLowerCase()]
        : []
    }),
  ),
]

/** Lower-case names after a dot: in PostgreSQL `(x).f` calls `f(x)` if there is no such column. */
export const dottedIn = (tokens: readonly Token[]): readonly string[] => [
  ...new Set(
    tokens.flatMap(({ kind, text }, at) => {
      const before = tokens[at - 1]
      return (kind === 'word' || kind === 'quoted') && before?.kind === 'mark' && before.text === '.'
        ? [text.toLowerCase()]
        : []
    }),
  ),
]

/** All names in lower case. */
export const namesIn = (tokens: readonly Token[]): readonly string[] => [
  ...new Set(tokens.flatMap(({ kind, text }) => (kind === 'word' || kind === 'quoted' ? [text.toLowerCase()] : []))),
]
