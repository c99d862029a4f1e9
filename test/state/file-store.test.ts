import { mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { createBytesStore, createFileStore } from '../../src/state/file-store.ts'
import { temporaryFolder } from '../app.ts'

it('stores a document as a private file, written atomically', () => {
  const dir = join(temporaryFolder(), 'deep', 'state')
  const store = createFileStore<{ n: number }>(dir)
  expect(store.get('a')).toBeUndefined()
  store.set('a', { n: 1 })
  store.set('a', { n: 2 })
  expect(createFileStore(dir).get('a')).toEqual({ n: 2 })
  expect(readdirSync(dir)).toEqual(['a.json'])
  expect(statSync(join(dir, 'a.json')).mode & 0o777).toBe(0o600)
})

it('reports a broken document and an unwritable folder, and continues', () => {
  const dir = temporaryFolder()
  const errors: unknown[] = []
  const store = createFileStore(dir, (error) => errors.push(error))
  writeFileSync(join(dir, 'broken.json'), '{ "half"')
  expect(store.get('broken')).toBeUndefined()
  createFileStore(join(dir, 'broken.json', 'below'), (error) => errors.push(error)).set('x', 1)
  expect(errors).toHaveLength(2)
})

it('rejects keys that leave the folder', () => {
  const store = createFileStore(temporaryFolder())
  expect(() => store.set('../x', 1)).toThrow('illegal key')
})

it('stores bytes the same way, synchronously or in the background', async () => {
  const dir = join(temporaryFolder(), 'deep')
  const store = createBytesStore(dir)
  expect([store.get('a'), await store.load('a')]).toEqual([undefined, undefined])
  store.set('a', Uint8Array.of(0, 255, 10, 13))
  await Promise.all([store.save('b', Uint8Array.of(1)), store.save('b', Uint8Array.of(1))])
  expect([...((await createBytesStore(dir).load('a')) ?? [])]).toEqual([0, 255, 10, 13])
  expect([...(createBytesStore(dir).get('b') ?? [])]).toEqual([1])
  expect(readdirSync(dir).sort()).toEqual(['a.bin', 'b.bin'])
  expect(statSync(join(dir, 'b.bin')).mode & 0o777).toBe(0o600)
})

it('reports bytes that cannot be stored or read, and continues', async () => {
  const dir = temporaryFolder()
  writeFileSync(join(dir, 'file'), '')
  const errors: unknown[] = []
  const store = createBytesStore(join(dir, 'file', 'below'), (error) => errors.push(error))
  store.set('a', Uint8Array.of(1))
  await store.save('a', Uint8Array.of(1))
  expect([store.get('a'), await store.load('a')]).toEqual([undefined, undefined])
  expect(errors).toHaveLength(4)
  expect(() => store.set('../x', Uint8Array.of(1))).toThrow('illegal key')
})

it('leaves no temporary file behind if a document cannot be replaced', async () => {
  const dir = temporaryFolder()
  for (const name of ['a.json', 'a.bin']) mkdirSync(join(dir, name))
  const errors: unknown[] = []
  createFileStore(dir, (error) => errors.push(error)).set('a', 1)
  const bytes = createBytesStore(dir, (error) => errors.push(error))
  bytes.set('a', Uint8Array.of(1))
  await bytes.save('a', Uint8Array.of(1))
  expect(readdirSync(dir).sort()).toEqual(['a.bin', 'a.json'])
  expect(errors).toHaveLength(3)
})

it('reads the first line of bytes without the rest', () => {
  const dir = temporaryFolder()
  const store = createBytesStore(dir)
  const long = 'x'.repeat(100_000)
  store.set('long', Buffer.from(`${long}\nthe rest`))
  store.set('short', Buffer.from('all'))
  expect(Buffer.from(store.line('long') ?? []).toString()).toBe(`${long}\n`)
  expect(Buffer.from(store.line('short') ?? []).toString()).toBe('all')
  expect(store.line('none')).toBeUndefined()
})
