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
      return { change: nobody }
    },
    abandoned: () => undefined,
  })
  await dues.start()
  await dues.add('tea', 'ann', { nextAt: 5_000, createdAt: 0 }, 10)
  // Who looked too early sets it again.
  expect(set).toEqual([
    ['tea', 5_000],
    ['tea', 5_000],
  ])
  clock.pass(5_000)
  await ring?.('tea')
  expect(done).toEqual(['tea'])
})

it.each([
  ['nothing where another has taken it over meanwhile', 'other', []],
  ['its work where nobody has', undefined, ['run', 'told']],
])('that stood still after its claim does %s', async (_what, takenBy, expected) => {
  const clock = createManualClock(0)
  const store = createMemoryStore(clock)
  const nobody = () => undefined
  const shared = { store: () => store, tell: nobody, hear: nobody, onBack: nobody }
  const table = store.table<Due>('due')
  let ring: ((id: string) => Promise<void>) | undefined
  const happened: string[] = []
  const dues = createDues<Due>({
    table,
    alarms: {
      // The claim is written, and what comes next is planned.
      async set(id) {
        const row = await table.get(id)
        if (row?.value.by === undefined) return
        clock.pass(20_000)
        if (takenBy !== undefined) await table.put({ ...row, value: { ...row.value, by: takenBy } })
      },
      clear: nobody,
      async start(hears) {
        ring = hears
      },
      async stop() {},
    },
    clock,
    log: silentLog,
    instance: createInstance(shared, clock, silentLog),
    lacks: () => false,
    replan: nobody,
    claim: (value) => ({ ...value, nextAt: 60_000 }),
    run: async () => {
      happened.push('run')
      return { change: (value) => ({ ...value, nextAt: 90_000 }), tell: () => void happened.push('told') }
    },
    abandoned: nobody,
  })
  await dues.start()
  await dues.add('tea', 'ann', { nextAt: 0, createdAt: 0 }, 10)
  await ring?.('tea')
  expect(happened).toEqual(expected)
  expect((await table.get('tea'))?.value).toEqual(
    takenBy === undefined ? { nextAt: 90_000, createdAt: 0 } : { nextAt: 60_000, createdAt: 0, by: takenBy },
  )
})
