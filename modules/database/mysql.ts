import type { Socket } from 'node:net'
import type * as Mysql from 'mysql2'
import type { ErrorCode, Log } from 'pegboard'
import { createDeniedFunctionError } from './denied-function-error.ts'
import type { Answer, Batch, Dialect, Driver, RoleWarning, Statement, Target } from './driver.ts'
import { exactJson, toJsonValue } from './json-values.ts'
import { loadPackage } from './load-package.ts'
import { mysqlCatalog } from './mysql-catalog.ts'
import { createPoolDriver, type DatabaseError, tlsOptions } from './pool-driver.ts'
import { createRowTooLargeError, limitRowSize } from './row-size.ts'
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
  const tls = tlsOptions(target)
  const settings: Mysql.PoolOptions = {
    host: target.host ?? '127.0.0.1',
    port: target.port ?? 3_306,
    user: target.username ?? 'root',
    password: target.password ?? '',
    database: target.database,
    ...(tls && { ssl: tls }),
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
  // Otherwise a session that ends while a call uses it would end the process. The call's query reports the error.
  pool.on('connection', (connection) => connection.on('error', () => undefined))
  const allowed = new Set(target.allowedFunctions.map((name) => name.toLowerCase()))
  const servers = new WeakMap<Connection, { readonly isMariadb: boolean; readonly modes: string }>()

  const connect = (): Promise<Connection> =>
    new Promise((resolve, reject) => {
      pool.getConnection((error, connection) => (error ? reject(error) : resolve(connection)))
    })

  /** Runs one of our own statements over the text protocol. */
  const query = (connection: Mysql.Connection, sql: string): Promise<readonly unknown[][]> =>
    new Promise((resolve, reject) => {
      connection.query({ sql, rowsAsArray: true }, (error: unknown, rows: unknown) =>
        error ? reject(error) : resolve(Array.isArray(rows) ? (rows as unknown[][]) : []),
      )
    })

  async function cancel(connection: Connection): Promise<void> {
    const id = connection.threadId
    const other = mysql.createConnection(settings)
    other.on('error', () => undefined)
    try {
      await query(other, `KILL QUERY ${Number(id)}`)
    } catch (error) {
      log.warn('a statement could not be stopped; its session is closed', { error })
    } finally {
      destroyConnection(other)
    }
  }

  const release = (connection: Connection): Promise<void> =>
    new Promise((resolve, reject) => {
      connection.reset((error) => {
        if (error) return reject(error)
        connection.release()
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
      let isDone = false
      const options = { sql, rowsAsArray: true }
      const command =
        params.length === 0
          ? connection.query(options)
          : connection.execute({ ...options, values: params.map(toParam) as never[] })
      const fail = (error: unknown): void => {
        guard.stop()
        if (isDone) return
        isDone = true
        destroyConnection(connection)
        reject(error)
      }
      const guard = limitRowSize(streamOf(connection), () => fail(createRowTooLargeError()))
      // A statement without a callback is not told when its connection ends.
      const onConnectionError = (error: unknown): void => fail(toUnavailableError(error))
      connection.once('error', onConnectionError)
      const finish = (truncated: boolean): void => {
        guard.stop()
        connection.off('error', onConnectionError)
        if (isDone) return
        isDone = true
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
          connection.off('error', onConnectionError)
          if (!isDone) reject(error)
        })
        .on('fields', (fields: readonly Field[] | undefined) => {
          columns = fields?.map(({ name }) => name) ?? columns
          isJson = fields?.map(isJsonField) ?? isJson
        })
        .on('result', (row: unknown) => {
          if (isDone) return
          guard.next()
          if (!Array.isArray(row)) {
            head = row as Mysql.ResultSetHeader
            return
          }
          const cells = row.map((cell, column) =>
            toJsonValue(isJson[column] && typeof cell === 'string' ? exactJson(cell) : cell),
          )
          bytes += JSON.stringify(cells).length
          if (rows.length < limits.maxRows && bytes <= limits.maxBytes) {
            rows.push(cells)
            return
          }
          // There is no other way to make the server stop sending.
          destroyConnection(connection)
          finish(true)
        })
        .on('end', () => finish(false))
    })
  }

  async function begin(connection: Connection, { access, atomic, timeoutMs }: Batch): Promise<void> {
    let server = servers.get(connection)
    if (!server) {
      const [[version, mode] = []] = await query(connection, 'SELECT VERSION(), @@SESSION.sql_mode')
      const modes = String(mode ?? '')
        .split(',')
        .filter((name) => ALLOWED_MODES.has(name))
      server = { isMariadb: /mariadb/i.test(String(version)), modes: modes.join(',') }
      servers.set(connection, server)
    }
    const lockSeconds = Math.max(1, Math.ceil(Math.min(target.busyMs, timeoutMs) / 1_000))
    const limit = server.isMariadb
      ? `max_statement_time = ${timeoutMs / 1_000}`
      : `SESSION max_execution_time = ${Math.ceil(timeoutMs)}`
    await query(
      connection,
      `SET SESSION sql_mode = '${server.modes}', SESSION innodb_lock_wait_timeout = ${lockSeconds}, SESSION lock_wait_timeout = ${lockSeconds}, ${limit}`,
    )
    if (access === 'read') await query(connection, 'START TRANSACTION READ ONLY')
    else if (atomic) await query(connection, 'START TRANSACTION')
  }

  async function checkFunctions(_: Connection, { calls = [] }: Statement, reads: boolean): Promise<void> {
    const denied = calls.find(
      (name) => EXTERNAL_FUNCTIONS.has(name) && !allowed.has(name) && (reads || !HARMLESS_WRITING.has(name)),
    )
    if (denied !== undefined) throw createDeniedFunctionError(denied, reads)
  }

  return createPoolDriver<Connection>(
    {
      dialect: mysqlDialect,
      catalog: mysqlCatalog,
      needsSavepoints: false,
      streamOf,
      connect,
      release,
      destroy: destroyConnection,
      cancel,
      query,
      begin,
      checkFunctions,
      runStatement,
      parseError,
      checkRole: async (connection) =>
        roleWarningOf((await query(connection, 'SHOW GRANTS')).map(([line]) => String(line))),
      close: () => new Promise((resolve) => pool.end(() => resolve())),
    },
    target,
  )
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

const toParam = (value: unknown): unknown =>
  typeof value === 'object' && value !== null
    ? JSON.stringify(value)
    : typeof value === 'boolean'
      ? Number(value)
      : value

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

const ERROR_CODES: readonly (readonly [numbers: readonly number[], code: ErrorCode])[] = [
  [[1317, 1969, 3024], 'E_TIMEOUT'],
  [[1792, 1290], 'E_READ_ONLY'],
  [[1205, 1213], 'E_DB_BUSY'],
  [[1034, 1194, 1195], 'E_DB_CORRUPT'],
  [[1040, 1044, 1045, 1049, 1130, 1203, 1226, 1698], 'E_DB_UNAVAILABLE'],
]

function parseError(error: unknown): DatabaseError {
  const { errno = 0, message = '', sqlState } = error as Partial<Mysql.QueryError>
  const code = ERROR_CODES.find(([numbers]) => numbers.includes(errno))?.[1]
  return { code: code ?? (sqlState === undefined ? 'E_DB_UNAVAILABLE' : undefined), message }
}
