import { chmodSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { Keyring } from '../../src/state/keyring.ts'
import { createSecretStore } from '../../src/state/secret-store.ts'
import { temporaryFolder } from '../app.ts'

function memoryKeyring(): Keyring & { readonly entries: Map<string, string> } {
  const entries = new Map<string, string>()
  return {
    entries,
    get: async (name) => entries.get(name),
    set: async (name, secret) => void entries.set(name, secret),
    delete: async (name) => void entries.delete(name),
  }
}

const never = (message: string): never => {
  throw new Error(message)
}

describe('the secret store', () => {
  it('keeps secrets of any length in the keyring, and only names in its file', async () => {
    const file = join(temporaryFolder(), 'state/secrets.json')
    const keyring = memoryKeyring()
    const store = createSecretStore(file, keyring, never)
    const long = 'x'.repeat(2_500)
    expect(await store.set('LONG', long)).toBe('keyring')
    expect([...keyring.entries.keys()]).toEqual(['secret.LONG.0', 'secret.LONG.1', 'secret.LONG.2'])
    expect(readFileSync(file, 'utf8')).not.toContain('xxx')
    expect(await store.get('LONG')).toBe(long)
    await store.set('LONG', 'short')
    expect([...keyring.entries]).toEqual([['secret.LONG.0', 'short']])
    expect(await store.list()).toEqual([{ name: 'LONG', place: 'keyring' }])
    expect(await store.delete('LONG')).toBe(true)
    expect(keyring.entries.size).toBe(0)
    expect(await store.get('LONG')).toBeUndefined()
  })

  it('uses its private file if the keyring refuses, and says so', async () => {
    const file = join(temporaryFolder(), 'secrets.json')
    const refusing: Keyring = {
      ...memoryKeyring(),
      set: async () => {
        throw new Error('no secret service')
      },
    }
    const warnings: string[] = []
    const store = createSecretStore(file, refusing, (message) => warnings.push(message))
    expect(await store.set('NAME', 'secret')).toBe('file')
    expect(await store.get('NAME')).toBe('secret')
    expect(warnings).toEqual([
      'the keyring of this system cannot be used, so the secret is kept in a private file: no secret service',
    ])
  })

  it('says which secret a missing keyring holds', async () => {
    const file = join(temporaryFolder(), 'secrets.json')
    await createSecretStore(file, memoryKeyring(), never).set('NAME', 'secret')
    await expect(createSecretStore(file, undefined, never).get('NAME')).rejects.toMatchObject({
      code: 'E_STATE',
      message: 'The secret NAME cannot be read: it is in the keyring of this system, which is not available.',
    })
  })

  it.runIf(process.platform !== 'win32')('refuses links, files of others and damaged files', async () => {
    const dir = temporaryFolder()
    const open = join(dir, 'open.json')
    writeFileSync(open, '{"secrets":{}}')
    chmodSync(open, 0o666)
    symlinkSync(open, join(dir, 'link.json'))
    writeFileSync(join(dir, 'damaged.json'), 'x', { mode: 0o600 })
    for (const name of ['open', 'link', 'damaged'])
      await expect(createSecretStore(join(dir, `${name}.json`), undefined, never).get('A')).rejects.toMatchObject({
        code: 'E_STATE',
      })
  })
})
