import { describe, expect, it } from 'vitest'
import type { Owner } from '../../src/catalog/catalog.ts'
import { standing, waitFor } from '../../src/meta/standing.ts'

const owner = (more: Partial<Owner>): Owner => ({
  id: 'mcp_s',
  summary: 'S.',
  origin: 'upstream',
  state: 'ready',
  tools: [],
  withheld: [],
  resources: [],
  templates: [],
  prompts: [],
  ...more,
})

describe('what is said of a server', () => {
  it('is its state, and of a failing one the reason and how long until it is tried again', () => {
    expect(standing(owner({}), 1_000)).toEqual({ state: 'started' })
    expect(standing(owner({ origin: 'module' }), 1_000)).toEqual({})
    expect(standing(owner({ origin: 'module', state: 'degraded', reason: 'r' }), 1_000)).toEqual({
      state: 'degraded',
      reason: 'r',
    })
    const failing = owner({ state: 'failing', reason: 'gone', nextAttemptAt: 13_345 })
    expect(standing(failing, 1_000)).toEqual({ state: 'failing', reason: 'gone', retry_in_ms: 12_000 })
    expect(standing(failing, 20_000)).toEqual({ state: 'failing', reason: 'gone', retry_in_ms: 0 })
  })

  it('beside its tools is what a call has to reckon with', () => {
    expect(waitFor(undefined)).toEqual({})
    expect(waitFor(owner({}))).toEqual({})
    expect(waitFor(owner({ state: 'known', startsInMs: 847 }))).toEqual({ starts_in_ms: 850 })
    expect(waitFor(owner({ state: 'known' }))).toEqual({})
    expect(waitFor(owner({ state: 'failing', reason: 'gone', startsInMs: 847 }))).toEqual({ state: 'failing' })
  })
})
