import type { FusionWeights } from './fuse-rankings.ts'
import { alignUp, type ModelFileKind, openModelFile, packModelFile } from './model-file.ts'
import { withRoom } from './packed-sections.ts'
import { FIELD_WEIGHTS, type SearchDocument } from './search-document.ts'
import { createKernel, FOUND_AT, type Kernel, LANES, MAX_SCORES, MAX_WIDTH, ROWS_AT, SCORES_AT } from './simd-kernel.ts'
import { MAX_QUERY_CHARACTERS, stemOf } from './tokenize.ts'
import { unitVector } from './unit-vector.ts'
import { gramsOf, hashOf, piecesOf } from './word-pieces.ts'

/**
 * A static embedding model: a vector for every stem, and for the character n-grams of stems it has never seen (as in fastText:
 * Bojanowski et al., "Enriching Word Vectors with Subword Information", 2017). A text is the weighted sum of its stems' vectors;
 * queries and documents weigh them differently. Made by `npm run train`.
 */
export interface EmbeddingTable {
  /** Changes with every training. */
  readonly id: string
  readonly dims: number
  readonly settings: TableSettings
  /** A vector of length 1, or all zeros for a text without words. */
  query(text: string): Float32Array
  document(document: SearchDocument): Float32Array
  /**
   * Address of a stem's vector. With `keep` it stays valid for the life of the table, otherwise until the next stem.
   * Only stems of tools are kept; keeping those of queries would let clients fill the memory.
   */
  addressOf(stem: string, keep: boolean): number
  /** True if training saw at least one word of the text. Vectors of unknown words are estimated from their letters. */
  knows(text: string): boolean
  /** How rare a stem is among the tools seen in training, 0 to 1; 1 for an unknown stem. */
  rarityOf(stem: string): number
  /**
   * Selects the vectors for `cosines`: the first `count` of these addresses. Valid until the next call or the next
   * kept stem.
   */
  choose(addresses: Int32Array, count: number): void
  /** Writes the cosines of the vector at `address` with the selected ones to `out`. */
  cosines(address: number, out: Float32Array): void
}

type FieldName = SearchDocument['fields'][number]['name']

/** Settings of a model. */
export interface TableSettings {
  readonly id: string
  readonly dims: number
  readonly stems: number
  readonly grams: number
  /** Weight of each document field, and how many of its words are read. */
  readonly fields: Readonly<Record<FieldName, readonly [weight: number, words: number]>>
  readonly fusion: FusionWeights
}

/** True if the settings are complete. Checked at load time, so that no query fails later. */
function areUsable({ id, dims, stems, grams, fields, fusion }: TableSettings): boolean {
  const areNumbers = (values: Readonly<Record<string, number>> | undefined): boolean =>
    typeof values === 'object' && Object.values(values).every(Number.isFinite)
  return (
    typeof id === 'string' &&
    [dims, stems, grams].every((count) => Number.isInteger(count) && count > 0) &&
    dims % LANES === 0 &&
    dims <= MAX_WIDTH &&
    typeof fields === 'object' &&
    (Object.keys(FIELD_WEIGHTS) as FieldName[]).every(
      (name) => fields[name]?.length === 2 && fields[name].every(Number.isFinite),
    ) &&
    areNumbers(fusion?.rank) &&
    areNumbers(fusion?.relevance)
  )
}

/** The arrays of a model file. */
export interface TableParts {
  /** Hashes of the stems in ascending order; row i belongs to the stem with the i-th hash. Rows of n-grams follow. */
  readonly hashes: Uint32Array
  readonly queryWeights: Float32Array
  readonly documentWeights: Float32Array
  /** 255 × rarity, stems only. */
  readonly rarities: Uint8Array
  /** Row after row. */
  readonly vectors: Int8Array
}

const TABLE_FILE: ModelFileKind = { name: 'an embedding table', magic: 0x4c425450, version: 1, alignment: 4 }
const QUERY_WORDS_CAP = 64
/** Maximum number of rows summed in one kernel call. Their list uses the memory of the kernel's result list. */
const BATCH = (ROWS_AT - FOUND_AT) / (2 * Int32Array.BYTES_PER_ELEMENT)
/** Number of leading hash bits that select where the search for a hash begins. */
const BUCKET_BITS = 14
const KEPT_CAP = 500_000

export function packTable(settings: TableSettings, parts: TableParts): Uint8Array {
  return packModelFile(TABLE_FILE, settings, [
    parts.hashes,
    parts.queryWeights,
    parts.documentWeights,
    parts.rarities,
    parts.vectors,
  ])
}

/** @throws RangeError for another kind of file, another version, or a truncated file */
export function openTable(file: Uint8Array, kernel: Kernel = createKernel()): EmbeddingTable {
  const { settings: rawSettings, arrays } = openModelFile(TABLE_FILE, file)
  const settings = rawSettings as TableSettings
  if (!areUsable(settings)) throw new RangeError('an embedding table with settings that cannot be used')
  const { dims, stems, grams } = settings
  const rows = stems + grams
  let offset = arrays.byteOffset
  const nextOffset = (length: number): number => {
    const start = offset
    offset += alignUp(length, TABLE_FILE.alignment)
    return start
  }
  // Copies, so that the whole file can be freed.
  const hashes = new Uint32Array(arrays.buffer, nextOffset(stems * 4), stems).slice()
  const queryWeights = new Float32Array(arrays.buffer, nextOffset(rows * 4), rows).slice()
  const documentWeights = new Float32Array(arrays.buffer, nextOffset(rows * 4), rows).slice()
  const rarities = new Uint8Array(arrays.buffer, nextOffset(stems), stems).slice()
  for (const weights of [queryWeights, documentWeights])
    if (!Number.isFinite(weights.reduce((sum, weight) => sum + weight, 0)))
      throw new RangeError('an embedding table with weights that are no numbers')
  const indexOf = createHashFinder(hashes)
  /** After the rows: one temporary vector, then kept vectors made from n-grams. */
  const temporaryAddress = ROWS_AT + rows * dims
  let end = temporaryAddress + dims
  kernel.reserve(end)
  let memory = new Int8Array(kernel.buffer)
  memory.set(new Int8Array(arrays.buffer, nextOffset(rows * dims), rows * dims), ROWS_AT)
  /** Addresses of vectors made from n-grams. */
  const addressesByStem = new Map<string, number>()
  let { pairs, factors, sums } = batchViews()
  let pending = 0
  /** Per row: 1 / length of its vector, computed on first use. */
  let inverses = new Float32Array(rows + 1)
  /** The selected vectors: address of their list, count, and 1 / length of each. */
  let listAddress = 0
  let chosenCount = 0
  let chosenInverses = new Float32Array(1024)

  function batchViews() {
    return {
      pairs: new Int32Array(kernel.buffer, FOUND_AT, BATCH * 2),
      factors: new Float32Array(kernel.buffer, FOUND_AT, BATCH * 2),
      sums: new Float32Array(kernel.buffer, SCORES_AT, dims),
    }
  }

  /** Growing replaces the memory, so all views are created again. */
  function reserve(bytes: number): void {
    kernel.reserve(bytes)
    if (memory.buffer === kernel.buffer) return
    memory = new Int8Array(kernel.buffer)
    ;({ pairs, factors, sums } = batchViews())
  }

  /** Sum of the rows that `add` lists. Valid until the next call. */
  function sumOf(add: () => void): Float32Array {
    sums.fill(0)
    add()
    addPending()
    return sums
  }

  function addRow(row: number, factor: number): void {
    pairs[pending * 2] = ROWS_AT + row * dims
    factors[pending * 2 + 1] = factor
    if (++pending === BATCH) addPending()
  }

  function addPending(): void {
    if (pending > 0) kernel.add(FOUND_AT, pending, dims)
    pending = 0
  }

  /** Adds a stem's own row, or the rows of its n-grams. */
  function addStem(stem: string, weight: number, weights: Float32Array | undefined): void {
    const ownRow = indexOf(hashOf(stem))
    if (ownRow >= 0) {
      addRow(ownRow, weights ? weight * (weights[ownRow] as number) : weight)
      return
    }
    const gramHashes = gramsOf(stem)
    for (const hash of gramHashes) {
      const row = stems + (hash % grams)
      addRow(row, (weight * (weights ? (weights[row] as number) : 1)) / gramHashes.length)
    }
  }

  function addText(text: string, weight: number, cap: number, weights: Float32Array): void {
    const counts = new Map<string, number>()
    for (const piece of piecesOf(text, cap)) {
      const stem = stemOf(piece)
      counts.set(stem, (counts.get(stem) ?? 0) + 1)
    }
    for (const [stem, count] of counts) addStem(stem, weight * (1 + Math.log(count)), weights)
  }

  function createRow(stem: string, keep: boolean): number {
    const sum = sumOf(() => addStem(stem, 1, undefined)).slice()
    let largest = 0
    for (const value of sum) largest = Math.max(largest, Math.abs(value))
    const isKept = keep && addressesByStem.size < KEPT_CAP
    const address = isKept ? end : temporaryAddress
    if (isKept) {
      addressesByStem.set(stem, address)
      end += dims
    }
    inverses = withRoom(inverses, (end - ROWS_AT) / dims)
    inverses[(address - ROWS_AT) / dims] = 0
    // Grows by a large step, so that it happens rarely.
    if (end > kernel.buffer.byteLength) reserve(end + (1 << 20))
    for (let index = 0; index < dims; index++)
      memory[address + index] = largest > 0 ? Math.round(((sum[index] as number) * 127) / largest) : 0
    return address
  }

  function inverseOf(address: number): number {
    const row = (address - ROWS_AT) / dims
    const cached = inverses[row]
    if (cached) return cached
    let squares = 0
    for (let index = address; index < address + dims; index++) squares += (memory[index] as number) ** 2
    const inverse = squares > 0 ? 1 / Math.sqrt(squares) : 0
    inverses[row] = inverse
    return inverse
  }

  return {
    id: settings.id,
    dims,
    settings,
    query(text) {
      return unitVector(sumOf(() => addText(text.slice(0, MAX_QUERY_CHARACTERS), 1, QUERY_WORDS_CAP, queryWeights)))
    },
    document({ fields }) {
      const sum = sumOf(() => {
        for (const { name, text } of fields) {
          const [weight, words] = settings.fields[name]
          if (weight > 0) addText(text, weight, words, documentWeights)
        }
      })
      return unitVector(sum)
    },
    addressOf(stem, keep) {
      const ownRow = indexOf(hashOf(stem))
      return ownRow >= 0 ? ROWS_AT + ownRow * dims : (addressesByStem.get(stem) ?? createRow(stem, keep))
    },
    knows: (text) =>
      piecesOf(text.slice(0, MAX_QUERY_CHARACTERS), QUERY_WORDS_CAP).some(
        (piece) => indexOf(hashOf(stemOf(piece))) >= 0,
      ),
    rarityOf(stem) {
      const ownRow = indexOf(hashOf(stem))
      return ownRow >= 0 ? (rarities[ownRow] as number) / 255 : 1
    },
    choose(addresses, count) {
      chosenCount = count
      listAddress = alignUp(end, 4)
      reserve(listAddress + count * 4)
      new Int32Array(kernel.buffer, listAddress, count).set(addresses.subarray(0, count))
      if (chosenInverses.length < count) chosenInverses = new Float32Array(count * 2)
      for (let index = 0; index < count; index++) chosenInverses[index] = inverseOf(addresses[index] as number)
    },
    cosines(address, out) {
      new Int16Array(kernel.buffer, 0, dims).set(memory.subarray(address, address + dims))
      const inverse = inverseOf(address)
      for (let done = 0; done < chosenCount; done += MAX_SCORES) {
        const size = Math.min(MAX_SCORES, chosenCount - done)
        kernel.gather(listAddress + done * 4, size, dims)
        const sums = new Int32Array(kernel.buffer, SCORES_AT, size)
        for (let index = 0; index < size; index++)
          out[done + index] = (sums[index] as number) * inverse * (chosenInverses[done + index] as number)
      }
    },
  }
}

/** Returns a function that finds a hash in a sorted list; -1 if it is missing. */
function createHashFinder(sorted: Uint32Array): (hash: number) => number {
  /** Start of the hashes with each combination of leading bits. */
  const starts = new Uint32Array((1 << BUCKET_BITS) + 1)
  for (const hash of sorted) {
    const bucket = hash >>> (32 - BUCKET_BITS)
    starts[bucket + 1] = (starts[bucket + 1] as number) + 1
  }
  for (let bucket = 1; bucket < starts.length; bucket++)
    starts[bucket] = (starts[bucket] as number) + (starts[bucket - 1] as number)
  return (hash) => {
    const bucket = hash >>> (32 - BUCKET_BITS)
    const end = starts[bucket + 1] as number
    for (let at = starts[bucket] as number; at < end; at++) if (sorted[at] === hash) return at
    return -1
  }
}
