import type { Socket } from 'node:net'
import type { ErrorCode, Log } from 'pegboard'
import type * as Pg from 'pg'
import { createDeniedFunctionError } from './denied-function-error.ts'
import type { Answer, Batch, Dialect, Driver, RoleWarning, Statement, Target } from './driver.ts'
import { exactInteger, exactJson, toJsonValue } from './json-values.ts'
import { loadPackage } from './load-package.ts'
import { createPoolDriver, type DatabaseError, tlsOptions } from './pool-driver.ts'
import { postgresCatalog } from './postgres-catalog.ts'
import { createRowTooLargeError, limitRowSize } from './row-size.ts'
import { onConflict, quote } from './standard-sql.ts'

export const postgresDialect: Dialect = {
  name: 'postgresql',
  lexicalRules: {
    backslashes: false,
    mysqlComments: false,
    nestedComments: true,
    dollarQuotes: true,
    brackets: false,
    doubleQuotedStrings: false,
    suffixedVariables: false,
  },
  readVerbs: new Set(['SELECT', 'VALUES', 'WITH', 'TABLE', 'EXPLAIN', 'SHOW']),
  maxParams: 65_000,
  placeholder: (position) => `$${position}`,
  quote,
  onConflict,
  like: (column, placeholder) => `CAST(${column} AS text) ILIKE ${placeholder} ESCAPE '!'`,
  equals: (column, placeholder) => `CAST(${column} AS text) = ${placeholder}`,
}

/** Functions that PostgreSQL marks volatile but that change nothing and reach nothing outside. */
const HARMLESS_FUNCTIONS = new Set(
  `random clock_timestamp timeofday setseed gen_random_uuid uuid_generate_v1 uuid_generate_v1mc uuid_generate_v4 gen_salt
gen_random_bytes currval lastval pg_sleep pg_sleep_for pg_sleep_until pg_relation_size pg_table_size pg_indexes_size
pg_total_relation_size pg_database_size pg_tablespace_size pg_is_in_recovery pg_current_wal_lsn pg_last_wal_receive_lsn
pg_last_wal_replay_lsn pg_last_xact_replay_timestamp pg_blocking_pids pg_lock_status pg_jit_available pg_partition_tree
pg_partition_ancestors pg_sequence_last_value pg_collation_actual_version pg_database_collation_actual_version
pg_notification_queue_usage pg_xact_status txid_status pg_last_committed_xact current_query pg_stat_get_xact_numscans bernoulli
system pgp_sym_encrypt pgp_pub_encrypt`.split(/\s+/),
)

/** The same for statements that change rows. */
const HARMLESS_WRITING = new Set(
  'nextval txid_current pg_current_xact_id pg_advisory_xact_lock pg_try_advisory_xact_lock'.split(' '),
)

/**
 * Functions that run a statement or read a table named in their arguments. PostgreSQL and its extensions declare some
 * of them STABLE. The policy sees neither the tables nor the functions in such a text.
 */
const RUNS_SQL_TEXT = '^(table_to_xml|schema_to_xml|database_to_xml|ts_rewrite$|crosstab|connectby$|xpath_table$)'

/** Number of rows fetched at a time. */
const PAGE_ROWS = 200

const DATE_TYPES = new Set([1082, 1083, 1114, 1184, 1186, 1266])

/** PostgreSQL through `pg`, with one pool per connection. */
export async function createPostgres(target: Target, log: Log): Promise<Driver> {
  const pg = await loadPackage<typeof Pg>(() => import('pg'), 'PostgreSQL needs', 'pg')
  const types = { getTypeParser: ((oid: number, format: 'text') => parserOf(pg, oid, format)) as never }
  const settings: Pg.PoolConfig = {
    host: target.host ?? '127.0.0.1',
    port: target.port ?? 5_432,
    user: target.username ?? 'postgres',
    // Otherwise the driver would read the environment and the user's password file.
    password: target.password ?? '',
    database: target.database,
    ssl: tlsOptions(target) ?? false,
    application_name: 'pegboard',
    connectionTimeoutMillis: target.connectMs,
    max: target.maxSessions,
    idleTimeoutMillis: 30_000,
    allowExitOnIdle: true,
    keepAlive: true,
  }
  const pool = new pg.Pool(settings)
  pool.on('error', (error) => log.warn('an idle database session ended', { error }))
  // Otherwise a session that ends while a call uses it would end the process. The call's query reports the error.
  pool.on('connect', (client) => client.on('error', () => undefined))
  const allowed = new Set([...HARMLESS_FUNCTIONS, ...target.allowedFunctions.map((name) => name.toLowerCase())])

  async function cancel(client: Pg.PoolClient): Promise<void> {
    const other = new pg.Client(settings)
    other.on('error', () => undefined)
    try {
      await other.connect()
      await other.query('SELECT pg_cancel_backend($1)', [(client as unknown as { processID: number }).processID])
    } catch (error) {
      log.warn('a statement could not be cancelled; its session is closed', { error })
    } finally {
      await other.end().catch(() => undefined)
    }
  }

  /**
   * Runs one statement over the extended protocol, which rejects multiple statements, and fetches only the rows
   * needed.
   */
  function runStatement(
    client: Pg.PoolClient,
    { sql, params }: Statement,
    limits: Pick<Batch, 'maxRows' | 'maxBytes'>,
  ) {
    return new Promise<Answer>((resolve, reject) => {
      const rows: unknown[][] = []
      let bytes = 0
      let truncated = false
      const stream = streamOf(client)
      let isTooLarge = false
      const guard = limitRowSize(stream, () => {
        isTooLarge = true
        stream.destroy()
      })
      class Paged extends (pg as unknown as { Query: new (...args: unknown[]) => PagedQuery }).Query {
        override handleDataRow(message: {
          readonly fields: readonly (string | null)[]
          readonly length: number
        }): void {
          guard.next()
          bytes += message.length
          truncated ||= rows.length >= limits.maxRows || bytes > limits.maxBytes
          if (!truncated) rows.push(this._result.parseRow(message.fields).map(toJsonValue))
        }
        override handlePortalSuspended(connection: Wire): void {
          if (truncated) connection.sync()
          else super.handlePortalSuspended(connection)
        }
        override handleError(error: Error, connection: Wire): void {
          // Paged fetching needs an explicit sync, or the session would wait forever.
          connection.sync()
          super.handleError(error, connection)
        }
      }
      const query = new Paged(
        {
          text: sql,
          values: params,
          rows: Math.min(limits.maxRows + 1, PAGE_ROWS),
          rowMode: 'array',
          queryMode: 'extended',
          types,
        },
        undefined,
        (error: unknown, result: Pg.QueryArrayResult | undefined) => {
          guard.stop()
          if (isTooLarge) return reject(createRowTooLargeError())
          if (error) return reject(error)
          resolve({
            columns: (result?.fields ?? []).map(({ name }) => name),
            rows,
            truncated,
            ...(CHANGING_COMMANDS.has(result?.command ?? '') && { affected: result?.rowCount ?? 0 }),
          })
        },
      )
      client.query(query as unknown as Pg.Submittable)
    })
  }

  /** Called functions must have no effect outside the transaction: server files, settings, other sessions. */
  async function checkFunctions(
    client: Pg.PoolClient,
    { calls = [], dotted = [] }: Statement,
    reads: boolean,
  ): Promise<void> {
    const isSuspect = (name: string): boolean => !allowed.has(name) && (reads || !HARMLESS_WRITING.has(name))
    const [called, dottedNames] = [calls.filter(isSuspect), dotted.filter(isSuspect)]
    if (called.length + dottedNames.length === 0) return
    const { rows } = await client.query<{ proname: string }>(
      "SELECT DISTINCT proname FROM pg_catalog.pg_proc WHERE (lower(proname) = ANY ($1) OR lower(proname) = ANY ($2) AND pronargs > 0 AND pronargs - pronargdefaults <= 1) AND (provolatile = 'v' OR proname ~ $3)",
      [called, dottedNames, RUNS_SQL_TEXT],
    )
    const [denied] = rows
    if (denied) throw createDeniedFunctionError(denied.proname, reads)
  }

  async function begin(client: Pg.PoolClient, { access, atomic, timeoutMs }: Batch): Promise<void> {
    const transaction = access === 'read' ? 'BEGIN TRANSACTION READ ONLY; ' : atomic ? 'BEGIN; ' : ''
    const set = transaction ? 'SET LOCAL' : 'SET'
    const lockMs = Math.ceil(Math.min(target.busyMs, timeoutMs) || 1)
    await client.query(
      `${transaction}${set} standard_conforming_strings = on; ${set} statement_timeout = ${Math.ceil(timeoutMs)}; ${set} lock_timeout = ${lockMs}`,
    )
  }

  return createPoolDriver<Pg.PoolClient>(
    {
      dialect: postgresDialect,
      catalog: postgresCatalog,
      needsSavepoints: true,
      streamOf,
      connect: () => pool.connect(),
      async release(client) {
        await client.query('DISCARD ALL')
        client.release()
      },
      destroy: (client) => client.release(true),
      cancel,
      query: (client, sql) => client.query(sql),
      begin,
      checkFunctions,
      runStatement,
      parseError,
      checkRole: async (client) => roleWarningOf((await client.query(ROLE_QUERY)).rows[0]),
      close: () => pool.end(),
    },
    target,
  )
}

const streamOf = (client: Pg.PoolClient): Socket =>
  (client as unknown as { connection: { stream: Socket } }).connection.stream

interface Wire {
  sync(): void
}
/** The internals of a `pg` query used here; see its source. */
interface PagedQuery {
  readonly _result: { parseRow(fields: readonly (string | null)[]): unknown[] }
  handleDataRow(message: unknown): void
  handlePortalSuspended(connection: Wire): void
  handleError(error: Error, connection: Wire): void
}

const CHANGING_COMMANDS = new Set(['INSERT', 'UPDATE', 'DELETE', 'MERGE', 'COPY'])

function parserOf(pg: typeof Pg, oid: number, format: 'text'): (text: string) => unknown {
  if (oid === 20) return exactInteger
  if (oid === 114 || oid === 3802) return exactJson
  if (DATE_TYPES.has(oid)) return (text) => text
  return pg.types.getTypeParser(oid, format)
}

const ROLE_QUERY = `SELECT r.rolsuper AS super, current_user AS role,
  (SELECT rolname FROM pg_catalog.pg_roles p WHERE p.rolname IN ('pg_execute_server_program', 'pg_write_server_files', 'pg_read_server_files')
    AND pg_catalog.pg_has_role(current_user, p.oid, 'USAGE') LIMIT 1) AS power,
  (SELECT c.relname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p', 'v', 'f') AND n.nspname !~ '^(pg_|information_schema)'
    AND pg_catalog.has_table_privilege(c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE') ORDER BY 1 LIMIT 1) AS writes
  FROM pg_catalog.pg_roles r WHERE r.rolname = current_user`

function roleWarningOf(row: {
  super: boolean
  role: string
  power: string | null
  writes: string | null
}): RoleWarning | undefined {
  if (row.super) return { reason: `the role "${row.role}" is a superuser` }
  if (row.power !== null) return { reason: `the role "${row.role}" is a member of ${row.power}` }
  if (row.writes !== null) return { reason: `the role "${row.role}" may write to "${row.writes}"` }
  return undefined
}

const ERROR_CODES: readonly (readonly [sqlState: RegExp, code: ErrorCode])[] = [
  [/^57014$/, 'E_TIMEOUT'],
  [/^25006$/, 'E_READ_ONLY'],
  [/^(?:55P03|40P01|40001)$/, 'E_DB_BUSY'],
  [/^XX00[12]$/, 'E_DB_CORRUPT'],
  [/^(?:08|28|3D|53|57P)|^(?![0-9A-Z]{5}$)/, 'E_DB_UNAVAILABLE'],
]

function parseError(error: unknown): DatabaseError {
  const { code = '', message = '', detail, hint, position } = error as Partial<Pg.DatabaseError>
  if (code === '42601' && message.includes('multiple commands')) return { code: 'E_SQL_MULTI_STATEMENT', message }
  const errorCode = ERROR_CODES.find(([sqlState]) => sqlState.test(code))?.[1]
  const sentences = [message, detail, position && `At character ${position}.`]
  return { code: errorCode, message: errorCode ? message : sentences.filter(Boolean).join('. '), hint }
}
