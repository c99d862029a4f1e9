import type { Random } from './random.ts'
import { shuffle } from './random.ts'
import type { Example, Source } from './sources.ts'

const FEWEST = 32

/** The batches of one epoch: some of the examples mixed, the others by source and cluster, so that near ones meet. */
export function* batchesOf(
  sources: readonly Source[],
  { batch, clustered }: { readonly batch: number; readonly clustered: number },
  random: Random,
): Generator<Example[]> {
  const all: { readonly source: Source; readonly index: number; readonly order: number }[] = []
  sources.forEach((source, number) => {
    const clusters = new Map<string, number>()
    for (let left = source.weight; left > 0; left--) {
      for (let index = 0; index < source.count; index++) {
        if (left < 1 && random() >= left) continue
        let order = random()
        if (random() < clustered) {
          const cluster = source.clusterOf(index)
          const place = clusters.get(cluster) ?? random()
          clusters.set(cluster, place)
          order = 1 + number + place
        }
        all.push({ source, index, order })
      }
    }
  })
  all.sort((a, b) => a.order - b.order)
  const starts = Array.from({ length: Math.floor(all.length / batch) }, (_, at) => at * batch)
  for (const start of shuffle(starts, random)) {
    const examples = all
      .slice(start, start + batch)
      .map(({ source, index }) => source.draw(index))
      .filter(({ query, document }) => query.rows.length > 0 && document.rows.length > 0)
    if (examples.length >= FEWEST) yield examples
  }
}

/** How many batches `batchesOf` gives, nearly. */
export function batchCount(sources: readonly Source[], batch: number): number {
  return Math.floor(sources.reduce((sum, { count, weight }) => sum + count * weight, 0) / batch)
}
