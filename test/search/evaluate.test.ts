import { describe, expect, it } from 'vitest'
import { evaluate, ndcgAt, quantile, recallAt, reciprocalRank } from '../../src/search/evaluate.ts'

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

  it('reciprocal rank looks at the first relevant tool', () => {
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
    { id: 's::b', server: 's', name: 'b', description: 'B.', inputSchema: { type: 'object' } },
  ]
  const queries = [
    { id: '1', query: 'wants a', relevant: ['s::a'] },
    { id: '2', query: 'wants b', relevant: ['s::b'] },
    { id: '3', query: 'wants nothing', relevant: [] },
  ]

  it('loads the corpus once, leaves unlabelled queries out and averages', () => {
    const loaded: string[] = []
    const asked: string[] = []
    let nowMs = 0
    const report = evaluate(
      tools,
      queries,
      {
        load: (sources) => loaded.push(...sources.map(({ id, module }) => `${module} ${id}`)),
        query: (query) => {
          asked.push(query)
          nowMs += 2
          return ['s::a', 's::b']
        },
      },
      () => nowMs,
    )
    expect(loaded).toEqual(['s s::a', 's s::b'])
    expect(asked).toEqual(['wants a', 'wants a', 'wants b'])
    expect(report).toEqual({
      tools: 2,
      queries: 2,
      recall: { 1: 0.5, 3: 1, 5: 1, 10: 1 },
      ndcg10: (1 + 1 / Math.log2(3)) / 2,
      mrr: 0.75,
      latencyMs: { p50: 2, p95: 2 },
    })
  })

  it('reports zeros for no queries', () => {
    const report = evaluate(tools, [], { load: () => undefined, query: () => [] })
    expect(report).toMatchObject({ queries: 0, ndcg10: 0, latencyMs: { p50: 0, p95: 0 } })
  })
})
