import { describe, expect, it } from 'vitest'
import type { Store } from '../../src/state/store.ts'
import { createManualClock, type ManualClock } from '../clock.ts'

/** Tests that every store must pass. */
export function storeContract(
  name: string,
  open: (clock: ManualClock) => Promise<{ readonly store: Store; close(): Promise<void> }>,
  /** The clock of the store, if it is in another process. */
  time: 'given' | 'real' = 'given',
): void {
  const using = async (test: (store: Store, clock: ManualClock) => Promise<void>): Promise<void> => {
    const clock = createManualClock(1_000_000)
    const { store, close } = await open(clock)
    try {
      await test(store, clock)
    } finally {
      await close()
    }
  }

  describe(`${name}, as a store`, () => {
    it('returns what was written, separately for each kind', () =>
      using(async (store) => {
        const [tasks, facts] = [store.table<object>('task'), store.table<object>('fact')]
        await tasks.put({ id: 'a', owner: 'ann', value: { n: 1, text: 'é\u0000 "x"' } })
        expect((await tasks.get('a'))?.value).toEqual({ n: 1, text: 'é\u0000 "x"' })
        expect(await facts.get('a')).toBeUndefined()
        expect(await tasks.delete('a')).toBe(true)
        expect(await tasks.delete('a')).toBe(false)
        expect(await tasks.get('a')).toBeUndefined()
      }))

    it('lists by owner, oldest first, also after a change', () =>
      using(async (store) => {
        const table = store.table<number>('t')
        for (const [id, owner] of [
          ['c', 'ann'],
          ['a', 'bob'],
          ['b', 'ann'],
        ] as const)
          await table.put({ id, owner, value: 0 })
        await table.put({ id: 'c', owner: 'ann', value: 1 })
        const ids = async (owner?: string) => (await table.list(owner)).map(({ id }) => id)
        expect(await ids('ann')).toEqual(['c', 'b'])
        expect(await ids()).toEqual(['c', 'a', 'b'])
        expect([await table.count('ann'), await table.count()]).toEqual([2, 3])
      }))

    it('lets one of several concurrent writers win', () =>
      using(async (store) => {
        const table = store.table<string>('t')
        const first = await table.put({ id: 'a', owner: 'x', value: 'made' }, 0)
        expect(first).toBeGreaterThan(0)
        expect(await table.put({ id: 'a', owner: 'x', value: 'made again' }, 0)).toBeUndefined()
        const tries = await Promise.all(
          ['b', 'c', 'd'].map((value) => table.put({ id: 'a', owner: 'x', value }, first)),
        )
        expect(tries.filter((one) => one !== undefined)).toHaveLength(1)
        expect((await table.get('a'))?.value).toBe('b')
      }))

    it('limits the documents of an owner, also for concurrent writes, and still changes existing ones', () =>
      using(async (store) => {
        const table = store.table<number>('t')
        const write = (n: number, owner: string) => table.put({ id: `${owner}${n}`, owner, value: n, atMost: 5 })
        const written = await Promise.all([
          ...Array.from({ length: 20 }, (_, n) => write(n, 'ann')),
          ...Array.from({ length: 3 }, (_, n) => write(n, 'bob')),
        ])
        expect(written.filter((one) => one !== undefined)).toHaveLength(8)
        expect([await table.count('ann'), await table.count('bob')]).toEqual([5, 3])
        expect(await write(0, 'ann')).toBeGreaterThan(0)
        await table.delete('ann0')
        expect(await write(99, 'ann')).toBeGreaterThan(0)
        expect(await write(100, 'ann')).toBeUndefined()
      }))

    it('deletes a document that no other writer changed meanwhile', () =>
      using(async (store) => {
        const table = store.table<number>('t')
        const first = await table.put({ id: 'a', owner: 'x', value: 1 })
        const second = await table.put({ id: 'a', owner: 'x', value: 2 })
        expect(await table.delete('a', first)).toBe(false)
        expect((await table.get('a'))?.value).toBe(2)
        expect(await table.delete('a', second)).toBe(true)
        expect(await table.get('a')).toBeUndefined()
      }))

    it('removes expired documents, and not earlier', () =>
      using(async (store, clock) => {
        const now = (): number => (time === 'real' ? Date.now() : clock.now())
        const pass = (ms: number): unknown =>
          time === 'real' ? new Promise((done) => setTimeout(done, ms)) : clock.pass(ms)
        const table = store.table<number>('t')
        await table.put({ id: 'a', owner: 'x', value: 1, expiresAt: now() + 400 })
        await pass(100)
        expect(await table.count()).toBe(1)
        await pass(310)
        expect(await table.get('a')).toBeUndefined()
        expect(await table.list()).toEqual([])
        expect(await table.put({ id: 'a', owner: 'x', value: 2 }, 0)).toBeGreaterThan(0)
      }))
  })
}
