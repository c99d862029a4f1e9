import { expect, it } from 'vitest'
import { createCommonClock } from '../../src/state/common-clock.ts'

/** A machine whose clock is set while its ticks continue. */
function machine(now: number) {
  const state = { now, ticks: 5 }
  const clock = { now: () => state.now, ticks: () => state.ticks, after: () => () => undefined }
  const pass = (ms: number): void => {
    state.now += ms
    state.ticks += ms
  }
  return { state, clock, pass }
}

it('a common clock follows the machine until it is set, and is then independent of it', () => {
  const { state, clock, pass } = machine(1_000_000)
  const common = createCommonClock(clock)
  expect([common.now(), common.aheadMs]).toEqual([1_000_000, 0])
  common.set(400_000, state.ticks)
  expect([common.now(), common.aheadMs]).toEqual([400_000, 600_000])
  pass(1_500)
  expect(common.now()).toBe(401_500)
  state.now -= 3_600_000
  expect([common.now(), common.aheadMs]).toEqual([401_500, -3_000_000])
  common.set(500_000, state.ticks)
  pass(10)
  expect(common.now()).toBe(500_010)
})
