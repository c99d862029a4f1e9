/**
 * While a statement runs, this thread looks at the memory of the process and at the free space of the disks with the database
 * and with the temporary files of SQLite, and ends the process when it takes too much. node:sqlite is built without the memory
 * limit of SQLite, and no SQLite limits its temporary files.
 */
const WATCH = `
const { working, maxBytes, folders } = require('node:worker_threads').workerData
const fs = require('node:fs')
const disks = () => folders.map((folder) => {
  try {
    const { bavail, blocks, bsize } = fs.statfsSync(folder)
    return { free: bavail * bsize, reserve: Math.min(2 ** 28, blocks * bsize * 0.05) }
  } catch {
    return { free: Infinity, reserve: 0 }
  }
})
const exit = (reason) => {
  fs.writeSync(2, reason)
  process.kill(process.pid, 'SIGKILL')
}
for (;;) {
  Atomics.wait(working, 0, 0)
  // A disk that is nearly full already has room for a small change.
  const minFree = disks().map(({ free, reserve }) => Math.min(reserve, free - 2 ** 22))
  while (Atomics.load(working, 0) === 1) {
    if (process.memoryUsage.rss() > maxBytes) exit('out of memory')
    if (disks().some(({ free }, index) => free < minFree[index])) exit('out of disk space')
    Atomics.wait(working, 0, 1, 20)
  }
}`

/**
 * The program of SQLite's child process: an endless statement can only be stopped by ending its process, because it
 * blocks threads and timers. It reads one line of JSON per request and writes one per answer; the first line opens
 * the file. It is passed to `node -e`, so it must be self-contained.
 */
export const CHILD = String.raw`
const fs = require('node:fs')
const { Worker } = require('node:worker_threads')
let database, builtIn, harmless, forbidden, written, inMemory = false, mustReplace = false

const send = (message) => process.stdout.write(JSON.stringify(message) + '\n')
const describeError = (error) => ({ code: String(error.errcode ?? error.code ?? ''), message: String(error.message) })
// node:sqlite reports numbers, libsql names.
const NUMBERS = { 5: 'SQLITE_BUSY', 6: 'SQLITE_LOCKED', 7: 'SQLITE_NOMEM', 8: 'SQLITE_READONLY', 13: 'SQLITE_FULL', 11: 'SQLITE_CORRUPT', 14: 'SQLITE_CANTOPEN', 18: 'SQLITE_TOOBIG', 26: 'SQLITE_NOTADB' }
const failure = (error) => {
  const { code, message } = describeError(error)
  return { code: /^\d+$/.test(code) ? NUMBERS[Number(code) & 255] ?? 'SQLITE_' + code : code, message }
}

const isFile = (stats, { dev, ino }) => String(stats.dev) === dev && String(stats.ino) === ino
/** Open regular files by descriptor; empty if the system does not tell. */
function openFiles() {
  const found = new Map()
  if (process.platform !== 'linux') return found
  for (const name of fs.readdirSync('/proc/self/fd')) {
    try {
      const stats = fs.fstatSync(Number(name), { bigint: true })
      if (stats.isFile()) found.set(name, stats)
    } catch {
      // The descriptor of the list itself is closed by now.
    }
  }
  return found
}

/** Checks that the opened file is the one that was checked, because a folder can be replaced at any moment. */
function checkOpened(file, before) {
  const opened = [...openFiles()].filter(([fd]) => !before.has(fd)).map(([, stats]) => stats)
  if (process.platform !== 'linux') opened.push(fs.lstatSync(file.path, { bigint: true }))
  if (!opened.some((stats) => isFile(stats, file)) || !isFile(fs.lstatSync(file.path, { bigint: true }), file))
    throw Object.assign(new Error('replaced'), { code: 'REPLACED' })
}

const WATCH = ${JSON.stringify(WATCH)}
const working = new Int32Array(new SharedArrayBuffer(4))
function setWorking(value) {
  Atomics.store(working, 0, value)
  Atomics.notify(working, 0)
}

function open({ uri, file, readOnly, libsql, busyMs, harmlessNames, maxBytes }) {
  process.emitWarning = () => undefined
  const before = openFiles()
  builtIn = process.getBuiltinModule?.('node:sqlite')
  if (builtIn && !builtIn.StatementSync.prototype.setReturnArrays) builtIn = undefined
  if (builtIn) database = new builtIn.DatabaseSync(uri === ':memory:' ? uri : new URL(uri), { readOnly })
  else if (libsql) database = new (require(libsql))(uri)
  else throw Object.assign(new Error('no driver'), { code: 'NO_DRIVER' })
  inMemory = uri === ':memory:'
  if (file) checkOpened(file, before)
  // Some functions that SQLite may be built with read and write files.
  const available = [...queryAll('SELECT name FROM pragma_function_list'), ...queryAll('SELECT name FROM pragma_module_list')]
  harmless = new Set(harmlessNames)
  forbidden = new Set(available.map(([name]) => String(name).toLowerCase()).filter((name) => !harmless.has(name)))
  database.exec('PRAGMA busy_timeout = ' + busyMs)
  database.exec('PRAGMA trusted_schema = 0')
  database.exec('PRAGMA foreign_keys = 1')
  // One value can have a thousand million bytes. Applies to databases in memory too.
  if (!builtIn) database.exec('PRAGMA hard_heap_limit = ' + maxBytes)
  const maxRss = builtIn ? process.memoryUsage.rss() + maxBytes : Infinity
  const folders = [...(file ? [require('node:path').dirname(file.path)] : []), require('node:os').tmpdir(), '/var/tmp']
  new Worker(WATCH, { eval: true, workerData: { working, maxBytes: maxRss, folders } }).unref()
  if (readOnly) database.exec('PRAGMA query_only = 1')
  else if (file) written = folders[0]
}

/** Half of the free space, because changes may be in a second file until they are copied. */
function limitGrowth() {
  const { bavail, blocks, bsize } = fs.statfsSync(written)
  const bytes = Math.max(0, bavail * bsize - Math.min(2 ** 28, blocks * bsize * 0.05)) / 2
  const [[size]] = queryAll('PRAGMA page_size'), [[count]] = queryAll('PRAGMA page_count')
  const pages = Math.min(2 ** 32 - 2, Number(count) + Math.floor(bytes / Number(size)))
  database.exec('PRAGMA max_page_count = ' + Math.max(1, pages))
}

function prepare(sql) {
  const statement = database.prepare(sql)
  if (builtIn) {
    statement.setReadBigInts(true)
    statement.setReturnArrays(true)
    return { statement, columns: statement.columns().map(({ name }) => name) }
  }
  statement.safeIntegers(true)
  const reads = statement.reader
  if (reads) statement.raw(true)
  return { statement, columns: reads ? statement.columns().map(({ name }) => name) : [] }
}
const queryAll = (sql) => prepare(sql).statement.all()
const changes = () => Number(queryAll('SELECT total_changes()')[0][0])

const toParam = (value) => {
  if (typeof value === 'boolean') return value ? 1n : 0n
  if (typeof value === 'number' && Number.isSafeInteger(value)) return BigInt(value)
  return typeof value === 'object' && value !== null ? JSON.stringify(value) : value
}
const toJson = (value) => {
  if (typeof value === 'bigint') return Number.isSafeInteger(Number(value)) ? Number(value) : String(value)
  if (typeof value === 'number') return Number.isFinite(value) ? value : String(value)
  if (value instanceof ArrayBuffer || ArrayBuffer.isView(value)) {
    const bytes = value instanceof ArrayBuffer ? Buffer.from(value) : Buffer.from(value.buffer, value.byteOffset, value.byteLength)
    return { base64: bytes.toString('base64') }
  }
  return value
}

const sizeOf = (value) => (typeof value === 'string' ? value.length : value?.byteLength ?? 8)

function runStatement({ sql, params, names = [] }, { maxRows, maxBytes, maxRowBytes }) {
  // Virtual tables of pragmas are not listed until used.
  const denied = names.find((name) => forbidden.has(name) || (name.startsWith('pragma_') && !harmless.has(name)))
  if (denied !== undefined) throw Object.assign(new Error(denied), { code: 'FORBIDDEN' })
  const before = changes()
  const { statement, columns } = prepare(sql)
  const values = params.map(toParam)
  const rows = []
  let truncated = false, isTooLarge = false
  if (columns.length === 0) builtIn ? statement.run(...values) : statement.run(values)
  else {
    let bytes = 0
    for (const row of builtIn ? statement.iterate(...values) : statement.iterate(values)) {
      isTooLarge = row.reduce((sum, value) => sum + sizeOf(value), 0) > maxRowBytes
      if (isTooLarge) break
      const cells = row.map(toJson)
      bytes += JSON.stringify(cells).length
      truncated = rows.length >= maxRows || bytes > maxBytes
      if (truncated) break
      rows.push(cells)
    }
    // libsql cannot stop an unfinished statement, and until it ends nobody can write.
    if ((truncated || isTooLarge) && !builtIn) mustReplace = true
    if (isTooLarge) throw Object.assign(new Error('row too large'), { code: 'SQLITE_TOOBIG' })
  }
  const verb = /[a-z]+/i.exec(sql.replace(/\/\*[^]*?\*\/|--.*/g, ''))?.[0].toLowerCase()
  // Some releases keep the lock of a statement explained with EXPLAIN.
  if (verb === 'explain') mustReplace = true
  const affected = changes() - before
  return {
    columns, rows, truncated,
    ...(affected > 0 || columns.length === 0 ? { affected } : {}),
    ...((verb === 'insert' || verb === 'replace') && affected > 0 ? { lastId: toJson(queryAll('SELECT last_insert_rowid()')[0][0]) } : {}),
  }
}

function runBatch({ statements, access, atomic, continueOnError, ...limits }) {
  const outcomes = []
  if (written) limitGrowth()
  if (atomic) database.exec(access === 'write' ? 'BEGIN IMMEDIATE' : 'BEGIN')
  try {
    for (const [index, statement] of statements.entries()) {
      try {
        outcomes.push(runStatement(statement, limits))
      } catch (error) {
        if (atomic) throw Object.assign(error, { statement: index })
        outcomes.push({ error: failure(error) })
        if (!continueOnError) break
      }
      if (statements.length > 1) send({ done: index + 1 })
    }
    if (atomic) database.exec('COMMIT')
  } catch (error) {
    if (atomic) try { database.exec('ROLLBACK') } catch { /* the failure rolled back */ }
    throw error
  }
  return outcomes
}

/** True if unfinished work would block other writers. A database in memory belongs to this process only. */
function isHeld() {
  if (inMemory) return false
  if (mustReplace) return true
  try {
    database.exec('BEGIN')
    database.exec('COMMIT')
    return false
  } catch {
    return true
  }
}

function handleLine(line) {
  const { open: options, batch } = JSON.parse(line)
  setWorking(1)
  try {
    if (options) {
      open(options)
      send({ open: true })
    } else {
      const outcomes = runBatch(batch)
      send({ outcomes, mustExit: isHeld() })
    }
  } catch (error) {
    send({ error: failure(error), statement: error.statement, mustExit: database !== undefined && isHeld() })
  }
  setWorking(0)
}

// readline of Node 24 also splits lines at U+2028, which JSON does not escape.
let rest = ''
process.stdin.setEncoding('utf8').on('data', (text) => {
  const lines = text.split('\n')
  lines[0] = rest + lines[0]
  rest = lines.pop()
  lines.forEach(handleLine)
}).on('end', () => process.exit(0))
`
