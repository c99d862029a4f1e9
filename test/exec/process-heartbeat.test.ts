import { describe, expect, it } from 'vitest'
import { silentLog } from '../../src/core/log.ts'
import { createProcessHeartbeat } from '../../src/exec/process-heartbeat.ts'
import { createMemoryStore } from '../../src/state/memory-store.ts'
import { createManualClock } from '../clock.ts'

const turns = async (): Promise<void> => {
  for (let at = 0; at < 20; at++) await Promise.resolve()
}

/** Processes of one machine whose wall clock can be set independently of its ticks. */
function rig() {
  const ticks = createManualClock(1_000_000)
  let ahead = 0
  const clock = { now: () => ticks.now() + ahead, ticks: ticks.now, after: ticks.after }
  const store = createMemoryStore(clock)
  const shared = { store: () => store, onReconnect: () => undefined }
  const pass = async (ms: number): Promise<void> => {
    for (let left = ms; left > 0; left -= 1_000) {
      ticks.pass(Math.min(1_000, left))
      await turns()
    }
  }
  return {
    process: () => createProcessHeartbeat(shared, clock, silentLog),
    pass,
    setClock: (ms: number) => {
      ahead += ms
    },
  }
}

describe('a process', () => {
  it('is alive while it sends heartbeats, and dead 15 s after the last one', async () => {
    const { process, pass } = rig()
    const [one, other] = [process(), process()]
    await one.begin()
    await pass(60_000)
    expect(await other.isAlive(one.id)).toBe(true)
    one.stop()
    await pass(16_000)
    expect(await other.isAlive(one.id)).toBe(false)
  })

  for (const [what, ms] of [
    ['put forward', 3_600_000],
    ['put back', -3_600_000],
  ] as const)
    it(`is not considered dead when the clock is ${what}, and is when it dies afterwards`, async () => {
      const { process, pass, setClock } = rig()
      const [one, other] = [process(), process()]
      await one.begin()
      await pass(7_000)
      setClock(ms)
      for (let seconds = 0; seconds < 40; seconds++) {
        expect([seconds, await other.isAlive(one.id)]).toEqual([seconds, true])
        await pass(1_000)
      }
      one.stop()
      await pass(31_000)
      expect(await other.isAlive(one.id)).toBe(false)
    })
})
