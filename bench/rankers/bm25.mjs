import { best, bm25, countsOf, Postings } from './postings.mjs'
import { contentWords, fieldsOf, stemOf, wordsOf } from './text.mjs'

const termsOf = (text) => contentWords(wordsOf(text)).map(stemOf)

/** BM25 (k1 1.2, b 0.75) over name, description, parameters and server as one text. */
export const plainBm25 = {
  name: 'BM25',
  create(tools) {
    const postings = new Postings(tools.map((tool) => countsOf(termsOf(Object.values(fieldsOf(tool)).join('\n')))))
    return (query, limit) => {
      const scores = bm25(postings, countsOf(new Set(termsOf(query))), { k1: 1.2, b: 0.75 })
      return best(scores, limit).map((at) => tools[at].id)
    }
  },
}

const WEIGHTS = { name: 2, description: 1, parameters: 0.7, server: 1 }

/** A BM25 of its own for every field, added up with weights. */
export const perFieldBm25 = {
  name: 'BM25 per field',
  create(tools) {
    const fields = Object.entries(WEIGHTS).map(([field, weight]) => ({
      weight,
      postings: new Postings(tools.map((tool) => countsOf(termsOf(fieldsOf(tool)[field])))),
    }))
    return (query, limit) => {
      const terms = new Set(termsOf(query))
      const scores = new Float32Array(tools.length)
      for (const { weight, postings } of fields) bm25(postings, countsOf(terms, weight), { k1: 1.2, b: 0.75 }, scores)
      return best(scores, limit).map((at) => tools[at].id)
    }
  },
}
