import { describe, expect, it, vi } from 'vitest'
import { createLog } from '../../src/core/log.ts'
import type { SearchSource } from '../../src/search/search-document.ts'
import type { SemanticDocument, SemanticRetriever } from '../../src/search/semantic-retriever.ts'
import {
  type BytesStore,
  createToolSearch,
  type ToolQueryOptions,
  type ToolSearch,
  type ToolSearchOptions,
} from '../../src/search/tool-search.ts'
import { createVectorIndex } from '../../src/search/vector-index.ts'
import { CATALOGUE, toolOf } from './fixture.ts'
import { tableByHand } from './table-fixture.ts'

interface Entry {
  readonly level: string
  readonly message: string
  readonly reason?: string
  readonly tools?: number
  readonly indexed?: number
  readonly removed?: number
  readonly embedded?: number
}

/** A search and its log. */
function searchOf(sources: readonly SearchSource[] = CATALOGUE, options: ToolSearchOptions = {}) {
  const entries: Entry[] = []
  const log = createLog((line) => entries.push(JSON.parse(line)), 'debug')
  const search = createToolSearch({ log, table: () => tableByHand(), ...options })
  if (sources.length > 0) search.sync(sources, 1)
  return { search, warnings: () => entries.filter(({ level }) => level === 'warn'), work: () => entries.filter(isWork) }
}

const isWork = ({ indexed }: Entry): boolean => indexed !== undefined

async function warmOf(...args: Parameters<typeof searchOf>) {
  const made = searchOf(...args)
  await made.search.warm()
  return made
}

const hitsOf = async (search: ToolSearch, query: string, more: Partial<ToolQueryOptions> = {}) =>
  (await search.query(query, { limit: 5, visible: () => true, ...more })).hits
const idsOf = async (search: ToolSearch, query: string, more: Partial<ToolQueryOptions> = {}) =>
  (await hitsOf(search, query, more)).map(({ id }) => id)

/** A store in memory. */
function memoryStore(): BytesStore & { readonly kept: Map<string, Uint8Array> } {
  const kept = new Map<string, Uint8Array>()
  return { kept, get: (name) => kept.get(name), set: (name, bytes) => void kept.set(name, bytes.slice()) }
}

/** Enough tools for the index to be stored. */
const many = (count = 300): SearchSource[] => [
  ...CATALOGUE,
  ...Array.from({ length: count }, (_, n) => toolOf(`bulk.tool${n}`, `Bulk tool number ${n}, for zebra${n % 7}.`)),
]

describe('keywords and meaning', () => {
  it('finds a tool that shares no word with the query', async () => {
    const { search } = await warmOf()
    const found = await search.query('keepsake', { limit: 2, visible: () => true })
    expect(found.ranking).toBe('hybrid')
    expect(found.hits.map(({ id }) => id).sort()).toEqual(['memory.recall', 'memory.remember'])
    expect(await idsOf(search, 'keepsake', { ranker: 'lexical' })).toEqual([])
  })

  it('can use one retriever only', async () => {
    const { search } = await warmOf()
    const asked = (ranker: 'lexical' | 'vector' | 'hybrid') => hitsOf(search, 'shred paper', { ranker, explain: true })
    expect(await asked('lexical')).toEqual([])
    expect((await asked('vector'))[0]).toMatchObject({ id: 'filesystem.rm', why: { lexical: 0, covered: 0 } })
    expect((await asked('hybrid'))[0]?.id).toBe('filesystem.rm')
    expect((await search.query('read', { limit: 1, visible: () => true, ranker: 'lexical' })).ranking).toBe('keyword')
  })

  it('reports the matched words, and on request the features of every retriever', async () => {
    const { search } = await warmOf()
    const [plain] = await hitsOf(search, 'lire un fichier')
    expect(plain).toMatchObject({ id: 'filesystem.read', matched: ['lire', 'fichier'] })
    expect(plain).not.toHaveProperty('why')
    const [hit] = await hitsOf(search, 'read a file', {
      explain: true,
      usage: (id) => (id === 'filesystem.read' ? 3 : 0),
    })
    expect(hit?.why).toMatchObject({ lexicalShare: 1, exactName: false, calls: 3 })
    expect(hit?.why?.cosine).toBeGreaterThan(0.9)
    expect(hit?.why?.covered).toBeCloseTo(1, 2)
    expect(hit?.why).not.toHaveProperty('external')
  })

  it('ranks a named tool first, whatever the other retrievers say', async () => {
    const { search } = await warmOf()
    expect((await hitsOf(search, 'memory.recall remember store fact weather'))[0]).toMatchObject({
      id: 'memory.recall',
      score: 1,
    })
  })

  it('never gives a hit a higher score than a better one', async () => {
    const { search } = await warmOf()
    const scores = (await hitsOf(search, 'remember the content of a document', { limit: 20 })).map(({ score }) => score)
    expect(scores.length).toBeGreaterThan(3)
    expect(scores).toEqual([...scores].sort((a, b) => b - a))
  })

  it('uses keywords only without a model, and reports once if it cannot be opened', async () => {
    const without = createToolSearch()
    without.sync(CATALOGUE, 1)
    expect((await without.query('read a file', { limit: 1, visible: () => true })).ranking).toBe('keyword')
    expect(without.status).toEqual({ ranking: 'keyword', embedded: 'none' })
    const { search, warnings } = await warmOf(CATALOGUE, {
      table: () => {
        throw new Error('no such file')
      },
    })
    expect(await idsOf(search, 'read a file')).toContain('filesystem.read')
    expect(await idsOf(search, 'keepsake')).toEqual([])
    expect(search.status).toEqual({ ranking: 'keyword', embedded: 'unavailable' })
    expect(warnings()).toMatchObject([{ reason: 'no such file' }])
  })
})

describe('unlikely tools', () => {
  const least = { table: () => tableByHand({ least: 0.5 }) }

  it('are returned as the nearest ones', async () => {
    const { search } = await warmOf(CATALOGUE, least)
    const { hits, unanswered } = await search.query('number of earlier headers', { limit: 4, visible: () => true })
    expect(hits.length).toBeGreaterThan(0)
    expect(unanswered).toEqual(['number of earlier headers'])
  })

  it('have a relevance below the threshold, however far the first is ahead of the others', async () => {
    const answerOf = async (least: number) => {
      const { search } = await warmOf(CATALOGUE, { table: () => tableByHand({ least, margin: 3 }) })
      const { hits, unanswered } = await search.query('umbrella', { limit: 4, visible: () => true })
      return { score: hits[0]?.score, unanswered }
    }
    expect(await answerOf(0)).toEqual({ score: expect.closeTo(0.99, 2), unanswered: undefined })
    expect(await answerOf(0.8)).toEqual({ score: expect.closeTo(0.73, 2), unanswered: ['umbrella'] })
  })

  it('are reported for each of several queries', async () => {
    const { search } = await warmOf(CATALOGUE, least)
    const { hits, unanswered } = await search.query('read a file\nxyzzy plugh', { limit: 4, visible: () => true })
    expect(hits[0]?.id).toBe('filesystem.read')
    expect(unanswered).toEqual(['xyzzy plugh'])
  })
})

describe('several queries, one per line', () => {
  it('get up to three tools each, labelled, the best of each first', async () => {
    const { search } = await warmOf()
    const query = 'weather forecast\n\nread a file\r\nsend a telegram message\n'
    const { hits } = await search.query(query, { limit: 5, visible: () => true })
    expect(hits.slice(0, 3).map(({ id, query: of }) => [id, of])).toEqual([
      ['weather.forecast', 0],
      ['filesystem.read', 1],
      ['telegram.send', 2],
    ])
    for (const of of [0, 1, 2]) expect(hits.filter(({ query: one }) => one === of).length).toBeLessThanOrEqual(3)
  })

  it('are each answered, whatever the limit', async () => {
    const { search } = await warmOf()
    const found = await idsOf(search, 'weather forecast\nread a file\nsend a telegram message', { limit: 1 })
    expect(found).toEqual(['weather.forecast', 'filesystem.read', 'telegram.send'])
    expect(await idsOf(search, 'read a file\n\n read a file', { limit: 1 })).toEqual(['filesystem.read'])
  })

  it('return a tool once, and are limited to eight', async () => {
    const { search } = await warmOf()
    const same = await idsOf(search, 'weather forecast\nforecast for a city', { limit: 5 })
    expect(new Set(same).size).toBe(same.length)
    const lines = [
      ...Array.from({ length: 8 }, () => 'weather').map((word, n) => word + ' '.repeat(n) + n),
      'read a file',
    ]
    expect(await idsOf(search, lines.join('\n'), { limit: 20 })).not.toContain('http.download')
  })
})

describe('visible tools', () => {
  it('are all that is returned, in every retriever', async () => {
    const { search } = await warmOf()
    const visible = (id: string): boolean => !id.startsWith('memory.') && !id.startsWith('filesystem.')
    for (const ranker of ['hybrid', 'lexical', 'vector'] as const)
      for (const query of ['remember', 'memory.remember', 'read a file', 'filesystem.read\nstore a fact', ''])
        for (const id of await idsOf(search, query, { ranker, visible, limit: 20 }))
          expect(visible(id), `${ranker} ${query} ${id}`).toBe(true)
  })

  it('get the same scores as without the hidden tools', async () => {
    const secrets = Array.from({ length: 40 }, (_, n) =>
      toolOf(`secret.keepsake${n}`, 'Reads the file of the weather.', { aliases: ['remember weather'] }),
    )
    const [without, both] = [await warmOf(), await warmOf([...CATALOGUE, ...secrets])]
    const visible = (id: string): boolean => !id.startsWith('secret.')
    const hidden = () => secrets.map(({ id }) => id)
    for (const query of [
      'remember',
      'read a file',
      'keepsake',
      'weather of tomorrow',
      'secret keepsakes',
      'memory fact',
    ])
      expect(await both.search.query(query, { limit: 20, visible, hidden, explain: true }), query).toEqual(
        await without.search.query(query, { limit: 20, visible, explain: true }),
      )
  })

  it('differ for two callers of one index', async () => {
    const { search } = await warmOf()
    const of = (module: string) => idsOf(search, 'store facts', { visible: (id) => id.startsWith(module) })
    expect((await of('memory.')).sort()).toEqual(['memory.recall', 'memory.remember'])
    for (const id of await of('database.')) expect(id).toMatch(/^database\./)
  })
})

describe('following the catalog', () => {
  it('indexes on the first query, then only changes', async () => {
    const { search, work } = searchOf([toolOf('a.one', 'Paint a fence.'), toolOf('a.two', 'Paint a wall.')])
    expect(work()).toEqual([])
    expect(await idsOf(search, 'paint')).toHaveLength(2)
    search.sync([toolOf('a.one', 'Paint a fence.'), toolOf('a.three', 'Paint a door.')], 2)
    await search.warm()
    expect((await idsOf(search, 'paint')).sort()).toEqual(['a.one', 'a.three'])
    search.sync([toolOf('a.one', 'Mow the lawn.'), toolOf('a.three', 'Paint a door.')], 3)
    await search.warm()
    expect(await idsOf(search, 'paint')).toEqual(['a.three'])
    expect(work()).toMatchObject([
      { tools: 2, indexed: 2, removed: 0, embedded: 2 },
      { tools: 2, indexed: 1, removed: 1, embedded: 1 },
      { tools: 2, indexed: 1, removed: 0, embedded: 1 },
    ])
  })

  it('does not read a source that is the same object', async () => {
    let reads = 0
    const source: SearchSource = {
      ...toolOf('a.one', 'Paint a fence.'),
      get inputJson() {
        reads++
        return {}
      },
    }
    const { search } = await warmOf([source])
    search.sync([source, toolOf('a.two', 'Paint a wall.')], 2)
    await search.warm()
    expect(reads).toBe(1)
  })

  it('ignores a known version, and knows nothing before the first', async () => {
    const { search } = await warmOf()
    search.sync([], 1)
    expect(await idsOf(search, 'weather', { limit: 1 })).toEqual(['weather.forecast'])
    expect(await createToolSearch().query('read', { limit: 5, visible: () => true })).toEqual({
      hits: [],
      ranking: 'keyword',
      unanswered: ['read'],
    })
  })

  it('answers during an update from the previous state, never with a removed tool', async () => {
    const { search } = await warmOf(many())
    const next = [...many(3_000).filter(({ id }) => id !== 'weather.forecast'), toolOf('zoo.feed', 'Feed the walrus.')]
    search.sync(next, 2)
    const gone = (id: string): boolean => id !== 'weather.forecast'
    expect(await idsOf(search, 'weather forecast', { visible: gone })).not.toContain('weather.forecast')
    expect(await idsOf(search, 'read a file')).toContain('filesystem.read')
    // The query itself continues the indexing.
    await vi.waitFor(async () => expect(await idsOf(search, 'walrus')).toEqual(['zoo.feed']), { timeout: 10_000 })
  })

  it('abandons an update that a newer catalog makes useless', async () => {
    const { search, work } = searchOf(many(2_000))
    await hitsOf(search, 'weather')
    search.sync(CATALOGUE, 2)
    await search.warm()
    expect(await idsOf(search, 'bulk zebra3')).toEqual([])
    expect(work().at(-1)).toMatchObject({ tools: CATALOGUE.length })
  })

  it('searches a tool with an unreadable definition by its other parts', async () => {
    const broken: SearchSource = {
      ...toolOf('zoo.feed', 'Feed the walrus.'),
      get inputJson(): Record<string, unknown> {
        throw new SyntaxError('half a definition')
      },
    }
    const { search, warnings } = await warmOf([broken, toolOf('a.one', 'Paint a fence.')])
    expect(await idsOf(search, 'walrus')).toEqual(['zoo.feed'])
    expect(warnings()).toMatchObject([{ reason: 'half a definition' }])
  })
})

describe('a saved index', () => {
  /** A later start with the same store. */
  const restart = async (store: BytesStore, options: ToolSearchOptions = {}) => {
    const made = await warmOf(many(), { store, ...options })
    return { ...made, done: made.work()[0] }
  }

  it('avoids indexing after a restart, and answers the same', async () => {
    const store = memoryStore()
    const { search } = await warmOf(many(), { store })
    const before = await hitsOf(search, 'shred paper', { explain: true })
    const again = await restart(store)
    expect(again.done).toMatchObject({ tools: CATALOGUE.length + 300, indexed: 0, removed: 0, embedded: 0 })
    expect(await hitsOf(again.search, 'shred paper', { explain: true })).toEqual(before)
    expect(again.warnings()).toEqual([])
  })

  it('answers before the catalog is read, with the visible tools', async () => {
    const store = memoryStore()
    await warmOf(many(), { store })
    const { search } = searchOf(many(5_000), { store })
    expect(await idsOf(search, 'keepsake', { visible: (id) => id !== 'memory.recall' })).toEqual(['memory.remember'])
  })

  it('is updated with later changes', async () => {
    const store = memoryStore()
    await warmOf(many(), { store })
    const changed = [...many().filter(({ id }) => id !== 'weather.forecast'), toolOf('zoo.feed', 'Feed the walrus.')]
    const { search, work } = await warmOf(changed, { store })
    expect(work()).toMatchObject([{ indexed: 1, removed: 1, embedded: 1 }])
    expect(await idsOf(search, 'weather')).not.toContain('weather.forecast')
  })

  it('is rebuilt with a warning if it is damaged', async () => {
    for (const damage of [
      (bytes: Uint8Array) => bytes.subarray(0, bytes.length >> 1),
      (bytes: Uint8Array) => bytes.map((byte, at) => (at === bytes.length >> 1 ? byte ^ 1 : byte)),
      () => new Uint8Array(3),
      () => new TextEncoder().encode('{"not": "ours"}'),
    ]) {
      const store = memoryStore()
      await warmOf(many(), { store })
      for (const [name, bytes] of store.kept) store.kept.set(name, damage(bytes))
      const { done, search, warnings } = await restart(store)
      expect(warnings()).toHaveLength(1)
      expect(done).toMatchObject({ indexed: CATALOGUE.length + 300 })
      expect(await idsOf(search, 'read a file')).toContain('filesystem.read')
      expect((await restart(store)).done).toMatchObject({ indexed: 0 })
    }
  })

  it('is rebuilt silently for another model, or none', async () => {
    const store = memoryStore()
    await warmOf(many(), { store })
    const other = await restart(store, { table: () => tableByHand({ id: 'retrained' }) })
    expect(other.done).toMatchObject({ indexed: CATALOGUE.length + 300, embedded: CATALOGUE.length + 300 })
    const none = createToolSearch({ store })
    none.sync(many(), 1)
    await none.warm()
    expect((await none.query('read a file', { limit: 1, visible: () => true })).ranking).toBe('keyword')
    expect(other.warnings()).toEqual([])
  })

  it("is read from any position of the store's bytes", async () => {
    const store = memoryStore()
    await warmOf(many(), { store })
    for (const [name, bytes] of store.kept) {
      const shifted = Buffer.alloc(bytes.length + 1)
      shifted.set(bytes, 1)
      store.kept.set(name, shifted.subarray(1))
    }
    expect((await restart({ ...store, set: () => undefined })).done).toMatchObject({ indexed: 0 })
  })

  it('is not written for a few tools', async () => {
    const store = memoryStore()
    await warmOf(CATALOGUE, { store })
    expect(store.kept.size).toBe(0)
  })

  it('is written at the end, not after every change', async () => {
    const store = memoryStore()
    const { search } = await warmOf(many(), { store })
    const first = [...store.kept.values()][0]
    search.sync(many(301), 2)
    await search.warm()
    expect([...store.kept.values()][0]).toBe(first)
    await search.close()
    expect((await warmOf(many(301), { store })).work()).toMatchObject([{ indexed: 0 }])
  })
})

describe('a long prompt', () => {
  it('is answered with the best tool of each clause that is likely right, then with those of the whole', async () => {
    const { search } = await warmOf(CATALOGUE, { table: () => undefined })
    const prompt =
      'Remind me to buy milk. Create a calendar event with attendees, then list issues in a GitHub repository.'
    const ids = await idsOf(search, prompt, { limit: 4 })
    expect(ids.slice(0, 2).sort()).toEqual(['mcp_calendar.create_event', 'mcp_github.list_issues'])
    const scores = (await hitsOf(search, prompt, { limit: 4 })).map(({ score }) => score)
    expect(scores).toEqual([...scores].sort((a, b) => b - a))
    expect(new Set(ids).size).toBe(ids.length)
  })

  it('names one tool exactly: that tool is first', async () => {
    const { search } = await warmOf()
    expect((await idsOf(search, 'Use filesystem.grep here. Then send a message to Telegram.'))[0]).toBe(
      'filesystem.grep',
    )
  })
})

describe('usage', () => {
  const near = [toolOf('a.first', 'Paint a fence red.'), toolOf('a.second', 'Paint a fence blue.')]
  for (const fusion of ['learned', 'rrf', 'source'] as const)
    it(`decides near ties only (${fusion})`, async () => {
      const { search } = await warmOf(near, { fusion })
      const used = (id: string): number => (id === 'a.second' ? 4 : 0)
      expect(await idsOf(search, 'paint a fence')).toEqual(['a.first', 'a.second'])
      expect(await idsOf(search, 'paint a fence', { usage: used })).toEqual(['a.second', 'a.first'])
    })

  it('never lifts a tool over a better match, or over a named one', async () => {
    const { search } = await warmOf()
    const usage = (id: string): number => (id === 'filesystem.read' ? 0 : 1_000_000)
    expect((await hitsOf(search, 'lire un fichier', { usage }))[0]?.id).toBe('filesystem.read')
    expect((await hitsOf(search, 'filesystem.read', { usage }))[0]).toMatchObject({ id: 'filesystem.read', score: 1 })
  })
})

describe('other fusion methods', () => {
  // Each tool has one or two axes: cosines are 1, √½ and 0.
  const meanings = [['paint', 'colour'], ['fence'], ['walrus']]
  const tools = [
    toolOf('a.one', '', { title: 'colour' }),
    toolOf('a.both', '', { title: 'colour walrus' }),
    toolOf('a.word', '', { title: 'other', tags: ['paint'] }),
  ]
  const table = () => tableByHand({ meanings })

  it('adds ten times the cosine and two to three for words, and drops results under five', async () => {
    const { search } = await warmOf(tools, { table, fusion: 'source' })
    const hits = await hitsOf(search, 'paint', { explain: true })
    expect(hits.map(({ id }) => id)).toEqual(['a.one', 'a.both'])
    expect(hits[0]?.why?.cosine).toBeCloseTo(1, 2)
    expect(hits[1]?.why?.cosine).toBeCloseTo(Math.SQRT1_2, 2)
  })

  it('uses ranks, and ignores retrievers that do not rank a tool', async () => {
    const { search } = await warmOf(tools, { table, fusion: 'rrf' })
    expect((await idsOf(search, 'paint'))[0]).toBe('a.word')
  })
})

describe('another model beside the embedded one', () => {
  /** Knows only that "lorry" means http.get. */
  function fakeRetriever(state: 'loading' | 'ready' | 'unavailable' = 'ready') {
    const index = createVectorIndex(16)
    const asked: string[] = []
    let closed = false
    const axis = (n: number) => new Float32Array(16).map((_, at) => (at === n ? 1 : 0))
    const retriever: SemanticRetriever = {
      status: { state, embedder: 'fake', documents: 0, indexed: 0 },
      index: state === 'ready' ? index : undefined,
      fusion: undefined,
      sync(documents: readonly SemanticDocument[]) {
        for (const { slot, id } of documents) index.set(slot, axis(id === 'http.get' ? 0 : 1))
      },
      settled: async () => undefined,
      embedQuery: async (query) => {
        asked.push(query)
        return query === 'fail' ? undefined : axis(0)
      },
      close: async () => {
        closed = true
      },
    }
    return { retriever, asked, closed: () => closed }
  }

  it('is used while ready, explains itself, and is closed with the search', async () => {
    const { retriever, asked, closed } = fakeRetriever()
    const { search } = await warmOf(CATALOGUE, { semantic: retriever })
    const { hits, ranking } = await search.query('lorry', { limit: 3, visible: () => true, explain: true })
    expect(ranking).toBe('semantic')
    expect(hits[0]).toMatchObject({ id: 'http.get', why: { external: expect.closeTo(1, 2) } })
    expect((await search.query('fail read a file', { limit: 1, visible: () => true })).hits).toHaveLength(1)
    expect((await search.query('fail', { limit: 1, visible: () => true })).ranking).toBe('hybrid')
    await search.query('lorry', { limit: 1, visible: () => true, ranker: 'lexical' })
    expect(asked).toEqual(['lorry', 'fail read a file', 'fail'])
    await search.close()
    expect(closed()).toBe(true)
  })

  it('never returns a hidden tool', async () => {
    const { search } = await warmOf(CATALOGUE, { semantic: fakeRetriever().retriever })
    expect(await idsOf(search, 'lorry', { visible: (id) => id !== 'http.get', limit: 20 })).not.toContain('http.get')
  })

  it('is ignored while not ready', async () => {
    for (const state of ['loading', 'unavailable'] as const) {
      const { retriever, asked } = fakeRetriever(state)
      const { search } = await warmOf(CATALOGUE, { semantic: retriever })
      expect((await search.query('keepsake', { limit: 1, visible: () => true })).ranking).toBe('hybrid')
      expect(asked).toEqual([])
    }
  })

  it('gets long misspelled words corrected if it has learned weights, but short and joined words as they are', async () => {
    const { retriever, asked } = fakeRetriever()
    const { search } = await warmOf(CATALOGUE, { semantic: { ...retriever, fusion: tableByHand().settings.fusion } })
    for (const query of ['directroy tree', 'remembr this', 'readcontent'])
      await search.query(query, { limit: 1, visible: () => true })
    expect(asked).toEqual(['directory tree', 'remembr this', 'readcontent'])
  })

  it('works without an embedded model', async () => {
    const search = createToolSearch({ semantic: fakeRetriever().retriever })
    search.sync(CATALOGUE, 1)
    await search.warm()
    expect((await idsOf(search, 'lorry'))[0]).toBe('http.get')
  })
})

describe('bad input', () => {
  it.each([
    ['nothing', ''],
    ['white space', ' \t\n\r\n '],
    ['control characters', '\u0000\u0007\u001b[31m\u202e'],
    ['a pattern', '(a+)+$'],
    ['half a character', '\ud800 \udfff'],
    ['lines of nothing', '\n'.repeat(100_000)],
  ])('%s is answered with nothing', async (_what, query) => {
    const { search } = await warmOf(CATALOGUE, { table: () => tableByHand({ least: 0.5 }) })
    expect(await hitsOf(search, query)).toEqual([])
  })

  it('a megabyte is answered like its beginning, on one line or many', async () => {
    const { search } = await warmOf()
    for (const filler of ['x', 'x ', 'x\n', 'ж', '漢字'])
      expect(await idsOf(search, `weather forecast ${filler.repeat(1024 * 1024)}`)).toContain('weather.forecast')
  })

  it('ten thousand equal tools are searched normally', async () => {
    const same = Array.from({ length: 10_000 }, (_, n) => toolOf(`same.t${n}`, 'Paint a fence.', { title: 'Paint' }))
    const { search } = await warmOf([...same, toolOf('zoo.feed', 'Feed the walrus.')])
    const visible = (id: string): boolean => id !== 'same.t0'
    const found = await idsOf(search, 'paint a fence', { visible })
    expect(found).toEqual(['same.t1', 'same.t2', 'same.t3', 'same.t4', 'same.t5'])
    expect(await idsOf(search, 'walrus')).toEqual(['zoo.feed'])
  })

  it('a limit of zero returns nothing', async () => {
    const { search } = await warmOf()
    expect(await hitsOf(search, 'read a file', { limit: 0 })).toEqual([])
  })
})
