import { describe, expect, it } from 'vitest'
import { createLater } from '../../src/core/later.ts'
import { manualClock } from '../server/echo.ts'

function setUp() {
  const clock = manualClock()
  const done: string[] = []
  const later = createLater(clock, 500, 5_000)
  return { clock, done, later, add: (key: string, what = key) => later.add(key, () => done.push(what)) }
}

describe('work nobody waits for', () => {
  it('is done when no more has come for a moment, the last of each kind once', () => {
    const { clock, done, add } = setUp()
    add('a', 'first')
    add('b')
    clock.advance(400)
    add('a', 'second')
    clock.advance(499)
    expect(done).toEqual([])
    clock.advance(1)
    expect(done).toEqual(['second', 'b'])
  })

  it('waits no longer than it may, however much comes', () => {
    const { clock, done, add } = setUp()
    for (let n = 0; n < 50; n++) {
      add(`${n}`)
      clock.advance(100)
    }
    expect(done).toContain('0')
  })

  it('waits while more may come, and then for a moment', () => {
    const clock = manualClock()
    const done: string[] = []
    let isBusy = true
    const later = createLater(clock, 100, 5_000, () => isBusy)
    later.add('a', () => done.push('a'))
    for (let n = 0; n < 5; n++) clock.advance(100)
    expect([done, later.busy]).toEqual([[], true])
    isBusy = false
    clock.advance(100)
    expect([done, later.busy]).toEqual([['a'], false])
  })

  it('waits no longer than it may for what is slow to come', () => {
    const clock = manualClock()
    const done: string[] = []
    const later = createLater(clock, 100, 5_000, () => true, 500)
    later.add('a', () => done.push('a'))
    clock.advance(300)
    later.add('b', () => done.push('b'))
    for (let n = 0; n < 4; n++) clock.advance(100)
    expect(done).toEqual([])
    clock.advance(100)
    expect(done).toEqual(['a', 'b'])
  })

  it('is done at once when asked, and not again', () => {
    const { clock, done, add, later } = setUp()
    add('a')
    later.flush()
    expect(done).toEqual(['a'])
    clock.advance(10_000)
    expect(done).toEqual(['a'])
    add('b')
    clock.advance(500)
    expect(done).toEqual(['a', 'b'])
  })
})
