import { ToolError } from 'pegboard'

/** How the text of a statement is read by one kind of database. */
export interface Lexis {
  /** `\'` inside of strings. */
  readonly backslashes: boolean
  /** `# to the end`, `-- ` with a space, and comments that are run. */
  readonly mysqlComments: boolean
  /** Comments in comments. */
  readonly nestedComments: boolean
  /** `$tag$text$tag$`. */
  readonly dollarQuotes: boolean
  /** `[name]`. */
  readonly brackets: boolean
  /** `"text"` is a string. */
  readonly doubleQuotedStrings: boolean
}

export interface Token {
  readonly kind: 'word' | 'quoted' | 'string' | 'number' | 'mark'
  /** As it is written; of quoted names and strings what is in the quotes. */
  readonly text: string
  /** Of words: in capitals. */
  readonly word: string
  readonly start: number
  readonly end: number
}

const SPACE = /\s/
const WORD_START = /[\p{L}_\u0080-\uffff]/u
const WORD = /[\p{L}\p{N}_$\u0080-\uffff]/u
const DIGIT = /[0-9]/

/**
 * The words and marks of a text, without comments. It is a reader, not a judge: what it lets through the database still has
 * to take, in a transaction that only reads.
 * @throws ToolError E_VALIDATION for a quote or a comment that does not end, and for what only some servers read as a comment
 */
export function tokensOf(sql: string, lexis: Lexis): readonly Token[] {
  // Some read no further than here.
  if (sql.includes('\0'))
    throw new ToolError('The statement holds a NUL character.', { code: 'E_VALIDATION', hint: 'Leave it out.' })
  const tokens: Token[] = []
  let at = 0
  const add = (kind: Token['kind'], start: number, text: string): void => {
    tokens.push({ kind, text, word: kind === 'word' ? text.toUpperCase() : '', start, end: at })
  }
  while (at < sql.length) {
    const start = at
    const char = sql[at] as string
    if (SPACE.test(char)) at++
    else if (isLineComment(sql, at, lexis)) at = lineEnd(sql, at)
    else if (sql.startsWith('/*', at)) at = commentEnd(sql, at, lexis)
    else if (char === "'" || char === '"' || char === '`') {
      const escaped = char !== '`' && (lexis.backslashes || isEscapeString(tokens, start, sql))
      const { text, end } = quoted(sql, at, char, escaped)
      at = end
      add(char === "'" || (char === '"' && lexis.doubleQuotedStrings) ? 'string' : 'quoted', start, text)
    } else if (char === '[' && lexis.brackets) {
      at = find(sql, ']', at + 1) + 1
      add('quoted', start, sql.slice(start + 1, at - 1))
    } else if (char === '$' && lexis.dollarQuotes && DOLLAR.test(sql.slice(at, at + 66))) {
      const [tag = '$$'] = DOLLAR.exec(sql.slice(at, at + 66)) ?? []
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

const DOLLAR = /^\$(?:[A-Za-z_\u0080-\uffff][\w\u0080-\uffff]*)?\$/

const unended = (what: string): ToolError =>
  new ToolError(`The statement has ${what} that does not end.`, { code: 'E_VALIDATION', hint: 'Close it.' })

function find(sql: string, end: string, from: number): number {
  const at = sql.indexOf(end, from)
  if (at < 0) throw unended('a quote')
  return at
}

const isLineComment = (sql: string, at: number, { mysqlComments }: Lexis): boolean =>
  mysqlComments
    ? sql[at] === '#' || (sql.startsWith('--', at) && (at + 2 >= sql.length || SPACE.test(sql[at + 2] as string)))
    : sql.startsWith('--', at)

function lineEnd(sql: string, from: number): number {
  const at = sql.indexOf('\n', from)
  return at < 0 ? sql.length : at + 1
}

function commentEnd(sql: string, from: number, { nestedComments, mysqlComments }: Lexis): number {
  // MySQL and MariaDB run what is in these.
  if (mysqlComments && /^\/\*M?!/i.test(sql.slice(from, from + 4)))
    throw new ToolError('A comment that some servers run is not taken.', {
      code: 'E_VALIDATION',
      hint: 'Write the statement without /*! … */.',
    })
  if (!nestedComments) {
    const close = sql.indexOf('*/', from + 2)
    if (close < 0) throw unended('a comment')
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

/** `E'…'` has backslashes although other strings have none. */
function isEscapeString(tokens: readonly Token[], start: number, sql: string): boolean {
  const before = tokens.at(-1)
  return sql[start] === "'" && before?.word === 'E' && before.end === start
}

function quoted(sql: string, from: number, quote: string, escaped: boolean): { text: string; end: number } {
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

/** One statement, without the semicolon at its end. @throws ToolError E_VALIDATION for none, E_SQL_MULTI_STATEMENT for several */
export function theOne(tokens: readonly Token[]): readonly Token[] {
  const inside = bodyOf(tokens)
  const ends = tokens.flatMap(({ kind, text }, at) => (kind === 'mark' && text === ';' && !inside(at) ? [at] : []))
  const parts = [...ends, tokens.length]
    .map((end, at) => tokens.slice(at === 0 ? 0 : (ends[at - 1] as number) + 1, end))
    .filter(({ length }) => length > 0)
  if (parts.length > 1)
    throw new ToolError(`There are ${parts.length} statements where one is taken; none was run.`, {
      code: 'E_SQL_MULTI_STATEMENT',
      hint: 'Send one at a time, or use batch_execute or transaction.',
    })
  const [one] = parts
  if (!one) throw new ToolError('There is no statement.', { code: 'E_VALIDATION', hint: 'Write one.' })
  return one
}

/** Triggers and routines have statements in them: BEGIN … END. */
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

/** What the statement does: its first word, whatever parentheses are before it. */
export const verbOf = (tokens: readonly Token[]): string =>
  tokens.find(({ kind, text }) => !(kind === 'mark' && text === '('))?.word ?? ''

/** Names that are followed by a parenthesis, in small letters: functions, wherever they are. */
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

/** Every name in it, in small letters, whatever it may be the name of. */
export const namesIn = (tokens: readonly Token[]): readonly string[] => [
  ...new Set(tokens.flatMap(({ kind, text }) => (kind === 'word' || kind === 'quoted' ? [text.toLowerCase()] : []))),
]
