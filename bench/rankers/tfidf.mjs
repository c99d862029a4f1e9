import { best, countsOf, Postings } from './postings.mjs'
import { contentWords, fieldsOf, stemOf, wordsOf } from './text.mjs'

const termsOf = (text) => contentWords(wordsOf(text)).map(stemOf)

/** Cosine of (1 + ln tf) · idf vectors over all fields as one text. */
export const tfidf = {
  name: 'TF-IDF cosine',
  create(tools) {
    const postings = new Postings(tools.map((tool) => countsOf(termsOf(Object.values(fieldsOf(tool)).join('\n')))))
    const { documents, weights } = postings
    const squares = new Float64Array(tools.length)
    for (const [term, [start, end]] of postings.terms) {
      const idf = postings.idf(term)
      for (let i = start; i < end; i++) {
        weights[i] = (1 + Math.log(weights[i])) * idf
        squares[documents[i]] += weights[i] ** 2
      }
    }
    return (query, limit) => {
      const scores = new Float32Array(tools.length)
      for (const [term, count] of countsOf(termsOf(query))) {
        const [start, end] = postings.terms.get(term) ?? [0, 0]
        const worth = (1 + Math.log(count)) * postings.idf(term)
        for (let i = start; i < end; i++) scores[documents[i]] += worth * weights[i]
      }
      for (let at = 0; at < scores.length; at++) if (scores[at] > 0) scores[at] /= Math.sqrt(squares[at])
      return best(scores, limit).map((at) => tools[at].id)
    }
  },
}
