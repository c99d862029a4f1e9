import { randomBytes } from 'node:crypto'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import mysql from 'mysql2/promise'
import pg from 'pg'
import { onTestFinished } from 'vitest'
import { temporaryFolder } from './app.ts'
import { isReachable } from './is-reachable.ts'

/** Test databases on real servers, if they are reachable. In CI a missing one is a failure. */
export type Kind = 'sqlite' | 'postgresql' | 'mysql'

const POSTGRES = new URL(process.env['PEGBOARD_TEST_POSTGRES'] ?? 'postgres://postgres@127.0.0.1:5432/postgres')
const MYSQL = new URL(process.env['PEGBOARD_TEST_MYSQL'] ?? 'mysql://root@127.0.0.1:3306/')

const there = {
  sqlite: true,
  postgresql: await answers(POSTGRES, 5_432, 'PostgreSQL', 'PEGBOARD_TEST_POSTGRES'),
  mysql: await answers(MYSQL, 3_306, 'MariaDB or MySQL', 'PEGBOARD_TEST_MYSQL'),
}
export const kinds = (['sqlite', 'postgresql', 'mysql'] as const).filter((kind) => there[kind])
export const servers = kinds.filter((kind) => kind !== 'sqlite')

async function answers(url: URL, defaultPort: number, name: string, variable: string): Promise<boolean> {
  const { hostname } = url
  const found = await isReachable(url, defaultPort)
  if (!found && process.env['CI'] === 'true')
    throw new Error(`${name} does not answer at ${hostname}; these tests need it (${variable} names another)`)
  if (!found)
    process.stderr.write(`No ${name} at ${hostname}: what the database module does there is not tested here.\n`)
  return found
}

export interface TestDatabase {
  readonly kind: Kind
  /** In the format of `modules.database.config.connections`, with an unrestricted login. */
  readonly connection: Readonly<Record<string, unknown>>
  /** Runs a statement without the module. */
  exec(sql: string): Promise<void>
  rows(sql: string): Promise<unknown[][]>
}

/** An empty database, dropped when the test ends. */
export async function makeDatabase(kind: Kind, dir = temporaryFolder()): Promise<TestDatabase> {
  if (kind === 'sqlite') return sqliteIn(join(dir, 'test.db'))
  const name = `pegboard_${randomBytes(6).toString('hex')}`
  return kind === 'postgresql' ? await postgres(name) : await maria(name)
}

interface Libsql {
  exec(sql: string): void
  close(): void
  prepare(sql: string): { raw(): { all(): unknown[][] } }
}

export function sqliteIn(file: string): TestDatabase {
  const Driver = createRequire(import.meta.url)('libsql') as new (file: string) => Libsql
  const within = <T>(use: (database: Libsql) => T): T => {
    const database = new Driver(file)
    try {
      return use(database)
    } finally {
      database.close()
    }
  }
  within((database) => database.exec('PRAGMA user_version = 0'))
  return {
    kind: 'sqlite',
    connection: { driver: 'sqlite', database: file },
    exec: async (sql) => within((database) => database.exec(sql)),
    rows: async (sql) => within((database) => database.prepare(sql).raw().all()),
  }
}

const login = ({ username, password }: URL) => ({
  username: decodeURIComponent(username),
  ...(password && { password: decodeURIComponent(password) }),
})

async function postgres(name: string): Promise<TestDatabase> {
  const { hostname: host } = POSTGRES
  const port = Number(POSTGRES.port || 5_432)
  const { username: user, password = '' } = login(POSTGRES)
  const within = async <T>(database: string, use: (client: pg.Client) => Promise<T>): Promise<T> => {
    const client = new pg.Client({ host, port, user, password, database })
    await client.connect()
    try {
      return await use(client)
    } finally {
      await client.end()
    }
  }
  const main = POSTGRES.pathname.slice(1) || 'postgres'
  await within(main, (client) => client.query(`CREATE DATABASE ${name}`))
  onTestFinished(() =>
    within(main, (client) => client.query(`DROP DATABASE ${name} WITH (FORCE)`)).then(() => undefined),
  )
  return {
    kind: 'postgresql',
    connection: { driver: 'postgresql', host, port, database: name, ...login(POSTGRES) },
    exec: (sql) => within(name, (client) => client.query(sql)).then(() => undefined),
    rows: (sql) => within(name, (client) => client.query({ text: sql, rowMode: 'array' })).then(({ rows }) => rows),
  }
}

async function maria(name: string): Promise<TestDatabase> {
  const { hostname: host } = MYSQL
  const port = Number(MYSQL.port || 3_306)
  const { username: user, password = '' } = login(MYSQL)
  const within = async <T>(database: string | undefined, use: (client: mysql.Connection) => Promise<T>): Promise<T> => {
    const client = await mysql.createConnection({
      host,
      port,
      user,
      password,
      multipleStatements: true,
      ...(database && { database }),
    })
    try {
      return await use(client)
    } finally {
      await client.end()
    }
  }
  await within(undefined, (client) => client.query(`CREATE DATABASE ${name} CHARACTER SET utf8mb4`))
  onTestFinished(() => within(undefined, (client) => client.query(`DROP DATABASE ${name}`)).then(() => undefined))
  return {
    kind: 'mysql',
    connection: { driver: 'mysql', host, port, database: name, ...login(MYSQL) },
    exec: (sql) => within(name, (client) => client.query(sql)).then(() => undefined),
    rows: (sql) =>
      within(name, (client) => client.query({ sql, rowsAsArray: true })).then(([rows]) => rows as unknown[][]),
  }
}
