import { alignedBytes, alignUp } from './model-file.ts'

/** A view of numbers on a buffer. */
export type NumberArray = Uint8Array | Uint16Array | Int32Array | Uint32Array

const HEADER_WORDS = 5

/**
 * Several typed arrays in one buffer that is used without copying: a header (magic, version, total bytes, checksum,
 * number of sections), the byte length of each section, then the sections, each aligned to four bytes. Numbers are in
 * the machine's byte order, which the magic number identifies.
 */
export function packSections(magic: number, version: number, sections: readonly NumberArray[]): Uint8Array {
  const headerBytes = (HEADER_WORDS + sections.length) * 4
  let total = headerBytes
  for (const section of sections) total += alignUp(section.byteLength, 4)
  const bytes = new Uint8Array(total)
  const header = new Int32Array(bytes.buffer, 0, HEADER_WORDS + sections.length)
  let at = headerBytes
  sections.forEach((section, index) => {
    header[HEADER_WORDS + index] = section.byteLength
    bytes.set(new Uint8Array(section.buffer, section.byteOffset, section.byteLength), at)
    at += alignUp(section.byteLength, 4)
  })
  header[0] = magic
  header[1] = version
  header[2] = total
  header[4] = sections.length
  header[3] = checksumOf(bytes)
  return bytes
}

/**
 * The sections of such a buffer, copied only if the buffer is not aligned.
 * @throws RangeError if the buffer is of another kind or version, truncated, or changed since it was packed
 */
export function unpackSections(magic: number, version: number, bytes: Uint8Array, count: number): Uint8Array[] {
  const aligned = alignedBytes(bytes)
  const hasHeader = aligned.byteLength >= (HEADER_WORDS + count) * 4 && aligned.byteLength % 4 === 0
  const header = hasHeader ? new Int32Array(aligned.buffer, aligned.byteOffset, HEADER_WORDS + count) : undefined
  if (header?.[0] !== magic || header[1] !== version) throw new RangeError('not an index of this version')
  if (header[2] !== aligned.byteLength || header[4] !== count) throw new RangeError('the index is cut short')
  if (header[3] !== checksumOf(aligned)) throw new RangeError('the index is damaged')
  const sections: Uint8Array[] = []
  let at = (HEADER_WORDS + count) * 4
  for (let index = 0; index < count; index++) {
    const length = header[HEADER_WORDS + index] ?? -1
    if (length < 0 || at + length > aligned.byteLength) throw new RangeError('the index is damaged')
    sections.push(new Uint8Array(aligned.buffer, aligned.byteOffset + at, length))
    at += alignUp(length, 4)
  }
  return sections
}

export function int32Of(section: Uint8Array | undefined): Int32Array {
  if (!section || section.byteLength % 4 !== 0) throw new RangeError('the index is damaged')
  return new Int32Array(section.buffer, section.byteOffset, section.byteLength / 4)
}

export function uint32Of(section: Uint8Array | undefined): Uint32Array {
  if (!section || section.byteLength % 4 !== 0) throw new RangeError('the index is damaged')
  return new Uint32Array(section.buffer, section.byteOffset, section.byteLength / 4)
}

/** The same numbers in an array with room for `length`. Doubles the size, so that adding one at a time stays cheap. */
export function withRoom<T extends NumberArray | Float32Array>(array: T, length: number): T {
  if (array.length >= length) return array
  const Kind = array.constructor as new (length: number) => T
  const larger = new Kind(Math.max(16, length, array.length * 2))
  larger.set(array)
  return larger
}

/** Covers everything except its own field. Detects accidental damage, not manipulation. */
function checksumOf(bytes: Uint8Array): number {
  const words = new Int32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4)
  let even = 0x811c9dc5 | 0
  let odd = 0x2545f491 | 0
  for (let at = 4; at + 1 < words.length; at += 2) {
    even = Math.imul(even ^ (words[at] as number), 0x01000193)
    odd = Math.imul(odd ^ (words[at + 1] as number), 0x01000193)
  }
  if (words.length % 2 === 1) even = Math.imul(even ^ (words[words.length - 1] as number), 0x01000193)
  for (let at = 0; at < 3; at++) odd = Math.imul(odd ^ (words[at] as number), 0x01000193)
  return (even ^ ((odd << 13) | (odd >>> 19))) | 0
}
