/** Keeps the best few of many scored slots in a binary heap with the worst on top. Ties go to the lower slot. */
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
  const slots: number[] = []
  const scores: number[] = []

  const worse = (a: number, b: number): boolean => {
    const difference = (scores[a] as number) - (scores[b] as number)
    return difference < 0 || (difference === 0 && (slots[a] as number) > (slots[b] as number))
  }
  const swap = (a: number, b: number): void => {
    const slot = slots[a] as number
    const score = scores[a] as number
    slots[a] = slots[b] as number
    scores[a] = scores[b] as number
    slots[b] = slot
    scores[b] = score
  }
  const sink = (): void => {
    for (let at = 0; ; ) {
      let child = at * 2 + 1
      if (child >= slots.length) return
      if (child + 1 < slots.length && worse(child + 1, child)) child++
      if (!worse(child, at)) return
      swap(child, at)
      at = child
    }
  }

  return {
    get least() {
      return slots.length < limit ? Number.NEGATIVE_INFINITY : (scores[0] ?? Number.POSITIVE_INFINITY)
    },
    wants(slot, score) {
      if (slots.length < limit) return limit > 0
      const worst = scores[0] as number
      return score > worst || (score === worst && slot < (slots[0] as number))
    },
    add(slot, score) {
      if (slots.length >= limit) {
        slots[0] = slot
        scores[0] = score
        sink()
        return
      }
      slots.push(slot)
      scores.push(score)
      for (let at = slots.length - 1; at > 0; ) {
        const parent = (at - 1) >> 1
        if (!worse(at, parent)) return
        swap(at, parent)
        at = parent
      }
    },
    list() {
      const kept = slots.map((slot, at) => ({ slot, score: scores[at] as number }))
      return kept.sort((a, b) => b.score - a.score || a.slot - b.slot)
    },
  }
}
