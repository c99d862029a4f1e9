import { getEventListeners } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { createEnding } from '../../src/core/ending.ts'
import { limited } from '../../src/core/limit.ts'
import { derivedFrom } from '../signals.ts'

it('ends with another signal, with its reason, at once where that has ended', () => {
  const outer = new AbortController()
  const { signal } = limited(outer.signal, 60_000)
  outer.abort('enough')
  expect([signal.aborted, signal.reason]).toEqual([true, 'enough'])
  expect(limited(outer.signal, 60_000).signal.reason).toBe('enough')
  const ending = createEnding()
  const other = limited(ending, 60_000)
  ending.abort('gone')
  expect([other.signal.reason, other.late]).toEqual(['gone', false])
})

it('ends after its time, and says that this is why', async () => {
  const limit = limited(undefined, 5)
  await sleep(50)
  expect([limit.signal.aborted, limit.late, limit.signal.reason.name]).toEqual([true, true, 'TimeoutError'])
})

it('leaves nothing with a signal that goes on, freed or over', async () => {
  const outer = new AbortController()
  limited(outer.signal, 60_000).free()
  limited(outer.signal, 5)
  await sleep(50)
  expect([getEventListeners(outer.signal, 'abort').length, derivedFrom(outer.signal)]).toEqual([0, 0])
})
