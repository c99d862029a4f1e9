import { describe, expect, it } from 'vitest'
import { answerOf, failedAnswer } from '../../src/agent/tool-answer.ts'
import { PegboardError } from '../../src/core/errors.ts'
import { valueResult } from '../../src/core/tool-result.ts'

describe('the answer to a call', () => {
  it.each([
    ['text', valueResult('so'), 'so'],
    ['a value', valueResult({ a: 1 }), '{"a":1}'],
    ['nothing', valueResult(undefined), 'null'],
    ['no text', valueResult(''), '(nothing)'],
  ])('has %s as text', (_what, result, text) => expect(answerOf(result).text).toBe(text))

  it("contains a server's texts and links, and its files separately", () => {
    const result = {
      content: [
        { type: 'text', text: 'one' },
        { type: 'image', data: 'QUJD', mimeType: 'image/png' },
        { type: 'resource_link', uri: 'file:///a', name: 'a' },
        { type: 'resource', resource: { uri: 'x://t', text: 'two' } },
        { type: 'resource', resource: { uri: 'x://d/b.bin', blob: 'QUJD' } },
        { type: 'unheard-of' },
      ],
      structuredContent: { n: 1 },
    }
    const answer = answerOf({ kind: 'mcp', result })
    expect(answer.text).toBe(
      'one\n[a: file:///a]\ntwo\n[image, image/png, 3 bytes]\n[b.bin, application/octet-stream, 3 bytes]',
    )
    expect(answer.data).toEqual({ n: 1 })
    expect(answer.files.map(({ data }) => data.toString())).toEqual(['ABC', 'ABC'])
  })

  it('contains structured content as text if the server sends no text', () => {
    const answer = answerOf({ kind: 'mcp', result: { structuredContent: { n: 1 }, isError: true } })
    expect(answer).toEqual({ text: '{"n":1}', isError: true, data: { n: 1 }, files: [] })
  })

  it('says that the user cannot be asked', () => {
    const answer = answerOf({ kind: 'input_required', result: { inputRequests: {} } })
    expect(answer).toMatchObject({ isError: true, text: expect.stringMatching(/^E_CANNOT_ASK: /) })
  })

  it('says what went wrong and what to do next; other errors are thrown', () => {
    const error = new PegboardError('E_TIMEOUT', 'It took too long', { hint: 'Ask for less.' })
    expect(failedAnswer(error).text).toBe('E_TIMEOUT: It took too long. Ask for less.')
    expect(() => failedAnswer(new TypeError('x'))).toThrow(TypeError)
  })
})
