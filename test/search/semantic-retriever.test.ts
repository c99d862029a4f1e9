import { afterEach, describe, expect, it } from 'vitest'
import type { Clock } from '../../src/core/clock.ts'
import { PegboardError } from '../../src/core/errors.ts'
import { type Log, silentLog } from '../../src/core/log.ts'
import type { Embedder, EmbedderSource } from '../../src/search/embedder.ts'
import { openVectorCache, type VectorStore, vectorCacheName } from '../../src/search/embedders/vector-cache.ts'
import { sourceOfEvalTool } from '../../src/search/evaluate.ts'
import {
  createSemanticRetriever,
  type SemanticDocument,
  type SemanticRetriever,
  type SemanticStatus,
} from '../../src/search/semantic-retriever.ts'

const retrievers: SemanticRetriever[] = []
afterEach(async () => {
  for (const retriever of retrievers.splice(0)) await retriever.close()
})

/** A clock that only the test moves. */
function testClock(): Clock & { pass(ms: number): void; readonly waiting: number } {
  let now = 0
  const timers = new Set<{ at: number; fn: () => void }>()
  return {
    now: () => now,
    after(ms, fn) {
      const timer = { at: now + ms, fn }
      timers.add(timer)
      return () => timers.delete(timer)
    },
    pass(ms) {
      now += ms
      for (const timer of [...timers]) {
        if (timer.at > now) continue
        timers.delete(timer)
        timer.fn()
      }
    },
    get waiting() {
      return timers.size
    },
  }
}

/** A vector of letters along eight axes; deterministic, so literal cosines can be expected. */
const vectorOf = (text: string, dims: number): Float32Array =>
  Float32Array.from({ length: dims }, (_, at) => [...text].filter((one) => one === 'abcdefgh'[at % 8]).length)

interface Fake extends EmbedderSource {
  /** Texts of every call, in order. */
  readonly calls: { kind: string; texts: readonly string[] }[]
  loads: number
  closes: number
  id: string
  /** Replaces the result of `embed`. */
  answer: ((texts: readonly string[], kind: string) => Promise<Float32Array[]>) | undefined
  failLoad: Error | undefined
}

function fakeSource(dims = 8): Fake {
  const fake: Fake = {
    label: 'openai:fake',
    calls: [],
    loads: 0,
    closes: 0,
    id: 'fake-1',
    answer: undefined,
    failLoad: undefined,
    async load(_signal, onProgress): Promise<Embedder> {
      fake.loads++
      onProgress({ file: 'model.onnx', loaded: 1, total: 2 })
      if (fake.failLoad) throw fake.failLoad
      return {
        id: fake.id,
        dims,
        textOf: ({ description }) => description,
        async embed(texts, kind) {
          fake.calls.push({ kind, texts })
          return fake.answer ? fake.answer(texts, kind) : texts.map((text) => vectorOf(text, dims))
        },
        async close() {
          fake.closes++
        },
      }
    },
  }
  return fake
}

function memoryStore(): VectorStore & { readonly files: Map<string, Uint8Array>; saves: number } {
  const files = new Map<string, Uint8Array>()
  return {
    files,
    saves: 0,
    async load(name) {
      return files.get(name)
    },
    async save(name, bytes) {
      this.saves++
      files.set(name, bytes.slice())
    },
  }
}

interface Rig {
  readonly retriever: SemanticRetriever
  readonly source: Fake
  readonly clock: ReturnType<typeof testClock>
  readonly lines: { level: string; message: string; fields: Readonly<Record<string, unknown>> | undefined }[]
  readonly states: SemanticStatus[]
}

function rig({ source = fakeSource(), store }: { source?: Fake; store?: VectorStore } = {}): Rig {
  const clock = testClock()
  const lines: Rig['lines'] = []
  const states: SemanticStatus[] = []
  const line =
    (level: string): Log['info'] =>
    (message, fields) =>
      void lines.push({ level, message, fields })
  const log: Log = { ...silentLog, info: line('info'), warn: line('warn'), error: line('error') }
  const retriever = createSemanticRetriever({
    source,
    queryTimeoutMs: 300,
    log,
    clock,
    onChange: (status) => states.push(status),
    ...(store ? { store } : {}),
  })
  retrievers.push(retriever)
  return { retriever, source, clock, lines, states }
}

const tool = (slot: number, text: string, id = `tool.${slot}`): SemanticDocument => ({
  slot,
  id,
  hash: `hash of ${text}`,
  source: { ...sourceOfEvalTool({ id, server: 'tool', name: id }), description: text },
})
const tools = (...texts: string[]): SemanticDocument[] => texts.map((text, slot) => tool(slot, text))
const everything = () => true
const embedded = ({ source }: Rig): string[] =>
  source.calls.filter(({ kind }) => kind === 'document').flatMap(({ texts }) => texts)

describe('the retriever of an optional model', () => {
  it('loads and embeds in the background, and is used when every tool has its vector', async () => {
    const { retriever, states } = rig()
    retriever.sync(tools('aab', 'b', 'c'))
    expect(retriever.status).toEqual({ state: 'loading', embedder: 'openai:fake', documents: 3, indexed: 0 })
    expect(retriever.index).toBeUndefined()
    expect(await retriever.embedQuery('a')).toBeUndefined()
    await retriever.settled()
    expect(states).toEqual([{ state: 'ready', embedder: 'openai:fake', documents: 3, indexed: 3 }])
    const query = await retriever.embedQuery('b')
    expect(retriever.index?.search(query!, 2, everything)).toEqual([
      { slot: 1, cosine: expect.closeTo(1, 2) },
      { slot: 0, cosine: expect.closeTo(Math.sqrt(0.2), 2) },
    ])
  })

  it('combines five triggers into one run with the latest list', async () => {
    const one = rig()
    for (const text of ['a', 'b', 'c', 'd', 'e']) one.retriever.sync(tools(text))
    await one.retriever.settled()
    expect(one.source.loads).toBe(1)
    expect(embedded(one)).toEqual(['e'])
  })

  it('follows a change during a run', async () => {
    const one = rig()
    one.source.answer = async (texts) => {
      one.source.answer = undefined
      one.retriever.sync(tools('a', 'b', 'c'))
      return texts.map((text) => vectorOf(text, 8))
    }
    one.retriever.sync(tools('a', 'b'))
    await one.retriever.settled()
    expect(embedded(one).sort()).toEqual(expect.arrayContaining(['a', 'b', 'c']))
    expect(one.retriever.status).toMatchObject({ state: 'ready', indexed: 3 })
  })

  it('embeds only changes, and searches the old vectors meanwhile', async () => {
    const one = rig()
    one.retriever.sync(tools('a', 'b', 'c'))
    await one.retriever.settled()
    one.retriever.sync(tools('a', 'd', 'c'))
    expect(one.retriever.status).toMatchObject({ state: 'ready', indexed: 3 })
    await one.retriever.settled()
    expect(embedded(one).sort()).toEqual(['a', 'b', 'c', 'd'])
    const query = await one.retriever.embedQuery('d')
    expect(one.retriever.index?.search(query!, 1, everything)).toEqual([{ slot: 1, cosine: expect.closeTo(1, 2) }])
  })

  it('forgets a tool at once when it is removed or its slot is reassigned', async () => {
    const { retriever } = rig()
    retriever.sync(tools('a', 'b', 'c', 'd', 'e'))
    await retriever.settled()
    retriever.sync([tool(0, 'a'), tool(1, 'b', 'another.tool'), tool(2, 'c'), tool(3, 'd')])
    expect([0, 1, 2, 3, 4].map((slot) => retriever.index?.has(slot))).toEqual([true, false, true, true, false])
    await retriever.settled()
    expect([0, 1, 2, 3, 4].map((slot) => retriever.index?.has(slot))).toEqual([true, true, true, true, false])
  })

  it('is not searched while it knows fewer than half of the tools', async () => {
    const { retriever } = rig()
    retriever.sync(tools('a'))
    await retriever.settled()
    retriever.sync(tools('a', 'b', 'c'))
    expect(retriever.status.state).toBe('loading')
    await retriever.settled()
    expect(retriever.status.state).toBe('ready')
  })

  it('embeds two thousand tools in batches of 128 with similar lengths', async () => {
    const one = rig()
    one.retriever.sync(Array.from({ length: 2_000 }, (_, slot) => tool(slot, 'a'.repeat((slot * 7) % 2_000))))
    await one.retriever.settled()
    expect(one.source.calls.map(({ texts }) => texts.length)).toEqual([...Array(15).fill(128), 80])
    expect(one.source.calls[0]?.texts.at(-1)).toHaveLength(127)
    expect(one.retriever.status.indexed).toBe(2_000)
  })

  it('reports the loading progress', async () => {
    const progress: unknown[] = []
    const retriever = createSemanticRetriever({
      source: fakeSource(),
      queryTimeoutMs: 300,
      log: silentLog,
      onProgress: (one) => progress.push(one),
    })
    retriever.sync(tools('a'))
    await retriever.settled()
    await retriever.close()
    expect(progress).toEqual([{ file: 'model.onnx', loaded: 1, total: 2 }])
  })
})

describe('stored vectors', () => {
  it('are not computed again after a restart', async () => {
    const store = memoryStore()
    const before = rig({ store })
    before.retriever.sync(tools('a', 'b'))
    await before.retriever.settled()
    const after = rig({ store })
    after.retriever.sync([tool(7, 'b'), tool(3, 'c')])
    await after.retriever.settled()
    expect(embedded(after)).toEqual(['c'])
    const query = (await after.retriever.embedQuery('b'))!
    expect(after.retriever.index?.cosines([7], query)).toEqual(before.retriever.index?.cosines([1], query))
  })

  it('belong to one model', async () => {
    const store = memoryStore()
    const before = rig({ store })
    before.retriever.sync(tools('a'))
    await before.retriever.settled()
    const after = rig({ store })
    after.source.id = 'fake-2'
    after.retriever.sync(tools('a'))
    await after.retriever.settled()
    expect(embedded(after)).toEqual(['a'])
    expect([...store.files.keys()].sort()).toEqual([vectorCacheName('fake-1'), vectorCacheName('fake-2')].sort())
  })

  it('survive an interrupted run', async () => {
    const store = memoryStore()
    const before = rig({ store })
    before.source.answer = async (texts) => {
      if (before.source.calls.length > 1) throw new Error('out of credit')
      return texts.map((text) => vectorOf(text, 8))
    }
    const many = Array.from({ length: 200 }, (_, slot) => tool(slot, 'b'.repeat(slot + 1)))
    before.retriever.sync(many)
    await before.retriever.settled()
    expect(before.retriever.status).toMatchObject({ state: 'unavailable', reason: 'out of credit' })
    const after = rig({ store })
    after.retriever.sync(many)
    await after.retriever.settled()
    expect(embedded(after)).toHaveLength(72)
  })

  it('are computed again if the file is damaged, foreign or unreadable', async () => {
    for (const bytes of [Uint8Array.of(1, 2, 3), openVectorCache(9, undefined).pack(new Set())]) {
      const one = rig({ store: { load: async () => bytes, save: async () => undefined } })
      one.retriever.sync(tools('a'))
      await one.retriever.settled()
      expect(one.retriever.status.state).toBe('ready')
    }
    const broken = rig({
      store: {
        load: () => Promise.reject(new Error('disk')),
        save: () => Promise.reject(new Error('disk')),
      },
    })
    broken.retriever.sync(tools('a'))
    await broken.retriever.settled()
    expect(broken.retriever.status.state).toBe('ready')
  })

  it('are dropped when old and numerous, never while in use', () => {
    const kept = openVectorCache(2, undefined)
    const hashes = Array.from({ length: 3_000 }, (_, index) => index.toString(16).padStart(32, '0'))
    for (const hash of hashes) kept.add(hash, Float32Array.of(0.6, -0.8))
    const again = openVectorCache(2, kept.pack(new Set(hashes.slice(0, 10))))
    expect(hashes.filter((hash) => again.has(hash))).toEqual([...hashes.slice(0, 10), ...hashes.slice(-1_000)])
    expect([...again.get(hashes[0]!)!].map((value) => Math.round(value * 100))).toEqual([60, -80])
  })
})

describe('a failing model', () => {
  it('leaves search without it, is reported once, and retried', async () => {
    const { retriever, source, clock, lines, states } = rig()
    source.failLoad = new Error('no route to hub')
    retriever.sync(tools('a'))
    await retriever.settled()
    expect(retriever.status).toMatchObject({ state: 'unavailable', reason: 'no route to hub' })
    expect(await retriever.embedQuery('a')).toBeUndefined()
    clock.pass(30_000)
    await retriever.settled()
    source.failLoad = undefined
    clock.pass(30_000)
    expect(source.loads).toBe(2)
    clock.pass(30_000)
    await retriever.settled()
    expect(retriever.status.state).toBe('ready')
    expect(states.map(({ state }) => state)).toEqual(['unavailable', 'ready'])
    expect(lines.filter(({ level }) => level !== 'info')).toEqual([
      {
        level: 'warn',
        message: 'the search model is unavailable; search continues without it',
        fields: { embedder: 'openai:fake', reason: 'no route to hub' },
      },
    ])
  })

  it('is not retried if only the operator can fix it', async () => {
    const { retriever, source, clock } = rig()
    source.failLoad = new PegboardError('E_CONFIG_INVALID', 'The package is not installed', { hint: 'Install it.' })
    retriever.sync(tools('a'))
    await retriever.settled()
    retriever.sync(tools('b'))
    await retriever.settled()
    expect(retriever.status.reason).toBe('The package is not installed. Install it.')
    expect([source.loads, clock.waiting]).toEqual([1, 0])
  })

  it.each([
    ['too few vectors', async () => [], /0 vectors for 2 texts/],
    ['384 numbers for 8', async () => [new Float32Array(384), new Float32Array(384)], /384 numbers instead of 8/],
    ['no numbers', async () => [new Float32Array(8), new Float32Array(8).fill(Number.NaN)], /not finite/],
  ])('with %s never makes a partial index', async (_what, answer, reason) => {
    const { retriever, source } = rig()
    source.answer = answer
    retriever.sync(tools('a', 'b'))
    await retriever.settled()
    expect(retriever.index).toBeUndefined()
    expect(retriever.status).toMatchObject({ state: 'unavailable', reason: expect.stringMatching(reason), indexed: 0 })
    expect(source.closes).toBe(1)
  })

  it('while tools change removes the old vectors from search', async () => {
    const { retriever, source } = rig()
    retriever.sync(tools('a', 'b', 'c'))
    await retriever.settled()
    source.answer = () => Promise.reject(new Error('gone'))
    retriever.sync(tools('a', 'b', 'c', 'd'))
    await retriever.settled()
    expect(retriever.index).toBeUndefined()
    expect(retriever.status).toMatchObject({ state: 'unavailable', documents: 4 })
  })

  it('keeps vectors of 384 numbers to 384', async () => {
    const { retriever } = rig({ source: fakeSource(384) })
    retriever.sync(tools('a'))
    await retriever.settled()
    expect(retriever.index?.dims).toBe(384)
    expect(await retriever.embedQuery('a')).toHaveLength(384)
  })

  it('with too many numbers per vector tells the operator what to set', async () => {
    const { retriever } = rig({ source: fakeSource(100_000) })
    retriever.sync(tools('a'))
    await retriever.settled()
    expect(retriever.status.reason).toMatch(/100000 dimensions cannot be searched\. .*search\.embedderOptions\.dims\.$/)
  })
})

describe('a query', () => {
  const ready = async (): Promise<Rig> => {
    const one = rig()
    one.retriever.sync(tools('a', 'b'))
    await one.retriever.settled()
    return one
  }
  const never = () => new Promise<Float32Array[]>(() => undefined)

  it('is embedded once, however often it is asked, ignoring spaces', async () => {
    const { retriever, source } = await ready()
    const [first, second] = await Promise.all([retriever.embedQuery('a b'), retriever.embedQuery(' a b ')])
    expect(await retriever.embedQuery('a b')).toEqual(first)
    expect(second).toEqual(first)
    expect([...first!].map((value) => Number((value * value).toFixed(3)))).toEqual([0.5, 0.5, 0, 0, 0, 0, 0, 0])
    expect(source.calls.filter(({ kind }) => kind === 'query')).toHaveLength(1)
  })

  it('without content is not embedded, and a long one is cut', async () => {
    const { retriever, source } = await ready()
    expect(await retriever.embedQuery('  ')).toBeUndefined()
    await retriever.embedQuery('a'.repeat(1_000_000))
    expect(source.calls.filter(({ kind }) => kind === 'query').map(({ texts }) => texts[0]?.length)).toEqual([2_048])
  })

  it('that misses the deadline is answered without, and ready the next time', async () => {
    const { retriever, source, clock } = await ready()
    let answer: ((vectors: Float32Array[]) => void) | undefined
    source.answer = () =>
      new Promise((resolve) => {
        answer = resolve
      })
    const first = retriever.embedQuery('a')
    clock.pass(300)
    expect(await first).toBeUndefined()
    expect(retriever.status.state).toBe('ready')
    answer?.([vectorOf('a', 8)])
    await new Promise((resolve) => setImmediate(resolve))
    expect(await retriever.embedQuery('a')).toHaveLength(8)
  })

  it('that is late three times in a row pauses the model', async () => {
    const { retriever, source, clock, lines } = await ready()
    source.answer = never
    for (const text of ['a', 'b', 'c']) {
      const late = retriever.embedQuery(text)
      clock.pass(300)
      expect(await late).toBeUndefined()
    }
    expect(retriever.status.reason).toBe(
      'vectors of queries take longer than search.embedderOptions.queryTimeoutMs, 300 ms',
    )
    expect(source.closes).toBe(1)
    source.answer = undefined
    clock.pass(30_000)
    await retriever.settled()
    expect(await retriever.embedQuery('d')).toHaveLength(8)
    expect(embedded({ source } as Rig)).toEqual(['a', 'b'])
    expect(lines.filter(({ level }) => level === 'warn')).toHaveLength(1)
  })

  it('that fails is answered without', async () => {
    const { retriever, source } = await ready()
    source.answer = () => Promise.reject(new Error('busy'))
    expect(await retriever.embedQuery('a')).toBeUndefined()
    source.answer = undefined
    expect(await retriever.embedQuery('a')).toHaveLength(8)
  })

  it('does not queue behind a hanging model', async () => {
    const { retriever, source, clock } = await ready()
    source.answer = never
    const asked = Array.from({ length: 50 }, (_, index) => retriever.embedQuery(`query ${index}`))
    expect(source.calls.filter(({ kind }) => kind === 'query')).toHaveLength(8)
    clock.pass(300)
    expect(await Promise.all(asked)).toEqual(Array(50).fill(undefined))
  })
})

describe('a closed retriever', () => {
  it('releases the model, waits for nothing and answers nothing', async () => {
    const { retriever, source, clock } = rig()
    retriever.sync(tools('a'))
    await retriever.settled()
    await retriever.close()
    retriever.sync(tools('a', 'b'))
    await retriever.settled()
    expect(source.closes).toBe(1)
    expect(clock.waiting).toBe(0)
    expect(retriever.index).toBeUndefined()
    expect(await retriever.embedQuery('a')).toBeUndefined()
  })

  it('that was still loading closes the model too', async () => {
    const { retriever, source } = rig()
    retriever.sync(tools('a'))
    await retriever.close()
    expect(source.closes).toBe(source.loads)
    expect(retriever.index).toBeUndefined()
  })
})
