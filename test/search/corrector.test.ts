import { describe, expect, it } from 'vitest'
import { createCorrector } from '../../src/search/corrector.ts'

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

  it('completes an unfinished word, shortest first', () => {
    expect(nearest('lir')).toEqual(['lire'])
    expect(nearest('doc')).toEqual(['document'])
  })

  it('corrects a misspelled word', () => {
    expect(nearest('dosier')).toEqual(['dossier'])
    expect(nearest('weater')[0]).toBe('weather')
    expect(nearest('даные')).toEqual(['данные'])
  })

  it('guesses nothing for short, overlong and unrelated words', () => {
    for (const word of ['li', 'zzz', 'w'.repeat(100_000), '']) expect(nearest(word)).toEqual([])
  })

  it('scores distant guesses lower, and never like a correct word', () => {
    const [best, next] = corrector.nearest('wether', 5)
    expect([best?.word, next?.word]).toEqual(['whether', 'weather'].sort())
    expect(best?.closeness).toBeLessThan(0.6)
    expect(next?.closeness).toBeLessThanOrEqual(best?.closeness ?? 0)
  })

  it('reads the vocabulary once per first letter, and again when it changed', () => {
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
