import { describe, expect, it } from 'vitest'
import { scanAnswer } from '../../src/core/json-scanner.ts'
import { mayLink, rawBytes, rawResult, sizeOf } from '../../src/core/raw-result.ts'

const line = '{"jsonrpc":"2.0","id":"p:1","result":{"content":[{"type":"text","text":"é"}],"n":[1, 2]}}'
const json = '{"content":[{"type":"text","text":"é"}],"n":[1, 2]}'

/** The same line in chunks of this length. */
function result(length: number) {
  const bytes = Buffer.from(line)
  const answer = scanAnswer(bytes)
  if (typeof answer === 'string') throw new Error(answer)
  const parts = Array.from({ length: Math.ceil(bytes.length / length) }, (_, n) =>
    bytes.subarray(n * length, (n + 1) * length),
  )
  const made = rawResult(parts, answer)
  if (!made) throw new Error('not made')
  return made
}

describe('a result as raw bytes', () => {
  it.each([1, 2, 3, 7, 40, 41, 1_000])('is the same in chunks of %i bytes', (length) => {
    const made = result(length)
    expect(Buffer.concat(rawBytes(made) ?? []).toString()).toBe(json)
    expect(made).toEqual({ content: [{ type: 'text', text: 'é' }], n: [1, 2] })
    expect(sizeOf(made)).toBe(Buffer.byteLength(json))
  })

  it('parses a member once, and is no longer raw when it is copied', () => {
    const made = result(10)
    expect(made.content).toBe(made.content)
    const copy = { ...made, isError: true }
    expect(rawBytes(copy)).toBeUndefined()
    expect(copy).toEqual({ content: [{ type: 'text', text: 'é' }], n: [1, 2], isError: true })
  })
})

describe('a result that may name a resource', () => {
  const made = (content: string) => {
    const bytes = Buffer.from(`{"jsonrpc":"2.0","id":"p:1","result":{"content":${content}}}`)
    const answer = scanAnswer(bytes)
    if (typeof answer === 'string') throw new Error(answer)
    return rawResult([bytes], answer) ?? 'parsed'
  }
  it('is recognized without parsing', () => {
    expect(mayLink(made('[{"type":"resource","resource":{"uri":"a:b","text":"c"}}]') as object)).toBe(true)
    expect(mayLink(made('[{"type":"text","text":"\\"uri\\""}]') as object)).toBe(false)
    expect(mayLink({ content: [] })).toBe(true)
  })
  it.each(['{}', 'null', '[1]', '[{}]', '[{"type":1}]', '[{"type":"text"}]', '[{"type":"text","text":1}]'])(
    'is parsed if its content is not a list of blocks: %s',
    (content) => expect(made(content)).toBe('parsed'),
  )
  it.each(['[]', '[{"type":"text","text":""}]', '[{"text":"a","type":"text"},{"type":"new"}]'])(
    'is not recognized otherwise: %s',
    (content) => expect(made(content)).not.toBe('parsed'),
  )
})
