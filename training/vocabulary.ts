import { gramsOf, hashOf } from '../src/search/word-pieces.ts'
import type { Text } from './corpus.ts'

/** Which rows of the table stand for a stem: its own, or those of its n-grams. Exactly what `openTable` does. */
export interface Vocabulary {
  readonly stems: readonly string[]
  readonly counts: Float64Array
  readonly grams: number
  readonly rows: number
  rowsOf(stem: string): readonly number[]
}

/** A text as rows of the table and their weights. */
export interface Bag {
  readonly rows: Int32Array
  readonly weights: Float32Array
}

export function createVocabulary(
  counts: ReadonlyMap<string, number>,
  size: number,
  grams: number,
  least: number,
): Vocabulary {
  const hashes = new Set<number>()
  const kept = [...counts]
    .filter(([, count]) => count >= least)
    .sort(([a, first], [b, second]) => second - first || (a < b ? -1 : 1))
    // Two stems of one hash could not be told apart: the commoner has the row.
    .filter(([stem]) => !hashes.has(hashOf(stem)) && hashes.add(hashOf(stem)))
    .slice(0, size)
  const numbers = new Map(kept.map(([stem], row) => [stem, row]))
  const known = new Map<string, readonly number[]>()
  return {
    stems: kept.map(([stem]) => stem),
    counts: Float64Array.from(kept, ([, count]) => count),
    grams,
    rows: kept.length + grams,
    rowsOf(stem) {
      let rows = known.get(stem)
      if (!rows) {
        const own = numbers.get(stem)
        rows = own === undefined ? gramsOf(stem).map((hash) => kept.length + (hash % grams)) : [own]
        known.set(stem, rows)
      }
      return rows
    },
  }
}

/** Adds up weighted texts: a stem weighs 1 + ln(how often) in each, spread evenly over its rows. */
export function bagOf(texts: readonly (readonly [text: Text, weight: number])[], vocabulary: Vocabulary): Bag {
  const weights = new Map<number, number>()
  for (const [text, weight] of texts) {
    const counts = new Map<string, number>()
    for (const stem of text) counts.set(stem, (counts.get(stem) ?? 0) + 1)
    for (const [stem, count] of counts) {
      const rows = vocabulary.rowsOf(stem)
      const share = (weight * (1 + Math.log(count))) / rows.length
      for (const row of rows) weights.set(row, (weights.get(row) ?? 0) + share)
    }
  }
  return { rows: Int32Array.from(weights.keys()), weights: Float32Array.from(weights.values()) }
}
