import { describe, expect, it } from 'vitest'
import { createSemaphore } from '../../src/core/semaphore.ts'

const never = new AbortController().signal

describe('slots that principals share', () => {
  const takes = (slots: ReturnType<typeof createSemaphore>, who: string, count: number): number => {
    let entered = 0
    for (let one = 0; one < count; one++) {
      const wait = slots.acquire(never, who)
      if (wait) wait.catch(() => undefined)
      else entered++
    }
    return entered
  }

  it('are not all used by one principal: an eighth is left to others', () => {
    const slots = createSemaphore({ maxConcurrent: 32, maxQueued: 100, setting: 's' })
    expect(takes(slots, 'bob', 40)).toBe(28)
    expect(takes(slots, 'ann', 6)).toBe(4)
    expect([slots.running, slots.waiting]).toEqual([32, 14])
  })

  it('go to the next allowed caller when one is released', async () => {
    const slots = createSemaphore({ maxConcurrent: 8, maxQueued: 100, setting: 's' })
    expect(takes(slots, 'bob', 9)).toBe(7)
    expect(takes(slots, 'ann', 1)).toBe(1)
    const served: string[] = []
    void slots.acquire(never, 'cleo')?.then(() => served.push('cleo'))
    // Ann's released slot goes to others: Bob has his share, and Cleo came after him.
    slots.release('ann')
    await new Promise(setImmediate)
    expect([served, slots.running, slots.waiting]).toEqual([['cleo'], 8, 2])
    slots.release('bob')
    expect([slots.running, slots.waiting]).toEqual([8, 1])
    for (let one = 0; one < 7; one++) slots.release('bob')
    slots.release('bob')
    slots.release('cleo')
    expect([slots.running, slots.waiting]).toEqual([0, 0])
  })

  it('are all available for calls without a principal, and if there are few', () => {
    expect(takes(createSemaphore({ maxConcurrent: 32, maxQueued: 100, setting: 's' }), '', 40)).toBe(32)
    expect(takes(createSemaphore({ maxConcurrent: 7, maxQueued: 100, setting: 's' }), 'bob', 40)).toBe(7)
  })
})
