import { expect, it } from 'vitest'
import { createHeldSlots } from '../../src/core/held-slots.ts'
import { createSemaphore } from '../../src/core/semaphore.ts'

const taken = () => {
  const semaphore = createSemaphore({ maxConcurrent: 1, maxQueued: 1, setting: 'slots' })
  void semaphore.acquire(new AbortController().signal)
  const held = createHeldSlots()
  held.add(semaphore)
  return { semaphore, held }
}

it('gives slots back while pauses overlap, and takes them again after the last', () => {
  const { semaphore, held } = taken()
  const [first, second] = [held.pause(), held.pause()]
  expect(semaphore.running).toBe(0)
  first()
  expect(semaphore.running).toBe(0)
  second()
  expect(semaphore.running).toBe(1)
})

it('releases each slot once, also when work ends during a pause', () => {
  const { semaphore, held } = taken()
  const resume = held.pause()
  held.release()
  resume()
  expect(semaphore.running).toBe(0)
  const other = taken()
  other.held.release()
  expect(other.semaphore.running).toBe(0)
})
