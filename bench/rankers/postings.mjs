/** An inverted index in typed arrays: term → documents and how often each has it, as a weight. */
export class Postings {
  /** @param documents for each document its terms with weights */
  constructor(documents) {
    this.size = documents.length
    this.lengths = new Float32Array(documents.length)
    const lists = new Map()
    for (const [at, weights] of documents.entries()) {
      for (const [term, weight] of weights) {
        const list = lists.get(term)
        if (list) list.push(at, weight)
        else lists.set(term, [at, weight])
        this.lengths[at] += weight
      }
    }
    this.meanLength = this.lengths.reduce((sum, length) => sum + length, 0) / documents.length || 1
    this.terms = new Map()
    let total = 0
    for (const list of lists.values()) total += list.length / 2
    this.documents = new Uint32Array(total)
    this.weights = new Float32Array(total)
    let end = 0
    for (const [term, list] of lists) {
      const start = end
      for (let i = 0; i < list.length; i += 2, end++) {
        this.documents[end] = list[i]
        this.weights[end] = list[i + 1]
      }
      this.terms.set(term, [start, end])
    }
  }

  /** Robertson and Spärck Jones's weight, never negative. */
  idf(term) {
    const [start, end] = this.terms.get(term) ?? [0, 0]
    return Math.log(1 + (this.size - (end - start) + 0.5) / (end - start + 0.5))
  }
}

/** Terms and how often they occur. */
export function countsOf(terms, weight = 1, counts = new Map()) {
  for (const term of terms) counts.set(term, (counts.get(term) ?? 0) + weight)
  return counts
}

/** BM25 of every document that has a term of the query. @param query term → weight */
export function bm25(postings, query, { k1, b }, scores = new Float32Array(postings.size)) {
  const { documents, weights, lengths, meanLength } = postings
  for (const [term, boost] of query) {
    const [start, end] = postings.terms.get(term) ?? [0, 0]
    const worth = boost * postings.idf(term) * (k1 + 1)
    for (let i = start; i < end; i++) {
      const norm = k1 * (1 - b + (b * lengths[documents[i]]) / meanLength)
      scores[documents[i]] += (worth * weights[i]) / (weights[i] + norm)
    }
  }
  return scores
}

/** Places of the highest scores above zero, best first; the earlier document wins a tie. */
export function best(scores, limit) {
  const top = []
  for (let at = 0; at < scores.length; at++) {
    const score = scores[at]
    if (score <= 0 || (top.length === limit && score <= scores[top[limit - 1]])) continue
    let place = top.length
    while (place > 0 && scores[top[place - 1]] < score) place--
    top.splice(place, 0, at)
    if (top.length > limit) top.pop()
  }
  return top
}
