import { describe, expect, it } from 'vitest'
import { createDebouncer } from '../../src/core/debouncer.ts'
import { createManualClock } from '../clock.ts'

function setUp() {
  const clock = createManualClock()
  const done: string[] = []
  const later = createDebouncer(clock, 500, 5_000)
  return { clock, done, later, add: (key: string, what = key) => later.schedule(key, () => done.push(what)) }
}

describe('debounced work', () => {
  it('runs after a quiet moment, only the last of each key', () => {
    const { clock, done, add } = setUp()
    add('a', 'first')
    add('b')
    clock.pass(400)
    add('a', 'second')
    clock.pass(499)
    expect(done).toEqual([])
    clock.pass(1)
    expect(done).toEqual(['second', 'b'])
  })

  it('runs after its maximum delay, however much is scheduled', () => {
    const { clock, done, add } = setUp()
    for (let n = 0; n < 50; n++) {
      add(`${n}`)
      clock.pass(100)
    }
    expect(done).toContain('0')
  })

  it('runs in time although the clock is set back', () => {
    const { clock, done } = setUp()
    let setBackMs = 0
    const later = createDebouncer(
      { now: () => clock.now() - setBackMs, ticks: () => clock.now(), after: clock.after },
      500,
      5_000,
    )
    later.schedule('a', () => done.push('a'))
    setBackMs = 3_600_000
    clock.pass(500)
    expect(done).toEqual(['a'])
  })

  it('runs at once on flush, and not again', () => {
    const { clock, done, add, later } = setUp()
    add('a')
    later.flush()
    expect(done).toEqual(['a'])
    clock.pass(10_000)
    expect(done).toEqual(['a'])
    add('b')
    clock.pass(500)
    expect(done).toEqual(['a', 'b'])
  })
})
