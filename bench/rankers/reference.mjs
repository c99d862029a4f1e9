import { best, bm25, countsOf, Postings } from './postings.mjs'
import { contentWords, fieldsOf, stemOf, wordsOf } from './text.mjs'

const WEIGHTS = { name: 2, description: 1, parameters: 0.7, server: 1 }
const RANKING = { k1: 1.2, b: 0.75 }
const COVERAGE_CAP = 0.35

/** Words as they stand and their stems, as terms that cannot be mistaken for each other. */
const termsOf = (text) => contentWords(wordsOf(text)).flatMap((word) => [word, `=${stemOf(word)}`])

/**
 * The best lexical ranking measured before this product had one: a single BM25 saturation over weighted fields, exact and
 * stemmed terms together, stop words, and a lift of at most 35 % for the share of the tool's name that the query covers,
 * weighed by rarity.
 */
export const reference = {
  name: 'best known',
  create(tools) {
    const names = []
    const postings = new Postings(
      tools.map((tool) => {
        const fields = fieldsOf(tool)
        names.push([...new Set(wordsOf(fields.name).map((word) => `=${stemOf(word)}`))])
        const counts = new Map()
        for (const [field, weight] of Object.entries(WEIGHTS)) countsOf(termsOf(fields[field]), weight, counts)
        return counts
      }),
    )
    return (query, limit) => {
      const terms = new Set(termsOf(query))
      const scores = bm25(postings, countsOf(terms), RANKING)
      for (let at = 0; at < scores.length; at++) {
        if (scores[at] <= 0) continue
        let covered = 0
        let all = 0
        for (const stem of names[at]) {
          const worth = postings.idf(stem)
          all += worth
          if (terms.has(stem)) covered += worth
        }
        if (covered > 0) scores[at] *= 1 + (COVERAGE_CAP * covered) / all
      }
      return best(scores, limit).map((at) => tools[at].id)
    }
  },
}
