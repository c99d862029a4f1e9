import { expect, it } from 'vitest'
import { createIdleTimer } from '../../src/upstream/idle-timer.ts'
import { createManualClock } from '../clock.ts'

function rig(limitMs: number) {
  const clock = createManualClock()
  let stopped = 0
  const timer = createIdleTimer(clock, { limitMs: () => limitMs, busy: () => false, idle: () => void stopped++ })
  return { clock, timer, stopped: () => stopped }
}

it('a connection that nobody used is idle after ten seconds', () => {
  const { clock, timer, stopped } = rig(300_000)
  timer.begin()
  clock.pass(9_999)
  expect(stopped()).toBe(0)
  clock.pass(1)
  expect(stopped()).toBe(1)
})

it('a connection that was used is idle after its limit', () => {
  const { clock, timer, stopped } = rig(300_000)
  timer.begin()
  timer.enter()
  timer.leave()
  clock.pass(299_999)
  expect(stopped()).toBe(0)
  clock.pass(10_000)
  expect(stopped()).toBe(1)
})

it('a connection that was used stays used after a reload', () => {
  const { clock, timer, stopped } = rig(300_000)
  timer.begin()
  timer.enter()
  timer.leave()
  timer.resume()
  clock.pass(299_999)
  expect(stopped()).toBe(0)
  clock.pass(1)
  expect(stopped()).toBe(1)
})

it('with 0, a connection is never idle', () => {
  const { clock, timer, stopped } = rig(0)
  timer.begin()
  clock.pass(3_600_000)
  expect(stopped()).toBe(0)
})
