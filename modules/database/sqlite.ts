import { createRequire } from 'node:module'
import { dirname } from 'node:path'
import type { Readable } from 'node:stream'
import { pathToFileURL } from 'node:url'
import { type ErrorCode, type FileToOpen, isPegboardError, type Processes, type Program, ToolError } from 'pegboard'
import { createTurns } from '../_turns.ts'
import { startDeadline } from './deadline.ts'
import type { Answer, Batch, Dialect, Driver, StatementOutcome, Target } from './driver.ts'
import { createRowTooLargeError, MAX_ROW_BYTES } from './row-size.ts'
import { sqliteCatalog } from './sqlite-catalog.ts'
import { CHILD } from './sqlite-child.ts'
import { onConflict, quote } from './standard-sql.ts'

export const sqliteDialect: Dialect = {
  name: 'sqlite',
  lexicalRules: {
    backslashes: false,
    mysqlComments: false,
    nestedComments: false,
    dollarQuotes: false,
    brackets: true,
    doubleQuotedStrings: false,
    suffixedVariables: true,
  },
  readVerbs: new Set(['SELECT', 'VALUES', 'WITH', 'EXPLAIN']),
  maxParams: 30_000,
  placeholder: (position) => `?${position}`,
  quote,
  onConflict,
  like: (column, placeholder) => `CAST(${column} AS TEXT) LIKE ${placeholder} ESCAPE '!'`,
  equals: (column, placeholder) => `CAST(${column} AS TEXT) = ${placeholder}`,
}

/** Functions and tables of SQLite that touch nothing but the database. */
const HARMLESS_NAMES =
  `-> ->> abs acos acosh asin asinh atan atan2 atanh atn2 avg bm25 ceil ceiling changes char charindex coalesce concat concat_ws
cos cosh cot coth count cume_dist current_date current_time current_timestamp date datetime degrees dense_rank difference exp
first_value floor format geopoly geopoly_area geopoly_bbox geopoly_blob geopoly_ccw geopoly_contains_point geopoly_group_bbox
geopoly_debug geopoly_json geopoly_overlap geopoly_regular geopoly_svg geopoly_within geopoly_xform glob group_concat hex highlight if ifnull lsmode optimize rtreecheck rtreedepth rtreenode
iif instr json json_array json_array_length json_each json_error_position json_extract json_group_array json_group_object
json_array_insert json_insert json_object json_patch json_pretty json_quote json_remove json_replace json_set json_tree json_type json_valid jsonb
jsonb_array jsonb_array_insert jsonb_each jsonb_extract jsonb_group_array jsonb_group_object jsonb_insert jsonb_object jsonb_patch jsonb_remove
jsonb_replace jsonb_set jsonb_tree julianday lag last_insert_rowid last_rows_affected last_value lead leftstr length like
likelihood likely ln log log10 log2 lower lower_quartile ltrim match matchinfo max median min mod mode nth_value ntile nullif
octet_length offsets padc padl padr percent_rank percentile percentile_cont percentile_disc pi pow power printf proper quote
radians random randomblob rank regexp regexpi replace replicate reverse rightstr round row_number rtree rtree_i32 rtrim sha3 sign
sin sinh snippet soundex sqlite_compileoption_get sqlite_compileoption_used sqlite_offset sqlite_source_id sqlite_version sqrt
square stdev strfilter strftime string_agg substr substring subtype sum tan tanh time timediff total total_changes trim trunc
typeof unhex unicode unistr unistr_quote unixepoch unlikely upper upper_quartile uuid uuid_blob uuid_str variance vector vector16
vector1bit vector32 vector64 vector8 vector_distance_cos vector_distance_l2 vector_extract vector_top_k vectorb16 zeroblob
fts3 fts4 fts5 fts4aux fts5vocab generate_series dbstat sqlite_stmt fts5_source_id fts5_locale fts5_insttoken fts5_get_locale`
    .split(/\s+/)
    .concat(
      (
        'collation_list compile_options data_version foreign_key_check foreign_key_list function_list index_info ' +
        'index_list index_xinfo integrity_check module_list page_count page_size pragma_list quick_check table_info table_list ' +
        'table_xinfo'
      )
        .split(' ')
        .map((name) => `pragma_${name}`),
    )

/** How much memory a statement may take. */
const MAX_MEMORY_BYTES = 256 * 1024 * 1024
/** The same for a database in memory, with its contents. */
const MAX_IN_MEMORY_DATABASE_BYTES = 1024 * 1024 * 1024

/** An unused process ends after this time. */
const IDLE_MS = 60_000

interface Child {
  /** The open file; undefined for a database in memory. */
  readonly file: FileToOpen | undefined
  run(work: Batch): Promise<readonly StatementOutcome[]>
  stop(): Promise<void>
}

/**
 * SQLite in child processes: one per running statement, at most `maxSessions`, and one writer.
 * @param locate checks the file's current path before each request
 */
export function createSqlite(
  target: Target,
  processes: Processes,
  locate: (make: boolean) => Promise<FileToOpen>,
  now: () => number = Date.now,
): Driver {
  const isInMemory = target.database === ':memory:'
  const idleChildren: { child: Child; access: Batch['access']; since: number }[] = []
  const children = new Set<Child>()
  const turns = { read: createTurns(target.maxSessions), write: createTurns(1) }
  let isClosed = false
  let stopTimer: NodeJS.Timeout | undefined

  async function takeChild(access: Batch['access'], file: FileToOpen | undefined): Promise<Child> {
    // A process with a replaced file or folder is useless.
    for (const one of idleChildren.splice(0))
      if (isSame(one.child.file, file)) idleChildren.push(one)
      else void stopChild(one.child)
    const index = idleChildren.findIndex((one) => one.access === access)
    const [found] = index < 0 ? [] : idleChildren.splice(index, 1)
    if (found) return found.child
    const child = await startChild(target, file, access, processes)
    children.add(child)
    if (!isClosed) return child
    await stopChild(child)
    throw createClosedError()
  }

  async function stopChild(child: Child): Promise<void> {
    children.delete(child)
    await child.stop()
  }

  function keepIdle(child: Child, access: Batch['access']): void {
    idleChildren.push({ child, access, since: now() })
    stopTimer ??= setInterval(() => {
      for (const one of idleChildren.splice(0))
        if (isInMemory || one.since + IDLE_MS > now()) idleChildren.push(one)
        else void stopChild(one.child)
      if (idleChildren.length > 0 && !isInMemory) return
      clearInterval(stopTimer)
      stopTimer = undefined
    }, IDLE_MS).unref()
  }

  async function run(batch: Batch): Promise<readonly StatementOutcome[]> {
    // A database in memory exists once, so reading and writing share a process.
    const access = isInMemory ? 'write' : batch.access
    const endTurn = await turns[access].take(batch.principal, batch.signal)
    let child: Child | undefined
    try {
      if (isClosed) throw createClosedError()
      const file = isInMemory ? undefined : await findFile(locate, target.create === true)
      child = await takeChild(access, file)
      // A signal that was already aborted emits no event.
      batch.signal.throwIfAborted()
      const outcomes = await child.run(batch)
      keepIdle(child, access)
      return outcomes
    } catch (error) {
      if (!child) throw error
      if (!(error instanceof ChildExit)) {
        keepIdle(child, access)
        throw error
      }
      await stopChild(child)
      // The next writer rolls back what it had begun.
      if (access === 'write' && !isInMemory && error.killed) void recover().catch(() => undefined)
      if (error.outcomes) return error.outcomes
      throw error.cause
    } finally {
      endTurn()
    }
  }

  const recover = (): Promise<unknown> =>
    run({
      statements: [{ sql: 'PRAGMA user_version', params: [] }],
      access: 'write',
      maxRows: 1,
      maxBytes: 1_000,
      timeoutMs: 10_000,
      signal: new AbortController().signal,
      principal: '',
    })

  return {
    dialect: sqliteDialect,
    catalog: sqliteCatalog,
    run,
    checkRole: async () => undefined,
    async close() {
      isClosed = true
      clearInterval(stopTimer)
      await Promise.all([...children].map(stopChild))
    },
  }
}

const createClosedError = (): ToolError => new ToolError('The connection was closed.', { code: 'E_DB_UNAVAILABLE' })

const isSame = (one: FileToOpen | undefined, other: FileToOpen | undefined): boolean =>
  one?.path === other?.path && one?.dev === other?.dev && one?.ino === other?.ino

/** An empty file is an empty database. */
async function findFile(locate: (make: boolean) => Promise<FileToOpen>, create: boolean): Promise<FileToOpen> {
  try {
    try {
      return await locate(create)
    } catch (error) {
      // Another process created it at the same time.
      if ((error as NodeJS.ErrnoException).code === 'EEXIST') return await locate(false)
      throw error
    }
  } catch (cause) {
    if (isPegboardError(cause)) throw cause
    if (['EMFILE', 'ENFILE'].includes((cause as NodeJS.ErrnoException).code ?? ''))
      throw new ToolError('The database cannot be opened now: too many open files.', {
        code: 'E_OVERLOADED',
        hint: 'Try again later.',
        cause,
      })
    if (!create) throw toToolError({ code: 'SQLITE_CANTOPEN', message: '' }, cause)
    throw new ToolError('The database file cannot be created.', {
      code: 'E_DB_UNAVAILABLE',
      retryable: false,
      hint: 'Its folder must exist and be writable.',
      cause,
    })
  }
}

/** The process has ended, or must end. */
class ChildExit extends Error {
  readonly killed: boolean
  readonly outcomes: readonly StatementOutcome[] | undefined
  constructor(cause: unknown, killed: boolean, outcomes?: readonly StatementOutcome[]) {
    super('ended', { cause })
    this.killed = killed
    this.outcomes = outcomes
  }
}

interface ErrorMessage {
  readonly code: string
  readonly message: string
}
interface ChildMessage {
  readonly open?: boolean
  readonly done?: number
  readonly outcomes?: readonly (Answer | { readonly error: ErrorMessage })[]
  /** The process blocks other writers. */
  readonly mustExit?: boolean
  readonly error?: ErrorMessage
  readonly statement?: number
}

function libsqlFile(): string | undefined {
  try {
    return createRequire(import.meta.url).resolve('libsql')
  } catch {
    return undefined
  }
}

/** readline of Node 24 also splits lines at U+2028, which JSON does not escape. */
function readLines(stream: Readable, onLine: (line: string) => void): void {
  let rest = ''
  stream.setEncoding('utf8').on('data', (text: string) => {
    const lines = text.split('\n')
    lines[0] = rest + lines[0]
    rest = lines.pop() ?? ''
    for (const line of lines) onLine(line)
  })
}

async function startChild(
  target: Target,
  file: FileToOpen | undefined,
  access: Batch['access'],
  processes: Processes,
): Promise<Child> {
  const uri = file ? `${pathToFileURL(file.path).href}?mode=${access === 'read' ? 'ro' : 'rw'}` : ':memory:'
  let program: Program
  try {
    program = await processes.start({
      command: process.execPath,
      args: ['-e', CHILD],
      cwd: file ? dirname(file.path) : process.cwd(),
    })
  } catch (cause) {
    if (isPegboardError(cause) && cause.code === 'E_OVERLOADED') throw cause
    throw toToolError({ code: 'SQLITE_CANTOPEN', message: '' }, cause)
  }
  let onMessage: ((line: ChildMessage | undefined) => void) | undefined
  let hasExited = false
  readLines(program.stdout, (line) => onMessage?.(JSON.parse(line) as ChildMessage))
  // The end of the process reports a broken pipe.
  program.stdin.on('error', () => undefined)
  let stderrText = ''
  program.stderr.on('data', (text: Buffer) => {
    stderrText = (stderrText + text.toString()).slice(-2_000)
  })
  void program.ended.then(() => {
    hasExited = true
    onMessage?.(undefined)
  })

  /** One request and answer. The process is killed on timeout or abort. */
  async function request(
    message: unknown,
    timeoutMs: number,
    signal: AbortSignal | undefined,
    onDone?: (count: number) => void,
  ): Promise<ChildMessage> {
    if (hasExited) throw new ChildExit(createExitError(stderrText), false)
    const deadline = startDeadline(timeoutMs, signal)
    try {
      return await new Promise<ChildMessage>((resolve, reject) => {
        const { signal: stop } = deadline
        stop.addEventListener('abort', () => reject(new ChildExit(stop.reason, true)), { once: true })
        onMessage = (line) => {
          if (!line) reject(new ChildExit(createExitError(stderrText), true))
          else if (line.done !== undefined) onDone?.(line.done)
          else resolve(line)
        }
        program.stdin.write(`${JSON.stringify(message)}\n`)
      })
    } catch (error) {
      await program.stop(0)
      throw error
    } finally {
      deadline.end()
      onMessage = undefined
    }
  }

  const opened = await request(
    {
      open: {
        uri,
        file,
        readOnly: access === 'read',
        libsql: libsqlFile(),
        busyMs: target.busyMs,
        harmlessNames: HARMLESS_NAMES,
        maxBytes: file ? MAX_MEMORY_BYTES : MAX_IN_MEMORY_DATABASE_BYTES,
      },
    },
    target.connectMs,
    undefined,
  ).catch((error: unknown) => {
    throw error instanceof ChildExit ? error.cause : error
  })
  if (opened.error) {
    await program.stop(0)
    throw toToolError(opened.error)
  }
  return {
    file,
    async run({ signal, onDone, timeoutMs, ...batch }) {
      const line = await request({ batch: { ...batch, maxRowBytes: MAX_ROW_BYTES } }, timeoutMs, signal, onDone)
      if (line.error) {
        const error = toToolError(line.error, undefined, line.statement)
        throw line.mustExit ? new ChildExit(error, false) : error
      }
      const outcomes = (line.outcomes ?? []).map((one) => ('error' in one ? { error: toToolError(one.error) } : one))
      if (line.mustExit) throw new ChildExit(undefined, false, outcomes)
      return outcomes
    },
    stop: () => program.stop(0),
  }
}

const createDiskFullError = (cause: unknown): ToolError =>
  new ToolError('The statement was stopped: the disk is nearly full.', {
    code: 'E_TOO_LARGE',
    hint: 'Change or sort less at once, or free some space first.',
    cause,
  })

function createExitError(stderrText: string): ToolError {
  const cause = new Error(stderrText || 'no output')
  if (stderrText.includes('out of memory')) return createRowTooLargeError(cause)
  if (stderrText.includes('out of disk space')) return createDiskFullError(cause)
  return new ToolError('The SQLite process exited.', { code: 'E_DB_UNAVAILABLE', cause })
}

const ERROR_CODES: readonly (readonly [RegExp, ErrorCode, string, string])[] = [
  [/READONLY/, 'E_READ_ONLY', 'The database refused to write', 'This connection, or this call, only reads.'],
  [
    /BUSY|LOCKED/,
    'E_DB_BUSY',
    'Another process is writing to the file',
    'Try again, or raise modules.database.config.busy_seconds.',
  ],
  [/CORRUPT|NOTADB/, 'E_DB_CORRUPT', 'The file is not a valid SQLite database', 'Name another file, or restore it.'],
  [
    /CANTOPEN|ConnectionFailed/,
    'E_DB_UNAVAILABLE',
    'The file cannot be opened',
    'Check that it exists and is readable.',
  ],
]

function toToolError(
  { code, message }: ErrorMessage,
  cause: unknown = new Error(`${code} ${message}`),
  statement?: number,
): ToolError {
  const where = statement === undefined ? {} : { data: { statement } }
  if (code === 'NO_DRIVER')
    return new ToolError('SQLite is not available.', {
      code: 'E_DB_UNAVAILABLE',
      retryable: false,
      hint: 'The operator runs "npm install libsql" where Pegboard is installed, or uses Node.js 22.16 or later.',
    })
  if (code === 'REPLACED')
    return new ToolError('The file was replaced while opening it.', { hint: 'Try again.', retryable: true })
  if (code === 'FORBIDDEN')
    return new ToolError(`${message} is not allowed in a statement: it reaches outside the database.`, {
      code: 'E_READ_ONLY',
      hint: 'Leave it out.',
      ...where,
    })
  if (code === 'SQLITE_FULL') return createDiskFullError(cause)
  if (code === 'SQLITE_NOMEM' || code === 'SQLITE_TOOBIG') return createRowTooLargeError(cause)
  for (const [pattern, errorCode, what, hint] of ERROR_CODES)
    if (pattern.test(code) || pattern.test(message.slice(0, 40)))
      return new ToolError(`${what}.`, { code: errorCode, hint, cause, ...where })
  return new ToolError(message, {
    hint: 'Correct the statement. list_tables shows the tables, and describe the columns of one.',
    cause,
    ...where,
  })
}
