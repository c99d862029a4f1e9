/**
 * What runs in the process of its own that SQLite gets: a statement that never ends can be ended only with the process it runs in,
 * and neither a thread nor a timer of ours would get a turn. It reads one JSON line for each piece of work and answers with one.
 * The first line opens the file. Nothing outside of the text is used: it is handed to `node -e`.
 */
export const CHILD = String.raw`
const { createInterface } = require('node:readline')
const fs = require('node:fs')
let database, builtIn, harmless, forbidden, inMemory = false, replaced = false

const say = (message) => process.stdout.write(JSON.stringify(message) + '\n')
const told = (error) => ({ code: String(error.errcode ?? error.code ?? ''), message: String(error.message) })
// node:sqlite tells numbers, libsql names.
const NUMBERS = { 5: 'SQLITE_BUSY', 6: 'SQLITE_LOCKED', 7: 'SQLITE_NOMEM', 8: 'SQLITE_READONLY', 11: 'SQLITE_CORRUPT', 14: 'SQLITE_CANTOPEN', 26: 'SQLITE_NOTADB' }
const failure = (error) => {
  const { code, message } = told(error)
  return { code: /^\d+$/.test(code) ? NUMBERS[Number(code) & 255] ?? 'SQLITE_' + code : code, message }
}

const isFile = (facts, { dev, ino }) => String(facts.dev) === dev && String(facts.ino) === ino
/** Regular files that are open, by descriptor; nothing where a system does not tell. */
function openFiles() {
  const found = new Map()
  if (process.platform !== 'linux') return found
  for (const name of fs.readdirSync('/proc/self/fd')) {
    try {
      const facts = fs.fstatSync(Number(name), { bigint: true })
      if (facts.isFile()) found.set(name, facts)
    } catch {
      // The list itself is closed by now.
    }
  }
  return found
}

/** That what was opened is what was checked: a folder on the way can be replaced at any moment. */
function verify(file, before) {
  const opened = [...openFiles()].filter(([fd]) => !before.has(fd)).map(([, facts]) => facts)
  if (process.platform !== 'linux') opened.push(fs.lstatSync(file.path, { bigint: true }))
  if (!opened.some((facts) => isFile(facts, file)) || !isFile(fs.lstatSync(file.path, { bigint: true }), file))
    throw Object.assign(new Error('replaced'), { code: 'REPLACED' })
}

function open({ uri, file, readOnly, libsql, busyMs, safe }) {
  process.emitWarning = () => undefined
  const before = openFiles()
  builtIn = process.getBuiltinModule?.('node:sqlite')
  if (builtIn && !builtIn.StatementSync.prototype.setReturnArrays) builtIn = undefined
  if (builtIn) database = new builtIn.DatabaseSync(uri === ':memory:' ? uri : new URL(uri), { readOnly })
  else if (libsql) database = new (require(libsql))(uri)
  else throw Object.assign(new Error('no driver'), { code: 'NO_DRIVER' })
  inMemory = uri === ':memory:'
  if (file) verify(file, before)
  // Of what SQLite was built with, some functions read and write files.
  const has = [...all('SELECT name FROM pragma_function_list'), ...all('SELECT name FROM pragma_module_list')]
  harmless = new Set(safe)
  forbidden = new Set(has.map(([name]) => String(name).toLowerCase()).filter((name) => !harmless.has(name)))
  database.exec('PRAGMA busy_timeout = ' + busyMs)
  database.exec('PRAGMA trusted_schema = 0')
  database.exec('PRAGMA foreign_keys = 1')
  // One value can be a thousand million bytes. A database in memory is counted, too.
  database.exec('PRAGMA hard_heap_limit = ' + (uri === ':memory:' ? 1024 : 256) * 1024 * 1024)
  if (readOnly) database.exec('PRAGMA query_only = 1')
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
const all = (sql) => prepare(sql).statement.all()
const changes = () => Number(all('SELECT total_changes()')[0][0])

const bound = (value) => {
  if (typeof value === 'boolean') return value ? 1n : 0n
  if (typeof value === 'number' && Number.isSafeInteger(value)) return BigInt(value)
  return typeof value === 'object' && value !== null ? JSON.stringify(value) : value
}
const shown = (value) => {
  if (typeof value === 'bigint') return Number.isSafeInteger(Number(value)) ? Number(value) : String(value)
  if (typeof value === 'number') return Number.isFinite(value) ? value : String(value)
  if (value instanceof ArrayBuffer || ArrayBuffer.isView(value)) {
    const bytes = value instanceof ArrayBuffer ? Buffer.from(value) : Buffer.from(value.buffer, value.byteOffset, value.byteLength)
    return { base64: bytes.toString('base64') }
  }
  return value
}

function run({ sql, params, names = [] }, { maxRows, maxBytes }) {
  // Tables of pragmas are in no list before they are used.
  const bad = names.find((name) => forbidden.has(name) || (name.startsWith('pragma_') && !harmless.has(name)))
  if (bad !== undefined) throw Object.assign(new Error(bad), { code: 'FORBIDDEN' })
  const before = changes()
  const { statement, columns } = prepare(sql)
  const values = params.map(bound)
  const rows = []
  let truncated = false
  if (columns.length === 0) builtIn ? statement.run(...values) : statement.run(values)
  else {
    let bytes = 0
    for (const row of builtIn ? statement.iterate(...values) : statement.iterate(values)) {
      const cells = row.map(shown)
      bytes += JSON.stringify(cells).length
      truncated = rows.length >= maxRows || bytes > maxBytes
      if (truncated) break
      rows.push(cells)
    }
    // libsql has no way to end a statement that is not at its end; until then nobody can write.
    if (truncated && !builtIn) replaced = true
  }
  // Once a statement that writes was explained, some releases hold the lock of the next that reads.
  if (/^explain$/i.test(/[a-z]+/i.exec(sql.replace(/\/\*[^]*?\*\/|--.*/g, ''))?.[0] ?? '')) replaced = true
  const affected = changes() - before
  const insert = /^(?:insert|replace)$/i.test(/[a-z]+/i.exec(sql.replace(/\/\*[^]*?\*\/|--.*/g, ''))?.[0] ?? '')
  return {
    columns, rows, truncated,
    ...(affected > 0 || columns.length === 0 ? { affected } : {}),
    ...(insert && affected > 0 ? { lastId: shown(all('SELECT last_insert_rowid()')[0][0]) } : {}),
  }
}

function work({ statements, access, atomic, goOn, ...limits }) {
  const outcomes = []
  if (atomic) database.exec(access === 'write' ? 'BEGIN IMMEDIATE' : 'BEGIN')
  try {
    for (const [at, statement] of statements.entries()) {
      try {
        outcomes.push(run(statement, limits))
      } catch (error) {
        if (atomic) throw Object.assign(error, { at })
        outcomes.push({ error: failure(error) })
        if (!goOn) break
      }
      if (statements.length > 1) say({ done: at + 1 })
    }
    if (atomic) database.exec('COMMIT')
  } catch (error) {
    if (atomic) try { database.exec('ROLLBACK') } catch { /* the failure rolled back */ }
    throw error
  }
  return outcomes
}

/** Whether something is left of the work that would keep others from writing. A database in memory is nobody else's. */
function isHeld() {
  if (inMemory) return false
  if (replaced) return true
  try {
    database.exec('BEGIN')
    database.exec('COMMIT')
    return false
  } catch {
    return true
  }
}

createInterface({ input: process.stdin }).on('line', (line) => {
  const { open: opening, work: given } = JSON.parse(line)
  try {
    if (opening) {
      open(opening)
      say({ open: true })
    } else {
      const outcomes = work(given)
      say({ outcomes, last: isHeld() })
    }
  } catch (error) {
    say({ error: failure(error), at: error.at, last: database !== undefined && isHeld() })
  }
}).on('close', () => process.exit(0))
`
