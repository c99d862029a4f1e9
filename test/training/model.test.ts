import { describe, expect, it } from 'vitest'
import { openTable } from '../../src/search/embedding-table.ts'
import { batchesOf } from '../../training/epoch.ts'
import { FIRST_FUSION, type Judged, learnRank, learnRelevance } from '../../training/fusion.ts'
import { createMatrices } from '../../training/matrices.ts'
import { createModel, floatsFor } from '../../training/model.ts'
import { FIELDS } from '../../training/options.ts'
import { packModel } from '../../training/pack.ts'
import { createRandom } from '../../training/random.ts'
import type { Source } from '../../training/sources.ts'
import { bagOf, createVocabulary } from '../../training/vocabulary.ts'

/** Invented words with meanings; every text has one of each. */
const MEANINGS = Array.from({ length: 64 }, (_, at) => {
  const letters = String.fromCharCode(97 + (at % 26), 97 + Math.floor(at / 26))
  return [`z${letters}rkun`, `p${letters}limo`] as const
})

function train(seed: number): Uint8Array {
  const vocabulary = createVocabulary(new Map(MEANINGS.flat().map((word) => [word, 5])), 200, 64, 1)
  const source: Source = {
    name: 'words',
    weight: 1,
    count: MEANINGS.length,
    draw(index) {
      const [word, meaning] = MEANINGS[index] as (typeof MEANINGS)[number]
      const bag = (text: string) => bagOf([[[text], 1]], vocabulary)
      return { query: bag(word), document: bag(meaning), group: `${index}` }
    },
    clusterOf: () => '',
  }
  const matrices = createMatrices(floatsFor(vocabulary.rows, 32, 64))
  const model = createModel(vocabulary, matrices, { dims: 32, batch: 64, scale: 20, seed })
  const random = createRandom(seed)
  for (let epoch = 0; epoch < 60; epoch++)
    for (const batch of batchesOf([source], { batch: 64, clustered: 0 }, random)) model.learn(batch, 0.05, 0.02)
  return packModel(model, vocabulary, () => 0.5, { id: 'test', fields: FIELDS, fusion: FIRST_FUSION })
}

const dot = (a: Float32Array, b: Float32Array): number => a.reduce((sum, value, at) => sum + value * (b[at] ?? 0), 0)

describe('training', () => {
  const bytes = train(1)

  it('brings related texts together, and only those', () => {
    const table = openTable(bytes)
    const nearest = MEANINGS.map(([word]) => {
      const query = table.query(word)
      const cosines = MEANINGS.map(([, meaning]) => dot(query, table.query(meaning)))
      return cosines.indexOf(Math.max(...cosines))
    })
    expect(nearest.filter((found, at) => found === at).length).toBe(64)
  })

  it('is reproducible for a seed, and differs for another', () => {
    expect(Buffer.compare(train(1), bytes)).toBe(0)
    expect(Buffer.compare(train(2), bytes)).not.toBe(0)
  })
})

describe('learned fusion', () => {
  const judged = Array.from({ length: 40 }, (_, at): Judged => {
    const random = createRandom(at)
    return {
      set: 'made up',
      relevant: new Set(['right']),
      candidates: ['right', 'wrong', 'bad'].map((id) => ({
        id,
        exactName: false,
        // lexical, lexicalShare, cosine, covered, nameCovered
        features: [random(), random(), id === 'right' ? 0.6 : 0.2, random(), random()],
      })),
    }
  })

  it('finds the informative feature', () => {
    const { cosine = 0, lexical = 0, covered = 0 } = learnRank(judged, { epochs: 200 })
    expect(cosine).toBeGreaterThan(5 * Math.max(Math.abs(lexical), Math.abs(covered)))
  })

  it('learns the threshold of right answers', () => {
    const { cosine = 0, bias = 0 } = learnRelevance(
      judged.flatMap(({ candidates }) =>
        candidates.map(({ id, features }) => ({
          features: [0, 0, features[2] ?? 0, 0, 0],
          relevant: id === 'right',
          weight: 1,
        })),
      ),
      [{ cosine: 1 }],
    )
    const likely = (value: number): number => 1 / (1 + Math.exp(-cosine * value - bias))
    expect(likely(0.6)).toBeGreaterThan(0.9)
    expect(likely(0.2)).toBeLessThan(0.1)
  })
})
