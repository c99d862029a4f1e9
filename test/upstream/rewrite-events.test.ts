import { describe, expect, it } from 'vitest'
import { withExactBody } from '../../src/upstream/exact-integers.ts'
import { rewriteEvents } from '../../src/upstream/rewrite-events.ts'

/** The output for a stream in these chunks. */
async function rewritten(pieces: readonly string[], maxBytes = Number.POSITIVE_INFINITY) {
  const dropped: Array<{ readonly head: string; readonly tail: string; readonly bytes: number }> = []
  const source = new ReadableStream<Uint8Array>({
    start(controller) {
      for (const piece of pieces) controller.enqueue(Buffer.from(piece))
      controller.close()
    },
  })
  const stream = source.pipeThrough(
    rewriteEvents((data) => [data], {
      isOver: (bytes) => bytes > maxBytes,
      dropped: (head, tail, bytes) => void dropped.push({ head: String(head), tail: String(tail), bytes }),
    }),
  )
  return { text: await new Response(stream).text(), dropped }
}

describe('an event stream', () => {
  const events = 'event: message\nid: 1\ndata: {"a":1}\n\ndata: é\nretry: 5\n\n'

  it.each([1, 2, 3, 7])('is the same in chunks of %i characters', async (length) => {
    const pieces = events.match(new RegExp(`.{1,${length}}`, 'gs')) ?? []
    expect((await rewritten(pieces)).text).toBe(events)
  })

  it.each(['\n', '\r', '\r\n'])('accepts line endings, each of which may be %j', async (end) => {
    const pieces = [...events.replaceAll('\n', end)]
    expect((await rewritten(pieces)).text).toBe(events)
  })

  it('joins the data of an event on one line', async () => {
    expect((await rewritten(['data: {"a":\ndata:1,\ndata: "b":2}\n\n'])).text).toBe('data: {"a": 1, "b":2}\n\n')
  })

  it('drops comments, unknown fields and invalid ids', async () => {
    const long = 'i'.repeat(2_000)
    expect((await rewritten([`:\n:x\nfoo: bar\nid: ${long}\ndata: 1\n\n:\n\n\n\n`])).text).toBe('data: 1\n\n')
  })

  it('drops an event that is too long, and keeps those around it', async () => {
    const piece = 'x'.repeat(600)
    const { text, dropped } = await rewritten(
      ['data: 1\n\n', 'data: {"id":"p:7",', ...Array(10).fill(piece), '}\n\n', 'data: 2\n\n'],
      2_000,
    )
    expect(text).toBe('data: 1\n\ndata: 2\n\n')
    expect(dropped).toEqual([
      { head: expect.stringMatching(/^data: \{"id":"p:7"/), tail: expect.stringMatching(/\}\n\n$/), bytes: 6_021 },
    ])
  })
})

describe('an HTTP response', () => {
  const read = async (body: string, type: string, status = 200): Promise<string> =>
    await (await withExactBody(new Response(body, { status, headers: { 'content-type': type } }))).text()
  const crowd = (line: (n: number) => string): string => Array.from({ length: 250_000 }, (_, n) => line(n)).join('')
  const object = `{${crowd((n) => `"k${n}":1,`)}"z":1}`

  it('is rejected if an event has too many keys, on any lines', async () => {
    const lines = `data: {\n${crowd((n) => `data: "k${n}":1,\n`)}data: "z":1}\n\n`
    await expect(read(lines, 'text/event-stream')).rejects.toMatchObject({ code: 'E_TOO_LARGE' })
  })

  it.each(['application/json', 'Application/JSON', 'APPLICATION/JSON; charset=utf-8'])(
    'is rejected if it has too many keys and type %s',
    async (type) => {
      await expect(read(object, type)).rejects.toMatchObject({ code: 'E_TOO_LARGE' })
    },
  )

  it('is rejected if it is a batch of too many messages', async () => {
    const batch = `[${'{"jsonrpc":"2.0","method":"x"},'.repeat(1_000)}{}]`
    await expect(read(batch, 'application/json')).rejects.toMatchObject({ code: 'E_TOO_LARGE' })
  })

  it('with an oversized error body reports no text of it', async () => {
    expect(await read(object, 'application/json', 400)).toBe('')
    expect(await read('{"error":1}', 'application/json', 400)).toBe('{"error":1}')
  })

  it('keeps long integers of an event on several lines', async () => {
    const lines = 'data: {"n":\ndata: 9007199254740993}\n\n'
    expect(await read(lines, 'Text/Event-Stream')).toBe('data: {"n": "9007199254740993"}\n\n')
  })
})
