import { createHash, hash } from 'node:crypto'
import { int32Of, packSections, uint32Of, unpackSections } from '../packed-sections.ts'

/** Storage for vectors. Names consist of letters, digits, `_` and `-`. */
export interface VectorStore {
  load(name: string): Promise<Uint8Array | undefined>
  save(name: string, bytes: Uint8Array): Promise<void>
}

/** Vectors by content hash, one byte per number. */
export type VectorCache = ReturnType<typeof openVectorCache>

/** "PGKV" on little-endian machines. */
const MAGIC = 0x564b4750
const VERSION = 1
const HASH_BYTES = 16
const PEAK = 127
/** Minimum number of unused vectors to keep, for servers that are disconnected for a while. */
const MIN_UNUSED = 1_000

export const vectorCacheName = (embedderId: string): string => `vectors-${hash('sha256', embedderId).slice(0, 24)}`

/** The SHA-256 of a text, cut to 32 hex digits. */
export const hashOfText = (text: string): string =>
  createHash('sha256')
    .update(text)
    .digest('hex')
    .slice(0, HASH_BYTES * 2)

/**
 * @param bytes result of `pack`, or undefined for none
 * @throws if the bytes are damaged or contain vectors of another length
 */
export function openVectorCache(dims: number, bytes: Uint8Array | undefined) {
  const saved = bytes ? unpackVectors(dims, bytes) : undefined
  // Row of each hash; rows beyond the loaded ones are in `added`.
  const rows = new Map<string, number>()
  const savedCount = saved?.scales.length ?? 0
  for (let row = 0; row < savedCount; row++)
    rows.set(saved!.hashes.toString('hex', row * HASH_BYTES, (row + 1) * HASH_BYTES), row)
  const added: { readonly scale: number; readonly values: Int8Array }[] = []
  const valuesOf = (row: number): Int8Array =>
    added[row - savedCount]?.values ?? saved!.values.subarray(row * dims, (row + 1) * dims)
  const scaleOf = (row: number): number => added[row - savedCount]?.scale ?? saved!.scales[row]!

  return {
    has: (hash: string): boolean => rows.has(hash),
    /** A vector of unit length, apart from rounding errors. */
    get(hash: string): Float32Array | undefined {
      const row = rows.get(hash)
      if (row === undefined) return undefined
      const values = valuesOf(row)
      const scale = scaleOf(row)
      // A loop, because `Float32Array.from` takes ten times as long.
      const vector = new Float32Array(dims)
      for (let at = 0; at < dims; at++) vector[at] = values[at]! * scale
      return vector
    },
    add(hash: string, vector: Float32Array): void {
      let largest = 0
      for (const value of vector) largest = Math.max(largest, Math.abs(value))
      const scale = largest / PEAK || 1
      const values = new Int8Array(dims)
      for (let at = 0; at < dims; at++) values[at] = Math.round(vector[at]! / scale)
      rows.set(hash, savedCount + added.push({ scale, values }) - 1)
    },
    /**
     * Packs the vectors of `used` and the most recent others, up to twice as many in total.
     * @param used hashes that are needed now
     */
    pack(used: ReadonlySet<string>): Uint8Array {
      const unused = [...rows.keys()].filter((hash) => !used.has(hash))
      for (const hash of unused.slice(0, -Math.max(used.size, MIN_UNUSED))) rows.delete(hash)
      const hashes = Buffer.from([...rows.keys()].join(''), 'hex')
      const scales = new Float32Array(rows.size)
      const values = new Int8Array(rows.size * dims)
      let at = 0
      for (const row of rows.values()) {
        scales[at] = scaleOf(row)
        values.set(valuesOf(row), at++ * dims)
      }
      return packSections(MAGIC, VERSION, [
        Int32Array.of(dims, rows.size),
        hashes,
        new Uint32Array(scales.buffer),
        new Uint8Array(values.buffer),
      ])
    },
  }
}

/** @throws if the bytes are damaged or contain vectors of another length */
function unpackVectors(dims: number, bytes: Uint8Array): { hashes: Buffer; scales: Float32Array; values: Int8Array } {
  const [head, hashes, factors, values] = unpackSections(MAGIC, VERSION, bytes, 4) as [
    Uint8Array,
    Uint8Array,
    Uint8Array,
    Uint8Array,
  ]
  const [savedDims, count] = int32Of(head)
  if (savedDims !== dims || count === undefined) throw new Error('kept vectors of another kind')
  if (hashes.length !== count * HASH_BYTES || factors.length !== count * 4 || values.length !== count * dims)
    throw new Error('kept vectors cut short')
  const bits = uint32Of(factors)
  return {
    hashes: Buffer.from(hashes.buffer, hashes.byteOffset, hashes.length),
    scales: new Float32Array(bits.buffer, bits.byteOffset, count),
    values: new Int8Array(values.buffer, values.byteOffset, values.length),
  }
}
