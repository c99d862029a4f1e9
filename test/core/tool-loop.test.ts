import { describe, expect, it } from 'vitest'
import { createToolLoop } from '../../src/core/tool-loop.ts'

describe('the rounds of a tool loop', () => {
  it('are limited to four by default', () => {
    const { loop, begin } = createToolLoop()
    expect([begin(), begin(), begin(), begin(), begin()]).toEqual([true, true, true, true, false])
    expect([loop.used, loop.limit]).toEqual([4, 4])
  })

  it('become nine when five are added to four', () => {
    const { loop } = createToolLoop({ rounds: 4 })
    expect(loop.extend(5)).toBe(5)
    expect(loop.limit).toBe(9)
  })

  it('never exceed one extension and the absolute limit', () => {
    const { loop } = createToolLoop({ rounds: 4, maxExtension: 10, max: 20 })
    expect(loop.extend(1_000)).toBe(10)
    expect(loop.extend(1_000)).toBe(6)
    expect(loop.extend(1)).toBe(0)
    expect(loop.limit).toBe(20)
  })

  it('are not reduced, nor extended by something that is not a number', () => {
    const { loop } = createToolLoop()
    expect([loop.extend(-3), loop.extend(Number.NaN), loop.extend(0.5), loop.extend(Number.POSITIVE_INFINITY)]).toEqual(
      [0, 0, 0, 10],
    )
  })
})
