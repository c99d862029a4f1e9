import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import type { Driver, StatementOutcome } from '../../modules/database/driver.ts'
import { createSqlite } from '../../modules/database/sqlite.ts'
import type { Processes, Program } from '../../src/core/service-types.ts'
import { fileToOpen } from '../../src/policy/file-to-open.ts'
import { createPrograms } from '../../src/programs/programs.ts'
import { temporaryFolder } from '../app.ts'
import { sqliteIn } from '../databases.ts'
import { canLimit, useUpDescriptors } from '../process-limits.ts'

const ENDLESS = 'WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c'
const QUICK = 'SELECT 1'

interface Opened {
  readonly driver: Driver
  /** Started statements, in order. */
  readonly started: Program[]
  run(sql: string, signal?: AbortSignal, access?: 'read' | 'write'): Promise<readonly StatementOutcome[]>
}

/**
 * The driver on real processes.
 * @param onStart called for each process before the driver gets it
 */
async function open(
  onStart: (program: Program) => void = () => undefined,
  file?: string,
  create?: boolean,
): Promise<Opened> {
  const database = file ?? join(temporaryFolder(), 'test.db')
  if (file === undefined) await sqliteIn(database).exec('CREATE TABLE t (a)')
  const programs = createPrograms({ platform: process.platform, environment: process.env, warn: () => undefined })
  const started: Program[] = []
  const processes: Processes = {
    ...programs,
    async start(wanted) {
      const program = await programs.start(wanted)
      started.push(program)
      onStart(program)
      return program
    },
  }
  const driver = createSqlite(
    {
      driver: 'sqlite',
      database,
      allowedFunctions: [],
      busyMs: 1_000,
      connectMs: 60_000,
      maxSessions: 1,
      ...(create && { create }),
    },
    processes,
    (make) => fileToOpen(database, { folders: [], setting: 'connections', make }),
  )
  onTestFinished(async () => {
    await driver.close()
    await programs.stop()
  })
  return {
    driver,
    started,
    run: (sql, signal = new AbortController().signal, access = 'read') =>
      driver.run({
        statements: [{ sql, params: [] }],
        access,
        maxRows: 10,
        maxBytes: 10_000,
        // None of these is ended by that.
        timeoutMs: 600_000,
        signal,
        principal: 'ann',
      }),
  }
}

const ONE = [{ columns: ['1'], rows: [[1]], truncated: false }]
const gone = new Error('no client waits for it any more')

it('takes and returns text with the line separators of Unicode', async () => {
  const { run } = await open()
  const rows = [['a\u2028b', 'c\u2029d\re']]
  expect(await run("SELECT 'a\u2028b' AS x, 'c' || char(8233) || 'd' || char(13) || 'e' AS y")).toMatchObject([
    { rows },
  ])
})

it('never starts a statement of a caller that left while its process was starting', async () => {
  const caller = new AbortController()
  const { run } = await open(() => caller.abort(gone))
  await expect(run(ENDLESS, caller.signal)).rejects.toBe(gone)
  expect(await run(QUICK)).toEqual(ONE)
}, 60_000)

it('never starts a statement of a caller that left while its process was opening the file', async () => {
  const caller = new AbortController()
  const { run } = await open(({ stdout }) => stdout.once('data', () => caller.abort(gone)))
  await expect(run(ENDLESS, caller.signal)).rejects.toBe(gone)
  expect(await run(QUICK)).toEqual(ONE)
}, 60_000)

it('never starts a statement of a caller that left while it was queued', async () => {
  const { run, started } = await open()
  const first = new AbortController()
  const others = [new AbortController(), new AbortController()]
  const running = run(ENDLESS, first.signal)
  const waiting = others.map(({ signal }) => run(ENDLESS, signal))
  // Before the next statement's turn, and with it.
  others[0]?.abort(gone)
  first.abort(gone)
  queueMicrotask(() => others[1]?.abort(gone))
  expect(await Promise.allSettled([running, ...waiting])).toEqual(
    [1, 2, 3].map(() => ({ status: 'rejected', reason: gone })),
  )
  expect(await run(QUICK)).toEqual(ONE)
  expect(started.length).toBeLessThanOrEqual(3)
}, 60_000)

it('stops a statement whose caller leaves right after it was sent', async () => {
  const { run, started } = await open()
  expect(await run(QUICK)).toEqual(ONE)
  const caller = new AbortController()
  const { stdin } = started[0] as Program
  const write = stdin.write.bind(stdin) as (text: string) => boolean
  stdin.write = (text: string) => {
    setImmediate(() => caller.abort(gone))
    return write(text)
  }
  const running = run(ENDLESS, caller.signal)
  await expect(running).rejects.toBe(gone)
  expect(await started[0]?.ended).toEqual({ code: null, signal: expect.stringMatching(/^SIG(TERM|KILL)$/) })
  expect(await run(QUICK)).toEqual(ONE)
}, 60_000)

it('is one database in memory, however many wait for it', async () => {
  const { run, started } = await open(undefined, ':memory:')
  await run('CREATE TABLE t (a)', undefined, 'write')
  await run('INSERT INTO t VALUES (7)', undefined, 'write')
  const all = await Promise.all([1, 2, 3, 4, 5].map(() => run('SELECT a FROM t')))
  expect(all).toEqual([1, 2, 3, 4, 5].map(() => [{ columns: ['a'], rows: [[7]], truncated: false }]))
  expect(started).toHaveLength(1)
}, 60_000)

it('leaves no process behind that was starting when it was closed', async () => {
  let close: Promise<void> | undefined
  const { driver, run, started } = await open(() => {
    close ??= driver.close()
  })
  await expect(run(QUICK)).rejects.toMatchObject({ code: 'E_DB_UNAVAILABLE' })
  await close
  expect(await started[0]?.ended).toEqual({ code: null, signal: expect.stringMatching(/^SIG(TERM|KILL)$/) })
}, 60_000)

it.runIf(canLimit)(
  'opens a database it creates as soon as a descriptor is free',
  async () => {
    const { run } = await open(undefined, join(temporaryFolder(), 'new.db'), true)
    const free = useUpDescriptors()
    onTestFinished(free)
    await expect(run(QUICK)).rejects.toMatchObject({ code: 'E_OVERLOADED' })
    free()
    expect(await run(QUICK)).toEqual(ONE)
  },
  60_000,
)

it('names the tools that show tables and columns if a statement names others', async () => {
  const { run } = await open()
  for (const [sql, message] of [
    ['SELECT a FROM orders', 'no such table: orders'],
    ['SELECT total FROM t', 'no such column: total'],
  ] as const)
    expect(await run(sql)).toMatchObject([
      {
        error: {
          message,
          hint: 'Correct the statement. list_tables shows the tables, and describe the columns of one.',
        },
      },
    ])
})
