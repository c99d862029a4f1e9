import { randomBytes } from 'node:crypto'
import { chmodSync, mkdirSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { systemClock } from '../../src/core/clock.ts'
import { createLog, silentLog } from '../../src/core/log.ts'
import {
  createFileTokenStore,
  createSharedTokenStore,
  createToken,
  type StoredToken,
} from '../../src/server/token-store.ts'
import { createCommonClock } from '../../src/state/common-clock.ts'
import { connectRedis } from '../../src/state/redis-store.ts'
import { createRedisState } from '../../src/state/shared-state.ts'
import { temporaryFolder } from '../app.ts'
import { createManualClock } from '../clock.ts'
import { redisUrl } from '../redis.ts'

const make = (name: string, more: Partial<StoredToken> = {}): StoredToken =>
  createToken({ name, principal: name, roles: [], createdAt: 0, ...more }).stored
const names = (tokens: readonly StoredToken[]): string[] => tokens.map(({ name }) => name).sort()

describe('tokens in a folder', () => {
  it('are seen by another process within a second, at once on request, also when revoked', async () => {
    const dir = join(temporaryFolder(), 'tokens')
    const clock = createManualClock()
    const [server, terminal] = [
      createFileTokenStore(dir, clock, silentLog),
      createFileTokenStore(dir, clock, silentLog),
    ]
    expect(server.valid()).toEqual([])
    const one = make('one')
    await terminal.add(one)
    expect(names(server.valid())).toEqual([])
    expect(names(server.valid(true))).toEqual(['one'])
    const gone: string[] = []
    const stop = server.onGone((id) => gone.push(id))
    expect(await terminal.remove(one.id)).toBe(true)
    expect(await terminal.remove(one.id)).toBe(false)
    clock.pass(1_000)
    expect([gone, names(server.valid())]).toEqual([[one.id], []])
    stop()
    expect(clock.waiting).toBe(0)
  })

  it('expire, with a notification', async () => {
    const clock = createManualClock(1_000)
    const tokens = createFileTokenStore(join(temporaryFolder(), 'tokens'), clock, silentLog)
    const short = make('short', { expiresAt: 2_500 })
    await tokens.add(short)
    await tokens.add(make('long', { expiresAt: 9_000 }))
    const gone: string[] = []
    tokens.onGone((id) => gone.push(id))
    clock.pass(1_499)
    expect([names(tokens.valid()), gone]).toEqual([['long', 'short'], []])
    clock.pass(1)
    expect(names(tokens.valid())).toEqual(['long'])
    clock.pass(1_000)
    expect(gone).toEqual([short.id])
    expect(names(await tokens.list())).toEqual(['long', 'short'])
  })

  it('in files that are shared, linked or damaged are rejected, and the log says which', async () => {
    const dir = join(temporaryFolder(), 'tokens')
    mkdirSync(dir, { mode: 0o700 })
    const logged: string[] = []
    const tokens = createFileTokenStore(
      dir,
      createManualClock(),
      createLog((line) => logged.push(line), 'warn'),
    )
    const [open, moved, linked, cut] = ['open', 'moved', 'linked', 'cut'].map((name) => make(name))
    const put = (id: string | undefined, text: string): string => {
      const file = join(dir, `${id}.json`)
      writeFileSync(file, text, { mode: 0o600 })
      return file
    }
    chmodSync(put(open?.id, JSON.stringify(open)), 0o644)
    put('0123456789ab', JSON.stringify(moved))
    writeFileSync(join(dir, 'elsewhere'), JSON.stringify(linked), { mode: 0o600 })
    symlinkSync(join(dir, 'elsewhere'), join(dir, `${linked?.id}.json`))
    put(cut?.id, '{"id":')
    await tokens.add(make('good'))
    expect(names(tokens.valid(true))).toEqual(['good'])
    expect(logged).toHaveLength(4)
    expect(tokens.valid(true)).toHaveLength(1)
    // Each is reported once.
    expect(logged).toHaveLength(4)
  })

  it('are reported as unreadable once an hour, and when they can be read again', () => {
    const dir = join(temporaryFolder(), 'tokens')
    const clock = createManualClock()
    const lines: string[] = []
    const tokens = createFileTokenStore(
      dir,
      clock,
      createLog((line) => lines.push(JSON.parse(line).message)),
    )
    writeFileSync(dir, 'not a folder')
    onTestFinished(tokens.onGone(() => undefined))
    const unreadable = 'tokens cannot be read, so all of them are rejected'
    clock.pass(3_599_000)
    expect(lines).toEqual([unreadable])
    clock.pass(60_000)
    expect(lines).toEqual([unreadable, unreadable])
    rmSync(dir)
    clock.pass(60_000)
    expect(lines).toEqual([unreadable, unreadable, 'tokens can be read again'])
  })

  it('cannot be removed by a path as name', async () => {
    const dir = temporaryFolder()
    mkdirSync(join(dir, 'tokens'))
    writeFileSync(join(dir, 'other.json'), '{}')
    const tokens = createFileTokenStore(join(dir, 'tokens'), createManualClock(), silentLog)
    expect(await tokens.remove('../other')).toBe(false)
    expect(readdirSync(dir).sort()).toEqual(['other.json', 'tokens'])
  })
})

describe.skipIf(redisUrl === undefined)('tokens in Redis', () => {
  it('are valid on every server, and revoked on every one', async () => {
    const prefix = `pegboard-test-${randomBytes(6).toString('hex')}`
    const machine = async () => {
      const clock = createCommonClock(systemClock)
      const shared = createRedisState(String(redisUrl), prefix, clock, silentLog)
      await shared.open()
      const tokens = createSharedTokenStore(shared, clock, silentLog)
      await tokens.open()
      onTestFinished(() => shared.close())
      return tokens
    }
    onTestFinished(async () => {
      const redis = await connectRedis(String(redisUrl), silentLog)
      const keys = await redis.keys(`${prefix}:*`)
      if (keys.length > 0) await redis.del(...keys)
      await redis.quit()
    })
    const [one, other] = [await machine(), await machine()]
    const made = make('ci')
    const gone: string[] = []
    await one.add(made)
    await expect.poll(() => names(other.valid(true))).toEqual(['ci'])
    onTestFinished(other.onGone((id) => gone.push(id)))
    expect(await one.remove(made.id)).toBe(true)
    expect(names(one.valid(true))).toEqual([])
    await expect.poll(() => gone).toEqual([made.id])
    expect(names((await machine()).valid(true))).toEqual([])
  })
})
