import { ToolError, z } from 'pegboard'
import { denied, invalid } from '../_errors.ts'
import type { Dialect } from './driver.ts'
import { listNames, singleStatement, type Token, tokenize, verbOf } from './sql.ts'

const PRESETS = ['readonly', 'safe_write', 'unrestricted'] as const
export type Preset = (typeof PRESETS)[number]

const names = (what: string) => z.array(z.string().min(1)).max(1_000).optional().describe(what)

/** What statements may do; a string is the preset alone. */
export const PolicyInput = z.union([
  z.enum(PRESETS),
  z.strictObject({
    preset: z.enum(PRESETS).default('readonly').describe('readonly, safe_write (data, not structure) or unrestricted.'),
    allowed_tables: names('Only these tables and views are allowed.'),
    blocked_tables: names('Tables and views that are not allowed.'),
    blocked_keywords: names('Words that statements cannot contain.'),
    max_rows: z.int().min(1).max(50_000).optional().describe('Maximum number of rows in a result.'),
  }),
])
export type PolicyInput = z.infer<typeof PolicyInput>

export interface Policy {
  readonly preset: Preset
  /** Lower case, without schema; the next list too. */
  readonly allowedTables?: readonly string[]
  readonly blockedTables: readonly string[]
  readonly blockedKeywords: readonly string[]
  readonly maxRows?: number
}

const toLowerCaseNames = (list: readonly string[] = []): readonly string[] =>
  list.map((name) => name.toLowerCase().replace(/^.*\./, ''))

export function parsePolicy(input: PolicyInput): Policy {
  if (typeof input === 'string') return { preset: input, blockedTables: [], blockedKeywords: [] }
  return {
    preset: input.preset,
    ...(input.allowed_tables && { allowedTables: toLowerCaseNames(input.allowed_tables) }),
    blockedTables: toLowerCaseNames(input.blocked_tables),
    blockedKeywords: toLowerCaseNames(input.blocked_keywords),
    ...(input.max_rows !== undefined && { maxRows: input.max_rows }),
  }
}

export const describePolicy = (policy: Policy): Readonly<Record<string, unknown>> => ({
  preset: policy.preset,
  ...(policy.allowedTables && { allowed_tables: policy.allowedTables }),
  ...(policy.blockedTables.length > 0 && { blocked_tables: policy.blockedTables }),
  ...(policy.blockedKeywords.length > 0 && { blocked_keywords: policy.blockedKeywords }),
  ...(policy.maxRows !== undefined && { max_rows: policy.maxRows }),
})

/** Combines two policies. @throws ToolError E_DENIED_BY_POLICY if the second allows more than the first */
export function narrowPolicy(ceiling: Policy, requestedPolicy: Policy, setting: string): Policy {
  if (PRESETS.indexOf(requestedPolicy.preset) > PRESETS.indexOf(ceiling.preset))
    throw denied(
      `The policy "${requestedPolicy.preset}" allows more than "${ceiling.preset}", which the operator set.`,
      `Only the operator can allow more (${setting}).`,
    )
  const allowed =
    ceiling.allowedTables && requestedPolicy.allowedTables
      ? requestedPolicy.allowedTables.filter((name) => ceiling.allowedTables?.includes(name))
      : (requestedPolicy.allowedTables ?? ceiling.allowedTables)
  const rows = Math.min(
    ceiling.maxRows ?? Number.POSITIVE_INFINITY,
    requestedPolicy.maxRows ?? Number.POSITIVE_INFINITY,
  )
  return {
    preset: requestedPolicy.preset,
    ...(allowed && { allowedTables: allowed }),
    blockedTables: [...new Set([...ceiling.blockedTables, ...requestedPolicy.blockedTables])],
    blockedKeywords: [...new Set([...ceiling.blockedKeywords, ...requestedPolicy.blockedKeywords])],
    ...(Number.isFinite(rows) && { maxRows: rows }),
  }
}

export const hasTableRules = ({ allowedTables, blockedTables }: Policy): boolean =>
  allowedTables !== undefined || blockedTables.length > 0

/** A parsed statement and how to run it. */
export interface CheckedStatement {
  readonly tokens: readonly Token[]
  readonly access: 'read' | 'write'
}

/**
 * Checks one statement against the policy. Reading statements run where the database rejects changes; `wanted:
 * 'write'` runs them with write access, if the policy allows everything.
 * @throws ToolError E_SQL_MULTI_STATEMENT, E_READ_ONLY, E_DENIED_BY_POLICY, E_VALIDATION
 */
export function checkStatement(
  sql: string,
  dialect: Dialect,
  policy: Policy,
  requestedAccess: 'read' | 'write',
  setting: string,
): CheckedStatement {
  const tokens = singleStatement(tokenize(sql, dialect.lexicalRules))
  const verb = verbOf(tokens)
  checkForbidden(tokens, verb, dialect)
  const blocked = listNames(tokens).find((name) => policy.blockedKeywords.includes(name))
  if (blocked !== undefined)
    throw denied(`Statements cannot contain the word "${blocked}".`, `See blocked_keywords in ${setting}.`)
  const reads = checkReads(tokens, verb, dialect)
  if (requestedAccess === 'read') {
    if (reads === true) return { tokens, access: 'read' }
    throw new ToolError(`This tool only reads, and ${reads}.`, {
      code: 'E_READ_ONLY',
      hint: `Use SELECT, or execute if the policy allows it (${setting}).`,
    })
  }
  if (policy.preset === 'unrestricted') return { tokens, access: 'write' }
  // Beside writing statements it would not run in a read-only transaction.
  const containsChange = policy.preset === 'safe_write' && verb === 'WITH' && changesData(tokens)
  if (reads === true && !containsChange) return { tokens, access: 'read' }
  if (policy.preset === 'readonly')
    throw new ToolError(`The connection is read-only, and ${reads}.`, {
      code: 'E_READ_ONLY',
      hint: `See ${setting}.`,
    })
  checkSafeWrite(tokens, verb, setting)
  return { tokens, access: 'write' }
}

/** SQLite statements that open, create or replace files. */
const FILE_VERBS = new Set(['ATTACH', 'DETACH'])
const TRANSACTIONS = new Set(['BEGIN', 'START', 'COMMIT', 'END', 'ROLLBACK', 'SAVEPOINT', 'RELEASE', 'ABORT', 'XA'])
const READING_PRAGMAS = new Set(
  (
    'application_id auto_vacuum busy_timeout cache_size collation_list compile_options data_version encoding ' +
    'foreign_key_check foreign_key_list foreign_keys freelist_count function_list index_info index_list index_xinfo ' +
    'integrity_check journal_mode locking_mode max_page_count module_list page_count page_size pragma_list quick_check ' +
    'recursive_triggers schema_version synchronous table_info table_list table_xinfo user_version'
  ).split(' '),
)
/** Pragmas that take a table name or a limit and change nothing. */
const PRAGMAS_WITH_ARGUMENT = new Set(
  (
    'foreign_key_check foreign_key_list index_info index_list index_xinfo integrity_check quick_check table_info table_list ' +
    'table_xinfo'
  ).split(' '),
)
const WRITABLE_PRAGMAS = new Set(
  (
    'analysis_limit application_id auto_vacuum cache_size case_sensitive_like foreign_keys incremental_vacuum journal_mode ' +
    'journal_size_limit optimize page_size recursive_triggers synchronous user_version wal_autocheckpoint wal_checkpoint'
  ).split(' '),
)

/** What no policy allows. */
function checkForbidden(tokens: readonly Token[], verb: string, dialect: Dialect): void {
  if (TRANSACTIONS.has(verb))
    throw invalid(
      `${verb} cannot be sent as its own statement.`,
      'Use transaction for statements that belong together.',
    )
  if (dialect.name === 'postgresql' && hasEscapedName(tokens))
    throw invalid('Names in U&"…" are not supported.', 'Write the plain name.')
  if (dialect.name !== 'sqlite') return
  if (FILE_VERBS.has(verb) || (verb === 'VACUUM' && tokens.some(({ word }) => word === 'INTO')))
    throw new ToolError(`${verb}${verb === 'VACUUM' ? ' INTO' : ''} reaches other files, which is never allowed.`, {
      code: 'E_READ_ONLY',
      hint: 'Ask the operator to add a connection to modules.database.config.connections.',
    })
  if (verb === 'PRAGMA' && pragmaOf(tokens).writes && !WRITABLE_PRAGMAS.has(pragmaOf(tokens).name))
    throw new ToolError(`PRAGMA ${pragmaOf(tokens).name} may not be set.`, {
      code: 'E_READ_ONLY',
      hint: 'Statements can change only some SQLite settings.',
    })
}

const hasEscapedName = (tokens: readonly Token[]): boolean =>
  tokens.some(({ word, end }, index) => {
    const [mark, name] = tokens.slice(index + 1, index + 3)
    return (
      word === 'U' && mark?.text === '&' && mark.start === end && name?.kind === 'quoted' && name.start === mark.end
    )
  })

interface Pragma {
  readonly name: string
  readonly writes: boolean
}
function pragmaOf(tokens: readonly Token[]): Pragma {
  const rest = tokens.slice(1)
  const dot = rest[1]?.text === '.' && rest[1].kind === 'mark' ? 2 : 0
  const name = (rest[dot]?.text ?? '').toLowerCase()
  const hasArgument = rest.length > dot + 1
  return { name, writes: !READING_PRAGMAS.has(name) || (hasArgument && !PRAGMAS_WITH_ARGUMENT.has(name)) }
}

/** `true`, or why the statement is not read-only. */
function checkReads(tokens: readonly Token[], verb: string, dialect: Dialect): true | string {
  if (verb === 'PRAGMA' && dialect.name === 'sqlite') {
    const { name, writes } = pragmaOf(tokens)
    return writes ? `PRAGMA ${name} changes something` : true
  }
  if (!dialect.readVerbs.has(verb)) return `${verb || 'this'} does more`
  // MySQL: writes a file on the server, which a read-only transaction does not prevent.
  if (verb !== 'EXPLAIN' && tokens.some(({ word }) => word === 'INTO')) return 'INTO writes'
  return true
}

const DATA_VERBS = new Set(['INSERT', 'REPLACE', 'UPDATE', 'DELETE', 'MERGE', 'WITH'])

/** Data may change, structure may not, and a statement without WHERE may not change a whole table. */
function checkSafeWrite(tokens: readonly Token[], verb: string, setting: string): void {
  const hint = `safe_write changes rows that a WHERE names, and no structure; see ${setting}.`
  if (!DATA_VERBS.has(verb)) throw denied(`${verb || 'This'} changes more than data.`, hint)
  if (tokens.some(({ word }) => word === 'OUTFILE' || word === 'DUMPFILE')) throw denied('A file is written.', hint)
  for (const [index, { word }] of tokens.entries()) {
    if ((word !== 'UPDATE' && word !== 'DELETE') || !beginsStatement(tokens, index)) continue
    if (!hasWhere(tokens, index)) throw denied(`${word} without WHERE changes every row.`, hint)
  }
}

const CHANGING_VERBS = new Set(['INSERT', 'REPLACE', 'UPDATE', 'DELETE', 'MERGE'])
/** `REPLACE(…)` is a function. */
const changesData = (tokens: readonly Token[]): boolean =>
  tokens.some(
    ({ word }, index) => CHANGING_VERBS.has(word) && beginsStatement(tokens, index) && tokens[index + 1]?.text !== '(',
  )

const BEFORE_STATEMENT = new Set(['AS', 'MATERIALIZED', 'EXPLAIN', 'ANALYZE'])
/** Not the `UPDATE` in `ON CONFLICT DO UPDATE`, `FOR UPDATE` or `ON DELETE`. */
function beginsStatement(tokens: readonly Token[], index: number): boolean {
  const before = tokens[index - 1]
  return before === undefined || before.text === '(' || before.text === ')' || BEFORE_STATEMENT.has(before.word)
}

function hasWhere(tokens: readonly Token[], from: number): boolean {
  let depth = 0
  for (const { kind, text, word } of tokens.slice(from)) {
    if (kind === 'mark' && text === '(') depth++
    if (kind === 'mark' && text === ')' && --depth < 0) return false
    if (depth === 0 && word === 'WHERE') return true
  }
  return false
}
