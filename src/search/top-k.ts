/** Keeps the best few of many scored slots. Ties go to the lower slot. */
export interface TopK {
  /** True if a slot with this score would be kept. */
  wants(slot: number, score: number): boolean
  /** The lowest kept score, which another must exceed or reach with a lower slot; minus infinity while there is room. */
  readonly least: number
  add(slot: number, score: number): void
  /** The kept slots, best first. */
  list(): { slot: number; score: number }[]
}

export function createTopK(limit: number): TopK {
  const kept: { slot: number; score: number }[] = []
  const isBefore = (slot: number, score: number, other: { slot: number; score: number }): boolean =>
    score > other.score || (score === other.score && slot < other.slot)
  return {
    get least() {
      return kept.length < limit ? Number.NEGATIVE_INFINITY : (kept.at(-1)?.score ?? Number.POSITIVE_INFINITY)
    },
    wants(slot, score) {
      const last = kept.at(-1)
      return kept.length < limit || (last !== undefined && isBefore(slot, score, last))
    },
    add(slot, score) {
      let at = kept.length
      while (at > 0 && isBefore(slot, score, kept[at - 1] as (typeof kept)[number])) at--
      kept.splice(at, 0, { slot, score })
      if (kept.length > limit) kept.pop()
    },
    list: () => kept.slice(),
  }
}
