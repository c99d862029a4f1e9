import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'

const LANGUAGES = ['en', 'de', 'fr', 'es', 'zh', 'pt', 'it', 'ja', 'ko', 'ru', 'nl', 'pl', 'tr']

function rowsOf(name: string): string[][] {
  const text = readFileSync(new URL(`../../training/${name}`, import.meta.url), 'utf8')
  return text
    .trimEnd()
    .split('\n')
    .map((line) => line.split('\t'))
}

describe.each([
  ['lexicon.tsv', 400],
  ['phrases.tsv', 80],
])('%s', (name, atLeast) => {
  const [head, ...rows] = rowsOf(name)

  it('lists its thirteen languages in the first line', () => {
    expect(head).toEqual(LANGUAGES)
    expect(rows.length).toBeGreaterThanOrEqual(atLeast)
  })

  it('has a form in every language on every line, without duplicates in a cell', () => {
    const faulty = rows.filter((cells) => {
      if (cells.length !== LANGUAGES.length) return true
      return cells.some((cell) => {
        const forms = cell.split('|')
        return forms.some((form) => form === '' || form !== form.trim()) || new Set(forms).size !== forms.length
      })
    })
    expect(faulty).toEqual([])
  })
})
