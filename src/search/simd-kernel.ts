import { instantiateWasm, WASM_PAGE_BYTES } from './wasm.ts'

/**
 * Scores one query against rows of bytes: with WebAssembly SIMD if available, otherwise in JavaScript with the same results.
 *
 * Memory, the same for both: the query as int16 at 0, up to MAX_SCORES float32 scores at SCORES_AT, the list of those above the bar
 * at FOUND_AT, rows from ROWS_AT on in blocks of ROWS_PER_BLOCK. A block holds 16 dimensions of each row in turn, then the rows'
 * float32 scales. A score is the integer dot product, rounded to float32, times the row's scale.
 */
export interface Kernel {
  /** Each `reserve` can replace the buffer, which invalidates earlier views. */
  readonly buffer: ArrayBuffer
  /** Grows the buffer to at least this length; new bytes are 0. @throws RangeError if there is not enough memory */
  reserve(bytes: number): void
  /**
   * Writes the scores of `blocks` blocks (1 to MAX_SCORES / ROWS_PER_BLOCK), the first one at address `row`. `width` is the number
   * of dimensions, a multiple of LANES; no sum of products may leave int32. For each block with a score above `bar` the list at
   * FOUND_AT has an int32, the distance of its scores from SCORES_AT in bytes; returns how many there are.
   */
  score(row: number, blocks: number, width: number, bar: number): number
  /**
   * Writes int32 dot products of the query with `count` rows (1 to MAX_SCORES), each `width` plain bytes, from SCORES_AT on. `list`
   * is the address of the rows' addresses (int32).
   */
  gather(list: number, count: number, width: number): void
  /**
   * Adds `count` rows (at least 1), each `width` plain bytes times a factor, to `width` float32 sums from SCORES_AT on. `list` is
   * the address of pairs of an address (int32) and a factor (float32). Every product and every sum is rounded to float32.
   */
  add(list: number, count: number, width: number): void
}

export const LANES = 16
export const ROWS_PER_BLOCK = 4
export const MAX_WIDTH = 4096
export const SCORES_AT = MAX_WIDTH * Int16Array.BYTES_PER_ELEMENT
export const MAX_SCORES = 4096
export const FOUND_AT = SCORES_AT + MAX_SCORES * Float32Array.BYTES_PER_ELEMENT
export const ROWS_AT = FOUND_AT + (MAX_SCORES / ROWS_PER_BLOCK) * Int32Array.BYTES_PER_ELEMENT

/** scripts/simd.wat, assembled by scripts/simd.mjs. */
const MODULE =
  'AGFzbQEAAAABDwJgBH9/f30Bf2ADf39/AAMEAwABAQUDAQABByEEBm1lbW9yeQIABXNjb3JlAAAGZ2F0aGVyAAEDYWRkAAIKwAYDrgMCBH8Iey' +
  'ACQQF0IQUgA/0TIQsDQCAKIQwgCiENIAohDiAKIQ9BACEEA0AgBP0ABAAhCCAE/QAEECEJIAwgAP0BAwAgCP26ASAA/QEDCCAJ/boB/a4B/a4B' +
  'IQwgDSAA/QEDECAI/boBIAD9AQMYIAn9ugH9rgH9rgEhDSAOIAD9AQMgIAj9ugEgAP0BAyggCf26Af2uAf2uASEOIA8gAP0BAzAgCP26ASAA/Q' +
  'EDOCAJ/boB/a4B/a4BIQ8gAEHAAGohACAEQSBqIQQgBCAFSQ0ACyAMIA39DQABAgMQERITBAUGBxQVFhcgDCAN/Q0ICQoLGBkaGwwNDg8cHR4f' +
  '/a4BIQggDiAP/Q0AAQIDEBESEwQFBgcUFRYXIA4gD/0NCAkKCxgZGhsMDQ4PHB0eH/2uASEJIAYgCCAJ/Q0AAQIDBAUGBxAREhMUFRYXIAggCf' +
  '0NCAkKCwwNDg8YGRobHB0eH/2uAf36ASAA/QAEAP3mASII/QsEgEAgByAGNgKAwAEgByAIIAv9RP1TQQJ0aiEHIABBEGohACAGQRBqIQYgAUEB' +
  'ayIBDQALIAdBAnYLkwECBH8CeyACQQF0IQQDQCAAKAIAIQUgCCEHQQAhAwNAIAcgBf0BAwAgA/0ABAD9ugEgBf0BAwggA/0ABBD9ugH9rgH9rg' +
  'EhByAFQRBqIQUgA0EgaiEDIAMgBEkNAAsgBiAH/RsAIAf9GwFqIAf9GwIgB/0bA2pqNgKAQCAAQQRqIQAgBkEEaiEGIAFBAWsiAQ0ACwv4AQIF' +
  'fwd7IAAgAUEDdGohBQNAIAb9AASAQCELIAb9AASQQCEMIAb9AASgQCENIAb9AASwQCEOIAAhBANAIAQoAgAgA2ohByAE/QkCBCEIIAf9AQMAIQ' +
  'kgB/0BAwghCiALIAggCf2nAf36Af3mAf3kASELIAwgCCAJ/agB/foB/eYB/eQBIQwgDSAIIAr9pwH9+gH95gH95AEhDSAOIAggCv2oAf36Af3m' +
  'Af3kASEOIARBCGohBCAEIAVJDQALIAYgC/0LBIBAIAYgDP0LBJBAIAYgDf0LBKBAIAYgDv0LBLBAIAZBwABqIQYgA0EQaiEDIAMgAkkNAAsL'

export function createKernel(): Kernel {
  return createSimdKernel() ?? createPlainKernel()
}

/** Undefined if WebAssembly, SIMD or the memory for it is unavailable. */
export function createSimdKernel(): Kernel | undefined {
  // WebAssembly memory is always little-endian; typed arrays use the byte order of the machine.
  const littleEndian = new Uint8Array(Uint16Array.of(1).buffer)[0] === 1
  if (!littleEndian) return undefined
  try {
    const { memory, score, gather, add } = instantiateWasm<Pick<Kernel, 'score' | 'gather' | 'add'>>(MODULE)
    return {
      get buffer() {
        return memory.buffer
      },
      reserve(bytes) {
        const { byteLength } = memory.buffer
        if (bytes > byteLength) memory.grow(Math.ceil((bytes - byteLength) / WASM_PAGE_BYTES))
      },
      score,
      gather,
      add,
    }
  } catch {
    return undefined
  }
}

export function createPlainKernel(): Kernel {
  let bytes = new Int8Array(WASM_PAGE_BYTES)
  return {
    get buffer() {
      return bytes.buffer
    },
    reserve(length) {
      if (length <= bytes.length) return
      const longer = new Int8Array(length)
      longer.set(bytes)
      bytes = longer
    },
    score(row, blocks, width, bar) {
      const query = new Int16Array(bytes.buffer, 0, width)
      const scores = new Float32Array(bytes.buffer, SCORES_AT, MAX_SCORES)
      const found = new Int32Array(bytes.buffer, FOUND_AT, MAX_SCORES / ROWS_PER_BLOCK)
      const floats = new Float32Array(bytes.buffer)
      const blockBytes = blockBytesOf(width)
      let count = 0
      for (let block = 0; block < blocks; block++) {
        const start = row + block * blockBytes
        const scales = (start + width * ROWS_PER_BLOCK) / Float32Array.BYTES_PER_ELEMENT
        let above = false
        for (let index = 0; index < ROWS_PER_BLOCK; index++) {
          const score = Math.fround(dotProduct(bytes, start + index * LANES, query)) * floats[scales + index]!
          scores[block * ROWS_PER_BLOCK + index] = score
          above ||= Math.fround(score) > bar
        }
        if (above) found[count++] = block * ROWS_PER_BLOCK * Float32Array.BYTES_PER_ELEMENT
      }
      return count
    },
    gather(list, count, width) {
      const query = new Int16Array(bytes.buffer, 0, width)
      const addresses = new Int32Array(bytes.buffer, list, count)
      const sums = new Int32Array(bytes.buffer, SCORES_AT, count)
      for (let index = 0; index < count; index++) {
        const row = addresses[index]!
        let sum = 0
        for (let at = 0; at < width; at++) sum += bytes[row + at]! * query[at]!
        sums[index] = sum
      }
    },
    add(list, count, width) {
      const addresses = new Int32Array(bytes.buffer, list, count * 2)
      const factors = new Float32Array(bytes.buffer, list, count * 2)
      const sums = new Float32Array(bytes.buffer, SCORES_AT, width)
      for (let pair = 0; pair < count; pair++) {
        const row = addresses[pair * 2]!
        const factor = factors[pair * 2 + 1]!
        for (let at = 0; at < width; at++) sums[at] = sums[at]! + Math.fround(factor * bytes[row + at]!)
      }
    },
  }
}

export function blockBytesOf(width: number): number {
  return ROWS_PER_BLOCK * (width + Float32Array.BYTES_PER_ELEMENT)
}

/**
 * Dot product of the query and the row whose first byte is at `first`; the row's next LANES bytes follow those of the
 * block's other rows.
 */
function dotProduct(bytes: Int8Array, first: number, query: Int16Array): number {
  let sum = 0
  for (let start = 0, at = first; start < query.length; start += LANES, at += LANES * ROWS_PER_BLOCK) {
    for (let lane = 0; lane < LANES; lane++) sum += bytes[at + lane]! * query[start + lane]!
  }
  return sum
}
