import { describe, expect, it } from 'vitest'
import { shownState } from '../../src/catalog/owner-state.ts'

describe('the state shown for a server', () => {
  it.each([
    [{ state: 'configured' }, 0, 'configured'],
    [{ state: 'known' }, 7, 'known'],
    [{ state: 'ready' }, 7, 'started'],
    [{ state: 'failing', reason: 'x' }, 0, 'failing'],
    // Connecting for the first time, from idle, and after a failure.
    [{ state: 'connecting' }, 0, 'configured'],
    [{ state: 'connecting' }, 7, 'known'],
    [{ state: 'connecting', reason: 'disconnected: x' }, 7, 'failing'],
    [{ state: 'stopped' }, 0, 'stopped'],
  ] as const)('of %o with %i tools known is %3$s', (owner, tools, shown) => {
    expect(shownState(owner, tools)).toBe(shown)
  })
})
