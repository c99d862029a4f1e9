import { describe, expect, it } from 'vitest'
import { bind } from '../../modules/database/binding.ts'
import { parseConnectionUrl } from '../../modules/database/config.ts'
import type { Dialect } from '../../modules/database/driver.ts'
import { mysqlDialect } from '../../modules/database/mysql.ts'
import { postgresDialect } from '../../modules/database/postgres.ts'
import { listFunctionCalls, singleStatement, tokenize } from '../../modules/database/sql.ts'
import { checkStatement, narrowPolicy, parsePolicy } from '../../modules/database/sql-policy.ts'
import { sqliteDialect } from '../../modules/database/sqlite.ts'

const words = (sql: string, { lexicalRules }: Dialect = sqliteDialect): string[] =>
  tokenize(sql, lexicalRules).map(({ text }) => text)
const codeOf = (work: () => unknown): string => {
  try {
    work()
  } catch (error) {
    return (error as { code: string }).code
  }
  return 'none'
}

describe('a parsed statement', () => {
  it('ignores comments, strings and quoted names', () => {
    expect(words(`SELECT "a""b", 'it''s;', x -- ; drop\n FROM t /* ; */ WHERE [odd;name] = 1.5`)).toEqual([
      'SELECT',
      'a"b',
      ',',
      "it's;",
      ',',
      'x',
      'FROM',
      't',
      'WHERE',
      'odd;name',
      '=',
      '1.5',
    ])
    expect(words(String.raw`SELECT 'a\'; b', "c\"" # end`, mysqlDialect)).toEqual(['SELECT', "a'; b", ',', 'c"'])
    expect(words("SELECT $$a;b$$, $x$ $$ $x$, E'\\';' /* a /* b */ ; */", postgresDialect)).toEqual([
      'SELECT',
      'a;b',
      ',',
      ' $$ ',
      ',',
      'E',
      "';",
    ])
  })

  it('is parsed by the rules of its database: a comment for one is not a comment for another', () => {
    expect(words('SELECT 5--1', mysqlDialect)).toEqual(['SELECT', '5', '-', '-', '1'])
    expect(words('SELECT 5--1')).toEqual(['SELECT', '5'])
    expect(words("SELECT '\\' ; x", sqliteDialect)).toEqual(['SELECT', '\\', ';', 'x'])
    for (const sql of ['SELECT 1 /*!50000 + 1 */', 'SELECT 1 /*M! + 1 */'])
      expect(codeOf(() => tokenize(sql, mysqlDialect.lexicalRules))).toBe('E_VALIDATION')
  })

  it('is accepted whole or not at all', () => {
    for (const sql of ["SELECT 'a", 'SELECT "a', 'SELECT [a', 'SELECT /* a', 'SELECT 1\0; DROP TABLE t'])
      expect(
        codeOf(() => tokenize(sql, sqliteDialect.lexicalRules)),
        sql,
      ).toBe('E_VALIDATION')
    expect(codeOf(() => tokenize('SELECT $a$ x $b$', postgresDialect.lexicalRules))).toBe('E_VALIDATION')
    expect(codeOf(() => singleStatement(tokenize(' -- nothing\n ;', sqliteDialect.lexicalRules)))).toBe('E_VALIDATION')
  })

  it('takes linear time', () => {
    const long = `SELECT ${"'x', ".repeat(100_000)} 1`
    expect(tokenize(long, postgresDialect.lexicalRules)).toHaveLength(200_002)
    const open = '/*'.repeat(200_000)
    for (const sql of [open, `${open}*/`, "E'".repeat(99_999), '$a$'.repeat(99_999)])
      expect(codeOf(() => tokenize(sql, postgresDialect.lexicalRules))).toBe('E_VALIDATION')
  })

  it('counts as several only if it is several, whatever its semicolons', () => {
    const one = (sql: string, dialect = sqliteDialect) =>
      codeOf(() => singleStatement(tokenize(sql, dialect.lexicalRules)))
    expect(one('SELECT 1;')).toBe('none')
    expect(one('SELECT 1; SELECT 2')).toBe('E_SQL_MULTI_STATEMENT')
    expect(one('CREATE TRIGGER t AFTER INSERT ON a BEGIN DELETE FROM b; SELECT CASE WHEN 1 THEN 2 END; END;')).toBe(
      'none',
    )
    expect(one('CREATE TRIGGER t AFTER INSERT ON a BEGIN DELETE FROM b; END; DROP TABLE c')).toBe(
      'E_SQL_MULTI_STATEMENT',
    )
    expect(one('CREATE TABLE "trigger" (a); BEGIN; DROP TABLE c')).toBe('E_SQL_MULTI_STATEMENT')
  })

  it('includes every function it calls, wherever and however written', () => {
    const sql = 'SELECT a.b(1), "C" /* x */ (2) FROM d(3) WHERE e IN (4) ORDER BY pg_catalog . f ( 5 )'
    expect(listFunctionCalls(tokenize(sql, postgresDialect.lexicalRules))).toEqual(['b', 'c', 'd', 'in', 'f'])
  })
})

describe('values replace placeholders', () => {
  const bound = (sql: string, params: Parameters<typeof bind>[2], dialect: Dialect = postgresDialect) =>
    bind(sql, tokenize(sql, dialect.lexicalRules), params, dialect.placeholder)
  it('and nothing in strings, casts, slices or operators', () => {
    expect(bound("SELECT ':a', x::text, y[1:2], :a, :a FROM t -- :a", { a: 1 })).toEqual({
      sql: "SELECT ':a', x::text, y[1:2], $1, $2 FROM t -- :a",
      params: [1, 1],
    })
    expect(bound('SELECT * FROM t WHERE doc ? :p0', ['key'])).toEqual({
      sql: 'SELECT * FROM t WHERE doc ? $1',
      params: ['key'],
    })
    expect(bound('SELECT ?, ?', [1, 2])).toEqual({ sql: 'SELECT $1, $2', params: [1, 2] })
    expect(bound('SELECT $2, $1, $2', ['a', 'b'], mysqlDialect)).toEqual({
      sql: 'SELECT ?, ?, ?',
      params: ['b', 'a', 'b'],
    })
  })
})

describe('the policy safe_write', () => {
  const safe = (sql: string, dialect: Dialect = postgresDialect) =>
    codeOf(() => checkStatement(sql, dialect, parsePolicy('safe_write'), 'write', 'x.policy'))
  it.each([
    'UPDATE t SET a = 1 WHERE id = 2',
    'DELETE FROM t WHERE id IN (SELECT id FROM u)',
    'INSERT INTO t VALUES (1) ON CONFLICT (id) DO UPDATE SET a = 2',
    'WITH x AS (UPDATE t SET a = 1 WHERE id = 2 RETURNING *) SELECT * FROM x',
    "SELECT replace(name, 'a', 'b') FROM t FOR UPDATE",
    'MERGE INTO t USING u ON t.id = u.id WHEN MATCHED THEN DELETE',
  ])('lets %s', (sql) => {
    expect(safe(sql)).toBe('none')
  })
  it.each([
    'UPDATE t SET a = 1',
    'UPDATE t SET a = (SELECT b FROM u WHERE u.id = 1)',
    'DELETE FROM t',
    'WITH x AS (DELETE FROM t RETURNING *) SELECT * FROM x WHERE x.id = 1',
    'WITH x AS MATERIALIZED (UPDATE t SET a = 1 RETURNING *) SELECT * FROM x',
    'WITH x AS (SELECT 1) DELETE FROM t',
    'TRUNCATE t',
    'CREATE TABLE x AS SELECT 1',
    'SELECT 1 INTO x',
    'GRANT ALL ON t TO public',
    'VACUUM',
    "COPY t FROM PROGRAM 'id'",
    'DO $$ BEGIN END $$',
    'CALL p()',
    'SET x = 1',
  ])('does not let %s', (sql) => {
    expect(safe(sql)).toBe('E_DENIED_BY_POLICY')
  })
})

describe('two policies together', () => {
  it('allow only what both allow', () => {
    const ceiling = parsePolicy({
      preset: 'safe_write',
      allowed_tables: ['a', 'b'],
      blocked_keywords: ['UNION'],
      max_rows: 10,
    })
    const wanted = parsePolicy({
      preset: 'readonly',
      allowed_tables: ['public.B', 'c'],
      blocked_tables: ['d'],
      max_rows: 50,
    })
    expect(narrowPolicy(ceiling, wanted, 'x')).toEqual({
      preset: 'readonly',
      allowedTables: ['b'],
      blockedTables: ['d'],
      blockedKeywords: ['union'],
      maxRows: 10,
    })
    expect(codeOf(() => narrowPolicy(ceiling, parsePolicy('unrestricted'), 'x'))).toBe('E_DENIED_BY_POLICY')
  })
})

describe('the address of a database', () => {
  it('contains host and login, which errors do not show', () => {
    expect(parseConnectionUrl({ url: 'postgres://app:p%40ss@db.example.com:6432/shop' })).toEqual({
      driver: 'postgresql',
      host: 'db.example.com',
      port: 6432,
      username: 'app',
      password: 'p@ss',
      database: 'shop',
    })
    expect(parseConnectionUrl({ url: 'mariadb://[::1]/shop', username: 'other' })).toEqual({
      driver: 'mysql',
      host: '::1',
      database: 'shop',
      username: 'other',
    })
    for (const [url, database] of [
      ['sqlite:data.db', 'data.db'],
      ['sqlite:///srv/data.db', '/srv/data.db'],
      ['sqlite:///./data.db', './data.db'],
      ['file:/srv/data.db', '/srv/data.db'],
      ['sqlite::memory:', ':memory:'],
      ['sqlite:', ':memory:'],
    ])
      expect(parseConnectionUrl({ url })).toEqual({ driver: 'sqlite', database })
    expect(parseConnectionUrl({ url: 'postgres://x/y?sslmode=verify-full' })).toMatchObject({ ssl: 'verify' })
    expect(parseConnectionUrl({ url: 'mysql://x/y?ssl-mode=REQUIRED' })).toMatchObject({ ssl: 'require' })
    for (const url of [
      'postgres://x/y?sslmode=prefer',
      'postgres://x/y?options=-c%20a',
      'mysql://x/y?sslmode=require&multipleStatements=true',
    ])
      expect(codeOf(() => parseConnectionUrl({ url }))).toBe('E_VALIDATION')
    for (const url of ['http://app:secret@x/y', 'postgres://app:secret@[bad/y', 'secret'])
      expect(() => parseConnectionUrl({ url })).toThrow(/^The url is not a database URL\.$/)
    expect(codeOf(() => parseConnectionUrl({ url: 'mysql://x/y', driver: 'sqlite' }))).toBe('E_VALIDATION')
  })
})
