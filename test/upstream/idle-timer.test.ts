import { expect, it } from 'vitest'
import { createIdleTimer, type IdleTimer } from '../../src/upstream/idle-timer.ts'
import { createManualClock } from '../clock.ts'

function rig(limitMs: number) {
  const clock = createManualClock()
  let stopped = 0
  const timer = createIdleTimer(clock, { limitMs: () => limitMs, busy: () => false, idle: () => void stopped++ })
  timer.begin()
  return { clock, timer, stopped: () => stopped }
}

const use = (timer: IdleTimer): Promise<void> => timer.during(async () => undefined)

async function useAndReload(timer: IdleTimer): Promise<void> {
  await use(timer)
  timer.resume()
}

it.each<[what: string, before: (timer: IdleTimer) => void | Promise<void>, idleAfterMs: number]>([
  ['that nobody used is idle after ten seconds', () => undefined, 10_000],
  ['that was used is idle after its limit', use, 300_000],
  ['that was used stays used after a reload', useAndReload, 300_000],
])('a connection %s', async (_what, before, idleAfterMs) => {
  const { clock, timer, stopped } = rig(300_000)
  await before(timer)
  clock.pass(idleAfterMs - 1)
  expect(stopped()).toBe(0)
  clock.pass(1)
  expect(stopped()).toBe(1)
})

it('with 0, a connection is never idle', () => {
  const { clock, stopped } = rig(0)
  clock.pass(3_600_000)
  expect(stopped()).toBe(0)
})
