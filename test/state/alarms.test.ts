import { expect, it } from 'vitest'
import { systemClock } from '../../src/core/clock.ts'
import { silentLog } from '../../src/core/log.ts'
import { createLocalAlarms } from '../../src/state/alarms.ts'
import { createManualClock } from '../clock.ts'
import { alarmsContract } from '../contract/alarms.ts'

alarmsContract('in this process', async () => ({
  alarms: createLocalAlarms(systemClock, silentLog),
  close: () => Promise.resolve(),
}))

const turns = async (): Promise<void> => {
  for (let at = 0; at < 20; at++) await Promise.resolve()
}

it('rings within a minute when the clock is set forward, and on time when it is set back', async () => {
  const ticks = createManualClock(10_000_000)
  let ahead = 0
  const clock = { now: () => ticks.now() + ahead, ticks: ticks.now, after: ticks.after }
  const alarms = createLocalAlarms(clock, silentLog)
  const rang: string[] = []
  let kept = [{ id: 'tea', at: clock.now() + 30 * 60_000 }]
  await alarms.start(
    async (id) => {
      rang.push(id)
      kept = kept.filter((one) => one.id !== id)
    },
    async () => kept,
  )
  const pass = async (ms: number): Promise<void> => {
    for (let left = ms; left > 0; left -= 5_000) {
      ticks.pass(5_000)
      await turns()
    }
  }
  ahead += 3_600_000
  await pass(60_000)
  expect(rang).toEqual(['tea'])
  kept = [{ id: 'dinner', at: clock.now() + 5 * 60_000 }]
  await alarms.set('dinner', kept[0]?.at ?? 0)
  ahead -= 10 * 60_000
  await pass(14 * 60_000)
  expect(rang).toEqual(['tea'])
  await pass(2 * 60_000)
  expect(rang).toEqual(['tea', 'dinner'])
})

it('keeps ringing after a failed read of the store', async () => {
  const clock = createManualClock()
  const alarms = createLocalAlarms(clock, silentLog)
  const rang: string[] = []
  let looks = 0
  await alarms.start(
    async (id) => void rang.push(id),
    async () => {
      if (++looks === 2) throw new Error('database is locked')
      return [{ id: 'tea', at: 150_000 }]
    },
  )
  for (let at = 0; at < 40; at++) {
    clock.pass(5_000)
    await turns()
  }
  expect(rang).toContain('tea')
})

it('rings a thousand alarms due at the same moment in several turns, each once', async () => {
  const clock = createManualClock()
  const alarms = createLocalAlarms(clock, silentLog)
  const rang: string[] = []
  await alarms.start(
    async (id) => void rang.push(id),
    async () => Array.from({ length: 1_000 }, (_, n) => ({ id: `n${n}`, at: 1_000 })),
  )
  const counts: number[] = []
  clock.pass(1_000)
  // An alarm that is set meanwhile causes a new plan.
  await alarms.set('later', 5_000)
  while (rang.length < 1_000) {
    await new Promise((resolve) => setImmediate(resolve))
    counts.push(rang.length)
  }
  expect(counts.length).toBeGreaterThan(2)
  expect(new Set(rang).size).toBe(1_000)
  expect(rang).toHaveLength(1_000)
  await alarms.stop()
})
