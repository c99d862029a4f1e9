import { describe, expect, it } from 'vitest'
import { looksLike, mixedWord, skeleton } from '../../src/core/lookalike.ts'

describe('skeleton', () => {
  it.each([
    ['Cyrillic', 'ѕеаrсh'],
    ['Cherokee', 'ꮪꭼꭺꮢꮯꮋ'],
    ['Cherokee capitals', 'ᏚᎬᎪᏒᏟᎻ'],
    ['Lisu', 'ꓢꓰꓮꓣꓚꓧ'],
    ['Coptic and Latin', 'seaⲅⲥⲏ'],
    ['bold Latin', '𝐬𝐞𝐚𝐫𝐜𝐡'],
  ])('reads %s letters as the Latin ones they look like', (_script, name) => {
    expect(skeleton(name)).toBe('search')
    expect(looksLike(name, 'search')).toBe(true)
  })

  it('keeps letters that look like no Latin one', () => {
    expect(skeleton('검색')).toBe(skeleton('검색'.normalize('NFKD')))
    expect(skeleton('чтение')).not.toMatch(/^[a-z]+$/)
  })
})

describe('mixedWord', () => {
  it('finds a word with letters of two scripts that look alike', () => {
    expect(mixedWord('run seꭺrch')).toBe('seꭺrch')
    expect(mixedWord('ꓢꓰꓮꓣꓚꓧ run')).toBeUndefined()
  })
})
