/** Keeps the best few of many scored slots. Ties go to the lower slot. */
export interface TopK {
  /** True if a slot with this score would be kept. */
  accepts(slot: number, score: number): boolean
  /** The lowest kept score, which another must exceed or reach with a lower slot; minus infinity while there is room. */
  readonly least: number
  add(slot: number, score: number): void
  /** The kept slots, best first. */
  list(): { slot: number; score: number }[]
}

export function createTopK(limit: number): TopK {
  const top: { slot: number; score: number }[] = []
  const isBefore = (slot: number, score: number, other: { slot: number; score: number }): boolean =>
    score > other.score || (score === other.score && slot < other.slot)
  return {
    get least() {
      return top.length < limit ? Number.NEGATIVE_INFINITY : (top.at(-1)?.score ?? Number.POSITIVE_INFINITY)
    },
    accepts(slot, score) {
      const last = top.at(-1)
      return top.length < limit || (last !== undefined && isBefore(slot, score, last))
    },
    add(slot, score) {
      let index = top.length
      while (index > 0 && isBefore(slot, score, top[index - 1] as (typeof top)[number])) index--
      top.splice(index, 0, { slot, score })
      if (top.length > limit) top.pop()
    },
    list: () => top.slice(),
  }
}
