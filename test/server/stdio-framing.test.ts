import { describe, expect, it } from 'vitest'
import { parseBatch, parseMessage } from '../../src/server/jsonrpc-message.ts'
import { createFraming } from '../../src/server/stdio-framing.ts'

function framed(maxBytes: number, chunks: readonly (string | Buffer)[]): string[] {
  const seen: string[] = []
  const feed = createFraming(maxBytes, {
    line: (text) => seen.push(text),
    tooLong: (id) => seen.push(`too long (${maxBytes})${id === null ? '' : ` ${JSON.stringify(id)}`}`),
    malformed: () => seen.push('malformed'),
  })
  for (const chunk of chunks) feed(Buffer.from(chunk))
  return seen
}

describe('lines on a pipe', () => {
  it('may arrive in any chunks, with either line ending, several at once', () => {
    expect(framed(100, ['{"a"', ':1}\n{"b":2}\r\n\n{"c', '":3}', '\n'])).toEqual(['{"a":1}', '{"b":2}', '{"c":3}'])
    expect(framed(100, [Buffer.from('é\n').subarray(0, 1), Buffer.from('é\n').subarray(1)])).toEqual(['é'])
  })

  it('that are too long are skipped, and the next one is read', () => {
    expect(framed(10, [`${'x'.repeat(8)}`, `${'x'.repeat(8)}`, `${'x'.repeat(30)}\nok\n`])).toEqual([
      'too long (10)',
      'ok',
    ])
    expect(framed(10, [`${'x'.repeat(30)}\nok\n`])).toEqual(['too long (10)', 'ok'])
  })

  it('that are too long keep their id if it is unambiguous', () => {
    const long = 'x'.repeat(5_000)
    expect(framed(1_000, [`{"jsonrpc":"2.0","id":7,"method":"m","params":{"x":"${long}"}}\n`])).toEqual([
      'too long (1000) 7',
    ])
    expect(framed(1_000, [`{"method":"m","params":{"x":"${long}"},"jsonrpc":"2.0","id":"a-1"}\n`])).toEqual([
      'too long (1000) "a-1"',
    ])
    expect(framed(1_000, [`{"method":"m","params":{"x":"${long}","id":5}}\n`])).toEqual(['too long (1000)'])
    expect(framed(1_000, [`{"params":{"id":5,"x":"${long}"},"method":"m"}\n`])).toEqual(['too long (1000)'])
    expect(framed(1_000, [`{"method":"m","params":{"x":"${long},\\"id\\":5}"}}\n`])).toEqual(['too long (1000)'])
  })

  it('that are not UTF-8 are rejected', () => {
    expect(framed(100, [Buffer.from([0x22, 0xff, 0x22, 10]), 'ok\n'])).toEqual(['malformed', 'ok'])
  })
})

describe('a message', () => {
  const codeOf = (line: string) => {
    const read = parseMessage(line)
    return read.ok ? 'ok' : [read.id, read.code]
  }

  it('that is not JSON-RPC is rejected with the right code before it is used', () => {
    expect(codeOf('not json')).toEqual([null, -32700])
    expect(codeOf('[{"jsonrpc":"2.0","id":1,"method":"ping"}]')).toEqual([null, -32600])
    expect(codeOf('"text"')).toEqual([null, -32600])
    expect(codeOf('{"jsonrpc":"2.0","id":1,"Method":"tools/call"}')).toEqual([1, -32600])
    expect(codeOf('{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}')).toEqual([1, -32600])
    expect(codeOf('{"id":1,"method":"ping"}')).toEqual([1, -32600])
    expect(codeOf('{"jsonrpc":"2.0","id":1,"method":"ping","x":{}}')).toEqual([1, -32600])
    expect(codeOf('{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}')).toEqual([1, -32600])
    expect(codeOf(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"x":"${'y'.repeat(70_000)}"}}`)).toEqual([
      1, -32600,
    ])
  })

  it('needs an id that is a string or an integer', () => {
    for (const id of ['{"a":1}', 'null', '1.5', 'true', JSON.stringify('x'.repeat(2_000))])
      expect(codeOf(`{"jsonrpc":"2.0","id":${id},"method":"tools/call"}`), id).toEqual([null, -32600])
    for (const id of ['1', '"a"', '-3']) expect(codeOf(`{"jsonrpc":"2.0","id":${id},"method":"ping"}`)).toBe('ok')
  })

  it('with a duplicate member is rejected, however it is written; arguments may contain such text', () => {
    const whole = '"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a__b","arguments":{}}'
    const twice = [
      `{${whole},"method":"ping"}`,
      `{"id":2,${whole}}`,
      `{${whole},"\\u006dethod":"ping"}`,
      `{${whole},"params":{"name":"c__d"}}`,
      '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a__b","name":"c__d"}}',
      '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a__b","arguments":{},"_meta":{},"\\u005fmeta":{}}}',
      '{"jsonrpc":"2.0","id":1,"result":{"action":"decline","action":"accept"}}',
      '{"jsonrpc":"2.0","id":1,"method":"ping","params":{"__proto__":1,"__proto__":2}}',
    ]
    for (const line of twice) expect(codeOf(line), line).toEqual([null, -32600])
    const signs = JSON.stringify('{"a":1,"a":2}\\" : \\\\')
    const once = [
      `{${whole}}`,
      `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{"x":${signs},"name":"a","id":{"id":[{"id":1}]}}}}`,
      `{"jsonrpc":"2.0","id":${signs},"method":"ping"}`,
      '{"jsonrpc" : "2.0" , "id" : 1 , "result" : [ { "a" : 1 } , { "a" : 2 } ] }',
    ]
    for (const line of once) expect(codeOf(line), line).toBe('ok')
    expect(parseBatch('[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"a"}]')).toHaveLength(2)
    expect(parseBatch('[{"jsonrpc":"2.0","id":1,"method":"ping","id":2}]')).toMatchObject({ ok: false, code: -32600 })
  })
  describe('a message with too many keys', () => {
    const keys = (count: number) => Array.from({ length: count }, (_, n) => `"k${n}":"{\\"\\\\${n}"`).join()
    const crowd = `{${keys(50_000)}}`

    it('is answered, if it is a call, like any call with invalid arguments', () => {
      const call = `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"a","arguments":${crowd},"_meta":{"x":[1]}},"id":7}`
      expect(parseMessage(call)).toEqual({
        ok: true,
        message: {
          jsonrpc: '2.0',
          method: 'tools/call',
          params: { name: 'a', arguments: { too_many: expect.any(Array) }, _meta: { x: [1] } },
          id: 7,
        },
      })
    })

    it('is rejected, if it is anything else or not JSON', () => {
      const refused = (text: string) => {
        const read = parseMessage(text)
        return read.ok ? 'taken' : [read.id, read.code]
      }
      expect(refused(`{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":${crowd}}}`)).toEqual([7, -32600])
      expect(refused(`{"jsonrpc":"2.0","id":7,"result":{"a":${crowd}}}`)).toEqual([7, -32600])
      expect(refused(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":${crowd}}`)).toEqual([null, -32600])
      expect(refused(crowd)).toEqual([null, -32600])
      expect(refused(`[{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":${crowd}}}]`)).toEqual([null, -32600])
      expect(refused(`{"jsonrpc":"2.0","id":7,"id":8,"method":"tools/call","params":{"a":${crowd}}}`)).toEqual([
        null,
        -32600,
      ])
      expect(refused(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"a":${crowd}}`)).toEqual([null, -32700])
      expect(refused(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"a":${crowd}},"b":"c`)).toEqual([
        null,
        -32700,
      ])
    })

    it('is accepted if they are text, or not too many', () => {
      const taken = (args: string) =>
        parseMessage(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"arguments":${args}}}`)
      for (const args of [`{${keys(10_000)}}`, `{"a":${JSON.stringify(crowd)}}`])
        expect(taken(args)).toMatchObject({ ok: true, message: { params: { arguments: JSON.parse(args) } } })
    })
  })
})
