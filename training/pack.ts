import { packTable, type TableSettings } from '../src/search/embedding-table.ts'
import { hashOf } from '../src/search/word-pieces.ts'
import type { Model } from './model.ts'
import type { Vocabulary } from './vocabulary.ts'

/** A trained model as a file: bytes in place of floats, a row's scale in its weights, stems in the order of their hashes. */
export function packModel(
  model: Model,
  vocabulary: Vocabulary,
  rarityOf: (stem: string) => number,
  settings: Omit<TableSettings, 'dims' | 'stems' | 'grams'>,
): Uint8Array {
  const { dims } = model
  const count = vocabulary.stems.length
  const order = vocabulary.stems.map((stem, row) => ({ stem, row, hash: hashOf(stem) })).sort((a, b) => a.hash - b.hash)
  const rows = [...order.map(({ row }) => row), ...Array.from({ length: vocabulary.grams }, (_, gram) => count + gram)]
  const vectors = new Int8Array(rows.length * dims)
  const queryWeights = new Float32Array(rows.length)
  const documentWeights = new Float32Array(rows.length)
  rows.forEach((row, at) => {
    const vector = model.vectors.subarray(row * dims, (row + 1) * dims)
    let largest = 0
    for (const value of vector) largest = Math.max(largest, Math.abs(value))
    const scale = largest / 127 || 1
    vector.forEach((value, index) => {
      vectors[at * dims + index] = Math.round(value / scale)
    })
    queryWeights[at] = (model.queryWeights[row] as number) * scale
    documentWeights[at] = (model.documentWeights[row] as number) * scale
  })
  return packTable(
    { ...settings, dims, stems: count, grams: vocabulary.grams },
    {
      hashes: Uint32Array.from(order, ({ hash }) => hash),
      queryWeights,
      documentWeights,
      rarities: Uint8Array.from(order, ({ stem }) => Math.round(255 * Math.min(1, rarityOf(stem)))),
      vectors,
    },
  )
}
