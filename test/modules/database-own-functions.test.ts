import { describe, expect, it } from 'vitest'
import { servers } from '../databases.ts'
import { startOnDatabase } from './database-app.ts'

/** Each of these changes the table `log` in a session that may write, although its label says that it changes nothing. */
const OWN = `
CREATE TABLE log (line text);
CREATE SEQUENCE counted;
CREATE FUNCTION put(line text) RETURNS int VOLATILE LANGUAGE plpgsql AS $$ BEGIN INSERT INTO log VALUES (line); RETURN 1; END $$;
CREATE FUNCTION labelled_stable() RETURNS int STABLE LANGUAGE plpgsql AS $$ BEGIN RETURN put('stable'); END $$;
CREATE FUNCTION labelled_immutable() RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN RETURN put('immutable'); END $$;
CREATE FUNCTION in_sql() RETURNS int STABLE LANGUAGE sql AS $$ SELECT put('sql') $$;
CREATE FUNCTION as_owner() RETURNS int STABLE SECURITY DEFINER LANGUAGE plpgsql AS $$ BEGIN RETURN put('owner'); END $$;
CREATE FUNCTION with_setting() RETURNS int STABLE SET transaction_read_only = off LANGUAGE plpgsql AS $$ BEGIN RETURN put('setting'); END $$;
CREATE FUNCTION with_config() RETURNS int STABLE LANGUAGE plpgsql AS $$ BEGIN
  PERFORM set_config('transaction_read_only', 'off', true);
  RETURN put('config'); END $$;
CREATE FUNCTION writable() RETURNS int VOLATILE LANGUAGE plpgsql AS $$ BEGIN SET TRANSACTION READ WRITE; RETURN put('writable'); END $$;
CREATE FUNCTION with_transaction() RETURNS int STABLE LANGUAGE plpgsql AS $$ BEGIN RETURN writable(); END $$;
CREATE FUNCTION in_block() RETURNS int STABLE LANGUAGE plpgsql AS $$ BEGIN
  BEGIN PERFORM writable(); EXCEPTION WHEN OTHERS THEN NULL; END;
  RETURN put('block'); END $$;
CREATE FUNCTION later() RETURNS int STABLE LANGUAGE plpgsql AS $$ BEGIN
  PERFORM set_config('default_transaction_read_only', 'off', false);
  RETURN put('later'); END $$;
CREATE FUNCTION next_one() RETURNS bigint STABLE LANGUAGE sql AS $$ SELECT nextval('counted') $$;
CREATE VIEW seen AS SELECT put('view') AS one;
CREATE OPERATOR !!! (FUNCTION = put, RIGHTARG = text);
`
const CALLS = [
  'labelled_stable()',
  'labelled_immutable()',
  'in_sql()',
  'as_owner()',
  'with_setting()',
  'with_config()',
  'with_transaction()',
  'in_block()',
  'later()',
  'next_one()',
  "!!! 'operator'",
]

describe.runIf(servers.includes('postgresql'))("functions of the operator's own in PostgreSQL that write", () => {
  it('fail on a read-only connection, whatever their label and settings say', async () => {
    const rig = await startOnDatabase('postgresql', { policy: 'readonly' }, {}, OWN)
    for (const sql of [
      ...CALLS.map((call) => `SELECT ${call} AS n`),
      'SELECT * FROM seen',
      'EXPLAIN ANALYZE SELECT labelled_stable()',
      'WITH x AS (SELECT labelled_stable() AS n) SELECT n FROM x',
    ]) {
      const error = await rig.fails('query', { sql })
      expect([error.code, sql], error.message).toEqual([
        expect.stringMatching(/^E_(READ_ONLY|TOOL_FAILED|VALIDATION)$/),
        sql,
      ])
    }
    expect(await rig.fails('query', { sql: 'SELECT labelled_stable()' })).toMatchObject({ code: 'E_READ_ONLY' })
    expect(await rig.fails('browse', { table: 'seen' })).toMatchObject({ code: 'E_READ_ONLY' })
    expect(await rig.database.rows('SELECT line FROM log')).toEqual([])
    expect(await rig.database.rows('SELECT is_called FROM counted')).toEqual([[false]])
    // Outside the module, the same functions write.
    for (const name of ['labelled_stable', 'labelled_immutable', 'in_sql']) await rig.database.rows(`SELECT ${name}()`)
    expect(await rig.database.rows('SELECT line FROM log')).toEqual([['stable'], ['immutable'], ['sql']])
    // What a function set for its session does not reach the next call.
    expect((await rig.call('query', { sql: 'SHOW transaction_read_only' })).rows).toEqual([
      { transaction_read_only: 'on' },
    ])
  })

  it('fail in statements that only read on a connection that may write', async () => {
    const rig = await startOnDatabase('postgresql', { policy: 'safe_write' }, {}, OWN)
    for (const call of CALLS) await rig.fails('query', { sql: `SELECT ${call} AS n` })
    expect(await rig.database.rows('SELECT line FROM log')).toEqual([])
  })

  it('send no notification and leave no lock', async () => {
    const rig = await startOnDatabase(
      'postgresql',
      { policy: 'readonly' },
      {},
      `CREATE FUNCTION tell() RETURNS text STABLE LANGUAGE sql AS $$ SELECT pg_notify('news', 'x')::text $$;
       CREATE FUNCTION lock() RETURNS text STABLE LANGUAGE sql AS $$ SELECT pg_advisory_lock(4711)::text $$;`,
    )
    await rig.call('query', { sql: 'SELECT tell(), lock()' })
    expect(
      await rig.database.rows("SELECT count(*)::int FROM pg_locks WHERE locktype = 'advisory' AND objid = 4711"),
    ).toEqual([[0]])
  })
})

describe.runIf(servers.includes('mysql'))("functions of the operator's own in MariaDB that write", () => {
  it.each(['InnoDB', 'MyISAM', 'Aria'])('fail on a read-only connection: a table of %s', async (engine) => {
    const rig = await startOnDatabase('mysql', { policy: 'readonly' })
    await rig.database.exec(`CREATE TABLE log (line text) ENGINE=${engine}`)
    await rig.database.exec(
      'CREATE FUNCTION put(line text) RETURNS int NO SQL BEGIN INSERT INTO log VALUES (line); RETURN 1; END',
    )
    await rig.database.exec(
      "CREATE FUNCTION freed() RETURNS int READS SQL DATA BEGIN SET SESSION TRANSACTION READ WRITE; RETURN put('x'); END",
    )
    await rig.database.exec("CREATE VIEW seen AS SELECT put('view') AS one")
    for (const sql of ["SELECT put('x') AS n", 'SELECT freed() AS n', 'SELECT * FROM seen'])
      expect(await rig.fails('query', { sql }), sql).toMatchObject({ code: 'E_READ_ONLY' })
    expect(await rig.database.rows('SELECT * FROM log')).toEqual([])
    await rig.database.rows("SELECT put('x')")
    expect(await rig.database.rows('SELECT * FROM log')).toEqual([['x']])
  })
})
