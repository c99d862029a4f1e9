import { expect, it } from 'vitest'
import { silentLog } from '../../src/core/log.ts'
import { createDueQueue, type DueEntry } from '../../src/exec/due-queue.ts'
import { createProcessHeartbeat } from '../../src/exec/process-heartbeat.ts'
import type { Alarms } from '../../src/state/alarms.ts'
import { createMemoryStore } from '../../src/state/memory-store.ts'
import { createManualClock } from '../clock.ts'

it('runs work whose alarm rang too early at a process with a fast clock, even before it was stored', async () => {
  const clock = createManualClock(0)
  const store = createMemoryStore(clock)
  const nobody = () => undefined
  const shared = { store: () => store, publish: nobody, subscribe: nobody, onReconnect: nobody }
  let ring: ((id: string) => Promise<void>) | undefined
  const set: [string, number][] = []
  const alarms: Alarms = {
    async set(id, at) {
      set.push([id, at])
      // Long enough for the other process to check.
      if (set.length === 1) await ring?.(id)
    },
    clear: nobody,
    async start(hears) {
      ring = hears
    },
    async stop() {},
  }
  const done: string[] = []
  const dues = createDueQueue<DueEntry>({
    table: store.table<DueEntry>('due'),
    alarms,
    clock,
    log: silentLog,
    instance: createProcessHeartbeat(shared, clock, silentLog),
    lacksTool: () => false,
    replan: nobody,
    claim: (value) => ({ ...value, nextAt: null }),
    run: async (id) => {
      done.push(id)
      return { change: nobody }
    },
    abandoned: () => ({ change: nobody }),
  })
  await dues.start()
  await dues.add('tea', 'ann', { nextAt: 5_000, createdAt: 0 }, 10)
  // The process that checked too early sets the alarm again.
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
])('that was suspended after its claim does %s', async (_what, takenBy, expected) => {
  const clock = createManualClock(0)
  const store = createMemoryStore(clock)
  const nobody = () => undefined
  const shared = { store: () => store, publish: nobody, subscribe: nobody, onReconnect: nobody }
  const table = store.table<DueEntry>('due')
  let ring: ((id: string) => Promise<void>) | undefined
  const happened: string[] = []
  const dues = createDueQueue<DueEntry>({
    table,
    alarms: {
      // The claim is stored, and the next run is planned.
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
    instance: createProcessHeartbeat(shared, clock, silentLog),
    lacksTool: () => false,
    replan: nobody,
    claim: (value) => ({ ...value, nextAt: 60_000 }),
    run: async () => {
      happened.push('run')
      return { change: (value) => ({ ...value, nextAt: 90_000 }), notify: () => void happened.push('told') }
    },
    abandoned: () => ({ change: nobody }),
  })
  await dues.start()
  await dues.add('tea', 'ann', { nextAt: 0, createdAt: 0 }, 10)
  await ring?.('tea')
  expect(happened).toEqual(expected)
  expect((await table.get('tea'))?.value).toEqual(
    takenBy === undefined ? { nextAt: 90_000, createdAt: 0 } : { nextAt: 60_000, createdAt: 0, by: takenBy },
  )
})

it('leaves slots for the jobs of others, however many long ones an owner has', async () => {
  const clock = createManualClock(0)
  const store = createMemoryStore(clock)
  const nobody = () => undefined
  const shared = { store: () => store, publish: nobody, subscribe: nobody, onReconnect: nobody }
  let ring: ((id: string) => Promise<void>) | undefined
  const done: string[] = []
  const dues = createDueQueue<DueEntry>({
    table: store.table<DueEntry>('due'),
    alarms: {
      async set() {},
      clear: nobody,
      async start(hears) {
        ring = hears
      },
      async stop() {},
    },
    clock,
    log: silentLog,
    instance: createProcessHeartbeat(shared, clock, silentLog),
    lacksTool: () => false,
    replan: nobody,
    claim: (value) => ({ ...value, nextAt: null }),
    run: (id, owner) => {
      done.push(id)
      return owner === 'bob' ? new Promise(nobody) : Promise.resolve({ change: nobody })
    },
    abandoned: () => ({ change: nobody }),
  })
  await dues.start()
  const many = Array.from({ length: 60 }, (_, at) => `bob-${at}`)
  for (const id of many) await dues.add(id, 'bob', { nextAt: 1, createdAt: 0 }, 100)
  await dues.add('tea', 'ann', { nextAt: 1, createdAt: 0 }, 100)
  clock.pass(1)
  const rung = many.map((id) => ring?.(id))
  await new Promise((resolve) => setTimeout(resolve, 50))
  const hers = ring?.('tea')
  clock.pass(1_000)
  await hers
  expect(done.at(-1)).toBe('tea')
  expect(done).toHaveLength(33)
  expect(rung).toHaveLength(60)
})
