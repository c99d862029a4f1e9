import { describe, expect, it } from 'vitest'
import { createBackoff } from '../../src/upstream/backoff.ts'
import { createManualClock } from '../clock.ts'

const luck =
  (value: number): (() => number) =>
  () =>
    value

describe('the delay before the next attempt', () => {
  it('doubles from a second, and from the fifth failure on is 30 to 60 seconds, forever', () => {
    const clock = createManualClock()
    const longest = createBackoff(clock, luck(1))
    const waits = Array.from({ length: 40 }, () => {
      const waitMs = longest.failed()
      clock.pass(waitMs)
      return waitMs
    })
    expect(waits.slice(0, 8)).toEqual([1_000, 2_000, 4_000, 8_000, 30_000, 32_000, 60_000, 60_000])
    expect(Math.max(...waits)).toBe(60_000)
  })

  it('has jitter, so that servers do not reconnect in step', () => {
    const shortest = createBackoff(createManualClock(), luck(0))
    expect(Array.from({ length: 6 }, () => shortest.failed())).toEqual([100, 100, 100, 100, 1_000, 1_000])
    const middling = createBackoff(createManualClock(), luck(0.5))
    expect(Array.from({ length: 4 }, () => middling.failed())).toEqual([500, 1_000, 2_000, 4_000])
  })

  it('stays short within ten seconds of the first failure, for restarts', () => {
    const clock = createManualClock()
    const backoff = createBackoff(clock, luck(0))
    const opened: boolean[] = []
    for (const ms of [0, 100, 100, 100, 100, 1_000, 8_500, 100]) {
      clock.pass(ms)
      backoff.failed()
      opened.push(backoff.open)
    }
    expect(opened).toEqual([false, false, false, false, false, false, false, true])
    expect(backoff.failed()).toBe(30_000)
  })

  it('is 30 seconds at once after five immediate failures, until a minute of health', () => {
    const clock = createManualClock()
    const backoff = createBackoff(clock, luck(0))
    backoff.succeeded()
    expect([backoff.connectionLost(undefined, 5), backoff.open]).toEqual([30_000, true])
    backoff.succeeded()
    clock.pass(60_000)
    expect([backoff.connectionLost(), backoff.open]).toEqual([100, false])
  })

  it('starts over after a minute of health', () => {
    const clock = createManualClock()
    const backoff = createBackoff(clock, luck(1))
    for (let n = 0; n < 3; n++) backoff.failed()
    backoff.succeeded()
    clock.pass(59_000)
    expect(backoff.connectionLost()).toBe(8_000)
    expect(backoff.attempt).toBe(4)
    backoff.succeeded()
    clock.pass(60_000)
    expect(backoff.connectionLost()).toBe(1_000)
    expect(backoff.attempt).toBe(1)
  })

  it('is at least what the server asks for, up to an hour [UPS-21]', () => {
    const clock = createManualClock()
    const backoff = createBackoff(clock, luck(0))
    expect(backoff.failed(20_000)).toBe(20_000)
    expect(backoff.dueInMs()).toBe(20_000)
    clock.pass(20_000)
    expect(backoff.dueInMs()).toBe(0)
    expect(backoff.failed(1e12)).toBe(3_600_000)
  })

  it('lets a call retry after five seconds, or thirty while the circuit is open', () => {
    const clock = createManualClock()
    const backoff = createBackoff(clock, luck(1))
    backoff.begin()
    clock.pass(1_000)
    backoff.failed()
    expect([backoff.open, backoff.dueInMs()]).toEqual([false, 4_000])
    clock.pass(10_000)
    for (let n = 0; n < 4; n++) backoff.failed()
    expect([backoff.open, backoff.dueInMs()]).toEqual([true, 30_000])
    backoff.succeeded()
    clock.pass(60_000)
    backoff.connectionLost()
    expect(backoff.open).toBe(false)
  })
})
