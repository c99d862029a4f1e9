import { afterEach, describe, expect, it } from 'vitest'
import type { Embedder } from '../../../src/search/embedder.ts'
import { createOpenaiEmbedder } from '../../../src/search/embedders/openai-embedder.ts'
import { type EmbedderSettings, searchOptions } from '../../../src/search/search-options.ts'
import { type EmbeddingsServer, embeddingsServer, type Interruption, reply } from './server.ts'

const closing: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close()
})

const settings = (options: object = {}): EmbedderSettings =>
  searchOptions.parse({ embedderOptions: { model: 'tiny', apiKey: 'sk-very-secret', ...options } }).embedderOptions
const signal = () => new AbortController().signal

async function serve(interrupt?: Interruption): Promise<EmbeddingsServer> {
  const server = await embeddingsServer(interrupt)
  closing.push(server.close)
  return server
}

async function load(server: EmbeddingsServer, options: object = {}, address = server.base): Promise<Embedder> {
  const source = createOpenaiEmbedder(address, settings(options), { firstWaitMs: 1 })
  const embedder = await source.load(signal(), () => undefined)
  closing.push(embedder.close)
  return embedder
}

const lists = (vectors: Float32Array[]): number[][] => vectors.map((vector) => [...vector])

describe('an embeddings server', () => {
  it('returns vectors in the order of the texts, whatever order it answers in', async () => {
    const embedder = await load(await serve())
    expect(embedder.dims).toBe(3)
    expect(lists(await embedder.embed(['a', 'bb', 'cab'], 'document', signal()))).toEqual([
      [1, 0, 0],
      [0, 2, 0],
      [1, 1, 1],
    ])
  })

  it('is called in batches, with the model and the key', async () => {
    const server = await serve()
    const embedder = await load(server, { batchSize: 2 })
    await embedder.embed(['a', 'b', 'c', 'ab', 'bc'], 'document', signal())
    expect(server.asked.map(({ body }) => body.input)).toEqual([['tool'], ['a', 'b'], ['c', 'ab'], ['bc']])
    expect(server.asked[1]).toMatchObject({
      url: '/v1/embeddings',
      headers: { authorization: 'Bearer sk-very-secret' },
      body: { model: 'tiny' },
    })
    expect(server.asked[1]?.body).not.toHaveProperty('dimensions')
  })

  it('gets the prefixes of queries and tools', async () => {
    const server = await serve()
    const embedder = await load(server, { queryPrefix: 'query: ', documentPrefix: 'passage: ' })
    await embedder.embed(['b'], 'query', signal())
    await embedder.embed(['c'], 'document', signal())
    expect(server.asked.slice(1).map(({ body }) => body.input)).toEqual([['query: b'], ['passage: c']])
  })

  it.each([
    ['', '/v1/embeddings'],
    ['/v1', '/v1/embeddings'],
    ['/v1/', '/v1/embeddings'],
    ['/api/openai/v1/embeddings?version=2', '/api/openai/v1/embeddings?version=2'],
  ])('is found from an address ending in "%s"', async (path, url) => {
    const server = await serve()
    await load(server, {}, new URL(server.base).origin + path)
    expect(server.asked[0]?.url).toBe(url)
  })

  it('gets the vector length in the request, and must return it', async () => {
    const server = await serve()
    await load(server, { dims: 3 })
    expect(server.asked[0]?.body.dimensions).toBe(3)
    await expect(load(server, { dims: 384 })).rejects.toMatchObject({
      code: 'E_CONFIG_INVALID',
      message: expect.stringContaining('returns vectors of 3 dimensions, but search.embedderOptions.dims is 384'),
    })
  })

  it('has another id for another model, address, length or document prefix', async () => {
    const server = await serve()
    const ids = await Promise.all(
      [{}, { model: 'other' }, { documentPrefix: 'd' }, { queryPrefix: 'q' }].map(
        async (options) => (await load(server, options)).id,
      ),
    )
    expect(new Set(ids.slice(0, 3)).size).toBe(3)
    expect(ids[3]).toBe(ids[0])
    expect(ids.join()).not.toContain('secret')
  })
})

describe('a failing embeddings server', () => {
  it('is retried after a 429 and a 503, at the requested time', async () => {
    const server = await serve((response, _asked, turn) => {
      if (turn === 2) return reply(response, 429, { error: { message: 'slow down' } }, { 'retry-after': '0.01' })
      if (turn === 3) return reply(response, 503, 'busy')
      return false
    })
    const embedder = await load(server)
    expect(lists(await embedder.embed(['a'], 'document', signal()))).toEqual([[1, 0, 0]])
    expect(server.asked).toHaveLength(4)
  })

  it('is called four times at most', async () => {
    const server = await serve((response) => reply(response, 500, { error: 'out of memory' }))
    await expect(load(server)).rejects.toThrow(/answered 500: out of memory/)
    expect(server.asked).toHaveLength(4)
  })

  it('is not waited for if it asks for more than a minute', async () => {
    const server = await serve((response) => reply(response, 429, {}, { 'retry-after': '3600' }))
    await expect(load(server)).rejects.toThrow(/answered 429/)
    expect(server.asked).toHaveLength(1)
  })

  it('is called once for a query, because a caller waits', async () => {
    const server = await serve((response, _asked, turn) => turn > 1 && reply(response, 503, 'busy'))
    const embedder = await load(server)
    await expect(embedder.embed(['a'], 'query', signal())).rejects.toThrow(/answered 503: busy/)
    expect(server.asked).toHaveLength(2)
  })

  it('that never answers is abandoned after requestTimeoutMs', async () => {
    const server = await serve((_response, _asked, turn) => turn > 1)
    const embedder = await load(server, { requestTimeoutMs: 100 })
    await expect(embedder.embed(['a'], 'query', signal())).rejects.toThrow(/did not answer within 100 ms/)
  })

  it('is abandoned at once when the caller aborts', async () => {
    const server = await serve((_response, _asked, turn) => turn > 1)
    const embedder = await load(server)
    const stop = new AbortController()
    const embedding = embedder.embed(['a'], 'document', stop.signal)
    stop.abort(new Error('enough'))
    await expect(embedding).rejects.toThrow('enough')
  })

  it.each([
    [401, /^search\.embedderOptions\.apiKey is missing or was refused\./],
    [404, /no such search\.embedderOptions\.model/],
    [413, /^search\.embedderOptions\.batchSize is too large/],
    [400, /see search\.embedderOptions\.model and dims/],
    [302, /redirects, which is not followed/],
  ])('names the setting to fix after a %i, and is not retried', async (status, message) => {
    const server = await serve((response) => reply(response, status, { error: { message: 'no' } }))
    await expect(load(server)).rejects.toMatchObject({
      code: 'E_CONFIG_INVALID',
      message: expect.stringMatching(message),
    })
    expect(server.asked).toHaveLength(1)
  })

  it('cannot make the key appear in an error', async () => {
    const server = await serve((response, { headers }) =>
      reply(response, 401, { error: { message: `bad ${headers.authorization} ${'x'.repeat(5000)}` } }),
    )
    const error: Error = await load(server).then(
      () => expect.unreachable(),
      (reason) => reason,
    )
    expect(error.message).toContain('bad Bearer <key>')
    expect(error.message.length).toBeLessThan(500)
    expect(JSON.stringify([error, error.stack, error.cause])).not.toContain('sk-very-secret')
  })

  it.each([
    ['text', 'hello', /no "data"/],
    ['too few vectors', { data: [] }, /0 vectors for 1 texts/],
    ['no numbers', { data: [{ index: 0, embedding: 'AAAA' }] }, /not a list of numbers/],
    ['an index out of range', { data: [{ index: 7, embedding: [1] }] }, /one index/],
  ])('is rejected when it answers %s', async (_what, body, message) => {
    await expect(load(await serve((response) => reply(response, 200, body)))).rejects.toThrow(message)
  })

  it('is rejected when two vectors have one index, or lengths differ', async () => {
    const answers = [
      { data: [0, 0].map((index) => ({ index, embedding: [1, 2, 3] })) },
      { data: [0, 1].map((index) => ({ index, embedding: [1, 2, 3].slice(index) })) },
    ]
    const server = await serve((response, _asked, turn) => turn > 1 && reply(response, 200, answers[turn - 2]))
    const embedder = await load(server)
    await expect(embedder.embed(['a', 'b'], 'document', signal())).rejects.toThrow(/one index/)
    await expect(embedder.embed(['a', 'b'], 'document', signal())).rejects.toThrow(/several lengths/)
  })

  it('that is unreachable is reported as such', async () => {
    const server = await embeddingsServer()
    await server.close()
    await expect(load(server)).rejects.toThrow(/^openai:127\.0\.0\.1:\d+: .*ECONNREFUSED/)
  })
})

describe('the settings of an embeddings server', () => {
  it('must name a model', () => {
    const { embedderOptions } = searchOptions.parse({})
    expect(() => createOpenaiEmbedder('http://127.0.0.1', embedderOptions)).toThrow(
      /needs search\.embedderOptions\.model/,
    )
  })

  it('must not contain a password in the address', () => {
    expect(() => createOpenaiEmbedder('http://me:hidden@127.0.0.1', settings())).toThrow(/holds a password/)
    expect(() => createOpenaiEmbedder('http://me:hidden@127.0.0.1', settings())).not.toThrow(/hidden/)
  })
})
