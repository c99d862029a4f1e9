import { describe, expect, it } from 'vitest'
import { createStartQueue } from '../../src/upstream/start-queue.ts'
import { createManualClock } from '../clock.ts'

function setUp() {
  const clock = createManualClock()
  const turns = createStartQueue(clock, { maxConcurrent: 2, longestMs: 3_000, impatientMs: 300 })
  const begun: string[] = []
  const ends = new Map<string, () => void>()
  const work = (name: string) => () => {
    begun.push(name)
    return new Promise<void>((resolve) => ends.set(name, resolve))
  }
  const end = async (name: string): Promise<void> => {
    ends.get(name)?.()
    await new Promise(setImmediate)
  }
  return { clock, turns, begun, work, end }
}
const wanted = () => false

describe('the queue of first starts', () => {
  it('starts a few servers at a time, the next when one is done, and skips those no longer needed', async () => {
    const { turns, begun, work, end } = setUp()
    for (const name of ['a', 'b', 'c']) turns.take(work(name), wanted)
    turns.take(work('d'), () => true)
    turns.take(work('e'), wanted)
    expect(begun).toEqual(['a', 'b'])
    await end('a')
    expect(begun).toEqual(['a', 'b', 'c'])
    await end('c')
    expect(begun).toEqual(['a', 'b', 'c', 'e'])
  })

  it('does not wait more than three seconds for a hanging one', () => {
    const { clock, turns, begun, work } = setUp()
    for (const name of ['a', 'b', 'c', 'd']) turns.take(work(name), wanted)
    clock.pass(2_999)
    expect(begun).toEqual(['a', 'b'])
    clock.pass(1)
    expect([begun, turns.busy]).toEqual([['a', 'b', 'c', 'd'], true])
    // A hanging start must not block others.
    clock.pass(3_000)
    expect(turns.busy).toBe(false)
  })

  it('starts servers that a call waits for first, after 300 ms at the latest', async () => {
    const { clock, turns, begun, work, end } = setUp()
    for (const name of ['a', 'b', 'c']) turns.take(work(name), wanted)
    for (const name of ['called', 'too', 'three']) turns.first(work(name))
    await end('a')
    expect(begun).toEqual(['a', 'b', 'called'])
    clock.pass(299)
    expect(begun).toEqual(['a', 'b', 'called'])
    clock.pass(1)
    expect(begun).toEqual(['a', 'b', 'called', 'too', 'three'])
    clock.pass(1_000)
    expect(begun).toHaveLength(5)
  })
})
