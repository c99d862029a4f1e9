import { type CallContext, ToolError, z } from 'pegboard'
import { denied, notFound } from '../_errors.ts'
import { bind, type Param, type Params } from './binding.ts'
import type { Settings } from './config.ts'
import { type OpenConnection, openConnection } from './connections.ts'
import type { Answer, Batch, Statement, StatementOutcome } from './driver.ts'
import { listFunctionCalls, listNames, listNamesAfterDot, type Token } from './sql.ts'
import { checkStatement, hasTableRules } from './sql-policy.ts'
import { fullName, type RunQuery, type Table, type TableShape } from './table-catalog.ts'

export type Ctx = CallContext<Settings>

/** A call that works on one connection. */
export interface ToolConnection extends OpenConnection {
  readonly ctx: Ctx
}

export const connection_id = z
  .string()
  .regex(/^[A-Za-z0-9_.-]{1,64}$/)
  .default('default')
  .describe('Connection; list_connections lists them.')
export const sql = z.string().min(1).max(1_000_000).describe('One statement.')
/** Any JSON value: the database decides what it accepts. */
const value = z.unknown().transform((given) => given as Param)
export const params = z
  .union([z.array(value).max(65_000), z.record(z.string(), value)])
  .default([])
  .describe('Values for :p0, :p1 … (or ?) as a list, or for :name as an object. Never write values into the statement.')
export const table = z.string().min(1).max(255).describe('Table name, with the schema if it is not the default one.')
export const rowValue = value

export const getConnection = async (ctx: Ctx, id: string): Promise<ToolConnection> => ({
  ...(await openConnection(ctx, id)),
  ctx,
})

/** A statement ready to run: bound, limited, with its access. */
export interface PreparedStatement extends Statement {
  readonly access: Batch['access']
  readonly verb: string
}

export interface StatementInput {
  readonly sql: string
  readonly params: Params
  /** Number of rows wanted; a SELECT without a LIMIT gets one more. */
  readonly limit?: number
}

/** Checks a statement before it runs. @throws ToolError as `checkStatement` and `bind` */
export async function prepareStatement(
  connection: ToolConnection,
  { sql, params, limit }: StatementInput,
  requestedAccess: Batch['access'],
): Promise<PreparedStatement> {
  const { driver, policy, setting } = connection
  const { dialect } = driver
  const { tokens, access } = checkStatement(sql, dialect, policy, requestedAccess, `${setting}.policy`)
  const bound = bind(sql, tokens, params, dialect.placeholder)
  const names = [...listNames(tokens), ...(dialect.name === 'sqlite' ? listStrings(tokens) : [])]
  if (hasTableRules(policy)) {
    checkDefinitions(connection, tokens, names)
    await checkTables(connection, names)
  }
  const checksFunctions = access === 'read' || policy.preset !== 'unrestricted'
  const end = (tokens.at(-1) as Token).end + (bound.sql.length - sql.length)
  const boundSql = bound.sql.slice(0, end)
  const limitedSql = limit !== undefined && isUnbounded(tokens) ? `${boundSql} LIMIT ${limit + 1}` : boundSql
  return {
    sql: limitedSql,
    params: bound.params,
    access,
    verb: tokens[0]?.word ?? '',
    // In SQLite, access outside the database is always refused; elsewhere only if the policy requires it.
    ...(dialect.name === 'sqlite'
      ? { names }
      : checksFunctions
        ? { calls: listFunctionCalls(tokens), dotted: listNamesAfterDot(tokens) }
        : {}),
  }
}

const listStrings = (tokens: readonly Token[]): readonly string[] =>
  tokens.flatMap(({ kind, text }) => (kind === 'string' ? [text.toLowerCase()] : []))

const BOUNDED = new Set(['LIMIT', 'FETCH', 'OFFSET', 'FOR', 'INTO', 'PROCEDURE', 'LOCK', 'TOP'])
const CHANGING = new Set(['INSERT', 'UPDATE', 'DELETE', 'REPLACE', 'MERGE'])

/** A SELECT to which a LIMIT can be appended. */
function isUnbounded(tokens: readonly Token[]): boolean {
  const [first] = tokens
  if (first?.word !== 'SELECT' && first?.word !== 'WITH') return false
  let depth = 0
  for (const { kind, text, word } of tokens) {
    if (kind === 'mark' && text === '(') depth++
    else if (kind === 'mark' && text === ')') depth--
    else if (depth === 0 && (BOUNDED.has(word) || (first.word === 'WITH' && CHANGING.has(word)))) return false
  }
  return true
}

/** Functions and pragmas that show definitions, statements of others or table names without naming a table. */
const SHOWS_OTHERS = /^(?:pg_get_|pg_stat_get_|pragma_table_list$|table_list$)/

function checkDefinitions(connection: ToolConnection, tokens: readonly Token[], names: readonly string[]): void {
  const words = tokens.map(({ word }) => word)
  const showsTables = words[0] === 'SHOW' && words.includes('TABLE') && words.includes('STATUS')
  const deniedName = showsTables ? 'SHOW TABLE STATUS' : names.find((name) => SHOWS_OTHERS.test(name))
  if (deniedName !== undefined) throw createDeniedNameError(connection, deniedName)
}

/** Every table or view named in a statement must be allowed. */
async function checkTables(connection: ToolConnection, names: readonly string[]): Promise<void> {
  const found = await connection.driver.catalog.relations(createRunQuery(connection), names)
  const deniedName = found.find((name) => !isAllowed(connection, { name }))
  if (deniedName !== undefined) throw createDeniedNameError(connection, deniedName)
}

const createDeniedNameError = ({ policy, setting }: OpenConnection, name: string): ToolError =>
  denied(
    `"${name}" is not allowed.`,
    `See ${policy.allowedTables ? 'allowed_tables' : 'blocked_tables'} in ${setting}.policy.`,
  )

function isAllowed({ policy }: ToolConnection, { name }: Pick<Table, 'name'>): boolean {
  const lowerName = name.toLowerCase()
  return !policy.blockedTables.includes(lowerName) && (policy.allowedTables?.includes(lowerName) ?? true)
}

type Limits = Partial<Pick<Batch, 'atomic' | 'continueOnError' | 'maxRows' | 'onDone'>>

/** Runs checked statements in one session. */
export function run(
  { driver, policy, ctx }: ToolConnection,
  statements: readonly PreparedStatement[],
  limits: Limits = {},
): Promise<readonly StatementOutcome[]> {
  const { config, signal } = ctx
  const maxRows = Math.min(config.max_rows, policy.maxRows ?? config.max_rows)
  return driver.run({
    statements,
    access: statements.some(({ access }) => access === 'write') ? 'write' : 'read',
    ...limits,
    maxRows: Math.min(limits.maxRows ?? maxRows, maxRows),
    maxBytes: config.max_bytes,
    timeoutMs: config.timeout_seconds * 1_000,
    signal,
    principal: ctx.caller.principal,
  })
}

/** The only result. @throws its error */
export function onlyAnswer(outcomes: readonly StatementOutcome[]): Answer {
  const [outcome] = outcomes
  if (!outcome) throw new ToolError('The database did not answer.', { code: 'E_DB_UNAVAILABLE' })
  if ('error' in outcome) throw outcome.error
  return outcome
}

/** The rows of our own statements. */
export const createRunQuery =
  ({ driver, ctx }: ToolConnection): RunQuery =>
  async (sql, params = []) =>
    onlyAnswer(
      await driver.run({
        statements: [{ sql, params }],
        access: 'read',
        maxRows: 100_000,
        maxBytes: 16 * 1024 * 1024,
        timeoutMs: ctx.config.timeout_seconds * 1_000,
        signal: ctx.signal,
        principal: ctx.caller.principal,
      }),
    ).rows

/** The tables and views that may be used. */
export const listTables = async (connection: ToolConnection): Promise<readonly Table[]> =>
  (await connection.driver.catalog.tables(createRunQuery(connection))).filter((one) => isAllowed(connection, one))

/** Finds a table by the name a model wrote, ignoring case if that is unambiguous. @throws ToolError E_NOT_FOUND */
export async function findTable(connection: ToolConnection, name: string): Promise<Table> {
  const tables = await listTables(connection)
  const lowerName = name.toLowerCase()
  const found =
    tables.find((one) => fullName(one) === name || `public.${one.name}` === name) ??
    tables.find((one) => fullName(one).toLowerCase() === lowerName) ??
    tables.find((one) => one.name.toLowerCase() === lowerName)
  if (found) return found
  throw notFound(
    `Unknown table: "${name}".`,
    tables.length > 0
      ? `Tables: ${tables.slice(0, 20).map(fullName).join(', ')}${tables.length > 20 ? ', … (list_tables)' : ''}.`
      : 'The database has no tables.',
  )
}

export async function readShape(connection: ToolConnection, table: Table): Promise<TableShape> {
  const [shape] = await connection.driver.catalog.shapes(createRunQuery(connection), [table])
  if (!shape) throw new ToolError(`The table "${fullName(table)}" no longer exists.`, { code: 'E_NOT_FOUND' })
  return shape
}

/** The table's name for a statement. */
export const quotedTable = ({ driver }: ToolConnection, { name, schema }: Pick<Table, 'name' | 'schema'>): string => {
  const { quote } = driver.dialect
  return schema === undefined ? quote(name) : `${quote(schema)}.${quote(name)}`
}

/** Rows by column name; a second column of the same name becomes `name_2`. */
export function toRowObjects({ columns, rows, truncated }: Answer): {
  readonly columns: readonly string[]
  readonly rows: readonly Readonly<Record<string, unknown>>[]
  readonly row_count: number
  readonly truncated: boolean
} {
  const names = uniqueNames(columns)
  return {
    columns: names,
    rows: rows.map((row) => Object.fromEntries(names.map((name, index) => [name, row[index] ?? null]))),
    row_count: rows.length,
    truncated,
  }
}

function uniqueNames(columns: readonly string[]): readonly string[] {
  const used = new Set<string>()
  return columns.map((column) => {
    let name = column
    for (let suffix = 2; used.has(name); suffix++) name = `${column}_${suffix}`
    used.add(name)
    return name
  })
}

/** Adds a note that there are more rows. */
export function warnIfTruncated(
  { ctx, policy }: ToolConnection,
  { truncated, rows }: Pick<Answer, 'truncated' | 'rows'>,
  limit: number,
): void {
  if (!truncated) return
  const maxRows = Math.min(limit, policy.maxRows ?? limit, ctx.config.max_rows)
  ctx.warn(
    rows.length >= maxRows
      ? `More than ${rows.length} rows match; select fewer columns, add WHERE, or raise limit.`
      : `The result was cut at ${ctx.config.max_bytes} bytes; select fewer columns or rows (modules.database.config.max_bytes).`,
  )
}
