import { getOrInsert } from '../core/get-or-insert.ts'
import { withRoom } from './packed-sections.ts'
import { COUNT_MASK, invert, type Postings, SLOT_SHIFT } from './postings.ts'
import { synonymGroups } from './synonyms.ts'
import { COUNT_SCALE, type WordRows } from './word-rows.ts'

/** The words of a synonym group that occur in documents, and how many documents contain any of them. */
interface Group {
  readonly words: readonly number[]
  readonly documents: number
}

/**
 * BM25 with one saturation (Robertson, Zaragoza, "The Probabilistic Relevance Framework", 2009) over the weighted counts of
 * all fields, as in BM25F. Numbers of documents leave out the slots in `LexicalOptions.uncounted`.
 */
export type Bm25 = ReturnType<typeof createBm25>

/** Tuned on the labelled sets; see `pegboard eval`. */
const SATURATION = 0.9
const LENGTH_NORM = 0.45

/** @param savedPostings the postings of these rows. `update(false)` computes them again */
export function createBm25(rows: WordRows, savedPostings: Postings) {
  let postings = savedPostings
  // Computed from the rows by `update`. Per stem: its first word plus 1, and in how many documents its words are. Per word: the
  // next word of the same stem plus 1.
  let firstWords = new Int32Array()
  let nextWords = new Int32Array()
  let stemDocuments = new Uint32Array()
  /** Per slot: the sum of its counts. */
  let lengths = new Float32Array()
  let totalLength = 0
  const groups = new Map<number, Group>()
  // What depends on the documents that count. Per slot: 1 for an uncounted one. Per stem: in how many documents that count its
  // words are, plus 1; 0 if not computed yet.
  let uncounted: readonly number[] = []
  let uncountedFlags = new Uint8Array()
  let countedByStem = new Uint32Array()
  let countedSize = 0
  /** The average length that `norms` was computed for. */
  let averageLength = Number.NaN
  let norms = new Float32Array()
  let scores = new Float32Array()
  // Reused by `gather` to avoid allocations.
  let counts = new Uint16Array()
  let gathered = new Uint32Array()

  function linkStems(): void {
    const { wordCount, stemOf } = rows
    firstWords = new Int32Array(wordCount)
    nextWords = new Int32Array(wordCount)
    for (let word = 0; word < wordCount; word++) {
      if (!isUsed(word)) continue
      const stem = stemOf(word)
      nextWords[word] = firstWords[stem] as number
      firstWords[stem] = word + 1
    }
  }

  /** Counts the documents of each stem, and adds up the length of each document. */
  function measureDocuments(usedSlots: readonly number[]): void {
    const { wordCount, stemOf } = rows
    stemDocuments = new Uint32Array(wordCount)
    totalLength = 0
    averageLength = Number.NaN
    /** Per stem: the last slot it was counted for, plus 1. */
    const counted = new Uint32Array(wordCount)
    for (const slot of usedSlots) {
      let length = 0
      rows.visit(slot, (word, count) => {
        length += count
        const stem = stemOf(word)
        if (counted[stem] === slot + 1) return
        counted[stem] = slot + 1
        stemDocuments[stem] = (stemDocuments[stem] as number) + 1
      })
      lengths[slot] = length
      totalLength += length
    }
  }

  function setAverageLength(average: number): void {
    if (average === averageLength) return
    averageLength = average
    for (let slot = 0; slot < rows.slots; slot++)
      norms[slot] = SATURATION * COUNT_SCALE * (1 - LENGTH_NORM + (LENGTH_NORM * (lengths[slot] as number)) / average)
  }

  /** True if a document contains the word. */
  const isUsed = (word: number): boolean => (postings.starts[word + 1] as number) > (postings.starts[word] as number)

  /** Sums the counts of several words into `counts` and collects their slots in `gathered`. @returns how many slots */
  function gather(words: readonly number[]): number {
    const { starts, entries } = postings
    // Local copies, because reading closure variables in this loop is slower.
    const sums = counts
    const into = gathered
    let slotCount = 0
    for (const word of words) {
      const end = starts[word + 1] ?? 0
      for (let at = starts[word] ?? 0; at < end; at++) {
        const entry = entries[at] as number
        const slot = entry >>> SLOT_SHIFT
        const previousCount = sums[slot] as number
        if (previousCount === 0) into[slotCount++] = slot
        sums[slot] = previousCount + (entry & COUNT_MASK)
      }
    }
    return slotCount
  }

  /** Number of documents with any of these words. */
  function countDocuments(words: readonly number[]): number {
    const slotCount = gather(words)
    let documents = slotCount
    for (let at = 0; at < slotCount; at++) {
      const slot = gathered[at] as number
      counts[slot] = 0
      documents -= uncountedFlags[slot] as number
    }
    return documents
  }

  function wordsOfStem(stem: number): number[] {
    const words: number[] = []
    for (let word = firstWords[stem] as number; word > 0; word = nextWords[word - 1] as number) words.push(word - 1)
    return words
  }

  function documentsOfStem(stem: number): number {
    if (uncounted.length === 0) return stemDocuments[stem] as number
    if (countedByStem[stem] === 0) countedByStem[stem] = countDocuments(wordsOfStem(stem)) + 1
    return (countedByStem[stem] as number) - 1
  }

  /** Inverse document frequency: high for a word that few documents contain. */
  function rarity(documents: number): number {
    return Math.log(1 + (countedSize - documents + 0.5) / (documents + 0.5))
  }

  function createGroup(group: number): Group {
    const words: number[] = []
    for (const text of synonymGroups().stemsOf[group] ?? []) {
      const stem = rows.find(text)
      if (stem >= 0) words.push(...wordsOfStem(stem))
    }
    return { words, documents: countDocuments(words) }
  }

  /** As `addScores` for one word, without the cost of `gather`. */
  function addScoresOfWord(word: number, weight: number): void {
    const { starts, entries } = postings
    // Local copies, because reading closure variables in this loop is slower.
    const into = scores
    const normOf = norms
    const end = starts[word + 1] ?? 0
    for (let at = starts[word] ?? 0; at < end; at++) {
      const entry = entries[at] as number
      const count = entry & COUNT_MASK
      const slot = entry >>> SLOT_SHIFT
      into[slot] = (into[slot] as number) + (weight * count) / (count + (normOf[slot] as number))
    }
  }

  return {
    /** Number of documents without the uncounted ones. */
    get countedSize() {
      return countedSize
    },
    get postings() {
      return postings
    },
    /** Per slot: its score so far. */
    get scores() {
      return scores
    },
    isUsed,
    wordsOfStem,
    documentsOfStem,
    rarity,
    rarityOfStem: (stem: number): number => rarity(documentsOfStem(stem)),

    /** Computes everything again after the rows changed. @param hasPostings false if the postings are older than the rows */
    update(hasPostings: boolean): void {
      groups.clear()
      const usedSlots = rows.usedSlots()
      if (!hasPostings) postings = invert(rows.wordCount, usedSlots, rows.visit)
      linkStems()
      scores = withRoom(scores, rows.slots)
      norms = withRoom(norms, rows.slots)
      lengths = withRoom(lengths, rows.slots)
      counts = withRoom(counts, rows.slots)
      gathered = withRoom(gathered, rows.slots)
      uncountedFlags = withRoom(uncountedFlags, rows.slots)
      measureDocuments(usedSlots)
    },

    /** Starts a search: all scores become 0. @param nextUncounted slots of documents that do not count */
    begin(nextUncounted: readonly number[]): void {
      scores.fill(0)
      if (uncounted.length + nextUncounted.length > 0) groups.clear()
      for (const slot of uncounted) uncountedFlags[slot] = 0
      uncounted = nextUncounted.filter(rows.has)
      countedByStem = withRoom(countedByStem, rows.wordCount)
      if (uncounted.length > 0) countedByStem.fill(0)
      countedSize = rows.size - uncounted.length
      let length = totalLength
      for (const slot of uncounted) {
        uncountedFlags[slot] = 1
        length -= lengths[slot] as number
      }
      setAverageLength(length / Math.max(1, countedSize))
    },

    /** Adds to the scores of all documents with any of these words; at most `weight`. */
    addScores(words: readonly number[], weight: number): void {
      if (words.length === 1) {
        addScoresOfWord(words[0] as number, weight)
        return
      }
      const slotCount = gather(words)
      const from = gathered
      const sums = counts
      const into = scores
      const normOf = norms
      for (let at = 0; at < slotCount; at++) {
        const slot = from[at] as number
        const count = sums[slot] as number
        sums[slot] = 0
        into[slot] = (into[slot] as number) + (weight * count) / (count + (normOf[slot] as number))
      }
    },

    /** Number of documents with a word; 0 for -1. */
    documentsOf(word: number): number {
      if (word < 0) return 0
      const { starts, entries } = postings
      const [from, end] = [starts[word] as number, starts[word + 1] as number]
      let documents = end - from
      if (uncounted.length > 0)
        for (let at = from; at < end; at++)
          documents -= uncountedFlags[(entries[at] as number) >>> SLOT_SHIFT] as number
      return documents
    },

    groupOf: (group: number): Group => getOrInsert(groups, group, () => createGroup(group)),

    /**
     * True if an accepted document contains any of these words. Words that only hidden documents contain count as
     * unknown.
     */
    isVisible(words: readonly number[], accept: (slot: number) => boolean): boolean {
      const { starts, entries } = postings
      for (const word of words) {
        const end = starts[word + 1] ?? 0
        for (let at = starts[word] ?? 0; at < end; at++) if (accept((entries[at] as number) >>> SLOT_SHIFT)) return true
      }
      return false
    },
  }
}
