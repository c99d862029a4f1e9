import type { SearchDocument } from './document.ts'
import { gramsOf, hashOf, piecesOf } from './pieces.ts'
import { stemOf } from './tokenize.ts'

/**
 * A static embedding model: a table with a vector for every stem, and for character n-grams of stems it has never seen
 * (fastText, Bojanowski et al. 2017). A text is the weighted sum of its stems' vectors, at length 1; queries and documents
 * weigh stems differently. Made by `npm run train`.
 */
export interface EmbeddingTable {
  /** Changes with every training. */
  readonly id: string
  readonly dims: number
  /** What training learnt beside the table: JSON. */
  readonly settings: TableSettings
  /** At length 1; all zeros for a text without words. */
  query(text: string): Float32Array
  document(document: SearchDocument): Float32Array
  /** One stem's vector at length 1. */
  word(stem: string): Float32Array
}

/** What a document's fields weigh, and how many stems of each are read. */
export type FieldShares = Readonly<
  Record<SearchDocument['fields'][number]['name'], readonly [weight: number, stems: number]>
>

export interface TableSettings {
  readonly id: string
  readonly dims: number
  readonly stems: number
  readonly grams: number
  readonly fields: FieldShares
  readonly fusion: FusionWeights
}

/** A linear combination of features, each first centred and scaled; and a logistic one for "is this relevant at all". */
export interface FusionWeights {
  readonly rank: Readonly<Record<string, number>>
  readonly relevance: Readonly<Record<string, number>>
}

const MAGIC = 0x4c425450
const VERSION = 1
const HEADER_BYTES = 16
const QUERY_STEMS_CAP = 64
const QUERY_CHARACTERS_CAP = 2048
const REMEMBERED = 20_000

/**
 * Opens a model file: a header (magic, version, bytes of settings, total bytes), the settings as JSON, then by row the
 * sorted stem hashes (uint32, stems only), the weights in queries and in documents (float32) and the vectors (int8).
 * @throws RangeError for another kind of file, another version, or one cut short
 */
export function openTable(bytes: Uint8Array): EmbeddingTable {
  const whole = bytes.byteOffset % 4 === 0 ? bytes : bytes.slice()
  const header = new Uint32Array(whole.buffer, whole.byteOffset, HEADER_BYTES / 4)
  if (whole.length < HEADER_BYTES || header[0] !== MAGIC) throw new RangeError('not an embedding table')
  if (header[1] !== VERSION) throw new RangeError('an embedding table of another version')
  if (header[3] !== whole.length) throw new RangeError('an embedding table cut short')
  const settingsBytes = header[2] as number
  const settings = JSON.parse(
    Buffer.from(whole.buffer, whole.byteOffset + HEADER_BYTES, settingsBytes).toString(),
  ) as TableSettings
  const { dims, stems, grams } = settings
  const rows = stems + grams
  let at = whole.byteOffset + HEADER_BYTES + ((settingsBytes + 3) & -4)
  const hashes = new Uint32Array(whole.buffer, at, stems)
  at += stems * 4
  const queryWeights = new Float32Array(whole.buffer, at, rows)
  at += rows * 4
  const documentWeights = new Float32Array(whole.buffer, at, rows)
  at += rows * 4
  const table = new Int8Array(whole.buffer, at, rows * dims)
  const remembered = new Map<string, readonly number[]>()

  /** The rows that stand for a stem: its own, or those of its n-grams. */
  function rowsOf(stem: string): readonly number[] {
    const known = remembered.get(stem)
    if (known) return known
    const own = indexOf(hashes, hashOf(stem))
    const found = own >= 0 ? [own] : gramsOf(stem).map((hash) => stems + (hash % grams))
    if (remembered.size >= REMEMBERED) remembered.clear()
    remembered.set(stem, found)
    return found
  }

  function addStem(stem: string, weight: number, weights: Float32Array, sum: Float32Array): void {
    const found = rowsOf(stem)
    for (const row of found) {
      const factor = (weight * (weights[row] as number)) / found.length
      const from = row * dims
      for (let index = 0; index < dims; index++)
        sum[index] = (sum[index] as number) + factor * (table[from + index] as number)
    }
  }

  function addText(text: string, weight: number, cap: number, weights: Float32Array, sum: Float32Array): void {
    const counts = new Map<string, number>()
    for (const piece of piecesOf(text, cap)) {
      const stem = stemOf(piece)
      counts.set(stem, (counts.get(stem) ?? 0) + 1)
    }
    for (const [stem, count] of counts) addStem(stem, weight * (1 + Math.log(count)), weights, sum)
  }

  return {
    id: settings.id,
    dims,
    settings,
    query(text) {
      const sum = new Float32Array(dims)
      addText(text.slice(0, QUERY_CHARACTERS_CAP), 1, QUERY_STEMS_CAP, queryWeights, sum)
      return atLengthOne(sum)
    },
    document({ fields }) {
      const sum = new Float32Array(dims)
      for (const { name, text } of fields) {
        const [weight, cap] = settings.fields[name]
        if (weight > 0) addText(text, weight, cap, documentWeights, sum)
      }
      return atLengthOne(sum)
    },
    word(stem) {
      const sum = new Float32Array(dims)
      addStem(stem, 1, queryWeights, sum)
      return atLengthOne(sum)
    },
  }
}

function atLengthOne(vector: Float32Array): Float32Array {
  let squares = 0
  for (const value of vector) squares += value * value
  const factor = squares > 0 ? 1 / Math.sqrt(squares) : 0
  for (let index = 0; index < vector.length; index++) vector[index] = (vector[index] as number) * factor
  return vector
}

/** Where a number is in a sorted list; -1 when it is not. */
function indexOf(sorted: Uint32Array, wanted: number): number {
  let low = 0
  let high = sorted.length
  while (low < high) {
    const middle = (low + high) >> 1
    const found = sorted[middle] as number
    if (found === wanted) return middle
    if (found < wanted) low = middle + 1
    else high = middle
  }
  return -1
}
