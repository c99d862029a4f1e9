import { describe, expect, it } from 'vitest'
import { errorCatalogue, isPegboardError, PegboardError, ToolError } from '../../src/core/errors.ts'

describe('the error catalogue', () => {
  it('gives every code a meaning and a next step, as sentences', () => {
    for (const [code, entry] of Object.entries(errorCatalogue)) {
      expect(code).toMatch(/^E_[A-Z]+(_[A-Z]+)*$/)
      expect(entry.meaning, code).toMatch(/^[A-Z].*\.$/)
      expect(entry.next, code).toMatch(/^[A-Z].*\.$/)
    }
  })

  it('separates operator codes from what models may read', () => {
    const operator = Object.entries(errorCatalogue).flatMap(([code, { audience }]) =>
      audience === 'operator' ? [code] : [],
    )
    for (const code of operator)
      expect(code).toMatch(
        /^E_(MODULE|CONFIG|NAME|EDIT|UNDO|REGISTRY)_|^E_(ADDRESS_UNAVAILABLE|AUTH_FAILED|LOOP_LIMIT|RECORDING|STATE|USAGE)$/,
      )
  })
})

describe('errors', () => {
  it('of another copy of the package are recognized', () => {
    const foreign = Object.assign(new Error('x'), { [Symbol.for('pegboard.error')]: true })
    expect(isPegboardError(foreign)).toBe(true)
    expect(isPegboardError(new Error('x'))).toBe(false)
    expect(isPegboardError(null)).toBe(false)
  })

  it('are retryable if they say when', () => {
    expect(new PegboardError('E_DENIED_BY_POLICY', 'No.').retryable).toBe(false)
    expect(new PegboardError('E_DENIED_BY_POLICY', 'No.', { retryAfterMs: 5_000 }).retryable).toBe(true)
  })

  it('take hint and retryability from the catalogue by default', () => {
    const error = new PegboardError('E_TIMEOUT', 'slow')
    expect([error.hint, error.retryable, error.retryAfterMs]).toEqual([
      'Ask for less, or raise execution.timeoutMs.',
      true,
      null,
    ])
    expect(new ToolError('no', { hint: 'Try yes.' }).hint).toBe('Try yes.')
    expect(new ToolError('no').code).toBe('E_TOOL_FAILED')
  })
})
