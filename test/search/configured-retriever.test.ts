import { describe, expect, it } from 'vitest'
import { silentLog } from '../../src/core/log.ts'
import { createConfiguredRetriever, describeEmbedder } from '../../src/search/configured-retriever.ts'
import { searchOptions } from '../../src/search/search-options.ts'

const PLACES = { cacheDir: '/nowhere', baseDir: '/nowhere' }
const labelOf = (embedder: string): string | undefined =>
  createConfiguredRetriever(searchOptions.parse({ embedder }), PLACES, { queryTimeoutMs: 300, log: silentLog })?.status
    .embedder

describe('a shown embedder address', () => {
  it.each([
    ['openai:http://127.0.0.1:11434/v1', 'openai:http://127.0.0.1:11434'],
    ['openai:https://api.example.com/v1?api-key=s3cret#s3cret', 'openai:https://api.example.com'],
    ['openai:https://s3cret@example.com', 'openai:https://example.com'],
    ['openai:https://me:s3@cret@example.com:8443/v1', 'openai:https://example.com:8443'],
    ['openai:https://me:s3/cret@example.com/v1', 'openai:https://example.com'],
    ['openai:https://me:12/s3@cr/et@example.com:8443/v1?k=s3cret', 'openai:https://example.com:8443'],
    ['openai:http://[::1]:8080/v1', 'openai:http://[::1]:8080'],
    ['openai:https://api.example.com/accounts/s3cret/run/@cf/small', 'openai:https://api.example.com'],
  ])('%s has neither user, password, path nor query', (embedder, shown) => {
    expect(describeEmbedder(embedder)).toBe(shown)
    expect(labelOf(embedder)).toBe(shown)
  })

  it.each([
    'openai:https://me:s3?cret@example.com',
    'openai:https://me:12?s3cret@example.com',
    'openai:https://me:s3cret',
    'openai:https://me:s3cret/@',
  ])('%s is omitted if its password cannot be identified', (embedder) => {
    expect(describeEmbedder(embedder)).toBe('openai:…')
  })

  it('is the name as written for a local model', () => {
    expect(describeEmbedder('transformers:./models/a@b?c')).toBe('transformers:./models/a@b?c')
    expect(labelOf('transformers:./models/a')).toBe('transformers:./models/a')
  })
})
