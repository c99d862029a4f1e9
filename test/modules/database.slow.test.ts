import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import database from '../../modules/database/index.ts'
import { localCaller } from '../../src/core/caller.ts'
import { answerOf, startApp, temporaryFolder } from '../app.ts'
import { connectTo } from '../client.ts'
import { keepsTheContract } from '../contract/module.ts'
import { kinds, servers, sqliteIn } from '../databases.ts'
import { SHOP, startDatabaseApp, startOnDatabase } from './database-app.ts'

keepsTheContract(database)

describe('without a connection', () => {
  it('there are no tools, and the setting is named', async () => {
    const { app } = await startApp({})
    const view = app.view(localCaller)
    expect(view.tools.filter(({ tool }) => tool.module === 'database')).toEqual([])
    expect(view.hidden.get('database.query')?.reason).toBe(
      'name a database in modules.database.config.connections, or open one in a set-up step',
    )
    expect(view.hidden.get('database.connect')?.reason).toBe(
      'set modules.database.config.connections, .roots or .allowed_hosts',
    )
  })

  it('writing tools exist only if a policy allows them', async () => {
    const names = async (policy: string) => {
      const { app } = await startDatabaseApp({ connections: { a: { driver: 'sqlite', database: ':memory:', policy } } })
      return app.view(localCaller).tools.map(({ tool }) => tool.id)
    }
    const readonly = await names('readonly')
    expect(readonly).toEqual(expect.arrayContaining(['database.query', 'database.execute_query', 'database.browse']))
    for (const id of ['database.execute', 'database.upsert', 'database.transaction', 'database.drop_table'])
      expect(readonly).not.toContain(id)
    const safe = await names('safe_write')
    expect(safe).toEqual(expect.arrayContaining(['database.execute', 'database.upsert', 'database.bulk_insert']))
    expect(safe).not.toContain('database.drop_table')
    expect(await names('unrestricted')).toContain('database.drop_table')
  })
})

describe('an invalid configuration', () => {
  it.each([
    ['no driver', { connections: { a: { database: 'x' } } }, 'connections.a'],
    ['no database', { connections: { a: { url: 'postgres://x' } } }, 'connections.a'],
    [
      'a parameter of an address that would be ignored',
      { connections: { a: { url: 'mysql://x/y?a=b' } } },
      'connections.a',
    ],
    [
      'a policy that is misspelt',
      { connections: { a: { driver: 'sqlite', database: 'x', polici: 'readonly' } } },
      'polici',
    ],
    ['a policy that does not exist', { default_policy: 'all' }, 'default_policy'],
  ])('is rejected, and the key named: %s', async (_what, config, key) => {
    const { app, logged } = await startDatabaseApp(config)
    expect(app.view(localCaller).tools.filter(({ tool }) => tool.module === 'database')).toEqual([])
    const line = logged.find((one) => one.includes('E_MODULE_CONFIG')) ?? ''
    expect(line).toContain(key)
  })
})

it('with a missing file fails when it is used, naming the setting that would create it', async () => {
  const connections = { books: { driver: 'sqlite', database: 'nowhere/books.db' } }
  const { fails } = await startDatabaseApp({ connections })
  expect(await fails('execute_query', { connection_id: 'books', sql: 'SELECT 1' })).toMatchObject({
    code: 'E_DB_UNAVAILABLE',
    message: 'The file of the connection "books" does not exist.',
    hint: 'The operator corrects database in modules.database.config.connections.books, or sets options.create to true there.',
  })
})

describe('a set-up step', () => {
  const seed = (policy: object = {}) => ({
    modules: {
      database: {
        config: { timeout_seconds: 10 },
        constraints: { allowed_actions: ['fetch_results', 'list_tables', 'execute_query'] },
        setup: [{ action: 'connect', params: { driver: 'sqlite', database: '{{workspace}}/data.db', ...policy } }],
      },
    },
  })

  it('creates the database in the workspace, whose tables can be listed and read, and inserts nothing [DIG-24, DIG-92]', async () => {
    const dir = temporaryFolder()
    const { app } = await startApp(seed(), dir)
    expect(existsSync(join(dir, 'data.db'))).toBe(true)
    await sqliteIn(join(dir, 'data.db')).exec(SHOP)
    const client = await connectTo(app)
    const call = async (name: string, args = {}) =>
      answerOf(await client.callTool({ name: 'execute_tool', arguments: { name: `database.${name}`, params: args } }))
    expect((await call('list_tables')).data).toEqual({
      tables: [
        { name: 'customers', type: 'table' },
        { name: 'orders', type: 'table' },
      ],
      count: 2,
    })
    expect((await call('fetch_results', { query: 'SELECT id FROM customers ORDER BY id', limit: 2 })).data).toEqual({
      columns: ['id'],
      rows: [{ id: 1 }, { id: 2 }],
      row_count: 2,
      truncated: true,
    })
    const insert = "INSERT INTO customers (id, name) VALUES (9, 'x')"
    expect((await call('execute_query', { sql: insert })).error.code).toBe('E_READ_ONLY')
    expect((await call('fetch_results', { query: insert })).error.code).toBe('E_READ_ONLY')
    expect((await call('connect', { driver: 'sqlite', database: ':memory:' })).error.code).toBe('E_NOT_FOUND')
    expect((await client.getInstructions?.()) ?? '').toContain("'default' (sqlite, readonly)")
  })

  it('may do what a client may not', async () => {
    const dir = temporaryFolder()
    const { app, logged } = await startApp(
      {
        modules: {
          database: {
            setup: [
              { action: 'connect', params: { connection_id: 'own', url: 'sqlite:own.db', policy: 'unrestricted' } },
              { action: 'execute', params: { connection_id: 'own', sql: 'CREATE TABLE t (a)' } },
              { action: 'connect', params: { connection_id: 'bad', driver: 'sqlite', database: 'no/such/x.db' } },
            ],
          },
        },
      },
      dir,
    )
    expect(await sqliteIn(join(dir, 'own.db')).rows('SELECT name FROM sqlite_master')).toEqual([['t']])
    expect(logged.join('\n')).toContain('The database file cannot be created.')
    const listed = (await app.call({ name: 'database.list_connections', input: {}, caller: localCaller })) as {
      value?: { connections: { id: string }[] }
    }
    expect(listed.value?.connections.map(({ id }) => id)).toEqual(['own'])
  })
})

describe.each(kinds)('%s', (kind) => {
  it('binds values, however they are written and whatever they contain [DIG-92]', async () => {
    const { call, fails, database } = await startOnDatabase(kind, { policy: 'safe_write' }, {}, SHOP)
    const evil = `'); DROP TABLE orders; -- "\`\\`
    await call('execute', { sql: 'UPDATE customers SET name = :p0 WHERE id = :p1', params: [evil, 1] })
    const expected = { rows: [{ id: 1, name: evil }] }
    for (const [where, params] of [
      ['name = :p0', [evil]],
      ['name = ?', [evil]],
      ['name = $1', [evil]],
      ['name = :name', { name: evil }],
      ['name = :name AND :name = name', { name: evil }],
      ["name = :p0 AND note_of(':p1') = ':p1'".replace("note_of(':p1')", "':p1'"), [evil]],
    ] as const)
      expect(await call('query', { sql: `SELECT id, name FROM customers WHERE ${where}`, params })).toMatchObject(
        expected,
      )
    expect((await database.rows('SELECT count(*) FROM orders')).map(([n]) => Number(n))).toEqual([3])
    expect(
      await call('query', { sql: 'SELECT id FROM customers WHERE id = :p0', params: ["1 OR 1=1' --"] }).catch(
        (error) => error.code,
      ),
    ).not.toMatchObject({ row_count: 3 })
    for (const [sql, params] of [
      ['SELECT $2', [1]],
      ['SELECT 1', [1]],
      ['SELECT :p0', [1, 2]],
      ['SELECT :a', { b: 1 }],
    ] as const)
      expect((await fails('query', { sql, params })).code).toBe('E_VALIDATION')
  })

  it('returns exact values: large integers, decimals, bytes, null, duplicate column names', async () => {
    const type = { sqlite: 'BLOB', postgresql: 'bytea', mysql: 'BLOB' }[kind]
    const bytes = kind === 'postgresql' ? "'\\x0102ff'" : "x'0102ff'"
    const { call } = await startOnDatabase(
      kind,
      {},
      {},
      `CREATE TABLE v (big BIGINT, small BIGINT, price DECIMAL(30, 10), at TIMESTAMP NULL, data ${type}, none VARCHAR(5));
       INSERT INTO v VALUES (9007199254740993, 42, 0.1, '2026-01-02 03:04:05', ${bytes}, NULL)`,
    )
    const { rows } = await call('query', { sql: 'SELECT big, small, at, data, none FROM v' })
    expect(rows).toEqual([
      { big: '9007199254740993', small: 42, at: '2026-01-02 03:04:05', data: { base64: 'AQL/' }, none: null },
    ])
    expect((await call('query', { sql: 'SELECT price FROM v' })).rows).toEqual([
      { price: kind === 'sqlite' ? 0.1 : '0.1000000000' },
    ])
    expect(await call('query', { sql: 'SELECT 1 AS a, 2 AS a, 3 AS b' })).toMatchObject({
      columns: ['a', 'a_2', 'b'],
      rows: [{ a: 1, a_2: 2, b: 3 }],
    })
  })

  it("shows columns with credential-like names, because they are the operator's data", async () => {
    const { call } = await startOnDatabase(kind, {}, {}, SHOP)
    expect((await call('query', { sql: 'SELECT password FROM customers WHERE id = 1' })).rows).toEqual([
      { password: 'hunter2hunter2' },
    ])
  })

  it('lists tables, columns, keys, indexes and relations', async () => {
    const { call, fails } = await startOnDatabase(
      kind,
      {},
      {},
      `${SHOP} CREATE VIEW big_orders AS SELECT * FROM orders WHERE total > 10`,
    )
    const { tables } = await call('list_tables')
    expect(tables.map(({ name, type }: Record<string, string>) => [name, type])).toEqual([
      ['big_orders', 'view'],
      ['customers', 'table'],
      ['orders', 'table'],
    ])
    const orders = await call('describe', { table: 'ORDERS', sample_limit: 1 })
    expect(orders).toMatchObject({
      name: 'orders',
      type: 'table',
      primary_key: ['id'],
      columns: [
        { name: 'id', nullable: false, primary_key: true },
        { name: 'customer_id', nullable: false },
        { name: 'total', nullable: true },
        { name: 'note', nullable: true },
      ],
      foreign_keys: [
        { columns: ['customer_id'], references: 'customers', referenced_columns: ['id'], on_delete: 'CASCADE' },
      ],
      sample: [{ id: 10, customer_id: 1, note: 'first' }],
    })
    expect(orders.indexes).toContainEqual({ name: 'orders_by_customer', columns: ['customer_id'], unique: false })
    expect(await call('relations')).toEqual({
      relations: [
        {
          table: 'orders',
          columns: ['customer_id'],
          references: 'customers',
          referenced_columns: ['id'],
          on_delete: 'CASCADE',
        },
      ],
      count: 1,
    })
    const all = await call('introspect')
    expect(all).toMatchObject({ driver: kind, count: 3, relations: [{ table: 'orders' }] })
    expect(all.version).toMatch(/\d+\.\d+/)
    expect(await call('schema', { what: 'all' })).toMatchObject({ count: 3, truncated: false })
    expect(await call('schema', { what: 'describe', table: 'customers' })).toMatchObject({ primary_key: ['id'] })
    expect((await fails('schema', { what: 'describe' })).code).toBe('E_VALIDATION')
    expect(await fails('describe', { table: 'order' })).toMatchObject({
      code: 'E_NOT_FOUND',
      hint: 'Tables: big_orders, customers, orders.',
    })
  })

  it('shows tables by page and in part, and finds values', async () => {
    const { call } = await startOnDatabase(kind, {}, {}, SHOP)
    expect(await call('browse', { table: 'customers', page: 2, per_page: 2 })).toMatchObject({
      total: 3,
      page: 2,
      rows: [{ id: 3, name: 'Zoë' }],
      more: false,
    })
    expect(await call('sample', { table: 'orders', n: 2 })).toMatchObject({ row_count: 2 })
    expect(await call('search_data', { term: '50%' })).toMatchObject({
      matches: [{ table: 'orders', columns: ['note'], row: { id: 12 } }],
      tables_searched: 2,
    })
    expect(await call('search_data', { term: 'ADA@' })).toMatchObject({ matches: [{ columns: ['email'] }] })
    expect(await call('search_data', { term: 'ada', mode: 'exact' })).toMatchObject({ count: 0 })
    expect(await call('search_data', { term: '12', tables: ['orders'], columns: ['id'], mode: 'exact' })).toMatchObject(
      {
        matches: [{ table: 'orders', columns: ['id'], row: { id: 12 } }],
      },
    )
    expect(await call('search_data', { term: "o'b", limit: 1 })).toMatchObject({ count: 1, truncated: true })
  })

  it('changes rows, and returns their number', async () => {
    const { call, fails } = await startOnDatabase(kind, { policy: 'safe_write' }, {}, SHOP)
    expect(await call('execute', { sql: 'UPDATE orders SET total = total + 1 WHERE customer_id = 1' })).toEqual({
      affected_rows: 2,
    })
    expect(await call('execute', { sql: 'DELETE FROM orders WHERE id = :id', params: { id: 12 } })).toEqual({
      affected_rows: 1,
    })
    if (kind !== 'mysql')
      expect(
        await call('execute', { sql: "INSERT INTO customers (id, name) VALUES (7, 'Grace') RETURNING id, name" }),
      ).toMatchObject({ affected_rows: 1, rows: [{ id: 7, name: 'Grace' }] })
    expect(await fails('execute', { sql: "INSERT INTO customers (id, name) VALUES (1, 'again')" })).toMatchObject({
      code: 'E_TOOL_FAILED',
    })
    expect(await fails('execute', { sql: 'DELETE FROM orders' })).toMatchObject({
      code: 'E_DENIED_BY_POLICY',
      message: 'DELETE without WHERE changes every row.',
      hint: 'safe_write changes rows that a WHERE names, and no structure; see modules.database.config.connections.default.policy.',
    })
    for (const sql of [
      'DROP TABLE orders',
      'TRUNCATE TABLE orders',
      'ALTER TABLE orders ADD x INT',
      'CREATE TABLE x (a INT)',
    ])
      expect((await fails('execute', { sql })).code, sql).toBe('E_DENIED_BY_POLICY')
    expect((await fails('drop_table', { table: 'orders' })).code).toMatch(/E_TOOL_HIDDEN/)
  })

  it('inserts and updates rows by their keys, and many rows at once, all or none', async () => {
    const { call, fails, database } = await startOnDatabase(kind, { policy: 'safe_write' }, {}, SHOP)
    const rows = [
      { id: 2, name: "Brian O'Brien" },
      { id: 4, name: 'New' },
    ]
    expect(await call('upsert', { table: 'customers', rows, conflict_columns: ['id'] })).toEqual({
      table: 'customers',
      rows: 2,
    })
    expect(await database.rows('SELECT id, name, email FROM customers WHERE id IN (2, 4) ORDER BY id')).toEqual([
      [2, "Brian O'Brien", 'ob@example.com'],
      [4, 'New', null],
    ])
    await call('upsert', {
      table: 'customers',
      row: { id: 4, name: 'Other' },
      conflict_columns: ['id'],
      update_columns: [],
    })
    expect(await database.rows('SELECT name FROM customers WHERE id = 4')).toEqual([['New']])
    const many = Array.from({ length: 2_500 }, (_, at) => ({
      id: 1_000 + at,
      customer_id: 1,
      ...(at % 2 ? { note: `n${at}` } : {}),
    }))
    expect(
      await call('bulk_insert', {
        table: 'orders',
        rows: many.sort((a, b) => ('note' in a ? 1 : 0) - ('note' in b ? 1 : 0)),
      }),
    ).toMatchObject({
      inserted: 2_500,
      statements: 6,
    })
    // Missing columns of a row get their defaults.
    expect((await database.rows('SELECT total FROM orders WHERE id = 1000')).map(([total]) => Number(total))).toEqual([
      0,
    ])
    const clash = [
      { id: 5_000, customer_id: 1 },
      { id: 10, customer_id: 1 },
    ]
    expect((await fails('bulk_insert', { table: 'orders', rows: clash, chunk: 1 })).code).toBe('E_TOOL_FAILED')
    expect((await database.rows('SELECT count(*) FROM orders WHERE id = 5000')).map(([n]) => Number(n))).toEqual([0])
    for (const [row, message] of [
      [{ 'id) VALUES (1); --': 1 }, '"customers" has no column "id) VALUES (1); --".'],
      [{}, 'Row 1 has no columns.'],
    ] as const)
      expect(await fails('bulk_insert', { table: 'customers', rows: [row] })).toMatchObject({
        code: 'E_VALIDATION',
        message,
      })
    expect((await fails('upsert', { table: 'customers" --', rows, conflict_columns: ['id'] })).code).toBe('E_NOT_FOUND')
  })

  it('runs several statements atomically or one by one', async () => {
    const { call, fails, database } = await startOnDatabase(kind, { policy: 'safe_write' }, {}, SHOP)
    const statements = [
      { sql: 'UPDATE orders SET note = :p0 WHERE id = :p1', params: ['moved', 10] },
      { sql: "INSERT INTO customers (id, name) VALUES (1, 'clash')" },
      { sql: 'SELECT note FROM orders WHERE id = 10' },
    ]
    const failure = await fails('transaction', { statements })
    expect(failure.message).toMatch(/^Statement 2 of 3: .*; nothing was changed\.$/s)
    expect(failure.data).toEqual({ statement: 2 })
    expect(await database.rows('SELECT note FROM orders WHERE id = 10')).toEqual([['first']])
    expect(await call('batch_execute', { statements })).toMatchObject({ succeeded: 1, failed: 1, skipped: 1 })
    expect(await call('batch_execute', { statements, stop_on_error: false })).toMatchObject({
      succeeded: 2,
      failed: 1,
      results: [
        { affected_rows: expect.any(Number) },
        { error: { code: 'E_TOOL_FAILED' } },
        { rows: [{ note: 'moved' }] },
      ],
    })
    expect(await call('transaction', { statements: [statements[0], statements[2]] })).toMatchObject({ committed: true })
    // One disallowed statement prevents all.
    const denied = [{ sql: "UPDATE orders SET note = 'x' WHERE id = 10" }, { sql: 'DROP TABLE orders' }]
    expect(await fails('batch_execute', { statements: denied })).toMatchObject({
      code: 'E_DENIED_BY_POLICY',
      message: 'Statement 2 of 2: DROP changes more than data; none was run.',
    })
    expect(await database.rows('SELECT note FROM orders WHERE id = 10')).toEqual([['moved']])
    expect(
      (await fails('batch_execute', { statements: [denied[0], { sql: 'EXPLAIN DELETE FROM orders' }] })).code,
    ).toBe('E_VALIDATION')
  })

  it.each(['readonly', 'unrestricted'])('reports the error of the only statement of a batch (%s)', async (policy) => {
    const { call } = await startOnDatabase(kind, { policy }, {}, SHOP)
    const result = { results: [{ error: { code: 'E_TOOL_FAILED' } }], succeeded: 0, failed: 1, skipped: 0 }
    for (const stop_on_error of [true, false])
      expect(
        await call('batch_execute', { statements: [{ sql: 'SELECT nothing FROM orders' }], stop_on_error }),
      ).toMatchObject(result)
  })

  it('may change the structure with an unrestricted policy', async () => {
    const { call } = await startOnDatabase(kind, { policy: 'unrestricted' }, {}, SHOP)
    await call('execute', { sql: 'CREATE TABLE logs (id INT PRIMARY KEY, word VARCHAR(20))' })
    const trigger = {
      sqlite:
        "CREATE TRIGGER t AFTER INSERT ON orders BEGIN INSERT INTO logs VALUES (new.id, CASE WHEN 1 THEN 'in' END); DELETE FROM logs WHERE id < 0; END",
      postgresql:
        "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO logs VALUES (new.id, 'in'); RETURN new; END $$",
      mysql:
        "CREATE TRIGGER t AFTER INSERT ON orders FOR EACH ROW BEGIN INSERT INTO logs VALUES (new.id, 'in'); DELETE FROM logs WHERE id < 0; END",
    }[kind]
    await call('execute', { sql: trigger })
    if (kind === 'postgresql')
      await call('execute', { sql: 'CREATE TRIGGER t AFTER INSERT ON orders FOR EACH ROW EXECUTE FUNCTION f()' })
    await call('bulk_insert', { table: 'orders', rows: [{ id: 50, customer_id: 1 }] })
    expect((await call('query', { sql: 'SELECT * FROM logs' })).rows).toEqual([{ id: 50, word: 'in' }])
    expect(await call('drop_table', { table: 'logs' })).toEqual({ table: 'logs', dropped: true })
    expect(await call('drop_table', { table: 'logs' })).toEqual({ table: 'logs', dropped: false })
  })

  it('lets statements name only allowed tables', async () => {
    const policy = { preset: 'safe_write', blocked_tables: ['customers'], blocked_keywords: ['union'] }
    const { call, fails } = await startOnDatabase(kind, { policy }, {}, SHOP)
    expect((await call('list_tables')).tables.map(({ name }: { name: string }) => name)).toEqual(['orders'])
    const q = kind === 'mysql' ? '`' : '"'
    for (const sql of [
      'SELECT * FROM customers',
      `SELECT * FROM ${q}customers${q}`,
      'SELECT * FROM orders WHERE id IN (SELECT id FROM CUSTOMERS)',
      'SELECT * FROM orders JOIN customers c ON true',
      'WITH x AS (TABLE customers) SELECT 1',
      'UPDATE orders SET note = (SELECT name FROM customers) WHERE id = 1',
    ])
      expect((await fails('execute_query', { sql })).message, sql).toBe('"customers" is not allowed.')
    expect((await fails('describe', { table: 'customers' })).code).toBe('E_NOT_FOUND')
    expect((await fails('search_data', { term: 'a', tables: ['customers'] })).code).toBe('E_NOT_FOUND')
    expect((await fails('upsert', { table: 'customers', row: { id: 1 }, conflict_columns: ['id'] })).code).toBe(
      'E_NOT_FOUND',
    )
    expect((await fails('query', { sql: 'SELECT 1 UNION SELECT 2' })).message).toBe(
      'Statements cannot contain the word "union".',
    )
    const only = await startOnDatabase(kind, { policy: { allowed_tables: ['orders'] } }, {}, SHOP)
    expect(await only.call('query', { sql: 'SELECT count(*) AS n FROM orders' })).toMatchObject({ rows: [{ n: 3 }] })
    const system = { sqlite: 'sqlite_master', postgresql: 'pg_catalog.pg_class', mysql: 'information_schema.tables' }[
      kind
    ]
    const definitions = {
      sqlite: ['SELECT * FROM pragma_table_list', 'PRAGMA table_list'],
      postgresql: ["SELECT pg_get_viewdef('v'::regclass)", 'SELECT query FROM pg_stat_get_activity(NULL)'],
      mysql: ['SHOW TABLE STATUS'],
    }[kind]
    for (const sql of ['SELECT * FROM customers', `SELECT * FROM ${system}`, ...definitions])
      expect((await only.fails('query', { sql })).code, sql).toBe('E_DENIED_BY_POLICY')
  })

  it('can be restricted further by set_policy, never less', async () => {
    const { call, fails } = await startOnDatabase(kind, { policy: 'safe_write' }, {}, SHOP)
    const set = (policy: unknown) => ({ connection_id: 'default', policy })
    expect(await fails('set_policy', set('unrestricted'))).toMatchObject({
      code: 'E_DENIED_BY_POLICY',
      message: 'The policy "unrestricted" allows more than "safe_write", which the operator set.',
    })
    expect(await call('set_policy', set({ preset: 'readonly', max_rows: 1 }))).toMatchObject({
      policy: { preset: 'readonly', max_rows: 1 },
    })
    expect(await call('query', { sql: 'SELECT * FROM orders' })).toMatchObject({ row_count: 1, truncated: true })
    expect((await fails('execute_query', { sql: 'DELETE FROM orders WHERE id = 10' })).code).toBe('E_READ_ONLY')
    expect((await fails('set_policy', set('safe_write'))).code).toBe('E_DENIED_BY_POLICY')
    expect(await call('list_connections')).toMatchObject({ connections: [{ policy: { preset: 'readonly' } }] })
  })

  it('is closed, and opens again when used', async () => {
    const { call } = await startOnDatabase(kind, {}, {}, SHOP)
    await call('list_tables')
    expect(await call('list_connections')).toMatchObject({ connections: [{ id: 'default', driver: kind, open: true }] })
    expect(await call('disconnect', { connection_id: '*' })).toEqual({ disconnected: ['default'] })
    expect(await call('list_connections')).toMatchObject({ connections: [{ open: false }] })
    expect(await call('connect')).toMatchObject({ connected: true, open: true })
    expect(await call('list_tables')).toMatchObject({ count: 2 })
  })
})

describe('database objects', () => {
  it.each(kinds)('are found by name patterns in %s', async (kind) => {
    const more =
      kind === 'postgresql'
        ? 'CREATE FUNCTION add_up(a int, b int) RETURNS int LANGUAGE sql AS $$ SELECT a + b $$; CREATE SCHEMA sales; CREATE TABLE sales.deals (id int primary key)'
        : kind === 'mysql'
          ? 'CREATE FUNCTION add_up(a INT, b INT) RETURNS INT DETERMINISTIC RETURN a + b'
          : ''
    const { call } = await startOnDatabase(kind, {}, {}, `${SHOP} CREATE VIEW ids AS SELECT id FROM orders; ${more}`)
    const find = async (object_type: string, pattern = '%', rest = {}) =>
      (await call('search_objects', { object_type, pattern, ...rest })).objects
    expect(await find('table', 'CUST%')).toEqual([{ name: 'customers' }])
    expect(await find('view')).toEqual([{ name: 'ids' }])
    expect(await find('column', '%_id')).toEqual([{ name: 'customer_id', table: 'orders' }])
    expect(await find('column', 'i_', { table: 'customers' })).toEqual([{ name: 'id', table: 'customers' }])
    expect(await find('index', 'orders_by%', { detail: 'full' })).toEqual([
      { name: 'orders_by_customer', table: 'orders', columns: ['customer_id'], unique: false },
    ])
    expect(await call('search_objects', { object_type: 'column', limit: 2 })).toMatchObject({
      count: 2,
      truncated: true,
    })
    if (kind === 'postgresql') {
      expect(await find('schema')).toEqual([{ name: 'public' }, { name: 'sales' }])
      expect(await find('table', 'deals')).toEqual([{ name: 'deals', schema: 'sales' }])
      expect(await call('describe', { table: 'sales.deals' })).toMatchObject({ schema: 'sales', primary_key: ['id'] })
      expect(await call('browse', { table: 'deals' })).toMatchObject({ table: 'sales.deals', total: 0 })
    }
    expect(await find('function', 'add%', { detail: 'full' })).toMatchObject(
      kind === 'sqlite'
        ? []
        : [{ name: 'add_up', returns: expect.stringMatching(/^int/), definition: expect.stringContaining('a + b') }],
    )
  })
})

describe.each(kinds)('a prepared query of the operator, on %s', (kind) => {
  const saved_queries = {
    orders_of: {
      description: 'The orders of a customer, dearest first.',
      sql: 'SELECT id FROM orders WHERE customer_id = :customer AND total >= :least ORDER BY total DESC',
      parameters: { customer: { description: 'The id of the customer.' }, least: { default: 0 } },
    },
    sweep: { description: 'Must not work.', sql: 'DELETE FROM orders' },
  }
  it("is named in its tool's description, runs with values, and only reads", async () => {
    const { call, fails, app } = await startOnDatabase(kind, { policy: 'unrestricted' }, { saved_queries }, SHOP)
    const shown = app.view(localCaller).tools.find(({ tool }) => tool.id === 'database.saved_query')
    expect(shown?.description).toContain(
      'Queries: orders_of(customer, least) – The orders of a customer, dearest first; sweep() – Must not work.',
    )
    const run = (params: object) => call('saved_query', { name: 'orders_of', params })
    expect((await run({ customer: 1 })).rows).toEqual([{ id: 10 }, { id: 11 }])
    expect((await run({ customer: 1, least: 10 })).rows).toEqual([{ id: 10 }])
    expect(await fails('saved_query', { name: 'orders_of' })).toMatchObject({
      code: 'E_VALIDATION',
      message: '"orders_of" needs customer.',
      hint: 'The id of the customer.',
    })
    expect((await fails('saved_query', { name: 'orders_of', params: { customer: 1, other: 2 } })).code).toBe(
      'E_VALIDATION',
    )
    expect((await fails('saved_query', { name: 'sweep' })).code).toBe('E_READ_ONLY')
    expect((await fails('saved_query', { name: 'none' })).code).toBe('E_NOT_FOUND')
  })

  it('can be explained without running it', async () => {
    const { call, fails, database } = await startOnDatabase(kind, {}, {}, SHOP)
    const plan = await call('explain', { sql: 'SELECT * FROM orders WHERE customer_id = :p0', params: [1] })
    expect(JSON.stringify(plan.rows)).toMatch(/orders/)
    // A read-only MariaDB login cannot even explain a write.
    const deletion = call('explain', { sql: 'DELETE FROM orders' })
    if (kind === 'mysql') await expect(deletion).rejects.toMatchObject({ code: 'E_READ_ONLY' })
    else expect(JSON.stringify(await deletion)).toMatch(/orders/)
    expect((await database.rows('SELECT count(*) FROM orders')).map(([n]) => Number(n))).toEqual([3])
    for (const sql of [
      'ANALYZE DELETE FROM orders',
      'EXPLAIN SELECT 1',
      '(ANALYZE) DELETE FROM orders',
      'DROP TABLE orders',
    ])
      expect((await fails('explain', { sql })).code, sql).toBe('E_VALIDATION')
  })
})

describe('several connections', () => {
  it('are used side by side by name', async () => {
    const dir = temporaryFolder()
    await sqliteIn(join(dir, 'one.db')).exec('CREATE TABLE one (a)')
    const { call, fails } = await startDatabaseApp(
      {
        connections: {
          first: { driver: 'sqlite', database: 'one.db', role: 'reporting', group: 'shop' },
          second: { driver: 'sqlite', database: ':memory:', policy: 'unrestricted' },
        },
      },
      dir,
    )
    await call('execute', { sql: 'CREATE TABLE two (b)', connection_id: 'second' })
    expect(await call('list_tables', { connection_id: 'first' })).toMatchObject({ tables: [{ name: 'one' }] })
    expect(await call('list_tables', { connection_id: 'second' })).toMatchObject({ tables: [{ name: 'two' }] })
    expect(await fails('list_tables')).toMatchObject({
      code: 'E_NOT_FOUND',
      message: 'Unknown connection: "default".',
      hint: 'Connections: first, second.',
    })
    expect((await call('list_connections')).connections[0]).toEqual({
      id: 'first',
      driver: 'sqlite',
      database: 'one.db',
      policy: { preset: 'readonly' },
      open: true,
      role: 'reporting',
      group: 'shop',
      made_by: 'operator',
    })
  })

  it('made by a client belong to it, and are forgotten when closed', async () => {
    const dir = temporaryFolder()
    await sqliteIn(join(dir, 'a.db')).exec('CREATE TABLE t (a)')
    const { call, app } = await startDatabaseApp({ roots: ['.'], default_policy: 'safe_write' }, dir)
    await call('connect', { connection_id: 'mine', driver: 'sqlite', database: 'a.db' })
    await call('connect', { connection_id: 'new', driver: 'sqlite', database: 'new.db', policy: 'safe_write' })
    expect(existsSync(join(dir, 'new.db'))).toBe(true)
    const other = { ...localCaller, principal: 'somebody else' }
    expect(app.view(other).tools.map(({ tool }) => tool.id)).not.toContain('database.query')
    await expect(
      app.call({ name: 'database.query', input: { sql: 'SELECT 1', connection_id: 'mine' }, caller: other }),
    ).rejects.toMatchObject({ code: 'E_TOOL_HIDDEN' })
    expect(await call('disconnect', { connection_id: 'mine' })).toEqual({ disconnected: ['mine'] })
    expect((await call('list_connections')).connections.map(({ id }: { id: string }) => id)).toEqual(['new'])
  })

  it('of the operator are closed by admins, and not by others who share them', async () => {
    const { call, app } = await startDatabaseApp({ connections: { shop: { driver: 'sqlite', database: ':memory:' } } })
    await call('connect', { connection_id: 'shop' })
    const bob = { ...localCaller, principal: 'bob' }
    const disconnect = (connection_id: string, caller: typeof bob) =>
      app.call({ name: 'database.disconnect', input: { connection_id }, caller })
    expect(await disconnect('*', bob)).toMatchObject({ value: { disconnected: [] } })
    await expect(disconnect('shop', bob)).rejects.toMatchObject({ code: 'E_DENIED_BY_POLICY' })
    expect(await call('list_connections')).toMatchObject({ connections: [{ open: true }] })
    expect(await disconnect('shop', { ...bob, roles: ['admin'] })).toMatchObject({ value: { disconnected: ['shop'] } })
  })

  it('that are persisted open again by name after a restart', async () => {
    const dir = temporaryFolder()
    await sqliteIn(join(dir, 'a.db')).exec('CREATE TABLE t (a)')
    const first = await startDatabaseApp({ roots: ['.'] }, dir)
    await first.call('connect', {
      connection_id: 'kept',
      driver: 'sqlite',
      database: 'a.db',
      persist: true,
      role: 'notes',
    })
    await first.app.stop()
    const second = await startDatabaseApp({ roots: ['.'] }, dir)
    await second.call('connect', { connection_id: 'other', driver: 'sqlite', database: 'a.db' })
    expect(await second.fails('list_tables', { connection_id: 'kept' })).toMatchObject({
      code: 'E_NOT_FOUND',
      hint: 'It is saved: open it with connect {"connection_id": "kept"}.',
    })
    expect(await second.fails('list_tables', { connection_id: 'never' })).toMatchObject({ hint: 'Connections: other.' })
    expect(await second.call('connect', { connection_id: 'kept' })).toMatchObject({ id: 'kept', role: 'notes' })
    expect(await second.call('list_tables', { connection_id: 'kept' })).toMatchObject({ count: 1 })
    await second.call('disconnect', { connection_id: 'kept' })
    expect((await second.fails('connect', { connection_id: 'kept' })).code).toBe('E_VALIDATION')
  })

  it.runIf(servers.length > 0)('get their password from a variable that only the operator can name', async () => {
    const config = {
      connections: {
        a: { driver: 'postgresql', database: 'x', password_env: 'SHOP_DB_WORD', host: '127.0.0.1', port: 1 },
      },
    }
    const { fails } = await startDatabaseApp(config)
    expect((await fails('list_tables', { connection_id: 'a' })).message).toBe(
      'The variable SHOP_DB_WORD, which holds the password, is not set.',
    )
    const set = await startDatabaseApp(config, temporaryFolder(), {}, { SHOP_DB_WORD: 'something-long' })
    expect((await set.fails('list_tables', { connection_id: 'a' })).message).toBe(
      'The database cannot be reached: nothing listens on its port.',
    )
  })
})
