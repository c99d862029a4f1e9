import type { Bm25 } from './bm25.ts'
import { PART_WEIGHT, type QueryWord, splitJoined, TERM_WEIGHTS, termsOf, undoSwap, type WordTerms } from './terms.ts'
import type { WordRows } from './word-rows.ts'

/** A unit of lookup: one word, all words of a stem, or all words of a synonym group. */
export interface Term {
  /** Equal for terms with the same words. */
  readonly key: string
  readonly words: readonly number[]
  /** The query word it comes from; used to report matches. */
  readonly source: string
  /** Boost × rarity. */
  readonly worth: number
}

/** What is looked up for a query. */
export interface QueryPlan {
  /** The rarest terms. */
  readonly terms: readonly Term[]
  readonly stems: readonly number[]
  readonly unknown: readonly string[]
  /** Unknown words that were replaced. */
  readonly corrections: Map<string, string>
  /** Score of a hypothetical document that contains every term infinitely often. */
  readonly ideal: number
}

/** Maximum number of terms looked up; the rarest ones of a long query. */
const TERMS_CAP = 30
/** Weight of a word found by swapping two letters or splitting a joined word, relative to a correct one. */
const RESPELT_WEIGHT = 0.8
/** Maximum number of unknown words that are corrected. */
const RESPELT_CAP = 16
/** Weight of an uninformative word in a small catalog. In a large one, rarity has the same effect. */
const FAINT_WEIGHT = 0.6
const FAINT_DOCUMENTS = 1000

/** @param accept false for slots whose words count as unknown */
export function planQuery(
  queryWords: readonly QueryWord[],
  rows: WordRows,
  bm25: Bm25,
  accept: (slot: number) => boolean,
): QueryPlan {
  const { rarity, documentsOf, documentsOfStem, wordsOfStem } = bm25
  const isVisible = (words: readonly number[]): boolean => bm25.isVisible(words, accept)
  const faintWeight = (FAINT_WEIGHT * FAINT_DOCUMENTS + bm25.countedSize) / (FAINT_DOCUMENTS + bm25.countedSize)
  const corrections = new Map<string, string>()

  /** The terms for one form of a query word that visible documents contain. */
  function visibleTerms(form: WordTerms, source: string, weight: number): Term[] {
    const terms: Term[] = []
    const add = (key: string, words: readonly number[], boost: number, documents: number): void => {
      if (documents === 0 || !isVisible(words)) return
      terms.push({ key, words, source, worth: boost * weight * rarity(documents) })
    }
    const literal = rows.find(form.word)
    add(`w${literal}`, [literal], TERM_WEIGHTS.word, documentsOf(literal))
    const stem = rows.find(form.stem)
    if (stem >= 0) add(`s${stem}`, wordsOfStem(stem), TERM_WEIGHTS.stem, documentsOfStem(stem))
    if (form.group === undefined) return terms
    const group = bm25.groupOf(form.group)
    add(`g${form.group}`, group.words, TERM_WEIGHTS.synonym, group.documents)
    return terms
  }

  /** The known words that were probably meant: with two letters swapped, or two words written as one. */
  function respell(text: string): readonly string[] | undefined {
    const swapped = undoSwap(text, (other) => isVisible([rows.find(other)]))
    if (swapped) return [swapped]
    return splitJoined(text, (piece) => {
      const word = rows.find(piece)
      return isVisible([word]) ? documentsOf(word) : 0
    })
  }

  function respeltTerms(word: string): Term[] {
    const pieces = respell(word)
    if (!pieces) return []
    corrections.set(word, pieces.join(' '))
    return pieces.flatMap((piece) => visibleTerms(termsOf(piece), word, RESPELT_WEIGHT))
  }

  /**
   * What a query word adds to the ideal score besides its terms. A synonym alone, or no match, is not a full match, because
   * the word could have occurred literally.
   */
  function missingWorth({ stem: text, group }: QueryWord, weight: number, isFound: boolean): number {
    const stem = rows.find(text)
    if (stem >= 0 && isVisible(wordsOfStem(stem)) && documentsOfStem(stem) > 0) return 0
    const documents = isFound && group !== undefined ? bm25.groupOf(group).documents : 0
    return weight * rarity(documents) * (TERM_WEIGHTS.word + TERM_WEIGHTS.stem)
  }

  const terms = new Map<string, Term>()
  const stems: number[] = []
  const unknown: string[] = []
  let ideal = 0
  for (const word of queryWords) {
    const weight = word.faint ? faintWeight : 1
    const found = visibleTerms(word, word.word, weight)
    for (const part of word.parts) found.push(...visibleTerms(part, word.word, PART_WEIGHT * weight))
    if (found.length === 0 && unknown.length < RESPELT_CAP) found.push(...respeltTerms(word.word))
    if (found.length === 0) unknown.push(word.word)
    for (const term of found) if ((terms.get(term.key)?.worth ?? 0) < term.worth) terms.set(term.key, term)
    for (const { stem } of [...word.parts, word]) stems.push(rows.find(stem))
    ideal += missingWorth(word, weight, found.length > 0)
  }
  const bestTerms = [...terms.values()].sort((a, b) => b.worth - a.worth).slice(0, TERMS_CAP)
  for (const { worth } of bestTerms) ideal += worth
  return { terms: bestTerms, stems: stems.filter((stem) => stem >= 0), unknown, corrections, ideal }
}
