import { describe, expect, it } from 'vitest'
import { createCorpus } from '../../src/search/search-corpus.ts'
import type { SemanticDocument } from '../../src/search/semantic-retriever.ts'
import { CATALOGUE, toolOf } from './fixture.ts'
import { tableByHand } from './table-fixture.ts'

describe('a corpus', () => {
  const tools = [
    toolOf('a.one', 'Paint a fence.'),
    toolOf('a.two', 'Send a message.'),
    toolOf('a.three', 'Read a file.'),
  ]

  it('has the words of all tools before the first vector', () => {
    const corpus = createCorpus({ table: () => tableByHand() })
    const work = corpus.follow(tools)
    expect([corpus.usable(), corpus.model]).toEqual([false, 'loading'])
    while (!corpus.usable()) work.next()
    expect([corpus.lexical.size, corpus.vectors.size, corpus.table()]).toEqual([3, 1, undefined])
    while (!work.next().done);
    expect([corpus.vectors.size, corpus.model]).toEqual([3, 'ready'])
    expect(corpus.table()?.id).toBe('by-hand')
  })

  it('reuses the slot of a removed tool, and reports the new owner', () => {
    let told: readonly SemanticDocument[] = []
    const corpus = createCorpus({ onIndexed: (documents) => (told = documents) })
    for (const _ of corpus.follow(tools));
    const slot = told.find(({ id }) => id === 'a.two')?.slot ?? -1
    const [first] = told
    expect(corpus.idOf(slot)).toBe('a.two')
    for (const _ of corpus.follow([tools[0]!, toolOf('b.new', 'Delete a file.'), tools[2]!]));
    expect(corpus.idOf(slot)).toBe('b.new')
    expect(told.map(({ id }) => id)).toEqual(['a.one', 'b.new', 'a.three'])
    expect(told[0]).toMatchObject({ slot: first?.slot, hash: first?.hash })
    expect(told[1]?.source.description).toBe('Delete a file.')
    expect(corpus.lexical.size).toBe(3)
  })

  it('does not read a source again with a known stamp, even as another object or after a restart', () => {
    let kept = new Uint8Array()
    let read = 0
    const stamped = (stamp: number) =>
      Array.from({ length: 300 }, (_, n) =>
        Object.defineProperty({ ...toolOf(`a.t${n}`, ''), stamp: stamp + n }, 'description', {
          get: () => `Paints fence ${++read}.`,
        }),
      )
    const store = {
      get: () => kept,
      set: (_name: string, bytes: Uint8Array): void => {
        kept = bytes.slice()
      },
    }
    const first = createCorpus({ store: { ...store, get: () => undefined } })
    for (const _ of first.follow(stamped(1)));
    expect([read > 0, first.save()]).toEqual([true, true])
    read = 0
    for (const _ of first.follow(stamped(1)));
    const second = createCorpus({ store })
    for (const _ of second.follow(stamped(1)));
    expect([read, second.lexical.size]).toEqual([0, 300])
    for (const _ of second.follow(stamped(2)));
    expect(read).toBeGreaterThan(0)
  })

  it('changes a hash with any part of the text, and with nothing else', () => {
    const hashOf = (change: object): string | undefined => {
      let hash: string | undefined
      const corpus = createCorpus({ onIndexed: ([document]) => (hash = document?.hash) })
      for (const _ of corpus.follow([{ ...CATALOGUE[0]!, ...change }]));
      return hash
    }
    const changes = [
      {},
      { title: 'Other' },
      { description: 'Other.' },
      { aliases: ['other'] },
      { tags: ['other'] },
      { sideEffects: ['other'] },
      { inputJson: { properties: { other: {} } } },
      { moduleDescription: 'Other.' },
      { synonyms: [['read', 'other']] },
    ]
    expect(new Set(changes.map(hashOf)).size).toBe(changes.length)
    expect(hashOf({ description: `${CATALOGUE[0]!.description}` })).toBe(hashOf({}))
  })

  it('saves nothing incomplete', () => {
    const kept = new Map<string, Uint8Array>()
    const store = {
      get: (name: string) => kept.get(name),
      set: (name: string, bytes: Uint8Array) => void kept.set(name, bytes),
    }
    const corpus = createCorpus({ store, table: () => tableByHand() })
    const work = corpus.follow(Array.from({ length: 250 }, (_, n) => toolOf(`a.t${n}`, `Tool ${n}.`)))
    for (let step = 0; step < 300; step++) work.next()
    expect([corpus.save(), kept.size]).toEqual([false, 0])
    while (!work.next().done);
    expect([corpus.save(), corpus.save(), kept.size]).toEqual([true, false, 1])
  })
})
