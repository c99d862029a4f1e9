import { spawn } from 'node:child_process'
import {
  chmodSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { createMemoryStore } from '../../src/state/memory-store.ts'
import { openDatabase } from '../../src/state/sqlite-driver.ts'
import { openSqliteStore } from '../../src/state/sqlite-store.ts'
import { bundle } from '../bundled.ts'
import { createManualClock } from '../clock.ts'
import { storeContract } from '../contract/store.ts'
import { fuzzRuns, randomFrom } from '../fuzz.ts'

const folders: string[] = []
const folder = (): string => {
  const made = mkdtempSync(join(tmpdir(), 'pegboard-state-'))
  folders.push(made)
  return made
}
afterEach(() => {
  for (const made of folders.splice(0)) rmSync(made, { recursive: true, force: true })
})
/** Each kill is at another moment. */
const KILLS = fuzzRuns(20)
const errors: string[] = []
const warnings: string[] = []
const log = {
  error: (message: string) => void errors.push(message),
  warn: (message: string) => void warnings.push(message),
}

storeContract('memory', async (clock) => {
  const store = createMemoryStore(clock)
  return { store, close: () => store.close() }
})

storeContract('SQLite', async (clock) => {
  const store = openSqliteStore(join(folder(), 'state.db'), clock, log)
  return { store, close: () => store.close() }
})

describe('a SQLite file', () => {
  const clock = createManualClock(1_700_000_000_000)

  it('keeps its content over a restart', async () => {
    const file = join(folder(), 'deep', 'state.db')
    const before = openSqliteStore(file, clock, log)
    await before.table('t').put({ id: 'a', owner: 'x', value: { kept: true } })
    await before.close()
    const after = openSqliteStore(file, clock, log)
    expect((await after.table('t').get('a'))?.value).toEqual({ kept: true })
    await after.close()
  })

  it('may be closed twice', async () => {
    const store = openSqliteStore(join(folder(), 'state.db'), clock, log)
    await store.table('t').put({ id: 'a', owner: 'x', value: 1 })
    await store.close()
    await store.close()
  })

  it('is shared by two processes: one claim wins', async () => {
    const file = join(folder(), 'state.db')
    const stores = [openSqliteStore(file, clock, log), openSqliteStore(file, clock, log)]
    const claims = await Promise.all(
      stores.map((store, at) => store.table<number>('t').put({ id: 'run', owner: 'x', value: at }, 0)),
    )
    expect(claims.filter((claim) => claim !== undefined)).toHaveLength(1)
    for (const store of stores) await store.close()
  })

  it('that is damaged is renamed and reported, and its bytes are kept', async () => {
    const at = folder()
    const file = join(at, 'state.db')
    writeFileSync(file, "this was never a database, but it was somebody's")
    errors.length = 0
    const store = openSqliteStore(file, clock, log)
    await store.table('t').put({ id: 'a', owner: 'x', value: 1 })
    await store.close()
    const aside = readdirSync(at).find((name) => name.includes('.corrupt-2023-11-14T22-13-20-000Z'))
    expect(readFileSync(join(at, String(aside)), 'utf8')).toContain('somebody')
    expect(errors).toEqual([
      'the state file is damaged; Pegboard moved it aside and started a new one: scheduled work is lost',
    ])
    expect(openSqliteStore(file, clock, log).lostAt).toBe(1_700_000_000_000)
  })

  it('of a newer version is rejected and unchanged', async () => {
    const file = join(folder(), 'state.db')
    const store = openSqliteStore(file, clock, log)
    await store.close()
    const raw = openDatabase(file)
    raw.exec('PRAGMA user_version = 99')
    raw.close()
    expect(() => openSqliteStore(file, clock, log)).toThrow(
      expect.objectContaining({
        code: 'E_STATE',
        message: `${file} was written by a newer version of Pegboard: it has schema version 99, and this one knows versions up to 1.`,
      }),
    )
    const after = openDatabase(file)
    expect(after.prepare('PRAGMA user_version').get()).toMatchObject({ user_version: 99 })
    after.close()
  })

  it('that cannot be opened, read or written is reported, without a path to clients', async () => {
    const at = folder()
    mkdirSync(join(at, 'state.db'))
    expect(() => openSqliteStore(join(at, 'state.db'), clock, log)).toThrow(
      expect.objectContaining({ code: 'E_STATE', hint: expect.stringContaining('dirs.state') }),
    )
    const file = join(folder(), 'state.db')
    const store = openSqliteStore(file, clock, log)
    const raw = openDatabase(file)
    raw.exec('ALTER TABLE documents RENAME TO gone')
    raw.close()
    const table = store.table('t')
    for (const work of [
      () => table.put({ id: 'a', owner: 'x', value: 1 }),
      () => table.get('a'),
      () => table.list(),
      () => table.count(),
    ]) {
      const error = (await work().catch((one: unknown) => one)) as { code: string; message: string }
      expect(error).toMatchObject({
        code: 'E_STATE_UNAVAILABLE',
        message: expect.stringMatching(/^The state could not be (written|read): /),
      })
      expect(error.message).not.toContain(file)
    }
    await store.close()
  })

  it('locked by another process is reported, and works when unlocked', async () => {
    const file = join(folder(), 'state.db')
    const store = openSqliteStore(file, clock, log)
    const raw = openDatabase(file)
    raw.exec('BEGIN IMMEDIATE')
    await expect(store.table('t').put({ id: 'a', owner: 'x', value: 1 })).rejects.toMatchObject({
      code: 'E_STATE_UNAVAILABLE',
      message: 'The state could not be written: another process holds the state file.',
      hint: 'Stop the program that reads or copies it, then try again.',
    })
    raw.exec('COMMIT')
    expect(await store.table('t').put({ id: 'a', owner: 'x', value: 1 })).toBeGreaterThan(0)
    await store.close()
    const other = join(folder(), 'state.db')
    const holder = openDatabase(other)
    holder.exec('CREATE TABLE t (x); BEGIN EXCLUSIVE')
    expect(() => openSqliteStore(other, clock, log)).toThrow(
      expect.objectContaining({
        code: 'E_STATE_UNAVAILABLE',
        message: `The state file ${other} cannot be used: another process holds the state file.`,
      }),
    )
    holder.close()
    raw.close()
  }, 30_000)

  it('locked for a moment does not block other work', async () => {
    const file = join(folder(), 'state.db')
    const store = openSqliteStore(file, clock, log)
    const raw = openDatabase(file)
    raw.exec('BEGIN IMMEDIATE')
    let ticks = 0
    const ticking = setInterval(() => ticks++, 10)
    const writes = Promise.all([1, 2].map((n) => store.table('t').put({ id: `a${n}`, owner: 'x', value: n })))
    await new Promise((done) => setTimeout(done, 600))
    raw.exec('COMMIT')
    expect(await writes).toEqual([1, 2])
    clearInterval(ticking)
    expect(ticks).toBeGreaterThan(5)
    raw.close()
    await store.close()
  })

  it("is rejected on a network file system, and others' write access is logged", async () => {
    const at = folder()
    const file = join(at, 'deep', 'state.db')
    const nfs = () => ({ mode: 0o700, fileSystem: 0x6969 })
    expect(() => openSqliteStore(file, clock, log, nfs)).toThrow(
      expect.objectContaining({
        code: 'E_STATE',
        message: `The state folder ${join(at, 'deep')} is on a network file system (NFS).`,
        hint: expect.stringContaining('state.url'),
      }),
    )
    warnings.length = 0
    await openSqliteStore(file, clock, log).close()
    expect([statSync(join(at, 'deep')).mode & 0o777, statSync(file).mode & 0o777, warnings]).toEqual([0o700, 0o600, []])
    chmodSync(join(at, 'deep'), 0o777)
    await openSqliteStore(file, clock, log).close()
    expect(warnings).toEqual(['other users can write to the state folder, and so change scheduled work'])
    writeFileSync(join(at, 'a-file'), '')
    expect(() => openSqliteStore(join(at, 'a-file', 'state.db'), clock, log)).toThrow(
      expect.objectContaining({ code: 'E_STATE', hint: expect.stringContaining('dirs.state') }),
    )
  })

  it('reports a log deleted after a crash, and no other missing log', async () => {
    const dir = folder()
    const stores = [
      openSqliteStore(join(dir, 'state.db'), clock, log),
      openSqliteStore(join(dir, 'state.db'), clock, log),
    ]
    /** The files that a crash would leave at this moment, opened by the next process. */
    const next = async (...deleted: string[]): Promise<unknown> => {
      const left = folder()
      cpSync(dir, left, { recursive: true })
      for (const name of deleted) rmSync(join(left, name))
      errors.length = 0
      const store = openSqliteStore(join(left, 'state.db'), clock, log)
      const found = [(await store.table('t').get('a'))?.value, errors.map((text) => text.slice(0, 37))]
      await store.close()
      return found
    }
    const gone = 'the WAL beside the state file is gone'
    await stores[0]?.table('t').put({ id: 'a', owner: 'x', value: 1 })
    expect(await next()).toEqual([1, []])
    expect(await next('state.db-wal', 'state.db-shm')).toEqual([undefined, [gone]])
    // The marker exists while a process has the file open.
    await stores[0]?.close()
    expect(await next('state.db-wal', 'state.db-shm')).toEqual([undefined, [gone]])
    await stores[1]?.close()
    expect(await next()).toEqual([1, []])
  })

  it('keeps what was acknowledged, whenever its process is killed', async () => {
    const program = join(folder(), 'write.mjs')
    bundle(
      program,
      `import { openSqliteStore } from './src/state/sqlite-store.ts'
const store = openSqliteStore(process.argv[2], { now: Date.now }, console)
const table = store.table('t')
for (let i = 0; ; i++) {
  await table.put({ id: String(i), owner: 'x', value: i })
  process.stdout.write(i + '\\n')
}`,
    )
    const random = randomFrom()
    const killed = async (): Promise<void> => {
      const file = join(folder(), 'state.db')
      const child = spawn(process.execPath, [program, file], { stdio: ['ignore', 'pipe', 'inherit'] })
      let said = ''
      child.stdout.setEncoding('utf8').on('data', (text: string) => {
        if (said === '') setTimeout(() => child.kill('SIGKILL'), random() * 100)
        said += text
      })
      await new Promise((done) => child.on('close', done))
      const acknowledged = said.split('\n').slice(0, -1)
      expect(acknowledged.length).toBeGreaterThan(0)
      const raw = openDatabase(file)
      expect(raw.prepare('PRAGMA integrity_check').get()).toMatchObject({ integrity_check: 'ok' })
      raw.close()
      const store = openSqliteStore(file, clock, log)
      const kept = new Set((await store.table<number>('t').list()).map(({ id }) => id))
      expect(acknowledged.filter((id) => !kept.has(id))).toEqual([])
      await store.close()
    }
    for (let n = 0; n < KILLS; n += 2) await Promise.all([killed(), killed()])
  })
})
