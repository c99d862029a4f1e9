import { expect, it } from 'vitest'
import { attributeError, attributeErrors, mayImitateError } from '../../src/core/error-attribution.ts'

it("adds the server's name before an error code at the beginning of a text, after any blanks", () => {
  expect(attributeError('a', 'E_DENIED: no')).toBe('a: E_DENIED: no')
  expect(attributeError('a', ' \n\u2800E_DENIED : no')).toBe(' \n\u2800a: E_DENIED : no')
  expect(attributeError('$1', 'MCP error -32602: E_X: no')).toBe('MCP error -32602: $1: E_X: no')
  for (const text of ['E_ no', 'no E_X: no', 'E_X no', 'TYPE_E_X: no', 'line\nE_X: no'])
    expect(attributeError('a', text)).toBe(text)
})

it('does the same in structured errors, nested texts, and results and errors of tasks', () => {
  const error = () => ({ success: false, code: 'E_A', error: { code: 'E_B' } })
  const answer = {
    content: [{ type: 'text', text: `{ "success" : false, "code": "E_A" }` }, null, { type: 'text' }],
    structuredContent: error(),
    result: { structuredContent: { ...error(), error: 'E_B: no' } },
    error: { code: -1, message: 'E_C: no' },
    statusMessage: 'E_D: no',
  }
  attributeErrors('"a"', answer)
  expect(answer).toEqual({
    content: [{ type: 'text', text: `{ "success" : false, "code": "\\"a\\": E_A" }` }, null, { type: 'text' }],
    structuredContent: { success: false, code: '"a": E_A', error: { code: '"a": E_B' } },
    result: { structuredContent: { success: false, code: '"a": E_A', error: '"a": E_B: no' } },
    error: { code: -1, message: '"a": E_C: no' },
    statusMessage: '"a": E_D: no',
  })
  const fine = { structuredContent: { success: true, error: { code: 'E_B' } }, content: [] }
  const before = structuredClone(fine)
  attributeErrors('a', fine)
  expect(fine).toEqual(before)
})

it('detects bytes that may contain such an error, and ignores others', () => {
  const may = (text: string): boolean => mayImitateError(Buffer.from(JSON.stringify({ text })))
  for (const text of ['E_X: no', '\n\tE_X: no', '\u2003E_X: no', '{"code":"E_X"}']) expect(may(text)).toBe(true)
  for (const text of ['TYPE_X: 1', 'E_X is no', 'e_x']) expect(may(text)).toBe(false)
})
