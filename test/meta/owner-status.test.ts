import { describe, expect, it } from 'vitest'
import { ownerStatus, waitFor } from '../../src/meta/owner-status.ts'
import { emptyOwner as owner } from '../owner.ts'

describe('the status of a server', () => {
  it('contains its state, and for a failing one the reason and the time until the next attempt', () => {
    expect(ownerStatus(owner({}), 1_000)).toEqual({ state: 'started' })
    expect(ownerStatus(owner({ origin: 'module' }), 1_000)).toEqual({})
    expect(ownerStatus(owner({ origin: 'module', state: 'degraded', reason: 'r' }), 1_000)).toEqual({
      state: 'degraded',
      reason: 'r',
    })
    const failing = owner({ state: 'failing', reason: 'gone', nextAttemptAt: 13_345 })
    expect(ownerStatus(failing, 1_000)).toEqual({ state: 'failing', reason: 'gone', retry_in_ms: 12_000 })
    expect(ownerStatus(failing, 20_000)).toEqual({ state: 'failing', reason: 'gone', retry_in_ms: 0 })
  })

  it('beside its tools says what a call has to expect', () => {
    expect(waitFor(undefined)).toEqual({})
    expect(waitFor(owner({}))).toEqual({})
    expect(waitFor(owner({ state: 'known', startsInMs: 847 }))).toEqual({ starts_in_ms: 850 })
    expect(waitFor(owner({ state: 'known' }))).toEqual({})
    expect(waitFor(owner({ state: 'failing', reason: 'gone', startsInMs: 847 }))).toEqual({ state: 'failing' })
  })
})
