import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { type Keyring, openKeyring } from '../../../src/state/keyring.ts'
import { createTokenStore, type Grant } from '../../../src/upstream/oauth/token-store.ts'
import { withFolder } from './oauth-servers.ts'

const key = { server: 'web', url: 'https://web.example/mcp' }
const grant: Grant = {
  tokens: { access_token: 'access-1', token_type: 'Bearer', refresh_token: 'refresh-1', issuer: 'https://as.example' },
  expiresAt: 5,
}

function keyringOf(entries = new Map<string, string>()): Keyring & { readonly entries: Map<string, string> } {
  return {
    entries,
    get: async (name) => entries.get(name),
    set: async (name, secret) => void entries.set(name, secret),
    delete: async (name) => void entries.delete(name),
  }
}

const filesIn = (dir: string): string =>
  readdirSync(dir)
    .map((name) => readFileSync(join(dir, name), 'utf8'))
    .join()

describe('the token store', () => {
  it('returns what it was given, by server, address and principal', () =>
    withFolder(async (folder) => {
      const store = createTokenStore(join(folder, 'auth'), undefined)
      await store.write(key, grant)
      expect(await store.read(key)).toEqual(grant)
      for (const other of [
        { ...key, server: 'b' },
        { ...key, url: 'https://b' },
        { ...key, principal: 'ann' },
      ])
        expect(await store.read(other)).toBeUndefined()
      await store.delete(key)
      expect(await store.read(key)).toBeUndefined()
    }))

  it('writes private files, whatever was there', () =>
    withFolder(async (folder) => {
      const dir = join(folder, 'auth')
      const store = createTokenStore(dir, undefined)
      await store.write(key, grant)
      const file = join(dir, readdirSync(dir)[0] ?? '')
      chmodSync(file, 0o644)
      await store.write(key, grant)
      expect(statSync(file).mode & 0o777).toBe(0o600)
      expect(readdirSync(dir)).toHaveLength(1)
    }))

  it('stores secrets of any length in the keyring, none in the file, and leaves none behind', () =>
    withFolder(async (dir) => {
      const keyring = keyringOf()
      const store = createTokenStore(dir, keyring)
      const long = { ...grant, tokens: { ...grant.tokens, access_token: 'x'.repeat(5_000), token_type: 'Bearer' } }
      await store.write(key, long)
      expect(Math.max(...[...keyring.entries.values()].map((value) => value.length))).toBeLessThanOrEqual(1_000)
      expect(filesIn(dir)).not.toContain('xxx')
      expect(filesIn(dir)).not.toContain('refresh-1')
      expect(await store.read(key)).toEqual(long)
      await store.write(key, grant)
      expect(keyring.entries.size).toBe(1)
      await store.delete(key)
      expect(keyring.entries.size).toBe(0)
    }))

  it('uses the file if the keyring refuses, and says so once', () =>
    withFolder(async (dir) => {
      const said: string[] = []
      const refusing: Keyring = { ...keyringOf(), set: () => Promise.reject(new Error('locked')) }
      const store = createTokenStore(dir, refusing, (message) => said.push(message))
      await store.write(key, grant)
      await store.write(key, grant)
      expect(await store.read(key)).toEqual(grant)
      expect(said).toEqual([
        'the keyring cannot be used, so tokens are kept in files, as with PEGBOARD_KEYRING=off: locked',
      ])
      expect(store.place).toBe('a file only you can read')
    }))

  it('says why tokens in a missing keyring cannot be read', () =>
    withFolder(async (dir) => {
      await createTokenStore(dir, keyringOf()).write(key, grant)
      await expect(createTokenStore(dir, undefined).read(key)).rejects.toMatchObject({ code: 'E_UPSTREAM_UNAVAILABLE' })
    }))

  it.each(['top-secret\r\nx: 1', '', 7, null, { a: 1 }])('ignores a token that is invalid in a header: %j', (token) =>
    withFolder(async (dir) => {
      const store = createTokenStore(dir, undefined)
      await store.write(key, {
        tokens: { access_token: token, token_type: 'Bearer' },
        expiresAt: null,
        asked: 'a',
      } as never)
      expect(await store.read(key)).toEqual({ asked: 'a' })
    }),
  )

  it('reveals nothing of damaged keyring content', () =>
    withFolder(async (dir) => {
      const keyring = keyringOf()
      const store = createTokenStore(dir, keyring)
      await store.write(key, grant)
      for (const name of keyring.entries.keys()) keyring.entries.set(name, 'top-secret')
      await expect(store.read(key)).rejects.toThrow(/^its tokens cannot be read: they are damaged$/)
    }))

  it('ignores a file that is not JSON', () =>
    withFolder(async (dir) => {
      const store = createTokenStore(dir, undefined)
      await store.write(key, grant)
      writeFileSync(join(dir, readdirSync(dir)[0] ?? ''), '{"format":')
      expect(await store.read(key)).toBeUndefined()
    }))

  it('serializes work on a login, and removes a lock whose owner died', () =>
    withFolder(async (dir) => {
      const [one, two] = [createTokenStore(dir, undefined), createTokenStore(dir, undefined)]
      const order: string[] = []
      const work = (name: string) => async () => {
        order.push(`${name} begins`)
        await new Promise((resolve) => setTimeout(resolve, 80))
        order.push(`${name} ends`)
      }
      await Promise.all([one.exclusively(key, work('a')), two.exclusively(key, work('b'))])
      expect(order.map((line) => line.split(' ')[1])).toEqual(['begins', 'ends', 'begins', 'ends'])
      await one.write(key, grant)
      const lock = join(dir, `${readdirSync(dir)[0]}.lock`)
      mkdirSync(dir, { recursive: true })
      writeFileSync(lock, '')
      utimesSync(lock, new Date(0), new Date(0))
      expect(await two.exclusively(key, async () => 'done')).toBe('done')
    }))

  it('does not wait for a killed process, and waits for one that is alive or unknown', () =>
    withFolder(async (dir) => {
      const store = createTokenStore(dir, undefined)
      await store.write(key, grant)
      const lock = join(dir, `${readdirSync(dir)[0]}.lock`)
      const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'])
      const order: string[] = []
      writeFileSync(lock, `${child.pid} ${hostname()}`)
      const done = store.exclusively(key, async () => order.push('work'))
      await new Promise((resolve) => setTimeout(resolve, 200))
      order.push('killed')
      const ended = once(child, 'exit')
      child.kill('SIGKILL')
      await ended
      await done
      expect(order).toEqual(['killed', 'work'])

      writeFileSync(lock, `${child.pid} elsewhere.example`)
      const other = store.exclusively(key, async () => order.push('more work'))
      await new Promise((resolve) => setTimeout(resolve, 200))
      expect(order).toHaveLength(2)
      rmSync(lock)
      await other
      expect(readdirSync(dir)).toHaveLength(1)
    }))

  it('notifies about changes by another process', () =>
    withFolder(async (dir) => {
      const store = createTokenStore(dir, undefined)
      const changed = new Promise<void>((resolve) => {
        const stop = store.watch(key, () => {
          stop()
          resolve()
        })
      })
      await new Promise((resolve) => setTimeout(resolve, 50))
      await createTokenStore(dir, undefined).write(key, grant)
      await changed
    }))
})

describe('the system keyring', () => {
  it('can be disabled', async () => expect(await openKeyring({ PEGBOARD_KEYRING: 'off' })).toBeUndefined())
})
