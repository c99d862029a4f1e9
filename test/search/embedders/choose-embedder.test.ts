import { describe, expect, it } from 'vitest'
import { chooseEmbedder } from '../../../src/search/embedders/choose-embedder.ts'
import { searchOptions } from '../../../src/search/search-options.ts'

const places = { baseDir: '/nowhere', cacheDir: '/nowhere/cache' }
const choose = (search: object) => chooseEmbedder(searchOptions.parse(search), places)

describe('the choice of an embedder', () => {
  it('is the embedded one by default', () =>
    expect(searchOptions.parse({})).toMatchObject({
      embedder: 'embedded',
      fusion: 'learned',
      embedderOptions: { queryTimeoutMs: 300, loadTimeoutMs: 60_000, dtype: 'q8', download: true },
    }))

  it.each(['embedded', 'none'])('%s asks for no optional model', (embedder) =>
    expect(choose({ embedder })).toBeUndefined(),
  )

  it('loads nothing by itself', () => {
    expect(choose({ embedder: 'transformers:Xenova/paraphrase-multilingual-MiniLM-L12-v2' })?.label).toBe(
      'transformers:Xenova/paraphrase-multilingual-MiniLM-L12-v2',
    )
    expect(choose({ embedder: 'openai:http://127.0.0.1:1/v1', embedderOptions: { model: 'tiny' } })?.label).toBe(
      'openai:127.0.0.1:1',
    )
  })

  it.each(['', 'minilm', 'transformers:', 'openai:', 'openai:ftp://host', 'openai:host', 'https://host'])(
    'cannot be "%s"',
    (embedder) => {
      const { error } = searchOptions.safeParse({ embedder })
      expect(error?.issues[0]?.message).toBe(
        'must be "embedded", "none", "transformers:<model or folder>" or "openai:<http address>"',
      )
    },
  )

  it('has no other options', () => {
    expect(searchOptions.safeParse({ embedderOptions: { apikey: 'x' } }).success).toBe(false)
    expect(searchOptions.safeParse({ semantic: true }).success).toBe(false)
  })
})
