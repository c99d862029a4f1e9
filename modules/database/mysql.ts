import type { Socket } from 'node:net'
import type * as Mysql from 'mysql2'
import { type ErrorCode, isPegboardError, type Log, ToolError } from 'pegboard'
import { createTurns } from '../_turns.ts'
import { timeoutError, withDeadline } from './deadline.ts'
import { createDeniedFunctionError } from './denied-function-error.ts'
import type { Answer, Batch, Dialect, Driver, RoleWarning, Statement, StatementOutcome, Target } from './driver.ts'
import { exactJson, toJsonValue } from './json-values.ts'
import { loadPackage } from './load-package.ts'
import { mysqlCatalog } from './mysql-catalog.ts'
import { rowGuard, tooLarge } from './row-size.ts'
import { toUnavailableError } from './unavailable.ts'

export const mysqlDialect: Dialect = {
  name: 'mysql',
  lexicalRules: {
    backslashes: true,
    mysqlComments: true,
    nestedComments: false,
    dollarQuotes: false,
    brackets: false,
    doubleQuotedStrings: true,
    suffixedVariables: false,
  },
  readVerbs: new Set(['SELECT', 'VALUES', 'WITH', 'TABLE', 'EXPLAIN', 'DESCRIBE', 'DESC', 'SHOW']),
  maxParams: 65_000,
  placeholder: () => '?',
  quote: (name) => `\`${name.replaceAll('`', '``')}\``,
  onConflict(conflict, update) {
    const { quote } = mysqlDialect
    // MySQL determines the conflicting key itself; without columns to update, nothing is changed.
    const set =
      update.length > 0
        ? update.map((name) => `${quote(name)} = VALUES(${quote(name)})`)
        : conflict.map((name) => `${quote(name)} = ${quote(name)}`)
    return ` ON DUPLICATE KEY UPDATE ${set.join(', ')}`
  },
  like: (column, placeholder) => `CONVERT(${column} USING utf8mb4) LIKE ${placeholder} ESCAPE '!'`,
  equals: (column, placeholder) => `CONVERT(${column} USING utf8mb4) COLLATE utf8mb4_bin = ${placeholder}`,
}

/**
 * Functions with effects outside the database that a read-only transaction does not prevent: files, locks, counters.
 */
const EXTERNAL_FUNCTIONS = new Set(
  (
    'load_file get_lock release_lock release_all_locks master_pos_wait master_gtid_wait source_pos_wait wait_for_executed_gtid_set ' +
    'nextval setval lastval sys_exec sys_eval sys_get sys_set lib_mysqludf_sys_info'
  ).split(' '),
)

/** Those of them that are normal when changing rows. */
const HARMLESS_WRITING = new Set(['nextval', 'lastval'])

/**
 * Flags of sql_mode that change how SQL is parsed are removed, so that statements mean what the policy check assumes.
 */
const ALLOWED_MODES = new Set(
  (
    'STRICT_TRANS_TABLES STRICT_ALL_TABLES NO_ZERO_IN_DATE NO_ZERO_DATE ERROR_FOR_DIVISION_BY_ZERO NO_ENGINE_SUBSTITUTION ' +
    'NO_AUTO_CREATE_USER ONLY_FULL_GROUP_BY NO_AUTO_VALUE_ON_ZERO NO_UNSIGNED_SUBTRACTION PIPES_AS_CONCAT REAL_AS_FLOAT ' +
    'PAD_CHAR_TO_FULL_LENGTH ALLOW_INVALID_DATES'
  ).split(' '),
)

type Connection = Mysql.PoolConnection

/** MySQL and MariaDB through `mysql2`, with one pool per connection. */
export async function createMysql(target: Target, log: Log): Promise<Driver> {
  const mysql = await loadPackage<typeof Mysql>(() => import('mysql2'), 'MySQL and MariaDB need', 'mysql2')
  const settings: Mysql.PoolOptions = {
    host: target.host ?? '127.0.0.1',
    port: target.port ?? 3_306,
    user: target.username ?? 'root',
    password: target.password ?? '',
    database: target.database,
    ...sslOf(target),
    charset: 'utf8mb4',
    connectTimeout: target.connectMs,
    multipleStatements: false,
    flags: ['-LOCAL_FILES'],
    supportBigNumbers: true,
    bigNumberStrings: false,
    dateStrings: true,
    // The driver's JSON parser would lose precision beyond 2^53.
    jsonStrings: true,
    connectionLimit: target.maxSessions,
    maxIdle: target.maxSessions,
    idleTimeout: 30_000,
    enableKeepAlive: true,
  }
  const pool = mysql.createPool(settings)
  // A pool would count the wait for a session as a failure to connect, or wait forever.
  const sessions = createTurns(target.maxSessions)
  const allowed = new Set(target.allowedFunctions.map((name) => name.toLowerCase()))
  const prepared = new WeakMap<object, { readonly mariadb: boolean; readonly modes: string }>()

  const connect = (): Promise<Connection> =>
    new Promise((resolve, reject) => {
      pool.getConnection((error, connection) => (error ? reject(toUnavailableError(error)) : resolve(connection)))
    })

  /** Runs one of our own statements over the text protocol. */
  const queryText = (connection: Mysql.Connection, sql: string): Promise<readonly unknown[][]> =>
    new Promise((resolve, reject) => {
      connection.query({ sql, rowsAsArray: true }, (error: unknown, rows: unknown) =>
        error ? reject(error) : resolve(Array.isArray(rows) ? (rows as unknown[][]) : []),
      )
    })

  async function kill(connection: Connection): Promise<void> {
    const id = connection.threadId
    const other = mysql.createConnection(settings)
    other.on('error', () => undefined)
    try {
      await queryText(other, `KILL QUERY ${Number(id)}`)
    } catch (error) {
      log.warn('a statement could not be stopped; its session is closed', { error })
    } finally {
      destroyConnection(other)
    }
  }

  async function session<T>(
    { timeoutMs, signal, who }: Pick<Batch, 'timeoutMs' | 'signal' | 'who'>,
    use: (connection: Connection, over: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const end = await sessions.take(who, signal)
    const connection = await connect().catch((error: unknown) => {
      end()
      throw error
    })
    let isReusable = false
    const lost = (): void => undefined
    connection.on('error', lost)
    try {
      const result = await withDeadline(
        (over) => use(connection, over),
        timeoutMs,
        signal,
        () => kill(connection),
      )
      isReusable = true
      return result
    } catch (error) {
      isReusable = isPegboardError(error) && error.code !== 'E_TIMEOUT' && error.code !== 'E_DB_UNAVAILABLE'
      throw error
    } finally {
      connection.off('error', lost)
      if (isReusable && !destroyed.has(connection)) await resetConnection(connection)
      else destroyConnection(connection)
      end()
    }
  }
  /** Sessions that were destroyed while sending rows. */
  const destroyed = new WeakSet<object>()

  /** Resets what a statement changed in its session. */
  const resetConnection = (connection: Connection): Promise<void> =>
    new Promise((resolve) => {
      connection.reset((error) => {
        if (error) destroyConnection(connection)
        else connection.release()
        resolve()
      })
    })

  function runStatement(
    connection: Connection,
    { sql, params }: Statement,
    limits: Pick<Batch, 'maxRows' | 'maxBytes'>,
  ) {
    return new Promise<Answer>((resolve, reject) => {
      const rows: (readonly unknown[])[] = []
      let columns: readonly string[] = []
      let isJson: readonly boolean[] = []
      let head: Mysql.ResultSetHeader | undefined
      let bytes = 0
      let over = false
      const options = { sql, rowsAsArray: true }
      const command =
        params.length === 0
          ? connection.query(options)
          : connection.execute({ ...options, values: params.map(toParam) as never[] })
      const guard = rowGuard(streamOf(connection), () => {
        if (over) return
        over = true
        destroyed.add(connection)
        destroyConnection(connection)
        reject(tooLarge())
      })
      // A statement without a callback is not told when its connection ends.
      const lost = (error: unknown): void => {
        guard.stop()
        if (over) return
        over = true
        destroyed.add(connection)
        destroyConnection(connection)
        reject(toUnavailableError(error))
      }
      connection.once('error', lost)
      const end = (truncated: boolean): void => {
        guard.stop()
        connection.off('error', lost)
        if (over) return
        over = true
        const changed = head && head.affectedRows !== undefined
        resolve({
          columns,
          rows,
          truncated,
          ...(changed && { affected: head?.affectedRows ?? 0 }),
          ...(changed && head?.insertId ? { lastId: head.insertId } : {}),
        })
      }
      command
        .on('error', (error: unknown) => {
          guard.stop()
          connection.off('error', lost)
          if (!over) reject(error)
        })
        .on('fields', (fields: readonly Field[] | undefined) => {
          columns = fields?.map(({ name }) => name) ?? columns
          isJson = fields?.map(isJsonField) ?? isJson
        })
        .on('result', (row: unknown) => {
          if (over) return
          guard.next()
          if (!Array.isArray(row)) {
            head = row as Mysql.ResultSetHeader
            return
          }
          const cells = row.map((cell, at) =>
            toJsonValue(isJson[at] && typeof cell === 'string' ? exactJson(cell) : cell),
          )
          bytes += JSON.stringify(cells).length
          if (rows.length < limits.maxRows && bytes <= limits.maxBytes) {
            rows.push(cells)
            return
          }
          // There is no other way to make the server stop sending.
          destroyed.add(connection)
          destroyConnection(connection)
          end(true)
        })
        .on('end', () => end(false))
    })
  }

  async function begin(connection: Connection, work: Batch): Promise<void> {
    let serverInfo = prepared.get(connection)
    if (!serverInfo) {
      const [[version, mode] = []] = await queryText(connection, 'SELECT VERSION(), @@SESSION.sql_mode')
      const modes = String(mode ?? '')
        .split(',')
        .filter((one) => ALLOWED_MODES.has(one))
      serverInfo = { mariadb: /mariadb/i.test(String(version)), modes: modes.join(',') }
      prepared.set(connection, serverInfo)
    }
    const seconds = Math.max(1, Math.ceil(Math.min(target.busyMs, work.timeoutMs) / 1_000))
    const limit = serverInfo.mariadb
      ? `max_statement_time = ${work.timeoutMs / 1_000}`
      : `SESSION max_execution_time = ${Math.ceil(work.timeoutMs)}`
    await queryText(
      connection,
      `SET SESSION sql_mode = '${serverInfo.modes}', SESSION innodb_lock_wait_timeout = ${seconds}, SESSION lock_wait_timeout = ${seconds}, ${limit}`,
    )
    if (work.access === 'read') await queryText(connection, 'START TRANSACTION READ ONLY')
    else if (work.atomic) await queryText(connection, 'START TRANSACTION')
  }

  async function runBatch(
    connection: Connection,
    work: Batch,
    over: AbortSignal,
  ): Promise<readonly StatementOutcome[]> {
    const reads = work.access === 'read'
    const outcomes: StatementOutcome[] = []
    await begin(connection, work)
    for (const [at, statement] of work.statements.entries()) {
      try {
        checkCalls(statement, allowed, reads)
        if (destroyed.has(connection)) throw createSessionEndedError()
        over.throwIfAborted()
        outcomes.push(await runStatement(connection, statement, work))
      } catch (error) {
        const failure = errorOf(error, work, work.atomic ? at : undefined)
        if (work.atomic || work.statements.length === 1 || over.aborted || failure.code === 'E_TIMEOUT') {
          if (!destroyed.has(connection))
            await queryText(connection, 'ROLLBACK').catch(() => destroyConnection(connection))
          throw failure
        }
        outcomes.push({ error: failure })
        if (!work.continueOnError) break
      }
      work.onDone?.(at + 1)
    }
    if (destroyed.has(connection)) return outcomes
    if (reads) await queryText(connection, 'ROLLBACK')
    else if (work.atomic) {
      over.throwIfAborted()
      await queryText(connection, 'COMMIT')
    }
    return outcomes
  }

  return {
    dialect: mysqlDialect,
    catalog: mysqlCatalog,
    run: (work) =>
      session(work, (connection, over) =>
        runBatch(connection, work, over).catch((error: unknown) => {
          throw errorOf(error, work)
        }),
      ),
    checkRole: () =>
      session({ timeoutMs: target.connectMs, signal: new AbortController().signal, who: '' }, async (connection) =>
        roleWarningOf((await queryText(connection, 'SHOW GRANTS')).map(([line]) => String(line))),
      ),
    close: () => new Promise((resolve) => pool.end(() => resolve())),
  }
}

interface Field {
  readonly name: string
  readonly columnType?: number
  readonly extendedFormat?: string
}

const JSON_TYPE = 245
/** MariaDB sends JSON as text, with a separate type mark. */
const isJsonField = ({ columnType, extendedFormat }: Field): boolean =>
  columnType === JSON_TYPE || extendedFormat === 'json'

const streamOf = (connection: Mysql.Connection): Socket => (connection as unknown as { stream: Socket }).stream

/** `destroy` of the driver ends only the sending side; the server would keep sending. */
function destroyConnection(connection: Mysql.Connection): void {
  connection.destroy()
  streamOf(connection).destroy()
}

const createSessionEndedError = (): ToolError =>
  new ToolError('The session ended because a result was too long.', { hint: 'Query less data in each statement.' })

const toParam = (value: unknown): unknown =>
  typeof value === 'object' && value !== null
    ? JSON.stringify(value)
    : typeof value === 'boolean'
      ? Number(value)
      : value

const sslOf = ({ ssl = 'off', ca }: Target): Pick<Mysql.PoolOptions, 'ssl'> =>
  ssl === 'off' ? {} : { ssl: { rejectUnauthorized: ssl === 'verify', ...(ca !== undefined && { ca }) } }

function checkCalls({ calls = [] }: Statement, allowed: ReadonlySet<string>, reads: boolean): void {
  const bad = calls.find(
    (name) => EXTERNAL_FUNCTIONS.has(name) && !allowed.has(name) && (reads || !HARMLESS_WRITING.has(name)),
  )
  if (bad !== undefined) throw createDeniedFunctionError(bad, reads)
}

const HARMLESS_RIGHTS = new Set(
  'USAGE,SELECT,SHOW VIEW,SHOW DATABASES,PROCESS,REPLICATION CLIENT,BINLOG MONITOR,SLAVE MONITOR,REPLICA MONITOR,EXECUTE'.split(
    ',',
  ),
)

function roleWarningOf(grants: readonly string[]): RoleWarning | undefined {
  for (const line of grants) {
    const [, granted = '', on = ''] = /^GRANT (.+?) ON (\S+)/.exec(line) ?? []
    if (granted === '') return { reason: 'the login has roles, whose rights are not checked' }
    const more = granted
      .replaceAll(/\([^)]*\)/g, '')
      .split(',')
      .map((one) => one.trim())
      .find((one) => !HARMLESS_RIGHTS.has(one))
    if (more !== undefined && more !== 'PROXY') return { reason: `the login has ${more} on ${on}` }
  }
  return undefined
}

const CODES: readonly (readonly [ReadonlySet<number>, ErrorCode, string, string])[] = [
  [new Set([1792, 1290]), 'E_READ_ONLY', 'The database refused to write', 'This connection, or this call, only reads.'],
  [new Set([1205, 1213]), 'E_DB_BUSY', 'Another session is changing the same rows', 'Try again.'],
  [
    new Set([1034, 1194, 1195]),
    'E_DB_CORRUPT',
    'The database reports that it is damaged',
    'The operator has to check it.',
  ],
]
const TIMEOUT_ERRORS = new Set([1317, 1969, 3024])
const CONNECTION_ERRORS = new Set([1040, 1044, 1045, 1049, 1130, 1203, 1226, 1698])

function errorOf(error: unknown, { timeoutMs, signal }: Batch, at?: number): ToolError {
  if (isPegboardError(error)) return error as ToolError
  if (signal.aborted) return signal.reason as ToolError
  const { errno = 0, message = '', sqlState } = error as { errno?: number; message?: string; sqlState?: string }
  const where = at === undefined ? {} : { data: { statement: at } }
  if (TIMEOUT_ERRORS.has(errno)) return timeoutError(timeoutMs, error)
  for (const [numbers, errorCode, what, next] of CODES)
    if (numbers.has(errno))
      return new ToolError(`${what}: ${message}.`, { code: errorCode, hint: next, cause: error, ...where })
  if (CONNECTION_ERRORS.has(errno) || sqlState === undefined) return toUnavailableError(error)
  return new ToolError(message, {
    hint: 'Correct the statement. list_tables shows the tables, and describe the columns of one.',
    cause: error,
    ...where,
  })
}
