import { describe, expect, it } from 'vitest'
import { documentOf, type SearchSource } from '../../src/search/document.ts'
import { createKeywordIndex } from '../../src/search/keyword.ts'
import { CATALOGUE, toolOf } from './fixture.ts'

function indexOf(sources: readonly SearchSource[]) {
  const index = createKeywordIndex()
  for (const source of sources) index.add(documentOf(source))
  return index
}

const catalogue = indexOf(CATALOGUE)
const idsFor = (query: string, limit = 5): string[] => catalogue.search(query, { limit }).map(({ id }) => id)
const scoreOf = (query: string, id: string): number =>
  catalogue.search(query, { limit: 20 }).find((hit) => hit.id === id)?.score ?? 0

describe('what is found', () => {
  it.each([
    ['read a file', 'filesystem.read'],
    ['lire un fichier', 'filesystem.read'],
    ['Can you please write this text to a file for me?', 'filesystem.write'],
    ['what is the weather in Paris', 'weather.forecast'],
    ['postgres', 'database.query'],
    ['closed issues by label', 'mcp_github.list_issues'],
    ['pull requests', 'mcp_github.createPullRequest'],
    ['ajouter une tache', 'todo.add'],
  ])('%s → %s', (query, id) => {
    expect(idsFor(query)[0]).toBe(id)
  })

  it('finds a word by its beginning, a misspelt one, and with or without accents [DIG-44]', () => {
    expect(idsFor('lir')).toContain('filesystem.read')
    expect(idsFor('dosier')).toContain('filesystem.ls')
    expect(catalogue.search('données', { limit: 5 })).toEqual(catalogue.search('donnees', { limit: 5 }))
    expect(idsFor('données')[0]).toBe('database.query')
  })

  it('undoes two swapped letters', () => {
    expect(idsFor('waether')[0]).toBe('weather.forecast')
    expect(idsFor('list isseus')[0]).toBe('mcp_github.list_issues')
  })

  it('finds a synonym, scored below a literal match [DIG-48]', () => {
    expect(idsFor('erase')[0]).toBe('filesystem.rm')
    expect(scoreOf('erase', 'filesystem.rm')).toBeLessThan(scoreOf('delete', 'filesystem.rm'))
    const both = indexOf([...CATALOGUE, toolOf('disk.wipe', 'Erase a disk.')]).search('erase', { limit: 5 })
    expect(both.map(({ id }) => id).slice(0, 2)).toEqual(['disk.wipe', 'filesystem.rm'])
    expect(both[0]?.score).toBeGreaterThan(both[1]?.score ?? 1)
  })

  it('matches Chinese and Japanese descriptions in their own words', () => {
    expect(idsFor('读取文档')[0]).toBe('mcp_reader.open_document')
    expect(idsFor('本を検索')[0]).toBe('mcp_reader.hon_yomu')
  })

  it('says which words matched', () => {
    expect(catalogue.search('Données of a zebra', { limit: 1 })[0]?.terms).toEqual(['donnees'])
  })
})

describe('an exact name', () => {
  it.each([
    'mcp_github.list_issues',
    'mcp_github__list_issues',
    'github.list_issues',
    'GitHub list-issues',
    'list_issues',
    'listIssues',
    'please use github.list_issues to read and write a file',
  ])('comes first with score 1 as %s', (query) => {
    expect(catalogue.search(query, { limit: 3 })[0]).toMatchObject({
      id: 'mcp_github.list_issues',
      score: 1,
      exactName: true,
    })
  })

  it('is the only way to score 1', () => {
    expect(scoreOf('read read file text content path encoding', 'filesystem.read')).toBeLessThan(1)
  })

  it('counts bare only while one visible tool has it', () => {
    const index = indexOf([toolOf('a.search', 'Search a.'), toolOf('b.search', 'Search b.')])
    expect(index.search('search', { limit: 5 }).some(({ exactName }) => exactName)).toBe(false)
    const narrowed = index.search('search', { limit: 5, filter: (id) => id === 'b.search' })
    expect(narrowed).toMatchObject([{ id: 'b.search', exactName: true }])
  })
})

describe('what is not found', () => {
  it.each(['', '   ', '(a+)+$', '🦜🦜', 'zxqvy blorpt', 'prune my roses', '.*', '\u0000\u0007', 'the of and'])(
    'nothing for %j',
    (query) => {
      expect(idsFor(query)).toEqual([])
    },
  )

  it('no tool the filter hides, and the next best instead', () => {
    const hits = catalogue.search('read a file', { limit: 2, filter: (id) => id !== 'filesystem.read' })
    expect(hits.map(({ id }) => id)).not.toContain('filesystem.read')
    expect(hits).toHaveLength(2)
  })

  it('no removed tool, and the new text of a replaced one', () => {
    const index = indexOf([toolOf('a.one', 'Paint a fence.'), toolOf('a.two', 'Paint a wall.')])
    index.remove('a.two')
    index.add(documentOf(toolOf('a.one', 'Mow the lawn.')))
    expect(index.search('paint', { limit: 5 })).toEqual([])
    expect(index.search('lawn', { limit: 5 }).map(({ id }) => id)).toEqual(['a.one'])
    expect(index.size).toBe(1)
  })
})

describe('hostile texts and queries', () => {
  it('a description that repeats its keywords 20,000 times does not win', () => {
    const stuffed = toolOf('spam.thing', 'weather forecast city '.repeat(20_000))
    const index = indexOf([...CATALOGUE, stuffed])
    expect(index.search('weather forecast for a city', { limit: 3 })[0]?.id).toBe('weather.forecast')
  })

  it('a long query is answered like its beginning', () => {
    const long = `read a file ${'and the content of it '.repeat(25)}`
    expect(long.length).toBeGreaterThan(500)
    expect(idsFor(long)[0]).toBe('filesystem.read')
    expect(idsFor(`weather forecast ${'x '.repeat(500_000)}`)[0]).toBe('weather.forecast')
  })

  it('words that are properties of every object are words', () => {
    const index = indexOf([
      ...CATALOGUE,
      toolOf('js.inspect', 'Show the constructor and toString of __proto__ objects.'),
    ])
    expect(index.search('constructor toString __proto__', { limit: 1 })[0]?.id).toBe('js.inspect')
    expect(index.search('hasOwnProperty', { limit: 1 })).toEqual([])
  })
})
