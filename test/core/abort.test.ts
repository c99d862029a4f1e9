import { getEventListeners } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { abortAfter, linkAbort } from '../../src/core/abort.ts'
import { derivedFrom } from '../signals.ts'

it('aborts with another signal and its reason, at once if that is already aborted', () => {
  const outer = new AbortController()
  const { signal, timedOut: late } = abortAfter(outer.signal, 60_000)
  outer.abort('enough')
  expect([signal.aborted, signal.reason, late]).toEqual([true, 'enough', false])
  expect(abortAfter(outer.signal, 60_000).signal.reason).toBe('enough')
})

it('aborts with a TimeoutError after its time', async () => {
  const limit = abortAfter(undefined, 5)
  await sleep(50)
  expect([limit.signal.aborted, limit.timedOut, limit.signal.reason.name]).toEqual([true, true, 'TimeoutError'])
})

it('does not report a timeout after the other signal was aborted', async () => {
  const outer = new AbortController()
  const limit = abortAfter(outer.signal, 5)
  outer.abort('enough')
  await sleep(50)
  expect([limit.signal.reason, limit.timedOut]).toEqual(['enough', false])
})

it('leaves no listener on a signal that lives longer', async () => {
  const outer = new AbortController()
  abortAfter(outer.signal, 60_000).free()
  abortAfter(outer.signal, 5)
  linkAbort(outer.signal, new AbortController())()
  await sleep(50)
  expect([getEventListeners(outer.signal, 'abort').length, derivedFrom(outer.signal)]).toEqual([0, 0])
})

it('a removed link no longer aborts', () => {
  const outer = new AbortController()
  const inner = new AbortController()
  linkAbort(outer.signal, inner)()
  outer.abort('enough')
  expect(inner.signal.aborted).toBe(false)
})
