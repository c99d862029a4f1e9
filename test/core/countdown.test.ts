import { describe, expect, it } from 'vitest'
import { createCountdown } from '../../src/core/countdown.ts'
import { createManualClock } from '../clock.ts'

describe('a time limit', () => {
  it('fires once, when its time has passed', () => {
    const clock = createManualClock()
    let fired = 0
    createCountdown(100, () => fired++, clock)
    clock.pass(99)
    expect(fired).toBe(0)
    clock.pass(1_000)
    expect(fired).toBe(1)
  })

  it('does not advance while paused, until the last pause ends', () => {
    const clock = createManualClock()
    let fired = 0
    const limit = createCountdown(100, () => fired++, clock)
    clock.pass(60)
    const first = limit.pause()
    const second = limit.pause()
    clock.pass(10_000)
    first()
    first()
    clock.pass(10_000)
    expect(fired).toBe(0)
    second()
    clock.pass(39)
    expect(fired).toBe(0)
    clock.pass(1)
    expect(fired).toBe(1)
  })

  it('never fires after stop, and leaves no timer behind', () => {
    const clock = createManualClock()
    let fired = 0
    const limit = createCountdown(100, () => fired++, clock)
    const goOn = limit.pause()
    limit.stop()
    goOn()
    clock.pass(1_000)
    expect([fired, clock.waiting]).toEqual([0, 0])
  })

  it('fires each of several limits on time', () => {
    const clock = createManualClock()
    const fired: string[] = []
    const begin = (name: string) => createCountdown(100, () => fired.push(name), clock)
    const a = begin('a')
    clock.pass(30)
    const b = begin('b')
    clock.pass(30)
    begin('c')
    begin('d').stop()
    expect(clock.waiting).toBe(3)
    a.stop()
    clock.pass(69)
    expect(fired).toEqual([])
    clock.pass(1)
    expect(fired).toEqual(['b'])
    clock.pass(30)
    expect(fired).toEqual(['b', 'c'])
    b.stop()
    expect(clock.waiting).toBe(0)
  })
})
