import { describe, expect, it } from 'vitest'
import { createLexicalIndex, type LexicalIndex, loadLexicalIndex } from '../../src/search/lexical-index.ts'
import { documentOf, type SearchSource } from '../../src/search/search-document.ts'
import { heldMiB } from '../memory.ts'
import { CATALOGUE, toolOf } from './fixture.ts'

/** An index whose slots are the positions in `sources`, queried by id. */
function indexOf(sources: readonly SearchSource[], index: LexicalIndex = createLexicalIndex()) {
  if (index.size === 0) for (const [slot, source] of sources.entries()) index.set(slot, documentOf(source))
  const idOf = (slot: number) => sources[slot]?.id ?? ''
  const slotOf = (id: string) => sources.findIndex((source) => source.id === id)
  const search = (query: string, limit = 5, accept: (id: string) => boolean = () => true) => {
    const matches = index.search(query, { limit, accept: (slot) => accept(idOf(slot)) })
    return { ...matches, hits: matches.hits.map(({ slot, ...hit }) => ({ id: idOf(slot), ...hit })) }
  }
  const ids = (query: string, limit = 5) => search(query, limit).hits.map(({ id }) => id)
  const scoreOf = (query: string, id: string) => search(query, 20).scoreOf(slotOf(id))
  return { index, search, ids, scoreOf, slotOf }
}

const catalogue = indexOf(CATALOGUE)
const all = { limit: 10, accept: () => true }

describe('keyword search', () => {
  it.each([
    ['read a file', 'filesystem.read'],
    ['lire un fichier', 'filesystem.read'],
    ['Can you please write this text to a file for me?', 'filesystem.write'],
    ['what is the weather in Paris', 'weather.forecast'],
    ['postgres', 'database.query'],
    ['closed issues by label', 'mcp_github.list_issues'],
    ['pull requests', 'mcp_github.createPullRequest'],
    ['ajouter une tache', 'todo.add'],
    ['读取文档', 'mcp_reader.open_document'],
    ['本を検索', 'mcp_reader.hon_yomu'],
  ])('%s → %s', (query, id) => {
    expect(catalogue.ids(query)[0]).toBe(id)
  })

  it('finds prefixes, misspelled words, and words with or without accents', () => {
    expect(catalogue.ids('lir')).toContain('filesystem.read')
    expect(catalogue.ids('dosier')).toContain('filesystem.ls')
    expect(catalogue.search('données').hits).toEqual(catalogue.search('donnees').hits)
    expect(catalogue.ids('données')[0]).toBe('database.query')
  })

  it('finds words with invisible characters inside', () => {
    expect(catalogue.ids('re\u200bad fi\u00adle')[0]).toBe('filesystem.read')
  })

  it('finds visible tools whatever words hidden tools have', () => {
    const hidden = toolOf('secret.waether', 'Forecasts the waether of tomorrow for Paris.')
    const both = indexOf([...CATALOGUE, hidden])
    const seen = (query: string) => both.search(query, 5, (id) => id !== 'secret.waether')
    expect(seen('waether').hits[0]?.id).toBe('weather.forecast')
    expect(seen('waether').unknownWords).toEqual(catalogue.search('waether').unknownWords)
  })

  it('scores tools as if there were no uncounted ones', () => {
    const secrets = Array.from({ length: 40 }, (_, n) =>
      toolOf(
        `secret.paint${'abcdefgh'[n % 8]}${'ijklm'[n % 5]}`,
        `Reads the file of the weather in Paris, ${n} times.`,
      ),
    )
    const { index } = indexOf([...CATALOGUE, ...secrets])
    const uncounted = secrets.map((_, n) => CATALOGUE.length + n)
    const accept = (slot: number) => slot < CATALOGUE.length
    const queries = ['read a file', 'wheather', 'weather in Paris', 'pain', 'close an issue', 'times', 'textfile']
    for (const query of queries) {
      const found = index.search(query, { limit: 20, accept, uncounted })
      const expected = catalogue.index.search(query, { limit: 20, accept })
      expect(found.hits, query).toEqual(expected.hits)
      expect([...found.corrections], query).toEqual([...expected.corrections])
      expect(found.rarityOf('weather'), query).toBe(expected.rarityOf('weather'))
    }
    expect(index.search('weather', { limit: 50, accept: () => true }).hits).toHaveLength(41)
  })

  it('finds words with two letters swapped', () => {
    expect(catalogue.ids('waether')[0]).toBe('weather.forecast')
    expect(catalogue.ids('list isseus')[0]).toBe('mcp_github.list_issues')
  })

  it('finds two words written as one', () => {
    expect(catalogue.ids('textfile')[0]).toBe('filesystem.read')
    expect(catalogue.search('textfile').unknownWords).toEqual([])
  })

  it('weighs question words less than content words, in a small catalog', () => {
    const { ids } = indexOf([
      toolOf('cats.helping', 'Help.'),
      toolOf('maps.route', 'Route.'),
      ...CATALOGUE.filter(({ description }) => !/help|route/i.test(description)),
    ])
    expect(ids('help route', 2)).toEqual(['maps.route', 'cats.helping'])
  })

  it('finds synonyms, scored below a literal match', () => {
    expect(catalogue.ids('erase')[0]).toBe('filesystem.rm')
    expect(catalogue.scoreOf('erase', 'filesystem.rm')).toBeLessThan(catalogue.scoreOf('delete', 'filesystem.rm'))
    const both = indexOf([...CATALOGUE, toolOf('disk.wipe', 'Erase a disk.')])
    expect(both.ids('erase', 2)).toEqual(['disk.wipe', 'filesystem.rm'])
  })

  it("finds synonyms of the tool's own module, and only those there", () => {
    const index = createLexicalIndex()
    const synonyms = [['ticket', 'case', 'request for help']]
    index.set(0, { ...documentOf(toolOf('desk.close', 'Close a ticket.')), synonyms } as never)
    index.set(1, documentOf(toolOf('train.close', 'Sell a ticket.')))
    expect(index.search('case', all).hits.map(({ slot }) => slot)).toEqual([0])
    expect(index.search('ticket', all).scoreOf(0)).toBeGreaterThan(index.search('case', all).scoreOf(0))
  })

  it.each([
    ['Прочитать файлы', 'Прочитать файл с диска'],
    ['ΑΡΧΕΊΟ', 'Διαβάζει ένα αρχείο'],
    ['फ़ाइल पढ़ें', 'फ़ाइल की सामग्री पढ़ें'],
    ['اقرأ الملف', 'اقرأ الملف من القرص'],
    ['קרא קובץ', 'קרא קובץ מהדיסק'],
    ['อ่านไฟล์', 'เครื่องมืออ่านไฟล์ข้อความ'],
    ['파일', '파일을 읽습니다'],
    ['DOSYAYI OKU', 'dosyayı oku'],
    ['cafe\u0301', 'Find a café'],
    ['🦜 parrot 🦜', 'Teach a 🦜parrot to talk'],
  ])('%s finds %s', (query, description) => {
    expect(indexOf([...CATALOGUE, toolOf('other.tool', description)]).ids(query)[0]).toBe('other.tool')
  })
})

describe('a match reports', () => {
  it('the matched words, as in the query or as corrected', () => {
    const matched = (query: string, id: string) => catalogue.search(query).termsOf(catalogue.slotOf(id))
    expect(matched('Données of a zebra', 'database.query')).toEqual(['donnees'])
    expect(matched('lire un fichier', 'filesystem.read')).toEqual(['lire', 'fichier'])
    expect(matched('dosier', 'filesystem.ls')).toEqual(['dossier'])
    expect(matched('lire un fichier', 'weather.forecast')).toEqual([])
  })

  it('unknown words', () => {
    expect(catalogue.search('read the zxqvy file').unknownWords).toEqual(['zxqvy'])
  })

  it('the score of any slot, whether in the answer or not', () => {
    const { hits, scoreOf } = catalogue.search('read a file', 1, (id) => id !== 'filesystem.read')
    expect(hits).toHaveLength(1)
    expect(scoreOf(catalogue.slotOf('filesystem.read'))).toBeGreaterThan(hits[0]?.score ?? 1)
    expect([scoreOf(catalogue.slotOf('weather.forecast')), scoreOf(9999)]).toEqual([0, 0])
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
  ])('ranks first with score 1 as %s', (query) => {
    const { hits, scoreOf } = catalogue.search(query)
    expect(hits[0]).toMatchObject({ id: 'mcp_github.list_issues', score: 1, exactName: true })
    expect(scoreOf(catalogue.slotOf('mcp_github.list_issues'))).toBe(1)
  })

  it('is the only way to score 1', () => {
    expect(catalogue.scoreOf('read read file text content path encoding', 'filesystem.read')).toBeLessThan(1)
  })

  it('without its module counts only if one visible tool has it', () => {
    const { search } = indexOf([toolOf('a.search', 'Search a.'), toolOf('b.search', 'Search b.')])
    expect(search('search').hits.some(({ exactName }) => exactName)).toBe(false)
    expect(search('search', 5, (id) => id === 'b.search').hits).toMatchObject([{ id: 'b.search', exactName: true }])
  })
})

describe('search does not return', () => {
  it.each([
    '',
    '   ',
    '(a+)+$',
    '.*',
    '🦜🦜',
    '\u0000\u0007',
    '\ud800\udc00\ud800',
    'zxqvy blorpt',
    'prune my roses',
    'the of and',
    'x'.repeat(100_000),
  ])('nothing for %j', (query) => {
    expect(catalogue.search(query).hits).toEqual([])
  })

  it('rejected slots, and returns the next best instead', () => {
    const { hits } = catalogue.search('read a file', 2, (id) => id !== 'filesystem.read')
    expect(hits.map(({ id }) => id)).not.toContain('filesystem.read')
    expect(hits).toHaveLength(2)
  })

  it('anything if the limit is zero', () => {
    for (const limit of [0, -1, Number.NaN]) expect(catalogue.search('filesystem.read', limit).hits).toEqual([])
    expect(catalogue.search('read', 1e9).hits.length).toBeGreaterThan(0)
  })
})

describe('a changing index', () => {
  it('forgets a cleared slot and the old text of a replaced one', () => {
    const index = createLexicalIndex()
    index.set(0, documentOf(toolOf('a.one', 'Paint a fence.')))
    index.set(1, documentOf(toolOf('a.two', 'Paint a wall.')))
    expect(index.search('paint', all).hits).toHaveLength(2)
    index.clear(1)
    index.clear(1)
    index.clear(77)
    index.set(0, documentOf(toolOf('a.one', 'Mow the lawn.')))
    expect(index.search('paint', all).hits).toEqual([])
    expect(index.search('paint', all).unknownWords).toEqual(['paint'])
    expect(index.search('a.two', all).hits).toEqual([])
    expect(index.search('lawn', all).hits.map(({ slot }) => slot)).toEqual([0])
    expect(index.size).toBe(1)
  })

  it('ranks like a fresh one, whatever its history', () => {
    const documents = Array.from({ length: 1500 }, (_, n) => {
      const words = [n % 7, n % 11, n % 13, n % 1499].map((word) => `w${word}x`)
      return documentOf(toolOf(`m.t${n}`, `${words.join(' ')} file`))
    })
    const atOnce = createLexicalIndex()
    for (const [slot, document] of documents.entries()) atOnce.set(slot, document)
    const grown = createLexicalIndex()
    documents.forEach((document, slot) => {
      grown.set(slot, documents[(slot * 3) % 1500] ?? document)
      if (slot % 400 === 0) grown.search('file', all)
    })
    for (let slot = 0; slot < 1500; slot += 2) grown.clear(slot)
    grown.search('w1x file', all)
    for (const [slot, document] of documents.entries()) grown.set(slot, document)
    for (const query of ['w1x', 'w2x w3x file', 'm.t44', 'w1498x', 'file', 'w1498'])
      expect(grown.search(query, all).hits).toEqual(atOnce.search(query, all).hits)
    grown.save()
    expect(grown.search('w2x w3x file', all).hits).toEqual(atOnce.search('w2x w3x file', all).hits)
  })

  it('has a bounded size while tools keep changing their words', () => {
    const index = createLexicalIndex()
    let largest = 0
    for (let round = 0; round < 12; round++) {
      for (let slot = 0; slot < 600; slot++) {
        const words = Array.from({ length: 10 }, (_, n) => `r${round}s${slot}n${n}`)
        index.set(slot, documentOf(toolOf(`a.t${slot}`, words.join(' '))))
      }
      const first = index.search(`r${round}s5n5`, all).hits.map(({ slot }) => slot)
      expect(first[0]).toBe(5)
      largest = Math.max(largest, index.save().length)
    }
    expect(index.save().length).toBeLessThan(3_000_000)
    expect(index.size).toBe(600)
  })

  it('also while one tool keeps changing without a search', () => {
    const index = createLexicalIndex()
    index.set(0, documentOf(toolOf('a.other', 'Read a file.')))
    for (let round = 0; round < 3000; round++) {
      const words = Array.from({ length: 60 }, (_, n) => `r${round}n${n}`)
      index.set(1, documentOf(toolOf('a.one', words.join(' '))))
    }
    expect(index.search('r2999n7', all).hits.map(({ slot }) => slot)).toEqual([1])
    expect(index.search('r2998n7x', all).scoreOf(0)).toBe(0)
    expect(index.search('file', all).hits.map(({ slot }) => slot)).toEqual([0])
    expect(index.save().length).toBeLessThan(10_000_000)
  })

  it('uses bounded memory while tools keep changing without a search', async () => {
    const index = createLexicalIndex()
    const change = async (rounds: number) => {
      for (let round = 0; round < rounds; round++) {
        const words = Array.from({ length: 60 }, (_, n) => `r${round % 50}n${n}`)
        index.set(round % 20, documentOf(toolOf('a.one', words.join(' '))))
      }
      heldMiB()
      await new Promise((resolve) => setImmediate(resolve))
      return heldMiB()
    }
    const before = await change(1_000)
    expect((await change(40_000)) - before).toBeLessThan(4)
  })

  it('rejects an invalid slot', () => {
    const document = documentOf(toolOf('a.b', 'c'))
    for (const slot of [-1, 0.5, 2 ** 24, Number.NaN]) expect(() => createLexicalIndex().set(slot, document)).toThrow()
  })
})

describe('a saved index', () => {
  const saved = catalogue.index.save()
  const queries = ['read a file', 'lir', 'données', 'github.list_issues', 'listIssues', '读取文档', 'zxqvy', 'erase it']

  it('answers like the original', () => {
    const loaded = indexOf(CATALOGUE, loadLexicalIndex(saved.slice()))
    expect(loaded.index.size).toBe(CATALOGUE.length)
    for (const query of queries) expect(loaded.search(query).hits).toEqual(catalogue.search(query).hits)
    expect(loaded.search('lire un fichier').termsOf(0)).toEqual(['lire', 'fichier'])
  })

  it('can be changed', () => {
    const { index, ids } = indexOf(CATALOGUE, loadLexicalIndex(saved.slice()))
    index.set(0, documentOf(toolOf('filesystem.read', 'Paint a fence.')))
    index.set(CATALOGUE.length, documentOf(toolOf('garden.mow', 'Mow the lawn.')))
    expect(ids('fence')).toEqual(['filesystem.read'])
    expect(ids('filesystem.read')[0]).toBe('filesystem.read')
    expect(index.search('mow', all).hits[0]?.slot).toBe(CATALOGUE.length)
    expect(ids('content')).not.toContain('filesystem.read')
    const again = loadLexicalIndex(index.save())
    expect(again.search('garden.mow', all).hits).toEqual(index.search('garden.mow', all).hits)
  })

  it('may be empty', () => {
    const loaded = loadLexicalIndex(createLexicalIndex().save())
    expect(loaded.search('read', all).hits).toEqual([])
    loaded.set(3, documentOf(toolOf('a.b', 'Read.')))
    expect(loaded.search('read', all).hits[0]?.slot).toBe(3)
  })

  it('is rejected when truncated, damaged or foreign', () => {
    const bytes = catalogue.index.save()
    for (const length of [0, 3, 40, bytes.length >> 1, bytes.length - 4, bytes.length - 1])
      expect(() => loadLexicalIndex(bytes.slice(0, length))).toThrow()
    for (let at = 0; at < bytes.length; at += 97) {
      const damaged = bytes.slice()
      damaged[at] = (damaged[at] ?? 0) ^ 1
      expect(() => loadLexicalIndex(damaged)).toThrow()
    }
    expect(() => loadLexicalIndex(new TextEncoder().encode('{"an": "index of another kind"}'.repeat(9)))).toThrow()
  })
})

describe('hostile texts and queries', () => {
  it('repeating keywords 20,000 times does not win', () => {
    const { ids } = indexOf([...CATALOGUE, toolOf('spam.thing', 'weather forecast city '.repeat(20_000))])
    expect(ids('weather forecast for a city', 3)[0]).toBe('weather.forecast')
  })

  it('containing every word does not win', () => {
    const words = new Set(
      CATALOGUE.map(({ description }) => description.toLowerCase()).flatMap((text) => text.split(' ')),
    )
    const { ids } = indexOf([...CATALOGUE, toolOf('spam.thing', [...words].join(' '))])
    for (const query of ['read a file', 'weather forecast', 'list issues of a repository', 'send a message'])
      expect(ids(query, 1)).not.toEqual(['spam.thing'])
  })

  it('a long query is answered like its beginning', () => {
    expect(catalogue.ids(`read a file ${'and the content of it '.repeat(25)}`)[0]).toBe('filesystem.read')
    expect(catalogue.ids(`weather forecast ${'x '.repeat(500_000)}`)[0]).toBe('weather.forecast')
    expect(catalogue.ids(`weather forecast ${'🦜'.repeat(250_000)}`)[0]).toBe('weather.forecast')
  })

  it('names of Object properties are ordinary words', () => {
    const { ids } = indexOf([
      ...CATALOGUE,
      toolOf('js.inspect', 'Show the constructor and toString of __proto__ objects.'),
    ])
    expect(ids('constructor toString __proto__', 1)).toEqual(['js.inspect'])
    expect(ids('hasOwnProperty', 1)).toEqual([])
  })

  it('among 10,000 equal tools, the first slots answer and few others are checked', () => {
    const index = createLexicalIndex()
    for (let slot = 0; slot < 10_000; slot++) index.set(slot, documentOf(toolOf(`m${slot}.same`, 'Read a file.')))
    let asked = 0
    const accept = () => ++asked > 0
    const { hits } = index.search('read a file', { limit: 5, accept })
    expect(hits.map(({ slot }) => slot)).toEqual([0, 1, 2, 3, 4])
    expect(asked).toBeLessThan(20)
    expect(index.search('same', { limit: 3, accept: (slot) => slot >= 9000 }).hits.map(({ slot }) => slot)).toEqual([
      9000, 9001, 9002,
    ])
  })

  it('meaningless text in many scripts finds nothing', () => {
    const nothing = Array.from({ length: 500 }, (_, n) => String.fromCodePoint(0x0780 + n * 23, 0x0781 + n * 23)).join(
      ' ',
    )
    expect(catalogue.ids(nothing)).toEqual([])
  })
})
