import { describe, expect, it } from 'vitest'
import {
  distractorsFor,
  evaluate,
  fnv1a,
  macroAverage,
  ndcgAt,
  quantile,
  recallAt,
  reciprocalRank,
} from '../../src/search/evaluate.ts'

describe('metrics', () => {
  const relevant = new Set(['a', 'b', 'c'])

  it('recall counts hits in the first k over all relevant', () => {
    expect(recallAt(['x', 'a', 'b', 'c'], relevant, 1)).toBe(0)
    expect(recallAt(['x', 'a', 'b', 'c'], relevant, 3)).toBeCloseTo(2 / 3)
    expect(recallAt(['x', 'a', 'b', 'c'], relevant, 10)).toBe(1)
  })

  it('nDCG discounts by rank and is 1 for a perfect order', () => {
    expect(ndcgAt(['a', 'b', 'c', 'x'], relevant, 10)).toBe(1)
    expect(ndcgAt(['x', 'a'], new Set(['a']), 10)).toBeCloseTo(1 / Math.log2(3))
    expect(ndcgAt(['a', 'x'], new Set(['a', 'b']), 10)).toBeCloseTo(1 / (1 + 1 / Math.log2(3)))
    expect(ndcgAt(['x'], relevant, 10)).toBe(0)
  })

  it('reciprocal rank uses the first relevant tool', () => {
    expect(reciprocalRank(['x', 'y', 'b', 'a'], relevant)).toBeCloseTo(1 / 3)
    expect(reciprocalRank(['x'], relevant)).toBe(0)
  })

  it('quantiles are values that occurred', () => {
    expect(quantile([5, 1, 3, 2, 4], 0.5)).toBe(3)
    expect(quantile([5, 1, 3, 2, 4], 0.95)).toBe(5)
    expect(quantile([], 0.5)).toBe(0)
  })
})

describe('evaluate', () => {
  const tools = [
    { id: 's::a', server: 's', name: 'a' },
    { id: 's::b', server: 's', name: 'b', description: 'B.', serverDescription: 'S.', inputSchema: { type: 'object' } },
  ]
  const queries = [
    { id: '1', query: 'wants a', relevant: ['s::a'], lang: 'en' },
    { id: '2', query: 'wants b', relevant: ['s::b'], lang: 'fr' },
    { id: '3', query: 'wants nothing', relevant: [] },
    { id: '4', query: 'silence', relevant: [] },
  ]
  const answering = (answer: (query: string) => string[]) => ({
    load: () => undefined,
    query: (query: string) => ({ ids: answer(query) }),
  })

  it('loads the corpus once, runs all queries and averages over the labelled ones', async () => {
    const loaded: string[] = []
    const asked: string[] = []
    let nowMs = 0
    const report = await evaluate(
      tools,
      queries,
      {
        load: (sources) => void loaded.push(...sources.map(({ id, module }) => `${module} ${id}`)),
        query: (query) => {
          asked.push(query)
          nowMs += 2
          return { ids: ['s::a', 's::b'] }
        },
      },
      { nowMs: () => nowMs },
    )
    expect(loaded).toEqual(['s s::a', 's s::b'])
    expect(asked).toEqual(['wants a', 'wants a', 'wants b', 'wants nothing', 'silence'])
    expect(report).toMatchObject({
      tools: 2,
      queries: 2,
      recall: { 1: 0.5, 3: 1, 5: 1, 10: 1 },
      ndcg10: (1 + 1 / Math.log2(3)) / 2,
      mrr: 0.75,
      refused: 0,
      latencyMs: { p50: 2, p95: 2 },
    })
  })

  it('waits for an asynchronous search', async () => {
    const report = await evaluate(tools, queries, {
      load: async () => undefined,
      query: async () => ({ ids: ['s::a'] }),
    })
    expect(report.recall[1]).toBe(0.5)
  })

  it('reports both errors: answers without a relevant tool, and missing answers', async () => {
    const search = answering((query) => (query === 'wants a' || query === 'silence' ? [] : ['s::b']))
    const report = await evaluate(tools, queries, search)
    expect(report.noMatch).toEqual({ queries: 2, answered: 0.5 })
    expect(report.refused).toBe(0.5)
  })

  it('averages by language', async () => {
    const { languages } = await evaluate(
      tools,
      queries,
      answering(() => ['s::b']),
    )
    expect([...languages].map(([lang, { queries: count, mrr }]) => [lang, count, mrr])).toEqual([
      ['en', 1, 0],
      ['fr', 1, 1],
    ])
  })

  it('returns the result of each query', async () => {
    const { rows } = await evaluate(
      tools,
      queries.slice(0, 2),
      answering(() => ['x', 's::b']),
    )
    expect(rows).toEqual([
      {
        id: '1',
        query: 'wants a',
        relevant: ['s::a'],
        lang: 'en',
        answers: ['x', 's::b'],
        unlikely: false,
        ranks: [0],
      },
      {
        id: '2',
        query: 'wants b',
        relevant: ['s::b'],
        lang: 'fr',
        answers: ['x', 's::b'],
        unlikely: false,
        ranks: [2],
      },
    ])
  })

  it("passes on the server's description", async () => {
    const seen: unknown[] = []
    const load = (sources: readonly object[]) => void seen.push(...sources)
    await evaluate(tools, [], { load, query: () => ({ ids: [] }) })
    expect(seen).toMatchObject([{ id: 's::a' }, { id: 's::b', moduleDescription: 'S.' }])
    expect(seen[0]).not.toHaveProperty('moduleDescription')
  })

  it('reports zeros for no queries', async () => {
    const report = await evaluate(
      tools,
      [],
      answering(() => []),
    )
    expect(report).toMatchObject({ queries: 0, ndcg10: 0, refused: 0, latencyMs: { p50: 0, p95: 0 } })
  })

  it('stops on abort', async () => {
    const stop = new AbortController()
    const slow = {
      load: () => undefined,
      query: async () => {
        stop.abort(new Error('enough'))
        await new Promise((done) => setTimeout(done, 120))
        return { ids: [] }
      },
    }
    await expect(evaluate(tools, queries, slow, { signal: stop.signal })).rejects.toThrow('enough')
  })
})

describe('macro average', () => {
  it('weights each corpus equally and ignores those without labelled queries', () => {
    const scores = (queries: number, value: number) => ({
      queries,
      recall: { 1: value, 3: value, 5: value, 10: value },
      ndcg10: value,
      mrr: value,
      refused: 0,
    })
    expect(macroAverage([scores(900, 0.5), scores(10, 1), scores(0, 0)])).toEqual(scores(910, 0.75))
  })
})

describe('distractors', () => {
  const tool = (server: string, name: string) => ({ id: `${server}::${name}`, server, name })
  const tools = [tool('git', 'git_log'), tool('git', 'git_diff'), tool('mail', 'send')]
  const queries = [{ id: '1', query: 'history', relevant: ['git::git_log'] }]
  const names = (pool: readonly { readonly id: string }[]) => pool.map(({ id }) => id)

  it('never have the name of a relevant tool, whatever the case or server prefix', () => {
    const candidates = [
      tool('other', 'GIT_LOG'),
      tool('other', 'log'),
      tool('other', 'git_diff'),
      tool('other', 'logs'),
    ]
    expect(names(distractorsFor(tools, queries, candidates))).toEqual(['other::git_diff', 'other::logs'])
  })

  it('are never duplicates', () => {
    const candidates = [tool('mail', 'send'), tool('a', 'b'), tool('a', 'b')]
    expect(names(distractorsFor(tools, queries, candidates))).toEqual(['a::b'])
  })

  it('are a reproducible sample if there are too many', () => {
    const candidates = ['a', 'b', 'c', 'd', 'e', 'f'].map((name) => tool('x', name))
    const sample = names(distractorsFor(tools, queries, candidates, 3))
    expect(sample).toHaveLength(3)
    expect(names(distractorsFor(tools, queries, candidates.toReversed(), 3))).toEqual(sample)
  })

  it('are sampled by FNV-1a', () => {
    expect([fnv1a(''), fnv1a('a'), fnv1a('foobar')]).toEqual([0x811c9dc5, 0xe40c292c, 0xbf9cf968])
  })
})
