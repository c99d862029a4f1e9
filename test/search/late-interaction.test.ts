import { describe, expect, it } from 'vitest'
import { createLateInteraction } from '../../src/search/late-interaction.ts'
import { createLexicalIndex } from '../../src/search/lexical-index.ts'
import { documentOf, type SearchSource } from '../../src/search/search-document.ts'
import { toolOf } from './fixture.ts'
import { tableByHand } from './table-fixture.ts'

function lateOf(sources: readonly SearchSource[]) {
  const index = createLexicalIndex()
  for (const [slot, source] of sources.entries()) index.set(slot, documentOf(source))
  const late = createLateInteraction(tableByHand(), index)
  const cover = (query: string, slots: readonly number[]) =>
    late.cover(query, slots, index.search(query, { limit: 1, accept: () => true }).rarityOf)
  return { index, cover }
}

const rounded = (values: Float32Array): number[] => [...values].map((one) => Math.round(one * 100) / 100)

describe('late interaction', () => {
  const tools = [
    toolOf('memory.recall', 'Look up a fact.'),
    toolOf('sky.forecast', 'Tell the weather.'),
    toolOf('zoo.feed', 'Feed the walrus.'),
  ]

  it('uses the nearest tool word for each query word', () => {
    const { cover } = lateOf(tools)
    expect(rounded(cover('keepsake', [0, 1, 2]).query)).toEqual([1, 0, 0])
    const [both, one] = cover('keepsake weather', [0, 1]).query
    expect(both).toBeGreaterThan(0.2)
    expect((both ?? 0) + (one ?? 0)).toBeCloseTo(1, 1)
  })

  it('also scores the name alone', () => {
    const { cover } = lateOf(tools)
    const { name } = cover('keepsake', [0, 1, 2])
    expect(name[0]).toBeGreaterThan(0.9)
    expect(rounded(name).slice(1)).toEqual([0, 0])
  })

  it('is zero for a query without words, no tools, and an empty slot', () => {
    const { cover } = lateOf(tools)
    expect(rounded(cover('', [0, 1]).query)).toEqual([0, 0])
    expect(cover('keepsake', []).query).toHaveLength(0)
    expect(rounded(cover('keepsake', [99]).query)).toEqual([0])
  })

  it('stays correct when the index changes between queries, and for any number of tools', () => {
    const { cover, index } = lateOf(tools)
    cover('keepsake', [0, 1, 2])
    const more = Array.from({ length: 3_000 }, (_, n) => n + 3)
    for (const slot of more) index.set(slot, documentOf(toolOf(`bulk.t${slot}`, `Word${slot} of bulk.`)))
    index.set(1, documentOf(toolOf('memory.store', 'Store a fact.')))
    const covered = cover('keepsake', [0, 1, 2, ...more]).query
    expect(rounded(covered).slice(0, 4)).toEqual([1, 1, 0, 0])
    expect(covered).toHaveLength(3_003)
  })

  it('uses the beginning of a megabyte query', () => {
    const { cover } = lateOf(tools)
    expect(cover(`keepsake ${'walrus '.repeat(150_000)}`, [0]).query[0]).toBeGreaterThan(0)
  })
})
