export interface VectorHit {
  readonly slot: number
  readonly cosine: number
}

/** Keeps the best `limit` scores. Of equal scores the lower slot is better. */
export interface Nearest {
  /** Only scores above this can still be added. */
  readonly bar: number
  /** Adds a score above the bar; slots must be in ascending order. @returns the new bar */
  add(score: number, slot: number): number
  /** The kept scores, best first, multiplied by `scale`. Empties the collection. */
  take(scale: number): VectorHit[]
}

/** A binary heap with the worst score on top, built only once it is full. Scores are float32. */
export function createNearest(limit: number): Nearest {
  const scores = new Float32Array(limit)
  const slots = new Uint32Array(limit)
  let kept = 0

  /** Places an entry at the free position `start` or below it, so that the heap stays ordered. */
  function sink(start: number, score: number, slot: number): void {
    let at = start
    for (let child = 2 * at + 1; child < kept; child = 2 * at + 1) {
      if (child + 1 < kept && worse(scores[child + 1]!, slots[child + 1]!, scores[child]!, slots[child]!)) child++
      if (!worse(scores[child]!, slots[child]!, score, slot)) break
      scores[at] = scores[child]!
      slots[at] = slots[child]!
      at = child
    }
    scores[at] = score
    slots[at] = slot
  }

  function order(): void {
    for (let at = (kept >> 1) - 1; at >= 0; at--) sink(at, scores[at]!, slots[at]!)
  }

  return {
    get bar() {
      if (limit === 0) return Number.POSITIVE_INFINITY
      return kept < limit ? Number.NEGATIVE_INFINITY : scores[0]!
    },
    add(score, slot) {
      if (kept === limit) {
        sink(0, score, slot)
        return scores[0]!
      }
      scores[kept] = score
      slots[kept++] = slot
      if (kept < limit) return Number.NEGATIVE_INFINITY
      order()
      return scores[0]!
    },
    take(scale) {
      if (kept < limit) order()
      const hits: VectorHit[] = []
      while (kept > 0) {
        hits.push({ slot: slots[0]!, cosine: scores[0]! * scale })
        kept--
        sink(0, scores[kept]!, slots[kept]!)
      }
      return hits.reverse()
    },
  }
}

function worse(score: number, slot: number, thanScore: number, thanSlot: number): boolean {
  return score < thanScore || (score === thanScore && slot > thanSlot)
}
