import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { createRequire, isBuiltin } from 'node:module'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { temporaryFolder } from '../app.ts'
import { type Kind, kinds, makeDatabase, servers, sqliteIn, type TestDatabase } from '../databases.ts'
import { SHOP } from '../modules/database-app.ts'
import { type AppWithClient, startAppWithClient } from './app-with-client.ts'
import { least, soonest } from './lag.ts'

type Settings = Record<string, unknown>

/** The module with these settings. */
async function open(config: Settings = {}, dir = temporaryFolder()) {
  const all = await startAppWithClient(
    { database: { config } },
    { dir, settings: { execution: { maxResultTokens: 0 } } },
  )
  const full = (tool: string): string => `database.${tool}`
  const call: AppWithClient['call'] = (tool, input, more) => all.call(full(tool), input, more)
  const fails: AppWithClient['fails'] = (tool, input, more) => all.fails(full(tool), input, more)
  return { ...all, call, fails }
}

type Rig = Awaited<ReturnType<typeof open>> & { readonly database: TestDatabase }

/** The module on a database of one kind, as the connection "default". */
async function openOn(kind: Kind, connection: Settings = {}, config: Settings = {}, sql?: string): Promise<Rig> {
  const database = await makeDatabase(kind)
  if (sql !== undefined) await database.exec(sql)
  const settings = { ...database.connection, accept_role: true, ...connection }
  return { ...(await open({ ...config, connections: { default: settings } })), database }
}

const REFUSED = ['E_READ_ONLY', 'E_SQL_MULTI_STATEMENT', 'E_VALIDATION', 'E_DENIED_BY_POLICY', 'E_TOOL_FAILED']
const unique = (): string => randomBytes(5).toString('hex')

/** The expected content of the tables after each attack. */
const state = async ({ rows }: TestDatabase): Promise<string> =>
  JSON.stringify([await rows('SELECT * FROM customers ORDER BY id'), await rows('SELECT * FROM orders ORDER BY id')])

async function refuses(rig: Rig, statements: readonly (readonly [sql: string, code: string])[]): Promise<void> {
  const before = await state(rig.database)
  const got: [string, string][] = []
  for (const [sql] of statements)
    for (const [action, input] of [
      ['query', { sql }],
      ['fetch_results', { query: sql }],
      ['execute_query', { sql }],
      ['batch_execute', { statements: [{ sql }] }],
    ] as const) {
      const code = await rig.call(action, input).then(
        (value) => value.results?.[0]?.error?.code ?? `nothing: ${JSON.stringify(value)}`,
        (error) => error.code,
      )
      if (action === 'query') got.push([sql, code])
      expect(REFUSED, `${action} ${sql}`).toContain(code)
    }
  expect(got).toEqual(statements)
  expect(await state(rig.database)).toBe(before)
}

const readonlyOn = (kind: Kind, sql = SHOP): Promise<Rig> => openOn(kind, { policy: 'readonly' }, {}, sql)

describe('a read-only connection', () => {
  test('DB-01: a read-only SQLite connection rejects every statement that changes data', async () => {
    const rig = await readonlyOn('sqlite')
    await refuses(rig, [
      ["INSERT INTO customers (id, name) VALUES (9, 'x')", 'E_READ_ONLY'],
      ["INSERT INTO customers (id, name) VALUES (9, 'x') RETURNING id", 'E_READ_ONLY'],
      ["REPLACE INTO customers (id, name) VALUES (1, 'x')", 'E_READ_ONLY'],
      ["UPDATE customers SET name = 'x'", 'E_READ_ONLY'],
      ['DELETE FROM orders', 'E_READ_ONLY'],
      ['/* c */ -- d\n DELETE FROM orders', 'E_READ_ONLY'],
      ['DROP TABLE orders', 'E_READ_ONLY'],
      ['ALTER TABLE orders ADD COLUMN x', 'E_READ_ONLY'],
      ['CREATE TEMP TABLE x (a)', 'E_READ_ONLY'],
      ['WITH x AS (SELECT 1) DELETE FROM orders', 'E_READ_ONLY'],
      ["WITH x AS (SELECT 1) INSERT INTO customers (id, name) SELECT 9, 'x' RETURNING *", 'E_READ_ONLY'],
      ['PRAGMA journal_mode=WAL', 'E_READ_ONLY'],
      ['PRAGMA journal_mode(WAL)', 'E_READ_ONLY'],
      ['PRAGMA main.journal_mode = WAL', 'E_READ_ONLY'],
      ['PRAGMA query_only = 0', 'E_READ_ONLY'],
      ['PRAGMA writable_schema = 1', 'E_READ_ONLY'],
      ['PRAGMA user_version = 7', 'E_READ_ONLY'],
      ['PRAGMA incremental_vacuum', 'E_READ_ONLY'],
      ['VACUUM', 'E_READ_ONLY'],
      ['REINDEX', 'E_READ_ONLY'],
      ['ANALYZE', 'E_READ_ONLY'],
      ['BEGIN IMMEDIATE', 'E_VALIDATION'],
      ['UPDATE sqlite_dbpage SET data = zeroblob(4096)', 'E_READ_ONLY'],
    ])
    expect(await rig.call('query', { sql: 'PRAGMA table_info(customers)' })).toMatchObject({ row_count: 4 })
    expect(await rig.call('query', { sql: 'PRAGMA journal_mode' })).toMatchObject({
      rows: [{ journal_mode: 'delete' }],
    })
    expect(await rig.call('query', { sql: 'EXPLAIN QUERY PLAN SELECT * FROM orders' })).toMatchObject({ row_count: 1 })
    expect(await rig.call('query', { sql: 'SELECT sum(total) AS all_of_it FROM orders;' })).toMatchObject({
      rows: [{ all_of_it: 119.75 }],
    })
  })

  test('DB-03: no SQLite statement reaches another file, not even with a built-in function', async () => {
    const rig = await readonlyOn('sqlite')
    const dir = temporaryFolder()
    const other = join(dir, 'other.db')
    await sqliteIn(other).exec("CREATE TABLE hidden (word); INSERT INTO hidden VALUES ('sesame')")
    const made = join(dir, 'made')
    // libsql has functions that reach files, which are refused. node:sqlite has none.
    const fileFunction = isBuiltin('node:sqlite') ? 'E_TOOL_FAILED' : 'E_READ_ONLY'
    await refuses(rig, [
      [`VACUUM INTO '${made}'`, 'E_READ_ONLY'],
      [`VACUUM main INTO '${made}'`, 'E_READ_ONLY'],
      [`ATTACH '${other}' AS other`, 'E_READ_ONLY'],
      [`ATTACH DATABASE 'file:${other}?mode=rwc' AS other`, 'E_READ_ONLY'],
      [`SELECT writefile('${made}', 'x')`, fileFunction],
      [`SELECT "writefile"('${made}', 'x')`, fileFunction],
      [`SELECT [WriteFile] /* c */ ('${made}', 'x')`, fileFunction],
      [`SELECT readfile('${other}')`, fileFunction],
      [`SELECT * FROM customers WHERE readfile('${other}') IS NOT NULL`, fileFunction],
      [`SELECT * FROM fsdir('${dir}')`, fileFunction],
      [`SELECT * FROM fsdir WHERE path = '${dir}'`, fileFunction],
      [`SELECT * FROM 'fsdir' WHERE path = '${dir}'`, fileFunction],
      ['SELECT * FROM sqlite_dbpage', fileFunction],
      ["SELECT load_extension('/tmp/x.so')", 'E_READ_ONLY'],
      ["SELECT fts3_tokenizer('simple')", 'E_READ_ONLY'],
      ["SELECT sqlite3mc_config('cipher', 'rc4')", fileFunction],
    ])
    expect(existsSync(made)).toBe(false)
    // Nor can a view in the file.
    await rig.database.exec(`CREATE VIEW trap AS SELECT writefile('${made}', 'x') AS x`)
    expect((await rig.fails('query', { sql: 'SELECT * FROM trap' })).code).toBe('E_TOOL_FAILED')
    expect(existsSync(made)).toBe(false)
  })

  test('DB-04: a read-only SQLite connection rejects transactions, other files and settings, and holds no lock afterwards', async () => {
    const rig = await readonlyOn('sqlite')
    const other = join(temporaryFolder(), 'x')
    await refuses(rig, [
      ['CREATE TEMP TABLE t (a)', 'E_READ_ONLY'],
      ['BEGIN EXCLUSIVE', 'E_VALIDATION'],
      ['PRAGMA writable_schema=ON', 'E_READ_ONLY'],
      ["ATTACH ':memory:' AS m", 'E_READ_ONLY'],
      ["SELECT load_extension('x')", 'E_READ_ONLY'],
      [`ATTACH 'file:${other}?mode=rwc' AS m`, 'E_READ_ONLY'],
    ])
    expect(existsSync(other)).toBe(false)
    for (const sql of [
      'EXPLAIN INSERT INTO orders SELECT * FROM orders',
      "SELECT * FROM pragma_table_info('orders')",
      "EXPLAIN INSERT INTO customers (id, name) SELECT 9, name FROM pragma_table_info('orders')",
      'EXPLAIN DELETE FROM orders',
      'SELECT * FROM orders WHERE total > abs(-9223372036854775808)',
      'SELECT * FROM pragma_integrity_check',
      'EXPLAIN BEGIN EXCLUSIVE',
      'SELECT * FROM orders',
    ])
      for (const input of [
        { sql, limit: 5_000 },
        { sql, limit: 1 },
      ]) {
        await rig.call('query', input).catch(() => undefined)
        // Fails immediately if a lock is held.
        await rig.database.exec('PRAGMA busy_timeout = 0; BEGIN EXCLUSIVE; ROLLBACK')
      }
    await rig.call('batch_execute', {
      statements: [{ sql: 'EXPLAIN DELETE FROM orders' }, { sql: "SELECT * FROM pragma_table_info('orders')" }],
    })
    await rig.database.exec('PRAGMA busy_timeout = 0; BEGIN EXCLUSIVE; ROLLBACK')
  }, 60_000)

  test('no answer reveals the path of the file', async () => {
    const rig = await readonlyOn('sqlite')
    await refuses(rig, [
      ['PRAGMA database_list', 'E_READ_ONLY'],
      ['SELECT file FROM pragma_database_list', 'E_READ_ONLY'],
      ['SELECT "file" FROM "PRAGMA_DATABASE_LIST"', 'E_READ_ONLY'],
    ])
  })

  test('cannot be used to reach another file through an unrestricted connection', async () => {
    const rig = await openOn('sqlite', { policy: 'unrestricted' }, {}, SHOP)
    const made = join(rig.dir, 'made')
    for (const sql of [`VACUUM INTO '${made}'`, `ATTACH '${made}' AS m`, `SELECT writefile('${made}', 'x')`])
      expect(['E_READ_ONLY', 'E_TOOL_FAILED']).toContain((await rig.fails('execute', { sql })).code)
    expect(existsSync(made)).toBe(false)
    expect(await rig.call('execute', { sql: 'VACUUM' })).toEqual({ affected_rows: 0 })
  })

  test.runIf(servers.includes('postgresql'))(
    'DB-05: a read-only PostgreSQL connection rejects every statement that changes data',
    async () => {
      const rig = await readonlyOn(
        'postgresql',
        `${SHOP} CREATE SEQUENCE s;
      CREATE EXTENSION dblink; CREATE EXTENSION tablefunc; CREATE EXTENSION xml2;
      CREATE FUNCTION sweep() RETURNS int LANGUAGE sql AS 'DELETE FROM orders; SELECT 1';
      CREATE FUNCTION sly() RETURNS int STABLE LANGUAGE plpgsql AS $$ BEGIN DELETE FROM orders; RETURN 1; END $$;
      CREATE VIEW swept AS SELECT sweep() AS x;`,
      )
      const { database } = rig.database.connection
      const out = join(temporaryFolder(), 'out')
      await refuses(rig, [
        ['WITH x AS (DELETE FROM orders RETURNING *) SELECT * FROM x', 'E_READ_ONLY'],
        ["WITH x AS (INSERT INTO customers (id, name) VALUES (9, 'x') RETURNING *) SELECT * FROM x", 'E_READ_ONLY'],
        ["INSERT INTO customers (id, name) VALUES (9, 'x') RETURNING id", 'E_READ_ONLY'],
        ['SELECT * INTO stolen FROM customers', 'E_READ_ONLY'],
        ['EXPLAIN ANALYZE DELETE FROM orders', 'E_READ_ONLY'],
        ['SELECT * FROM orders FOR UPDATE', 'E_READ_ONLY'],
        [`COPY customers TO PROGRAM 'cat > ${out}'`, 'E_READ_ONLY'],
        [`COPY (SELECT 1) TO '${out}'`, 'E_READ_ONLY'],
        [`COPY customers FROM '/etc/passwd'`, 'E_READ_ONLY'],
        ['DO $$ BEGIN DELETE FROM orders; END $$', 'E_READ_ONLY'],
        ['SET transaction_read_only = off', 'E_READ_ONLY'],
        ["SELECT set_config('transaction_read_only', 'off', false)", 'E_READ_ONLY'],
        ["SELECT nextval('s')", 'E_READ_ONLY'],
        ["SELECT setval('s', 5)", 'E_READ_ONLY'],
        ['SELECT sweep()', 'E_READ_ONLY'],
        ['SELECT * FROM sweep()', 'E_READ_ONLY'],
        ['SELECT "sweep" /* c */ ()', 'E_READ_ONLY'],
        ['SELECT * FROM customers ORDER BY public . sweep()', 'E_READ_ONLY'],
        ['SELECT * FROM swept', 'E_READ_ONLY'],
        // It is declared read-only, and PostgreSQL enforces that.
        ['SELECT sly()', 'E_TOOL_FAILED'],
        [String.raw`SELECT U&"\0073weep"()`, 'E_VALIDATION'],
        [`SELECT dblink_exec('dbname=${database}', 'DELETE FROM orders')`, 'E_READ_ONLY'],
        [`SELECT * FROM dblink('dbname=${database}', 'DELETE FROM orders RETURNING id') AS t (id int)`, 'E_READ_ONLY'],
        [`SELECT 1 WHERE EXISTS (SELECT 1 FROM dblink_connect('dbname=${database}'))`, 'E_READ_ONLY'],
        ["SELECT pg_read_file('/etc/passwd')", 'E_READ_ONLY'],
        [`SELECT lo_import('/etc/passwd')`, 'E_READ_ONLY'],
        ['SELECT pg_terminate_backend(1)', 'E_READ_ONLY'],
        ['SELECT pg_advisory_lock(1)', 'E_READ_ONLY'],
        ["SELECT query_to_xml('DELETE FROM orders', true, true, '')", 'E_READ_ONLY'],
        // They execute statements given as text, and PostgreSQL declares some of them STABLE.
        [
          "SELECT ts_rewrite('a'::tsquery, 'SELECT $$a$$::tsquery, quote_literal(name)::tsquery FROM customers')",
          'E_READ_ONLY',
        ],
        [
          "SELECT * FROM crosstab('SELECT id, id, pg_read_file($$/etc/hostname$$) FROM orders') AS t (a int, b text)",
          'E_READ_ONLY',
        ],
        ["SELECT * FROM crosstab2('SELECT name, name, name FROM customers')", 'E_READ_ONLY'],
        ["SELECT * FROM connectby('customers', 'id', 'id', '1', 0) AS t (a int, b int, c int)", 'E_READ_ONLY'],
        ["SELECT * FROM xpath_table('id', 'name', 'customers', '/a', 'true') AS t (a int, b text)", 'E_READ_ONLY'],
        ["SELECT pg_notify('a', 'b')", 'E_READ_ONLY'],
        ['CREATE TEMP TABLE x (a int)', 'E_READ_ONLY'],
        ['LOCK TABLE orders', 'E_READ_ONLY'],
        ['PREPARE p AS DELETE FROM orders', 'E_READ_ONLY'],
        ['CALL nothing()', 'E_READ_ONLY'],
      ])
      expect(existsSync(out)).toBe(false)
      expect(await rig.call('query', { sql: 'SHOW server_version' })).toMatchObject({ row_count: 1 })
      expect(await rig.call('query', { sql: 'TABLE orders' })).toMatchObject({ row_count: 3 })
      expect(
        await rig.call('query', { sql: 'SELECT length(gen_random_uuid()::text) AS n, now() IS NOT NULL AS t' }),
      ).toMatchObject({
        rows: [{ n: 36, t: true }],
      })
      const open = await openOn(
        'postgresql',
        { allowed_functions: ['count_them'] },
        {},
        `${SHOP} CREATE FUNCTION count_them() RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM orders'`,
      )
      expect(await open.call('query', { sql: 'SELECT count_them() AS n' })).toMatchObject({ rows: [{ n: 3 }] })
    },
  )

  test.runIf(servers.includes('postgresql'))(
    'DB-06: no statement ends its transaction, with or without values',
    async () => {
      const rig = await readonlyOn('postgresql')
      await refuses(rig, [
        ['/* c */ COMMIT; DROP TABLE orders', 'E_SQL_MULTI_STATEMENT'],
        ['SELECT 1; COMMIT; DROP TABLE orders', 'E_SQL_MULTI_STATEMENT'],
        ['COMMIT', 'E_VALIDATION'],
        ['ROLLBACK', 'E_VALIDATION'],
        ['/* /* nested */ */ COMMIT', 'E_VALIDATION'],
        ['SELECT $$a$$; DROP TABLE orders -- $$', 'E_SQL_MULTI_STATEMENT'],
      ])
      expect((await rig.fails('query', { sql: 'SELECT :p0; DROP TABLE orders', params: [1] })).code).toBe(
        'E_SQL_MULTI_STATEMENT',
      )
    },
  )

  test.runIf(servers.includes('mysql'))('rejects every statement of MySQL and MariaDB that changes data', async () => {
    const rig = await readonlyOn('mysql')
    await rig.database.exec(
      'CREATE FUNCTION sweep() RETURNS int DETERMINISTIC BEGIN DELETE FROM orders; RETURN 1; END; CREATE SEQUENCE s; CREATE PROCEDURE p() DELETE FROM orders',
    )
    const out = join(temporaryFolder(), 'out')
    await refuses(rig, [
      ["INSERT INTO customers (id, name) VALUES (9, 'x')", 'E_READ_ONLY'],
      ["INSERT INTO customers (id, name) VALUES (9, 'x') RETURNING id", 'E_READ_ONLY'],
      ['DELETE FROM orders', 'E_READ_ONLY'],
      ['DROP TABLE orders', 'E_READ_ONLY'],
      [`SELECT * FROM customers INTO OUTFILE '${out}'`, 'E_READ_ONLY'],
      [`SELECT name INTO DUMPFILE '${out}' FROM customers LIMIT 1`, 'E_READ_ONLY'],
      [`SELECT 5--1 INTO OUTFILE '${out}'`, 'E_READ_ONLY'],
      [`SELECT '\\'' INTO OUTFILE '${out}' -- '`, 'E_READ_ONLY'],
      [`SELECT 1 /*!50000 INTO OUTFILE '${out}' */`, 'E_VALIDATION'],
      [`SELECT 1 /*M!100000 INTO OUTFILE '${out}' */`, 'E_VALIDATION'],
      ["SELECT LOAD_FILE('/etc/passwd')", 'E_READ_ONLY'],
      ["LOAD DATA LOCAL INFILE '/etc/passwd' INTO TABLE customers", 'E_READ_ONLY'],
      ['SELECT sweep()', 'E_READ_ONLY'],
      ['SELECT NEXTVAL(s)', 'E_READ_ONLY'],
      ["SELECT GET_LOCK('a', 1)", 'E_READ_ONLY'],
      ['CALL p()', 'E_READ_ONLY'],
      ['SET SESSION TRANSACTION READ WRITE', 'E_READ_ONLY'],
      ['START TRANSACTION READ WRITE', 'E_VALIDATION'],
      ['ANALYZE DELETE FROM orders', 'E_READ_ONLY'],
      ['HANDLER orders OPEN', 'E_READ_ONLY'],
      ['DO SLEEP(0)', 'E_READ_ONLY'],
      ['CREATE TEMPORARY TABLE x (a int)', 'E_READ_ONLY'],
    ])
    expect(existsSync(out)).toBe(false)
    expect(await rig.call('query', { sql: 'SHOW TABLES' })).toMatchObject({ row_count: 3 })
    expect(await rig.call('query', { sql: 'DESCRIBE orders' })).toMatchObject({ row_count: 4 })
  })

  test.runIf(servers.includes('postgresql'))(
    'DB-06: a connection that can change rows reaches no file, setting or session of PostgreSQL with a function',
    async () => {
      const rig = await openOn('postgresql', { policy: 'safe_write' }, {}, SHOP)
      const out = join(temporaryFolder(), 'out')
      const before = await state(rig.database)
      for (const sql of [
        "UPDATE customers SET name = pg_read_file('/etc/passwd') WHERE id = 1",
        `UPDATE customers SET name = "pg_read_file" ('/etc/passwd') WHERE id = 1`,
        "INSERT INTO customers (id, name) SELECT 9, pg_ls_dir FROM pg_catalog.pg_ls_dir('/')",
        `DELETE FROM orders WHERE id = 10 AND lo_export(lo_from_bytea(0, 'x'), '${out}') = 1`,
        `WITH x AS (SELECT lo_export(1, '${out}') AS a) DELETE FROM orders USING x WHERE x.a = 1`,
        "UPDATE orders SET note = set_config('role', 'postgres', false) WHERE id = 10",
        'DELETE FROM orders WHERE id = 10 AND pg_reload_conf()',
        'DELETE FROM orders USING pg_stat_activity s WHERE pg_terminate_backend(s.pid) AND orders.id = 10',
        "UPDATE orders SET note = query_to_xml('SELECT 1', true, true, '')::text WHERE id = 10",
        "UPDATE orders SET note = ts_rewrite('a'::tsquery, 'SELECT $$a$$::tsquery, $$b$$::tsquery')::text WHERE id = 10",
      ])
        for (const [action, input] of [
          ['execute', { sql }],
          ['execute_query', { sql }],
          ['transaction', { statements: [{ sql }] }],
        ] as const)
          expect(await rig.fails(action, input), `${action} ${sql}`).toMatchObject({ code: 'E_DENIED_BY_POLICY' })
      expect(
        (await rig.call('batch_execute', { statements: [{ sql: 'DELETE FROM orders WHERE pg_reload_conf()' }] }))
          .results,
      ).toMatchObject([{ error: { code: 'E_DENIED_BY_POLICY' } }])
      expect([await state(rig.database), existsSync(out)]).toEqual([before, false])
      await rig.database.exec(
        'CREATE SEQUENCE s; CREATE FUNCTION mine() RETURNS text VOLATILE LANGUAGE sql AS $$ SELECT $a$x$a$ $$',
      )
      const sql = "INSERT INTO customers (id, name) VALUES (nextval('s') + 100, md5(random()::text) || now()::text)"
      expect(await rig.call('execute', { sql })).toEqual({ affected_rows: 1 })
      const own = 'UPDATE customers SET name = mine() WHERE id = 1'
      expect(await rig.fails('execute', { sql: own })).toMatchObject({ code: 'E_DENIED_BY_POLICY' })
      const settings = { ...rig.database.connection, policy: 'safe_write', allowed_functions: ['mine'] }
      const named = await open({ connections: { default: settings } })
      expect(await named.call('execute', { sql: own })).toEqual({ affected_rows: 1 })
    },
  )

  test.runIf(servers.includes('mysql'))(
    'DB-06: a connection that can change rows reads no file of MariaDB with a function',
    async () => {
      const rig = await openOn('mysql', { policy: 'safe_write' }, {}, SHOP)
      for (const sql of [
        "UPDATE customers SET name = LOAD_FILE('/etc/hostname') WHERE id = 1",
        "UPDATE customers SET name = `load_file` ('/etc/hostname') WHERE id = 1",
        "INSERT INTO customers (id, name) SELECT 9, LOAD_FILE('/etc/hostname')",
        "DELETE FROM orders WHERE GET_LOCK('a', 1) = 2",
      ])
        expect(await rig.fails('execute', { sql }), sql).toMatchObject({ code: 'E_DENIED_BY_POLICY' })
    },
  )

  test.runIf(servers.includes('postgresql'))(
    'DB-08: Pegboard refuses a read-only connection with a PostgreSQL login that can write, unless the operator allows it',
    async () => {
      const database = await makeDatabase('postgresql')
      const [reader, writer] = [`reader_${unique()}`, `writer_${unique()}`]
      await database.exec(`${SHOP} CREATE ROLE ${reader} LOGIN; CREATE ROLE ${writer} LOGIN;
        GRANT SELECT ON ALL TABLES IN SCHEMA public TO ${reader}, ${writer}; GRANT INSERT ON orders TO ${writer}`)
      onTestFinished(() => database.exec(`DROP OWNED BY ${reader}, ${writer}; DROP ROLE ${reader}, ${writer}`))
      const as = (username: string, more = {}) => ({ ...database.connection, username, ...more })
      const { call, fails, logged } = await open({
        connections: {
          root: database.connection,
          writer: as(writer),
          known: as(writer, { accept_role: true }),
          reader: as(reader),
          free: as(writer, { policy: 'safe_write' }),
        },
      })
      const asked = (connection_id: string) => ({ sql: 'SELECT count(*) AS n FROM orders', connection_id })
      expect(await fails('query', asked('root'))).toMatchObject({
        code: 'E_DENIED_BY_POLICY',
        message: expect.stringContaining('is a superuser'),
        hint: expect.stringContaining('modules.database.config.connections.root.accept_role'),
      })
      expect(await fails('query', asked('writer'))).toMatchObject({
        code: 'E_DENIED_BY_POLICY',
        message: expect.stringContaining('may write to "orders"'),
      })
      expect(await call('query', asked('known'))).toMatchObject({ rows: [{ n: 3 }] })
      expect(await call('query', asked('reader'))).toMatchObject({ rows: [{ n: 3 }] })
      expect(await call('query', asked('free'))).toMatchObject({ rows: [{ n: 3 }] })
      const warned = logged.filter((line) => line.includes('a login that can do more'))
      expect(warned.map((line) => JSON.parse(line).connection)).toEqual(['root', 'writer'])
    },
  )

  test.runIf(servers.includes('mysql'))(
    'DB-08: Pegboard refuses a read-only connection with a MariaDB login that can write',
    async () => {
      const database = await makeDatabase('mysql')
      await database.exec(SHOP)
      const [reader, filer] = [`r_${unique()}`, `f_${unique()}`]
      const { database: name } = database.connection
      await database.exec(`CREATE USER ${reader}@'127.0.0.1' IDENTIFIED BY 'reader-password'; GRANT SELECT ON ${name}.* TO ${reader}@'127.0.0.1';
      CREATE USER ${filer}@'127.0.0.1'; GRANT SELECT ON ${name}.* TO ${filer}@'127.0.0.1'; GRANT FILE ON *.* TO ${filer}@'127.0.0.1'`)
      onTestFinished(() => database.exec(`DROP USER ${reader}@'127.0.0.1', ${filer}@'127.0.0.1'`))
      const { call, fails } = await open({
        connections: {
          root: database.connection,
          filer: { ...database.connection, username: filer },
          reader: { ...database.connection, username: reader, password: 'reader-password' },
        },
      })
      const asked = (connection_id: string) => ({ sql: 'SELECT count(*) AS n FROM orders', connection_id })
      expect(await fails('query', asked('root'))).toMatchObject({ code: 'E_DENIED_BY_POLICY' })
      expect(await fails('query', asked('filer'))).toMatchObject({
        message: expect.stringContaining('the login has FILE'),
      })
      expect(await call('query', asked('reader'))).toMatchObject({ rows: [{ n: 3 }] })
    },
  )
})

describe.each(kinds)('%s', (kind) => {
  test('DB-02: a call has one statement, whatever the policy', async () => {
    for (const policy of ['readonly', 'safe_write', 'unrestricted']) {
      const rig = await openOn(kind, { policy }, {}, SHOP)
      for (const sql of [
        'SELECT 1; DROP TABLE orders',
        'SELECT 1 ; -- c\n DROP TABLE orders',
        "SELECT ';'; DROP TABLE orders",
        'SELECT 1;; DROP TABLE orders;',
        'SELECT 1 /* ; */; DROP TABLE orders',
      ])
        for (const action of ['query', 'execute_query'])
          expect((await rig.fails(action, { sql })).code).toBe('E_SQL_MULTI_STATEMENT')
      expect(
        await rig.call('query', { sql: "SELECT count(*) AS n, ';' AS mark FROM orders; /* end */" }),
      ).toMatchObject({
        rows: [{ n: 3, mark: ';' }],
      })
    }
  })

  test('DB-12: results stop at the row limits and say that there are more rows', async () => {
    const rig = await openOn(kind, {}, {}, SHOP)
    const five = {
      sqlite:
        'WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 5000000) SELECT x FROM c LIMIT 5000000',
      postgresql: 'SELECT x FROM generate_series(1, 5000000) AS g(x) LIMIT 5000000',
      mysql: 'SELECT seq AS x FROM seq_1_to_5000000 LIMIT 5000000',
    }[kind]
    const grown = await least(64, async () => {
      const before = process.memoryUsage().rss
      for (const sql of [five, five.replace(/ LIMIT 5000000$/, '')]) {
        const answer = await rig.call('query', { sql, limit: 500 })
        expect(answer).toMatchObject({ row_count: 500, truncated: true })
        expect(answer.rows[499]).toEqual({ x: 500 })
      }
      return (process.memoryUsage().rss - before) / 1024 / 1024
    })
    expect(grown).toBeLessThan(64)
    expect(await rig.call('query', { sql: 'SELECT count(*) AS n FROM orders' })).toMatchObject({ rows: [{ n: 3 }] })
    const few = await openOn(kind, { policy: { preset: 'readonly', max_rows: 2 } }, { max_bytes: 2_000 }, SHOP)
    expect(await few.call('query', { sql: 'SELECT * FROM orders' })).toMatchObject({ row_count: 2, truncated: true })
    const wide = { sqlite: "printf('%.*c', 1500, 'x')", postgresql: "repeat('x', 1500)", mysql: "repeat('x', 1500)" }[
      kind
    ]
    expect(await few.call('query', { sql: `SELECT ${wide} AS w UNION ALL SELECT ${wide}` })).toMatchObject({
      row_count: 1,
      truncated: true,
    })
  })

  test('DB-13: results have a size limit, and values keep their types', async () => {
    const rig = await openOn(kind, {}, {}, SHOP)
    const values = {
      sqlite: `SELECT 9007199254740993 AS big, x'00ff' AS bytes, 9e999 AS odd, '2024-02-29' AS day, '{"n":9007199254740993}' AS doc, NULL AS none`,
      postgresql: `SELECT 9007199254740993::bigint AS big, '\\x00ff'::bytea AS bytes, 'NaN'::float8 AS odd, '2024-02-29'::date AS day, '{"n":9007199254740993}'::json AS doc, NULL AS none`,
      mysql: `SELECT 9007199254740993 AS big, x'00ff' AS bytes, 1 AS odd, DATE '2024-02-29' AS day, JSON_OBJECT('n', 9007199254740993) AS doc, NULL AS none`,
    }[kind]
    const { rows } = await rig.call('query', { sql: values })
    expect(rows[0]).toMatchObject({
      big: '9007199254740993',
      bytes: { base64: 'AP8=' },
      odd: { sqlite: 'Infinity', postgresql: 'NaN', mysql: 1 }[kind],
      day: '2024-02-29',
      none: null,
    })
    expect(JSON.stringify(rows[0].doc)).toContain('9007199254740993')
    const many = { sqlite: 2_000, postgresql: 1_600, mysql: 2_000 }[kind]
    const columns = Array.from({ length: many }, (_, n) => `${n} AS c${n}`).join(', ')
    const wide = await rig.call('query', { sql: `SELECT ${columns}` })
    expect(Object.keys(wide.rows[0] ?? {}).length === many || wide.truncated).toBe(true)
    const huge = {
      sqlite: 'SELECT randomblob(500000000) AS r',
      postgresql: "SELECT repeat('x', 500000000) AS r",
      mysql: "SELECT repeat('x', 16000000) AS r",
    }[kind]
    const capped = await rig.call('query', { sql: huge }).catch((error) => error)
    expect(capped.truncated === true || capped.code === 'E_TOO_LARGE', JSON.stringify(capped).slice(0, 300)).toBe(true)
    expect(await rig.call('query', { sql: 'SELECT count(*) AS n FROM orders' })).toMatchObject({ rows: [{ n: 3 }] })
  }, 60_000)

  test('DB-19: fifty calls on five sessions wait for each other, and all get an answer', async () => {
    const rig = await openOn(kind, {}, { max_sessions: 5, timeout_seconds: 100 }, SHOP)
    const slow = {
      sqlite: 'SELECT count(*) AS n FROM orders',
      postgresql: 'SELECT count(*) AS n FROM orders, pg_sleep(1.3)',
      mysql: 'SELECT count(*) AS n, SLEEP(1.3) FROM orders',
    }[kind]
    const rows = await Promise.all(
      Array.from({ length: 50 }, async () => (await rig.call('query', { sql: slow }).catch((error) => error)).code),
    )
    expect(rows.filter((code) => code !== undefined)).toEqual([])
  }, 120_000)

  test('DB-10: Pegboard ends a statement that takes too long, and serves others meanwhile', async () => {
    const rig = await openOn(kind, {}, { timeout_seconds: 5 }, SHOP)
    const endless = {
      sqlite: 'WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c',
      postgresql: 'SELECT count(*) FROM generate_series(1, 100000000000)',
      mysql:
        'SELECT count(*) FROM seq_1_to_1000000 a, seq_1_to_1000000 b, seq_1_to_1000000 c WHERE a.seq + b.seq = c.seq',
    }[kind]
    let over = false
    const late = rig.fails('query', { sql: endless }).finally(() => {
      over = true
    })
    // Waits until the statement runs.
    await rig.call('list_tables')
    expect(await rig.call('query', { sql: 'SELECT count(*) AS n FROM orders' })).toMatchObject({ rows: [{ n: 3 }] })
    const inProcess = kind === 'sqlite' && process.platform === 'linux'
    if (inProcess) await expect.poll(busy).toHaveLength(1)
    const [executor] = busy()
    await rig.call('list_connections')
    expect(await rig.call('query', { sql: 'SELECT count(*) AS n FROM orders' })).toMatchObject({ rows: [{ n: 3 }] })
    expect(over).toBe(false)
    expect(await late).toMatchObject({
      code: 'E_TIMEOUT',
      message: 'The statement took longer than 5 seconds and was stopped.',
      hint: 'Query less data, or raise modules.database.config.timeout_seconds.',
    })
    if (inProcess) expect(executors()).not.toContain(executor)
    expect(await rig.call('query', { sql: 'SELECT count(*) AS n FROM orders' })).toMatchObject({ rows: [{ n: 3 }] })
    // The server has ended it too.
    if (kind === 'postgresql')
      await expect
        .poll(() =>
          rig.database.rows(
            `SELECT count(*)::int FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%100000000000%'
             AND pid <> pg_backend_pid() AND datname = current_database()`,
          ),
        )
        .toEqual([[0]])
  })

  test('ends a statement when its caller is gone', async () => {
    const rig = await openOn(kind, {}, {}, SHOP)
    const endless = {
      sqlite: 'WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c',
      postgresql: 'SELECT pg_sleep(600)',
      mysql: 'SELECT SLEEP(600)',
    }[kind]
    const gone = new AbortController()
    const call = rig.fails('query', { sql: endless }, { signal: gone.signal })
    await rig.call('list_tables')
    gone.abort()
    await call
    if (kind === 'sqlite') await expect.poll(busy, { timeout: 20_000 }).toEqual([])
    if (kind === 'postgresql')
      await expect
        .poll(
          () =>
            rig.database.rows(
              `SELECT count(*)::int FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%pg_sleep(600)%'
             AND pid <> pg_backend_pid() AND datname = current_database()`,
            ),
          { timeout: 20_000 },
        )
        .toEqual([[0]])
    expect(await rig.call('query', { sql: 'SELECT count(*) AS n FROM orders' })).toMatchObject({ rows: [{ n: 3 }] })
  }, 60_000)

  test('a row that is too large ends its statement and does not exhaust the memory', async () => {
    const rig = await openOn(kind, {}, {}, SHOP)
    const columns = Array.from({ length: 8 }, (_, at) => `repeat('x', 16000000) AS c${at}`)
    const large = {
      sqlite: [
        "SELECT printf('%.*c', 400000000, 'x')",
        'SELECT zeroblob(900000000)',
        'SELECT hex(zeroblob(400000000))',
        'SELECT length(hex(zeroblob(400000000)))',
      ],
      postgresql: [
        "SELECT repeat('x', 100000000)",
        "SELECT array_agg(repeat('x', 1000000)) FROM generate_series(1, 100)",
      ],
      mysql: [`SELECT ${columns.join(', ')}`],
    }[kind]
    const before = process.memoryUsage().rss
    for (const sql of large)
      for (const [action, input] of [
        ['query', { sql }],
        ['execute_query', { sql }],
      ] as const)
        expect(await rig.fails(action, input), sql).toMatchObject({ code: 'E_TOO_LARGE' })
    expect(process.memoryUsage().rss - before).toBeLessThan(250 * 1024 * 1024)
    expect(await rig.call('query', { sql: 'SELECT count(*) AS n FROM orders' })).toMatchObject({ rows: [{ n: 3 }] })
  }, 60_000)

  test('DB-18: a write that waits too long for another writer fails and says so', async () => {
    const rig = await openOn(kind, { policy: 'unrestricted' }, { busy_seconds: 1 }, SHOP)
    const free = await lockedBy(kind, rig.database)
    const waited = await soonest(2_000, async () => {
      const asked = performance.now()
      expect(await rig.fails('execute', { sql: "UPDATE orders SET note = 'x' WHERE id = 10" })).toMatchObject({
        code: 'E_DB_BUSY',
        retryable: true,
      })
      return performance.now() - asked
    })
    expect(waited).toBeGreaterThan(900)
    expect(waited).toBeLessThan(2_000)
    await free()
    expect(await rig.call('execute', { sql: "UPDATE orders SET note = 'x' WHERE id = 10" })).toEqual({
      affected_rows: 1,
    })
  })
})

/** Our processes that have opened SQLite. */
const executors = (): string[] =>
  process.platform === 'linux'
    ? readdirSync('/proc').filter((pid) => {
        try {
          return (
            /^\d+$/.test(pid) &&
            readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ')[1]?.split(' ')[1] === String(process.pid) &&
            readFileSync(`/proc/${pid}/cmdline`, 'latin1').includes('total_changes')
          )
        } catch {
          return false
        }
      })
    : []
/** Those that use the processor. */
const busy = (): string[] => executors().filter((pid) => /\) R /.test(readFileSync(`/proc/${pid}/stat`, 'latin1')))

/** Holds a write lock until the returned function is called. */
async function lockedBy(kind: Kind, database: TestDatabase): Promise<() => Promise<void>> {
  const { host, port, database: name, username } = database.connection as Record<string, string>
  if (kind === 'sqlite') {
    const script = `const d = new (require(${JSON.stringify(createRequire(import.meta.url).resolve('libsql'))}))(${JSON.stringify(name)})
d.exec("BEGIN IMMEDIATE; UPDATE orders SET note = 'theirs'"); console.log('locked'); process.stdin.resume()
process.stdin.on('end', () => { d.exec('ROLLBACK'); process.exit() })`
    const child = spawn(process.execPath, ['-e', script], { stdio: ['pipe', 'pipe', 'inherit'] })
    onTestFinished(() => void child.kill('SIGKILL'))
    await once(child.stdout, 'data')
    return async () => {
      child.stdin.end()
      await once(child, 'exit')
    }
  }
  if (kind === 'postgresql') {
    const { default: pg } = await import('pg')
    const client = new pg.Client({ host, port: Number(port), user: username, password: '', database: name })
    await client.connect()
    await client.query("BEGIN; UPDATE orders SET note = 'theirs'")
    return () => client.query('ROLLBACK').then(() => client.end())
  }
  const { createConnection } = await import('mysql2/promise')
  const client = await createConnection({
    host: host as string,
    port: Number(port),
    user: username as string,
    database: name as string,
  })
  await client.query('BEGIN')
  await client.query("UPDATE orders SET note = 'theirs'")
  return async () => {
    await client.query('ROLLBACK')
    await client.end()
  }
}

describe('connect', () => {
  test('DB-14: connect opens files in the folders of the operator only', async () => {
    const dir = temporaryFolder()
    mkdirSync(join(dir, 'data'))
    await sqliteIn(join(dir, 'data/shop.db')).exec(SHOP)
    await sqliteIn(join(dir, 'secret.db')).exec(SHOP)
    writeFileSync(join(dir, 'data/.env'), '')
    symlinkSync(join(dir, 'secret.db'), join(dir, 'data/link.db'))
    const { call, fails } = await open({ roots: ['data'] }, dir)
    const connect = (database: string) => ({ connection_id: 'own', driver: 'sqlite', database })
    for (const path of ['../secret.db', join(dir, 'secret.db'), '/etc/passwd', 'link.db'])
      expect((await fails('connect', connect(path))).code, path).toBe('E_PATH_OUTSIDE_ROOT')
    expect((await fails('connect', { connection_id: 'own', url: `sqlite:${join(dir, 'secret.db')}` })).code).toBe(
      'E_PATH_OUTSIDE_ROOT',
    )
    expect((await fails('connect', connect('.env'))).code).toBe('E_PATH_DENIED')
    expect((await fails('connect', connect('none.db'))).code).toBe('E_NOT_FOUND')
    expect(await call('connect', connect('shop.db'))).toMatchObject({ connected: true, id: 'own', made_by: 'you' })
    expect(await call('list_tables', { connection_id: 'own' })).toMatchObject({ count: 2 })
    const none = await open({ connections: { x: { driver: 'sqlite', database: ':memory:' } } }, dir)
    expect((await none.fails('connect', connect('data/shop.db'))).code).toBe('E_PATH_OUTSIDE_ROOT')
  })

  test('reaches no server, accepts no driver options, and grants no more rights than the operator set', async () => {
    const { fails } = await open({ roots: ['.'], allowed_hosts: ['db.example.com'] })
    const server = { connection_id: 'own', driver: 'postgresql', database: 'x' }
    for (const input of [
      server,
      { ...server, host: '169.254.169.254' },
      { ...server, host: 'db.example.com.evil.test' },
      { connection_id: 'own', url: 'mysql://root@127.0.0.1/x' },
      { ...server, host: 'db.example.com', password_env: 'HOME' },
      { ...server, host: 'db.example.com', options: { ssl: 'off' } },
      { connection_id: 'own', driver: 'sqlite', database: ':memory:', policy: 'unrestricted' },
      { connection_id: 'own', driver: 'sqlite', database: ':memory:', accept_role: true },
    ])
      expect((await fails('connect', input)).code, JSON.stringify(input)).toBe('E_DENIED_BY_POLICY')
  })
})

describe('an unusable database', () => {
  test('DB-16: errors about an unreachable database contain no address, login or password', async () => {
    const dir = temporaryFolder()
    writeFileSync(
      join(dir, 'text.db'),
      'this is not a database, but a text that is long enough to be taken for one'.repeat(20),
    )
    const secret = 'p4ssw0rd-that-nobody-sees'
    const maria = servers.includes('mysql') ? (await makeDatabase('mysql')).connection : undefined
    const postgres = servers.includes('postgresql') ? (await makeDatabase('postgresql')).connection : undefined
    const { call, fails, logged } = await open(
      {
        connections: {
          refused: {
            driver: 'postgresql',
            database: 'x',
            host: '127.0.0.1',
            port: 1,
            username: 'someone',
            password: secret,
          },
          refused_too: { url: `mysql://someone:${secret}@127.0.0.1:1/x` },
          unknown: { url: `postgres://someone:${secret}@host.invalid/x` },
          ...(maria && { login: { ...maria, username: 'nobody_of_that_name', password: secret } }),
          ...(postgres && {
            role: { ...postgres, username: 'nobody_of_that_name', password: secret },
            name: { ...postgres, database: 'no_database_of_that_name' },
          }),
          none: { driver: 'sqlite', database: 'none.db' },
          folder: { driver: 'sqlite', database: '/no/such/folder/x.db' },
          text: { driver: 'sqlite', database: 'text.db' },
        },
      },
      dir,
    )
    const codes: Record<string, string> = {}
    const { connections } = await call('list_connections')
    for (const { id } of connections) {
      const error = await fails('query', { sql: 'SELECT 1 FROM x', connection_id: id })
      codes[id] = error.code
      const text = `${error.message} ${error.hint} ${JSON.stringify(error.data ?? null)}`
      for (const hidden of [secret, 'someone', 'nobody_of_that_name', '127.0.0.1', 'host.invalid', dir, '/no/such'])
        expect(text).not.toContain(hidden)
    }
    expect(codes).toEqual({
      refused: 'E_DB_UNAVAILABLE',
      refused_too: 'E_DB_UNAVAILABLE',
      unknown: 'E_DB_UNAVAILABLE',
      ...(maria && { login: 'E_DB_UNAVAILABLE' }),
      ...(postgres && { role: 'E_DB_UNAVAILABLE', name: 'E_DB_UNAVAILABLE' }),
      none: 'E_DB_UNAVAILABLE',
      folder: 'E_DB_UNAVAILABLE',
      text: 'E_DB_CORRUPT',
    })
    expect(JSON.stringify(connections)).not.toMatch(/p4ssw0rd|someone|127\.0\.0\.1|invalid/)
    // The operator gets more details, but no password.
    expect(logged.filter((line) => line.includes('ECONNREFUSED')).length).toBeGreaterThan(0)
    expect(logged.join('\n')).not.toContain(secret)
    expect(readdirSync(dir)).not.toContain('none.db')
  })
})

describe.each(kinds)('on %s', (kind) => {
  const mark = kind === 'mysql' ? '`' : '"'
  const quote = (name: string): string => `${mark}${name.replaceAll(mark, mark + mark)}${mark}`
  const HOSTILE = [
    'x"; DROP TABLE customers; --',
    'x`; DROP TABLE customers; #',
    "x'); DROP TABLE customers; --",
    'x] ; DROP TABLE customers',
    'x"."customers',
    'x /* y',
    ':p0 ? $1 %s',
    'back\\slash\\"',
    'curly \u201c\u2019\uff02\u02ba; DROP TABLE customers; --',
    'select',
  ]

  test('R60: every tool that builds a statement quotes names, which then mean nothing else', async () => {
    const rig = await openOn(kind, { policy: 'unrestricted' }, {}, SHOP)
    const before = await state(rig.database)
    for (const name of HOSTILE) {
      const q = quote(name)
      await rig.database.exec(`CREATE TABLE ${q} (id INTEGER PRIMARY KEY, ${q} VARCHAR(100))`)
      const row = { id: 1, [name]: 'one' }
      const said = async (tool: string, input: object) => await rig.call(tool, { table: name, ...input })
      expect(await said('bulk_insert', { rows: [row] }), name).toMatchObject({ inserted: 1 })
      const changed = { id: 1, [name]: 'two' }
      await said('upsert', { row: changed, conflict_columns: ['id'], update_columns: [name] })
      expect(await rig.database.rows(`SELECT * FROM ${q}`), name).toEqual([[1, 'two']])
      expect((await said('describe', {})).columns.map((column: { name: string }) => column.name)).toEqual(['id', name])
      for (const tool of ['browse', 'sample']) expect((await said(tool, {})).rows, `${tool} ${name}`).toEqual([changed])
      const found = await rig.call('search_data', { term: 'two', tables: [name], columns: [name] })
      expect(found.matches, name).toMatchObject([{ columns: [name], row: changed }])
      expect((await rig.call('search_objects', { object_type: 'column', table: name })).count).toBe(2)
      expect(await said('drop_table', {}), name).toMatchObject({ dropped: true })
      expect(await state(rig.database), name).toBe(before)
    }
    expect((await rig.call('list_tables')).tables.map((table: { name: string }) => table.name)).toEqual([
      'customers',
      'orders',
    ])
  }, 120_000)

  test('rejects unknown names, whatever they contain, and runs nothing of them', async () => {
    const rig = await openOn(kind, { policy: 'unrestricted' }, {}, SHOP)
    const before = await state(rig.database)
    for (const name of [
      ...HOSTILE,
      `customers${mark}; DROP TABLE orders; --`,
      'customers\0',
      'cust\u200bomers',
      '__proto__',
    ]) {
      const codes = await Promise.all(
        [
          ['describe', { table: name }],
          ['browse', { table: name }],
          ['sample', { table: name }],
          ['drop_table', { table: name, if_exists: false }],
          ['search_objects', { object_type: 'column', table: name }],
          ['search_data', { term: 'x', tables: [name] }],
          ['bulk_insert', { table: name, rows: [{ id: 1 }] }],
          ['bulk_insert', { table: 'customers', rows: [JSON.parse(`{"id": 9, ${JSON.stringify(name)}: "x"}`)] }],
          ['upsert', { table: 'customers', row: { id: 9, name: 'x' }, conflict_columns: [name] }],
          [
            'upsert',
            { table: 'customers', row: { id: 1, name: 'x' }, conflict_columns: ['id'], update_columns: [name] },
          ],
        ].map(([tool, input]) => rig.fails(tool as string, input).then(({ code }) => code)),
      )
      for (const code of codes) expect(['E_NOT_FOUND', 'E_VALIDATION'], `${name} ${codes.join()}`).toContain(code)
      expect((await rig.call('search_data', { term: 'Ada', columns: [name] })).count, name).toBe(0)
    }
    expect(await state(rig.database)).toBe(before)
  }, 120_000)
})

describe.each(servers)('a %s server that is restarted', (kind) => {
  const running = 'running_of_the_test'
  /** Ends all sessions of the module, as a restart does. */
  async function endSessions({ database }: Rig): Promise<number> {
    if (kind === 'postgresql')
      return (
        await database.rows(
          'SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()',
        )
      ).length
    const found = await database.rows(
      'SELECT id FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()',
    )
    for (const [id] of found) await database.exec(`KILL CONNECTION ${Number(id)}`).catch(() => undefined)
    return found.length
  }
  const runs = async ({ database }: Rig): Promise<boolean> =>
    (
      await database.rows(
        kind === 'postgresql'
          ? `SELECT 1 FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%${running}%' AND pid <> pg_backend_pid()`
          : `SELECT 1 FROM information_schema.processlist WHERE info LIKE '%${running}%' AND id <> CONNECTION_ID()`,
      )
    ).length > 0

  test('DB-19: a statement whose session ends fails at once as retryable, and the next call works', async () => {
    const rig = await openOn(kind, {}, { timeout_seconds: 60 }, SHOP)
    const sql = { postgresql: `SELECT pg_sleep(50) AS ${running}`, mysql: `SELECT SLEEP(50) AS ${running}` }[
      kind as 'mysql'
    ]
    const began = performance.now()
    const failed = rig.fails('query', { sql })
    await expect.poll(() => runs(rig)).toBe(true)
    await endSessions(rig)
    expect(await failed).toMatchObject({ code: 'E_DB_UNAVAILABLE', retryable: true })
    expect(performance.now() - began).toBeLessThan(30_000)
    expect(await rig.call('query', { sql: 'SELECT count(*) AS n FROM orders' })).toMatchObject({ rows: [{ n: 3 }] })
  })

  test('DB-19: idle sessions that end are replaced', async () => {
    const rig = await openOn(kind, {}, {}, SHOP)
    const count = () => rig.call('query', { sql: 'SELECT count(*) AS n FROM orders' })
    for (let round = 0; round < 3; round++) {
      expect(await count()).toMatchObject({ rows: [{ n: 3 }] })
      expect(await endSessions(rig)).toBeGreaterThan(0)
      // The driver hears of it a moment later.
      await expect.poll(() => count().catch(({ code }) => code)).toMatchObject({ rows: [{ n: 3 }] })
    }
  })
})

test('DB-19: a damaged or hostile file of SQLite is reported as corrupt, and other connections work', async () => {
  const dir = temporaryFolder()
  await sqliteIn(join(dir, 'good.db')).exec(SHOP)
  await sqliteIn(join(dir, 'schema.db')).exec(
    `${SHOP} PRAGMA writable_schema = 1; UPDATE sqlite_master SET sql = 'CREATE TABLE orders (' || hex(randomblob(9)) WHERE name = 'orders'`,
  )
  const whole = readFileSync(join(dir, 'good.db'))
  const changed = (change: (bytes: Buffer) => void): Buffer => {
    const bytes = Buffer.from(whole)
    change(bytes)
    return bytes
  }
  const files: Record<string, Buffer> = {
    text: Buffer.from('This is no database. '.repeat(200)),
    pages: changed((bytes) => randomBytes(bytes.length - 100).copy(bytes, 100)),
    root: changed((bytes) => bytes.fill(0xff, 100, 4_096)),
    cut: whole.subarray(0, 5_000),
  }
  for (const [name, bytes] of Object.entries(files)) writeFileSync(join(dir, `${name}.db`), bytes)
  const names = [...Object.keys(files), 'schema']
  const connections = Object.fromEntries(
    ['good', ...names].map((name) => [name, { driver: 'sqlite', database: `${name}.db`, policy: 'unrestricted' }]),
  )
  const { call } = await open({ connections, timeout_seconds: 20 }, dir)
  for (const connection_id of names) {
    const codes: string[] = []
    for (const [action, input] of [
      ['query', { sql: 'SELECT * FROM orders ORDER BY total' }],
      ['execute', { sql: "UPDATE orders SET note = 'x'" }],
      ['list_tables', {}],
      ['describe', { table: 'orders' }],
    ] as const)
      codes.push(
        await call(action, { connection_id, ...input }).then(
          () => 'answered',
          ({ code }) => code,
        ),
      )
    expect([connection_id, codes.slice(0, 2)]).toEqual([connection_id, ['E_DB_CORRUPT', 'E_DB_CORRUPT']])
    const sql = 'SELECT count(*) AS n FROM orders'
    expect(await call('query', { connection_id: 'good', sql })).toMatchObject({ rows: [{ n: 3 }] })
  }
}, 60_000)

test('a malicious name pattern does not block other calls', async () => {
  const name = 'a'.repeat(60)
  const rig = await openOn('sqlite', {}, {}, `CREATE TABLE ${name} (id INTEGER); CREATE TABLE b_c (id INTEGER)`)
  const find = async (pattern: string): Promise<string[]> =>
    (await rig.call('search_objects', { object_type: 'table', pattern })).objects.map(
      (one: { readonly name: string }) => one.name,
    )
  const start = performance.now()
  for (const pattern of [`${'%_'.repeat(49)}b`, `${'%a'.repeat(49)}b`, `${'_%'.repeat(49)}b`])
    expect(await find(pattern)).toEqual([])
  expect(performance.now() - start).toBeLessThan(30_000)
  expect(await find(`${'%a'.repeat(49)}%`)).toEqual([name])
  for (const pattern of ['B_C', '%_C', '___', 'b%', '%B%C%', '_%_', 'b__', '%%b_c%%', 'b_c%'])
    expect((await find(pattern)).includes('b_c')).toBe(true)
  for (const pattern of ['b_c_', '_b_c', 'b', 'c', '', '.*', 'b.c', '__'].filter(Boolean))
    expect((await find(pattern)).includes('b_c')).toBe(false)
}, 60_000)

describe('a database file that was replaced by a link', () => {
  async function shopIn(dir: string) {
    mkdirSync(join(dir, 'data'))
    await sqliteIn(join(dir, 'data/shop.db')).exec(SHOP)
    await sqliteIn(join(dir, 'other.db')).exec('CREATE TABLE theirs (word)')
  }
  const statements = [
    ['query', { sql: 'SELECT name FROM sqlite_master' }],
    ['execute', { sql: 'CREATE TABLE planted (a)' }],
    ['list_tables', {}],
  ] as const

  test('is not opened if the link leads to a file of Pegboard, which stays unchanged', async () => {
    const dir = temporaryFolder()
    await shopIn(dir)
    mkdirSync(join(dir, 'modules'))
    const create = { driver: 'sqlite', database: 'data/new.db', options: { create: true }, policy: 'unrestricted' }
    const { call, fails } = await open(
      { connections: { shop: { driver: 'sqlite', database: 'data/shop.db', policy: 'unrestricted' }, new: create } },
      dir,
    )
    const state = join(dir, 'state/state.db')
    await sqliteIn(state).exec('CREATE TABLE secrets (word)')
    // By now there are processes that have the file open.
    await call('query', { connection_id: 'shop', sql: 'SELECT 1 AS one' })
    await call('execute', { connection_id: 'shop', sql: 'CREATE TABLE mine (a)' })
    renameSync(join(dir, 'data'), join(dir, 'kept'))
    mkdirSync(join(dir, 'data'))
    symlinkSync(state, join(dir, 'data/shop.db'))
    for (const [action, input] of statements)
      expect(await fails(action, { connection_id: 'shop', ...input }), action).toMatchObject({ code: 'E_PATH_DENIED' })
    expect((await fails('connect', { connection_id: 'shop' })).code).toBe('E_PATH_DENIED')
    rmSync(join(dir, 'data'), { recursive: true })
    symlinkSync('modules', join(dir, 'data'))
    expect((await fails('execute', { connection_id: 'new', sql: 'CREATE TABLE planted (a)' })).code).toBe(
      'E_PATH_DENIED',
    )
    expect(readdirSync(join(dir, 'modules'))).toEqual([])
    expect(await sqliteIn(state).rows('SELECT name FROM sqlite_master')).toEqual([['secrets']])
    rmSync(join(dir, 'data'))
    renameSync(join(dir, 'kept'), join(dir, 'data'))
    expect(await call('list_tables', { connection_id: 'shop' })).toMatchObject({ count: 3 })
  })

  test('is not opened if the link leads out of the workspace or of the root', async () => {
    const dir = temporaryFolder()
    await shopIn(dir)
    const outside = temporaryFolder()
    await sqliteIn(join(outside, 'theirs.db')).exec('CREATE TABLE theirs (word)')
    const shop = { driver: 'sqlite', database: 'data/shop.db', policy: 'unrestricted' }
    const { call, fails } = await open({ connections: { shop }, roots: ['data'], default_policy: 'unrestricted' }, dir)
    await call('connect', { connection_id: 'own', driver: 'sqlite', database: 'shop.db', policy: 'unrestricted' })
    await call('execute', { connection_id: 'own', sql: 'CREATE TABLE mine (a)' })
    renameSync(join(dir, 'data/shop.db'), join(dir, 'shop.db'))
    symlinkSync(join(outside, 'theirs.db'), join(dir, 'data/shop.db'))
    for (const connection_id of ['shop', 'own'])
      for (const [action, input] of statements)
        expect(await fails(action, { connection_id, ...input }), action).toMatchObject({ code: 'E_PATH_OUTSIDE_ROOT' })
    expect(await sqliteIn(join(outside, 'theirs.db')).rows('SELECT name FROM sqlite_master')).toEqual([['theirs']])
  })

  test('Pegboard uses the current file, not an earlier one of the same name', async () => {
    const dir = temporaryFolder()
    await shopIn(dir)
    const { call } = await open({ connections: { shop: { driver: 'sqlite', database: 'data/shop.db' } } }, dir)
    expect(await call('list_tables', { connection_id: 'shop' })).toMatchObject({ count: 2 })
    renameSync(join(dir, 'other.db'), join(dir, 'data/shop.db'))
    expect(await call('list_tables', { connection_id: 'shop' })).toMatchObject({ count: 1 })
  })
})

describe('syntax that the database parses differently than Pegboard', () => {
  const tag = 't'.repeat(70)

  test.runIf(servers.includes('postgresql'))('DB-06: PostgreSQL syntax hides no call from the check', async () => {
    const hidden = [
      ["SELECT ('/etc/hostname'::text).pg_read_file", 'E_READ_ONLY'],
      [`SELECT (CAST('/etc/hostname' AS text)) . "pg_read_file"`, 'E_READ_ONLY'],
      ["SELECT x.pg_read_file FROM unnest(ARRAY['/etc/hostname']) AS x", 'E_READ_ONLY'],
      ["SELECT (ARRAY['/etc/hostname'])[1].pg_read_file", 'E_READ_ONLY'],
      ["SELECT E'a'\n'\\' || ', pg_read_file($$/etc/hostname$$) --'", 'E_VALIDATION'],
      ["SELECT E'a' -- b\n'\\' || ', pg_read_file($$/etc/hostname$$) --'", 'E_VALIDATION'],
      [`SELECT $${tag}$ ' $${tag}$, pg_read_file($$/etc/hostname$$) --'`, 'E_READ_ONLY'],
      ["SELECT 1 --\r, pg_read_file('/etc/hostname')\n AS x", 'E_VALIDATION'],
      ["SELECT 1 AS a\u00a0$$'$$, pg_read_file($$/etc/hostname$$) --'", 'E_TOOL_FAILED'],
    ] as const
    await refuses(await readonlyOn('postgresql'), hidden)
    const writing = await openOn('postgresql', { policy: 'safe_write' }, {}, SHOP)
    for (const [sql] of hidden) expect(REFUSED, sql).toContain((await writing.fails('execute_query', { sql })).code)
    const sql = "SELECT o.note, E'a\\'b' AS \"e\" -- c\r\n FROM public.orders AS o WHERE o.id = :p0"
    expect(await writing.call('query', { sql, params: [10] })).toMatchObject({ rows: [{ note: 'first', e: "a'b" }] })
  })

  test.runIf(servers.includes('mysql'))('DB-06: MariaDB syntax hides no call or INTO from the check', async () => {
    const rig = await readonlyOn('mysql')
    const out = join('/tmp', `out-${unique()}`)
    await refuses(rig, [
      [`SELECT 1 --\x01'\n, LOAD_FILE("/etc/hostname") -- '`, 'E_READ_ONLY'],
      [`SELECT 1 --\x7f'\n, LOAD_FILE("/etc/hostname") -- '`, 'E_READ_ONLY'],
      [`SELECT 1 --\x01'\n INTO OUTFILE "${out}" -- '`, 'E_READ_ONLY'],
      ['SELECT 1--\u00a0, LOAD_FILE("/etc/hostname")\n FROM (SELECT 1 AS `\u00a0`) t', 'E_READ_ONLY'],
      ['SELECT /*+ QB_NAME(`*/ x`) */ 1, LOAD_FILE("/etc/hostname") AS `y`', 'E_VALIDATION'],
      ['SELECT 1 -- \r, LOAD_FILE("/etc/hostname")\n AS x', 'E_VALIDATION'],
    ])
    expect(existsSync(out)).toBe(false)
  })

  test('DB-05: SQLite syntax hides no function from the check', async () => {
    const rig = await readonlyOn('sqlite')
    await refuses(rig, [
      ["SELECT $a('), readfile(x'2f') --'", 'E_VALIDATION'],
      ["SELECT :a('), readfile(x'2f') --'", 'E_VALIDATION'],
      ["SELECT @a::b('), readfile(x'2f') --'", 'E_VALIDATION'],
      ["SELECT \ufeffreadfile(x'2f')", 'E_VALIDATION'],
    ])
  })
})

test('no tool creates companion files that SQLite would write into a database', async () => {
  const dir = temporaryFolder()
  const name = 'shop.db'
  await sqliteIn(join(dir, name)).exec(SHOP)
  writeFileSync(join(dir, 'notes'), 'no database')
  writeFileSync(join(dir, 'empty.db'), '')
  const modules = {
    filesystem: { config: { roots: ['{{workspace}}'] } },
    database: { config: { connections: { default: { driver: 'sqlite', database: name, policy: 'readonly' } } } },
  }
  const { call, fails } = await startAppWithClient(modules, { dir })
  for (const path of [`${name}-journal`, `${name}-wal`, `${name}-SHM`]) {
    await call('filesystem.write', { path: 'planted', content: 'x' })
    for (const [tool, input] of [
      ['filesystem.write', { path, content: 'x' }],
      ['filesystem.cp', { from: 'planted', to: path }],
      ['filesystem.mv', { from: 'planted', to: path }],
    ] as const)
      expect([tool, path, (await fails(tool, input)).code]).toEqual([tool, path, 'E_PATH_DENIED'])
    expect(existsSync(join(dir, path))).toBe(false)
  }
  // Files that SQLite wrote itself stay readable.
  writeFileSync(join(dir, `${name}-wal`), 'of SQLite')
  expect((await fails('filesystem.rm', { path: `${name}-wal` })).code).toBe('E_PATH_DENIED')
  expect(await call('filesystem.read', { path: `${name}-wal` })).toMatchObject({ content: 'of SQLite' })
  rmSync(join(dir, `${name}-wal`))
  expect((await call('database.query', { sql: 'SELECT count(*) AS n FROM customers' })).rows).toHaveLength(1)
  for (const path of ['notes-journal', 'empty.db-wal', 'none-shm'])
    expect(await call('filesystem.write', { path, content: 'x' })).toMatchObject({ path })
})
