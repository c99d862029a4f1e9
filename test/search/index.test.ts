import { describe, expect, it } from 'vitest'
import { createLog } from '../../src/core/log.ts'
import { createToolSearch } from '../../src/search/index.ts'
import { CATALOGUE, toolOf } from './fixture.ts'

const all = () => true

/** A search, with what it logged of its index. */
function watchedSearch() {
  const entries: { tools: number; indexed: number; removed: number }[] = []
  const log = createLog((line) => {
    const { tools, indexed, removed } = JSON.parse(line)
    entries.push({ tools, indexed, removed })
  }, 'debug')
  return { search: createToolSearch({ log }), entries }
}

describe('following the catalogue', () => {
  it('indexes on the first query, then only what changed', () => {
    const { search, entries } = watchedSearch()
    search.sync([toolOf('a.one', 'Paint a fence.'), toolOf('a.two', 'Paint a wall.')], 1)
    expect(entries).toEqual([])
    expect(search.query('paint', { limit: 5, visible: all }).hits).toHaveLength(2)
    search.sync([toolOf('a.one', 'Paint a fence.'), toolOf('a.three', 'Paint a door.')], 2)
    expect(
      search
        .query('paint', { limit: 5, visible: all })
        .hits.map(({ id }) => id)
        .sort(),
    ).toEqual(['a.one', 'a.three'])
    search.sync([toolOf('a.one', 'Mow the lawn.'), toolOf('a.three', 'Paint a door.')], 3)
    expect(search.query('paint', { limit: 5, visible: all }).hits.map(({ id }) => id)).toEqual(['a.three'])
    expect(entries).toEqual([
      { tools: 2, indexed: 2, removed: 0 },
      { tools: 2, indexed: 1, removed: 1 },
      { tools: 2, indexed: 1, removed: 0 },
    ])
  })

  it('ignores a version it has seen', () => {
    const search = createToolSearch()
    search.sync(CATALOGUE, 7)
    search.sync([], 7)
    expect(search.query('weather', { limit: 1, visible: all }).hits[0]?.id).toBe('weather.forecast')
  })

  it('can be warmed before the first query, and answers in the middle of it', async () => {
    const { search, entries } = watchedSearch()
    search.sync(CATALOGUE, 1)
    const warming = search.warm()
    expect(search.query('weather', { limit: 1, visible: all }).hits[0]?.id).toBe('weather.forecast')
    await warming
    expect(entries).toEqual([{ tools: CATALOGUE.length, indexed: CATALOGUE.length, removed: 0 }])
  })

  it('knows nothing before it is told', () => {
    expect(createToolSearch().query('read', { limit: 5, visible: all })).toEqual({ hits: [], ranking: 'keyword' })
  })
})

describe('answering', () => {
  const search = createToolSearch()
  search.sync(CATALOGUE, 1)

  it('says which ranking was used and why a tool was found', () => {
    const { hits, ranking } = search.query('lire un fichier', { limit: 3, visible: all })
    expect(ranking).toBe('keyword')
    expect(hits[0]).toMatchObject({ id: 'filesystem.read', matched: ['lire', 'fichier'] })
  })

  it('answers two callers from one index with what each may see', () => {
    const of = (module: string) =>
      search.query('show what is stored', { limit: 5, visible: (id) => id.startsWith(module) }).hits.map(({ id }) => id)
    expect(of('memory.')).toEqual(expect.arrayContaining(['memory.recall', 'memory.remember']))
    expect(of('database.')).toEqual(['database.tables'])
  })

  it('lets usage settle near ties only', () => {
    const near = createToolSearch()
    near.sync([toolOf('a.first', 'Paint a fence red.'), toolOf('a.second', 'Paint a fence blue.')], 1)
    const ranked = (usage?: (id: string) => number) =>
      near.query('paint a fence', { limit: 2, visible: all, ...(usage && { usage }) }).hits.map(({ id }) => id)
    expect(ranked()).toEqual(['a.first', 'a.second'])
    expect(ranked((id) => (id === 'a.second' ? 4 : 0))).toEqual(['a.second', 'a.first'])
  })

  it('never lets usage lift a tool that does not match, bury a better match or beat an exact name', () => {
    const usage = (id: string) => (id === 'filesystem.read' ? 0 : 1_000_000)
    const first = (query: string) => search.query(query, { limit: 20, visible: all, usage }).hits
    expect(first('lire un fichier')[0]?.id).toBe('filesystem.read')
    expect(first('filesystem.read')[0]).toMatchObject({ id: 'filesystem.read', score: 1 })
    expect(first('lire un fichier').map(({ id }) => id)).not.toContain('weather.forecast')
  })
})
