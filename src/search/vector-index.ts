import { int32Of, packSections, unpackSections } from './packed-sections.ts'
import {
  blockBytesOf,
  createKernel,
  FOUND_AT,
  type Kernel,
  LANES,
  MAX_SCORES,
  MAX_WIDTH,
  ROWS_AT,
  ROWS_PER_BLOCK,
  SCORES_AT,
} from './simd-kernel.ts'
import { createTopK, type TopK } from './top-k.ts'

export interface VectorHit {
  readonly slot: number
  readonly cosine: number
}

/**
 * Vectors by slot, one byte per dimension, compared with a query by brute force. Keep slots dense: gaps cost memory.
 */
export interface VectorIndex {
  readonly dims: number
  /** Number of slots that have a vector. */
  readonly size: number
  /**
   * Replaces the vector of a slot. Results are cosines only if vectors have length 1; a zero vector has cosine 0 with
   * everything.
   * @throws RangeError if the slot is not a natural number, the number of dimensions differs, or a number is not
   * finite
   */
  set(slot: number, vector: Float32Array): void
  clear(slot: number): void
  has(slot: number): boolean
  /**
   * The `limit` nearest accepted slots, best first, ties by slot. `accept` is called only for slots that would be in
   * the answer so far, and must not use this index.
   * @throws RangeError as `set`
   */
  search(query: Float32Array, limit: number, accept: (slot: number) => boolean): VectorHit[]
  /** The cosines that `search` would give for these slots; 0 for an empty slot. @throws RangeError as `set` */
  cosines(slots: Iterable<number>, query: Float32Array): number[]
  /** A copy for `loadVectorIndex`. */
  save(): Uint8Array
}

/** "PGVX" on little-endian machines. */
const MAGIC = 0x58564750
const VERSION = 2

const ROW_PEAK = 127
const INT16_MAX = 32_767
const INT32_MAX = 2_147_483_647
/** Scale of an empty slot: its score is NaN, which never enters the result. */
const EMPTY = Number.NaN
/** Memory grows by a quarter, a compromise between copying and waste. */
const GROWTH = 1.25
/** Blocks per kernel call at the start of a search. */
const FIRST_PASS = 32
const LONGEST_PASS = MAX_SCORES / ROWS_PER_BLOCK

/** @param dims 1 to MAX_WIDTH; rows are padded to a multiple of LANES */
export function createVectorIndex(dims: number, kernel: Kernel = createKernel()): VectorIndex {
  return openIndex(dims, kernel, 0, 0)
}

/** Copies once and parses nothing. @throws RangeError for bytes that `save` did not write */
export function loadVectorIndex(bytes: Uint8Array, kernel: Kernel = createKernel()): VectorIndex {
  const [head, rows] = unpackSections(MAGIC, VERSION, bytes, 2) as [Uint8Array, Uint8Array]
  const [dims = 0, size = 0] = int32Of(head)
  kernel.reserve(ROWS_AT + rows.length)
  new Uint8Array(kernel.buffer, ROWS_AT).set(rows)
  return openIndex(dims, kernel, rows.length / blockBytesOf(widthOf(dims)), size)
}

function openIndex(dims: number, kernel: Kernel, savedBlocks: number, savedSize: number): VectorIndex {
  const width = widthOf(dims)
  const blockBytes = blockBytesOf(width)
  // Keeps sums of products within int32.
  const queryPeak = Math.min(INT16_MAX, Math.floor(INT32_MAX / (ROW_PEAK * width)))
  const rounded = new Int16Array(width)
  let blocks = savedBlocks
  let size = savedSize
  let views = viewsOf(kernel)

  const blockAt = (slot: number): number => ROWS_AT + Math.floor(slot / ROWS_PER_BLOCK) * blockBytes
  const rowAt = (slot: number): number => blockAt(slot) + (slot % ROWS_PER_BLOCK) * LANES
  const scaleIndex = (slot: number): number => (blockAt(slot) + ROWS_PER_BLOCK * width) / 4 + (slot % ROWS_PER_BLOCK)
  const inRange = (slot: number): boolean => Number.isInteger(slot) && slot >= 0 && slot < blocks * ROWS_PER_BLOCK
  const has = (slot: number): boolean => inRange(slot) && !Number.isNaN(views.floats[scaleIndex(slot)])

  function checkVector(vector: Float32Array): void {
    if (vector.length !== dims) throw new RangeError(`a vector of ${vector.length} dimensions among those of ${dims}`)
  }

  function grow(slot: number): void {
    const neededBlocks = Math.floor(slot / ROWS_PER_BLOCK) + 1
    if (neededBlocks <= blocks) return
    const needed = ROWS_AT + neededBlocks * blockBytes
    if (needed > kernel.buffer.byteLength) {
      kernel.reserve(Math.max(needed, Math.ceil((kernel.buffer.byteLength * GROWTH) / 4) * 4))
      views = viewsOf(kernel)
    }
    for (let empty = blocks * ROWS_PER_BLOCK; empty < neededBlocks * ROWS_PER_BLOCK; empty++)
      views.floats[scaleIndex(empty)] = EMPTY
    blocks = neededBlocks
  }

  function addHits(best: TopK, count: number, firstSlot: number, accept: (slot: number) => boolean): void {
    const { found, scores } = views
    for (let index = 0; index < count; index++) {
      const first = found[index]! / Float32Array.BYTES_PER_ELEMENT
      for (let at = first; at < first + ROWS_PER_BLOCK; at++) {
        const score = scores[at]!
        if (score > best.least && accept(firstSlot + at)) best.add(firstSlot + at, score)
      }
    }
  }

  return {
    dims,
    get size() {
      return size
    },
    has,

    set(slot, vector) {
      if (!Number.isInteger(slot) || slot < 0) throw new RangeError(`no slot: ${slot}`)
      checkVector(vector)
      const scale = quantise(vector, ROW_PEAK, rounded)
      grow(slot)
      if (!has(slot)) size++
      views.floats[scaleIndex(slot)] = scale
      const { bytes } = views
      for (let start = 0, at = rowAt(slot); start < width; start += LANES, at += LANES * ROWS_PER_BLOCK)
        for (let lane = 0; lane < LANES; lane++) bytes[at + lane] = rounded[start + lane]!
    },

    clear(slot) {
      if (!has(slot)) return
      views.floats[scaleIndex(slot)] = EMPTY
      size--
    },

    search(query, limit, accept) {
      checkVector(query)
      const scale = quantise(query, queryPeak, views.query)
      const best = createTopK(limit)
      // Starts with short passes, so that a bar soon filters most scores before they reach JavaScript.
      for (let done = 0, pass = FIRST_PASS; done < blocks; done += pass, pass = Math.min(pass * 4, LONGEST_PASS)) {
        const count = kernel.score(ROWS_AT + done * blockBytes, Math.min(pass, blocks - done), width, best.least)
        addHits(best, count, done * ROWS_PER_BLOCK, accept)
      }
      return best.list().map(({ slot, score }) => ({ slot, cosine: score * scale }))
    },

    cosines(slots, query) {
      checkVector(query)
      const scale = quantise(query, queryPeak, views.query)
      return Array.from(slots, (slot) => {
        if (!has(slot)) return 0
        kernel.score(blockAt(slot), 1, width, Number.POSITIVE_INFINITY)
        return views.scores[slot % ROWS_PER_BLOCK]! * scale
      })
    },

    save: () =>
      packSections(MAGIC, VERSION, [
        Int32Array.of(dims, size),
        new Uint8Array(kernel.buffer, ROWS_AT, blocks * blockBytes),
      ]),
  }
}

function viewsOf({ buffer }: Kernel) {
  return {
    bytes: new Int8Array(buffer),
    floats: new Float32Array(buffer),
    query: new Int16Array(buffer, 0, MAX_WIDTH),
    scores: new Float32Array(buffer, SCORES_AT, MAX_SCORES),
    found: new Int32Array(buffer, FOUND_AT, LONGEST_PASS),
  }
}

function widthOf(dims: number): number {
  if (!Number.isInteger(dims) || dims < 1 || dims > MAX_WIDTH) throw new RangeError(`vectors of ${dims} dimensions`)
  return Math.ceil(dims / LANES) * LANES
}

/**
 * Rounds to integers between -peak and peak.
 * @returns the factor that restores the vector's length, so that a cosine exceeds 1 by no more than float rounding
 */
function quantise(vector: Float32Array, peak: number, target: Int16Array): number {
  let largest = 0
  let squares = 0
  for (let index = 0; index < vector.length; index++) {
    const value = vector[index]!
    const size = value < 0 ? -value : value
    if (size > largest) largest = size
    squares += value * value
  }
  if (!Number.isFinite(squares)) throw new RangeError('a vector with numbers that are not finite')
  const factor = largest > 0 ? peak / largest : 0
  let roundedSquares = 0
  for (let index = 0; index < vector.length; index++) {
    const value = Math.round(vector[index]! * factor)
    target[index] = value
    roundedSquares += value * value
  }
  return roundedSquares > 0 ? Math.sqrt(squares / roundedSquares) : 0
}
