import { expect, it } from 'vitest'
import { createMemoryStore } from '../../src/state/memory-store.ts'
import { createStoreDocuments } from '../../src/state/store-documents.ts'
import { createManualClock } from '../clock.ts'

const isIn = (store: ReturnType<typeof createMemoryStore>, owner: string, expiresAt?: () => number) => {
  const documents = createStoreDocuments(() => store.table<readonly number[]>('numbers'), owner, expiresAt)
  const add = (key: string, n: number) =>
    documents.update(key, (before = []) => ({ value: [...before, n], result: before.length + 1 }))
  return { documents, add }
}

it('documents in a shared store lose no concurrent change of several machines', async () => {
  const store = createMemoryStore(createManualClock())
  const [one, other] = [isIn(store, 'ann'), isIn(store, 'ann')]
  await Promise.all(Array.from({ length: 20 }, (_, n) => (n % 2 ? one : other).add('a', n)))
  expect([...((await one.documents.read('a')) ?? [])].sort((a, b) => a - b)).toEqual(
    Array.from({ length: 20 }, (_, n) => n),
  )
})

it('belong to their owner, are unchanged if a change throws, and expire when unused', async () => {
  const clock = createManualClock()
  const store = createMemoryStore(clock)
  const { documents, add } = isIn(store, 'ann', () => clock.now() + 1_000)
  expect(await add('a', 1)).toBe(1)
  expect(await isIn(store, 'bob').documents.read('a')).toBeUndefined()
  await expect(
    documents.update('a', () => {
      throw new Error('no')
    }),
  ).rejects.toThrow('no')
  expect([await documents.read('a'), await documents.keys()]).toEqual([[1], ['a']])
  clock.pass(1_000)
  expect([await documents.read('a'), await documents.keys()]).toEqual([undefined, []])
})
