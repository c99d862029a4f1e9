import { describe, expect, it } from 'vitest'
import { createDictionary, DICTIONARY_SECTIONS } from '../../src/search/dictionary.ts'
import { packSections, unpackSections } from '../../src/search/packed-sections.ts'

describe('createDictionary', () => {
  it('numbers words in order of arrival', () => {
    const dictionary = createDictionary()
    expect(['read', 'данные', 'read', '文件', ''].map(dictionary.add)).toEqual([0, 1, 0, 2, 3])
    expect([0, 1, 2, 3].map(dictionary.wordOf)).toEqual(['read', 'данные', '文件', ''])
    expect(dictionary.find('文件')).toBe(2)
    expect(dictionary.find('rea')).toBe(-1)
    expect(dictionary.size).toBe(4)
  })

  it('distinguishes thousands, before and after saving', () => {
    const dictionary = createDictionary()
    const words = Array.from({ length: 5000 }, (_, n) => `w${n.toString(36)}`)
    for (const word of words) dictionary.add(word)
    const bytes = packSections(1, 1, dictionary.sections())
    const loaded = createDictionary(unpackSections(1, 1, bytes, DICTIONARY_SECTIONS))
    expect(words.map(loaded.find)).toEqual(words.map((_, n) => n))
    expect(loaded.find('nothing')).toBe(-1)
    expect(loaded.add('nothing')).toBe(5000)
    expect(loaded.find('nothing')).toBe(5000)
  })

  it('lists the words with the same first letter', () => {
    const dictionary = createDictionary()
    for (const word of ['file', 'find', 'read', 'файл', 'фото']) dictionary.add(word)
    expect([...dictionary.withInitialOf('fx')]).toEqual([
      ['file', 0],
      ['find', 1],
    ])
    expect([...dictionary.withInitialOf('ф')].map(([word]) => word)).toEqual(['файл', 'фото'])
  })

  it('cuts overlong words', () => {
    const dictionary = createDictionary()
    dictionary.add('x'.repeat(100_000))
    expect(dictionary.wordOf(0)).toHaveLength(1024)
  })
})
