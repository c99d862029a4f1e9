import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import type { Alarms, PlannedAlarm } from '../../src/state/alarms.ts'

export interface OpenAlarms {
  readonly alarms: Alarms
  close(): Promise<void>
}

const nothing = async (): Promise<readonly PlannedAlarm[]> => []

/** Tests that all implementations of alarms must pass. */
export function alarmsContract(name: string, open: () => Promise<OpenAlarms>): void {
  const using = async (test: (alarms: Alarms) => Promise<void>): Promise<void> => {
    const { alarms, close } = await open()
    try {
      await test(alarms)
    } finally {
      await alarms.stop()
      await close()
    }
  }
  const listening = async (
    alarms: Alarms,
    planned = nothing,
  ): Promise<{ readonly id: string; readonly at: number }[]> => {
    const rung: { id: string; at: number }[] = []
    await alarms.start(async (id) => void rung.push({ id, at: Date.now() }), planned)
    return rung
  }
  const heard = (rung: readonly { readonly id: string }[], id: string) => expect.poll(() => ids(rung)).toContain(id)
  const ids = (rung: readonly { readonly id: string }[]): string[] => rung.map(({ id }) => id).sort()

  describe(`${name}, as alarms`, () => {
    it('ring at their time and not before, once however often they are set', () =>
      using(async (alarms) => {
        const rung = await listening(alarms)
        const at = Date.now() + 2_000
        await Promise.all([alarms.set('a', at), alarms.set('a', at), alarms.set('b', at - 1_500), alarms.set('a', at)])
        await heard(rung, 'a')
        expect(rung.map(({ id }) => id)).toEqual(['b', 'a'])
        expect(rung[1]?.at).toBeGreaterThanOrEqual(at - 2)
      }))

    it('ring for items that were stored before a listener existed, and for past times', () =>
      using(async (alarms) => {
        const rung = await listening(alarms, async () => [
          { id: 'past', at: 0 },
          { id: 'soon', at: Date.now() + 200 },
        ])
        await heard(rung, 'past')
        await heard(rung, 'soon')
        expect(ids(rung)).toEqual(['past', 'soon'])
      }))

    it('ring at the earlier time if a new one is set', () =>
      using(async (alarms) => {
        const rung = await listening(alarms)
        await alarms.set('a', Date.now() + 60_000)
        await alarms.set('a', Date.now() + 100)
        await heard(rung, 'a')
        expect(ids(rung)).toEqual(['a'])
      }))

    it('ring at the later time too', () =>
      using(async (alarms) => {
        const rung = await listening(alarms)
        const later = Date.now() + 600
        await alarms.set('a', Date.now() + 100)
        await alarms.set('a', later)
        await expect.poll(() => rung.at(-1)?.at).toBeGreaterThanOrEqual(later - 2)
      }))

    it('ring again if the listener sets the same alarm again', () =>
      using(async (alarms) => {
        const at = Date.now() + 200
        let times = 0
        await alarms.start(async (id) => {
          if (++times < 3) await alarms.set(id, at)
        }, nothing)
        await alarms.set('a', at)
        await expect.poll(() => times).toBe(3)
      }))

    it('continue after one of them fails', () =>
      using(async (alarms) => {
        const rung: string[] = []
        await alarms.start(async (id) => {
          rung.push(id)
          if (id === 'bad') throw new Error('it broke')
        }, nothing)
        await alarms.set('bad', Date.now() + 50)
        await alarms.set('good', Date.now() + 1_000)
        await expect.poll(() => rung.length).toBe(2)
        expect(rung).toEqual(['bad', 'good'])
      }))

    it('ring a thousand times at one moment', () =>
      using(async (alarms) => {
        const rung = await listening(alarms)
        const at = Date.now() + 1_500
        await Promise.all(Array.from({ length: 1_000 }, (_, n) => alarms.set(`n${n}`, at)))
        for (const end = Date.now() + 40_000; rung.length < 1_000 && Date.now() < end; ) await sleep(50)
        expect(new Set(ids(rung)).size).toBe(1_000)
      }))

    it('are silent after stop', async () => {
      const { alarms, close } = await open()
      const rung = await listening(alarms)
      await alarms.set('a', Date.now() + 1_000)
      await alarms.stop()
      await sleep(1_500)
      await close()
      expect(rung).toEqual([])
    })
  })
}
