import { describe, expect, it } from 'vitest'
import { createCorrector, createSuggester } from '../../src/search/suggest.ts'
import { CATALOGUE } from './fixture.ts'

function correctorOver(words: string[]) {
  const asked: string[] = []
  let version = 1
  const corrector = createCorrector({
    version: () => version,
    *withInitialOf(word) {
      asked.push(word)
      for (const known of words) if (known[0] === word[0]) yield known
    },
  })
  const add = (word: string): void => {
    words.push(word)
    version++
  }
  return { corrector, asked, add }
}

describe('createCorrector', () => {
  const { corrector } = correctorOver(['lire', 'lister', 'dossier', 'document', 'weather', 'whether', 'данные'])
  const nearest = (word: string) => corrector.nearest(word, 5).map((correction) => correction.word)

  it('finishes an unfinished word, the shortest way first [DIG-44]', () => {
    expect(nearest('lir')).toEqual(['lire'])
    expect(nearest('doc')).toEqual(['document'])
  })

  it('repairs a misspelt one [DIG-44]', () => {
    expect(nearest('dosier')).toEqual(['dossier'])
    expect(nearest('weater')[0]).toBe('weather')
    expect(nearest('даные')).toEqual(['данные'])
  })

  it('guesses nothing for short words, endless ones and what is like nothing', () => {
    for (const word of ['li', 'zzz', 'w'.repeat(100_000), '']) expect(nearest(word)).toEqual([])
  })

  it('trusts a guess less the further away it is, and never like a word typed right', () => {
    const [best, next] = corrector.nearest('wether', 5)
    expect([best?.word, next?.word]).toEqual(['whether', 'weather'].sort())
    expect(best?.closeness).toBeLessThan(0.6)
    expect(next?.closeness).toBeLessThanOrEqual(best?.closeness ?? 0)
  })

  it('reads the vocabulary once a first letter, and again when it changed', () => {
    const { corrector: watched, asked, add } = correctorOver(['paint', 'mow'])
    watched.nearest('pain', 5)
    watched.nearest('painz', 5)
    watched.nearest('mowe', 5)
    expect(asked).toEqual(['pain', 'mowe'])
    add('painter')
    expect(watched.nearest('painte', 5).map(({ word }) => word)).toContain('painter')
    expect(asked).toEqual(['pain', 'mowe', 'painte'])
  })
})

describe('createSuggester', () => {
  let reads = 0
  const suggester = createSuggester(() => {
    reads++
    return CATALOGUE.map(({ id, title, aliases }) => ({ id, texts: [id, title, ...aliases] }))
  })

  it('finds names while they are typed', () => {
    expect(suggester.suggest('w', 9)).toContain('weather.forecast')
    expect(suggester.suggest('wea', 9)).toEqual(['weather.forecast'])
    expect(suggester.suggest('filesystem.re', 9)[0]).toBe('filesystem.read')
    expect(suggester.suggest('github list is', 9)).toEqual(['mcp_github.list_issues'])
    expect(suggester.suggest('createPu', 9)).toEqual(['mcp_github.createPullRequest'])
    expect(suggester.suggest('écr', 9)).toEqual(['filesystem.write'])
  })

  it('forgives a typo', () => {
    expect(suggester.suggest('telegran se', 9)).toEqual(['telegram.send'])
  })

  it('keeps to the limit and to what is visible', () => {
    expect(suggester.suggest('filesystem', 2)).toHaveLength(2)
    const visible = (id: string) => id !== 'weather.forecast'
    expect(suggester.suggest('weather', 9, visible)).toEqual([])
  })

  it.each(['', '   ', '.*', '\u0000', '\ud800', 'x'.repeat(1_000_000)])('suggests nothing for odd input', (typed) => {
    expect(suggester.suggest(typed, 9)).toEqual([])
  })

  it('reads the tools once', () => {
    expect(reads).toBe(1)
  })
})
