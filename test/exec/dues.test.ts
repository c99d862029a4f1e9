import { expect, it } from 'vitest'
import { silentLog } from '../../src/core/log.ts'
import { createDues, type Due } from '../../src/exec/dues.ts'
import { createInstance } from '../../src/exec/instance.ts'
import type { Alarms } from '../../src/state/alarms.ts'
import { createMemoryStore } from '../../src/state/memory.ts'
import { createManualClock } from '../clock.ts'

it('does what rang too early at a process whose clock is ahead, before it was even kept', async () => {
  const clock = createManualClock(0)
  const store = createMemoryStore(clock)
  const nobody = () => undefined
  const shared = { store: () => store, tell: nobody, hear: nobody, onBack: nobody }
  let ring: ((id: string) => Promise<void>) | undefined
  const set: [string, number][] = []
  const alarms: Alarms = {
    async set(id, at) {
      set.push([id, at])
      // It takes long enough for whoever is rung to look.
      if (set.length === 1) await ring?.(id)
    },
    clear: nobody,
    async start(hears) {
      ring = hears
    },
    async stop() {},
  }
  const done: string[] = []
  const dues = createDues<Due>({
    table: store.table<Due>('due'),
    alarms,
    clock,
    log: silentLog,
    instance: createInstance(shared, clock, silentLog),
    lacks: () => false,
    replan: nobody,
    claim: (value) => ({ ...value, nextAt: null }),
    run: async (id) => {
      done.push(id)
      return () => undefined
    },
    abandoned: () => undefined,
  })
  await dues.start()
  await dues.add('tea', 'ann', { nextAt: 5_000 }, 10)
  // Who looked too early sets it again.
  expect(set).toEqual([
    ['tea', 5_000],
    ['tea', 5_000],
  ])
  clock.pass(5_000)
  await ring?.('tea')
  expect(done).toEqual(['tea'])
})
