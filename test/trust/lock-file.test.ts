import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { createLog } from '../../src/core/log.ts'
import {
  createLock,
  formatLock,
  LOCK_NAME,
  type LockDigests,
  lockFile,
  type PinsByServer,
  parseLock,
} from '../../src/trust/lock-file.ts'
import { temporaryFolder } from '../app.ts'

const hash = (letter: string) => letter.charCodeAt(0).toString(16).padStart(2, '0').repeat(32)
const pin = (server: string, tool: string, letter: string) => (servers: PinsByServer) => {
  servers.set(server, new Map([...(servers.get(server) ?? []), [tool, hash(letter)]]))
}

function setUp(text?: string) {
  const file = join(temporaryFolder(), LOCK_NAME)
  if (text !== undefined) writeFileSync(file, text)
  const logged: string[] = []
  const log = createLog((line) => logged.push(line))
  return { file, logged, log, lock: createLock({ file, log }) }
}

describe('the lock file', () => {
  it('is beside the configuration; without one there is none', () => {
    expect(lockFile('/home/me/project/mcp.config.json')).toBe('/home/me/project/pegboard.lock.json')
    expect(lockFile('/home/me/.cursor/mcp.json')).toBe('/home/me/.cursor/mcp.pegboard.lock.json')
    expect(lockFile('/home/me/work.jsonc')).toBe('/home/me/work.pegboard.lock.json')
    expect(lockFile(undefined)).toBeUndefined()
  })

  it('has one tool per line in a stable order, without hidden characters', () => {
    const servers = new Map([
      [
        'b',
        new Map([
          ['z', hash('z')],
          ['a\u202e', hash('a')],
        ]),
      ],
      ['a', new Map<string, string>()],
    ])
    expect(formatLock(servers)).toBe(`{
  "version": 1,
  "servers": {
    "a": {},
    "b": {
      "a\\u202e": "${hash('a')}",
      "z": "${hash('z')}"
    }
  }
}
`)
    expect(formatLock(parseLock(formatLock(servers)))).toBe(formatLock(servers))
  })

  it('is written once for changes within a moment', async () => {
    const { file, lock } = setUp()
    for (const server of ['a', 'b', 'c']) {
      lock.change(pin(server, 't', 't'))
      await new Promise(setImmediate)
    }
    await expect.poll(() => existsSync(file), { interval: 5 }).toBe(true)
    // With a write for each change, the first would be alone.
    expect([...parseLock(readFileSync(file, 'utf8')).keys()]).toEqual(['a', 'b', 'c'])
  })

  it('accepts names that mean something in JavaScript', () => {
    const text = formatLock(new Map([['__proto__', new Map([['constructor', hash('c')]])]]))
    expect(parseLock(text).get('__proto__')?.get('constructor')).toBe(hash('c'))
  })

  it.each([
    ['half of it', '{"version": 1, "serv', /JSON/],
    ['a merge that was not finished', `{\n<<<<<<< HEAD\n  "version": 1`, /conflict markers/],
    ['a newer version', '{"version": 2, "servers": {}}', /newer Pegboard/],
    ['something that is no fingerprint', '{"version": 1, "servers": {"a": {"t": "yes"}}}', /not a fingerprint/],
    ['no servers', '{"version": 1}', /no servers/],
    ['null', 'null', /not an object/],
  ])('that has %s is reported as damaged, and never overwritten', async (_what, text, why) => {
    const { file, lock, logged } = setUp(text)
    expect(lock.broken).toMatch(why)
    lock.change(pin('a', 't', 'n'))
    await lock.flush()
    expect(readFileSync(file, 'utf8')).toBe(text)
    expect(logged.filter((line) => line.includes('Pegboard approves no new tools until it is repaired'))).toHaveLength(
      1,
    )
  })

  it('damaged at run time leaves earlier approvals valid, and counts again when repaired', async () => {
    const { file, lock } = setUp(formatLock(new Map([['a', new Map([['t', hash('t')]])]])))
    expect(lock.pins('a')?.get('t')).toBe(hash('t'))
    writeFileSync(file, '<<<<<<< HEAD')
    lock.reread()
    expect(lock.broken).toMatch(/conflict/)
    expect(lock.pins('a')?.get('t')).toBe(hash('t'))
    writeFileSync(file, formatLock(new Map([['a', new Map([['t', hash('u')]])]])))
    expect(lock.reread()).toBe(true)
    expect(lock.broken).toBeUndefined()
    expect(lock.pins('a')?.get('t')).toBe(hash('u'))
  })

  it.each([
    ['a folder', (file: string) => mkdirSync(file), 'EISDIR'],
    ['a link to itself', (file: string) => symlinkSync(file, file), 'ELOOP'],
  ])('that is %s counts as damaged, whichever method reads it first', (_what, make, code) => {
    const { file, log, logged } = setUp()
    make(file)
    const digests = { get: () => undefined, set: () => undefined } as unknown as NonNullable<
      Parameters<typeof createLock>[0]['digests']
    >
    for (const ask of ['pins', 'digest', 'reread'] as const) {
      const lock = createLock({ file, log, digests })
      expect(ask === 'reread' ? lock.reread() : lock[ask]('a')).toBe(ask === 'reread' ? false : undefined)
      expect(lock.pins('a')).toBeUndefined()
      expect(lock.broken).toMatch(new RegExp(`^${LOCK_NAME} cannot be read: ${code}`))
    }
    expect(logged.filter((line) => line.includes('Pegboard approves no new tools'))).toHaveLength(3)
  })

  it('is written by several processes without losing changes', async () => {
    const { file, log } = setUp()
    const locks = Array.from({ length: 8 }, () => createLock({ file, log }))
    for (const [n, lock] of locks.entries()) for (let m = 0; m < 4; m++) lock.change(pin(`s${n}`, `t${m}`, 'x'))
    await Promise.all(locks.map((lock) => lock.flush()))
    const servers = parseLock(readFileSync(file, 'utf8'))
    expect([...servers.values()].map((tools) => tools.size)).toEqual(Array.from({ length: 8 }, () => 4))
    expect(readdirSync(join(file, '..'))).toEqual([LOCK_NAME])
  })

  it('reports changes by another process', async () => {
    const { file, log } = setUp()
    let told = 0
    const mine = createLock({ file, log, onChange: () => told++ })
    mine.change(pin('a', 't', 'x'))
    await mine.flush()
    expect(told).toBe(0)
    const other = createLock({ file, log })
    other.change(pin('b', 't', 'y'))
    await other.flush()
    mine.change(pin('a', 'u', 'x'))
    await mine.flush()
    expect(told).toBe(1)
    expect(mine.pins('b')?.get('t')).toBe(hash('y'))
  })

  it('in an unwritable folder is kept in memory, with one warning', async () => {
    const file = join(temporaryFolder(), 'no-such-folder', LOCK_NAME)
    const logged: string[] = []
    const lock = createLock({ file, log: createLog((line) => logged.push(line)) })
    lock.change(pin('a', 't', 'x'))
    lock.change(pin('a', 'u', 'x'))
    await lock.flush()
    expect(lock.pins('a')?.size).toBe(2)
    expect(logged.map((line) => JSON.parse(line).level)).toEqual(['warn'])
    expect(lock.unsaved).toMatch(/cannot be written/)
    expect(existsSync(file)).toBe(false)
  })

  it('is not parsed again for its digests while unchanged', async () => {
    const { file, log, lock } = setUp()
    const kept = new Map<string, LockDigests>()
    const digests = {
      get: (key: string) => kept.get(key),
      set: (key: string, value: LockDigests) => void kept.set(key, value),
    }
    lock.change(pin('a', 'x', 'x'))
    await lock.flush()
    const first = createLock({ file, log, digests })
    const digest = first.digest('a')
    await first.flush()
    expect(digest).toMatch(/^[0-9a-f]{64}$/)
    expect([...kept.values()]).toEqual([{ text: expect.any(String), servers: { a: digest } }])

    // The stored digests are used, because they differ from the file.
    const [key] = [...kept.keys()] as [string]
    kept.set(key, { ...(kept.get(key) as LockDigests), servers: { a: 'kept' } })
    expect(createLock({ file, log, digests }).digest('a')).toBe('kept')

    for (const servers of [null, 'x', undefined]) {
      kept.set(key, { ...(kept.get(key) as LockDigests), servers } as never)
      const read = createLock({ file, log, digests })
      expect(read.digest('a')).toBe(digest)
      await read.flush()
    }
    // Digests of an earlier version, invalid ones, or those of another file are not used.
    const [good] = kept.values()
    for (const text of ['a'.repeat(64), '', null, 7, `${(good as LockDigests).text.slice(0, -1)}x`, '0'.repeat(120)]) {
      kept.set(key, { text, servers: { a: 'kept' } } as never)
      const read = createLock({ file, log, digests })
      expect(read.digest('a')).toBe(digest)
      await read.flush()
    }
    kept.set(key, { ...(kept.get(key) as LockDigests), servers: { a: 'kept' } })

    const later = createLock({ file, log, digests })
    expect(later.digest('a')).toBe('kept')
    expect(later.reread()).toBe(false)
    expect(later.digest('a')).toBe(digest)
    for (const text of ['{"version": 1, "serv', undefined]) {
      const lasting = createLock({ file, log, digests })
      expect(lasting.digest('a')).toBe('kept')
      const before = readFileSync(file)
      if (text === undefined) rmSync(file)
      else writeFileSync(file, text)
      expect(lasting.reread()).toBe(true)
      expect(lasting.digest('a')).toBeUndefined()
      expect(createLock({ file, log, digests }).digest('a')).toBeUndefined()
      writeFileSync(file, before)
    }
  })

  it('is parsed again when its last byte changes or it becomes a folder, also when it is long', async () => {
    const tools = Array.from({ length: 5_000 }, (_, index) => [`t${index}`, hash('a')] as const)
    const text = formatLock(new Map([['a', new Map(tools)]]))
    const { file, log } = setUp(text)
    const kept = new Map<string, LockDigests>()
    const digests = {
      get: (key: string) => kept.get(key),
      set: (key: string, value: LockDigests) => void kept.set(key, value),
    }
    const first = createLock({ file, log, digests })
    const digest = first.digest('a')
    await first.flush()
    const [[key, stored]] = [...kept] as [[string, LockDigests]]
    kept.set(key, { ...stored, servers: { a: 'kept' } })
    expect(createLock({ file, log, digests }).digest('a')).toBe('kept')

    writeFileSync(file, `${text.slice(0, -1)} `)
    expect(createLock({ file, log }).digest('a')).toBe(digest)
    expect(createLock({ file, log, digests }).digest('a')).toBe(digest)
    rmSync(file)
    mkdirSync(file)
    const broken = createLock({ file, log, digests })
    expect(broken.digest('a')).toBeUndefined()
    expect(broken.broken).toContain('EISDIR')
  })
})
