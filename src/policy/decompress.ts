import { pipeline, Readable, type Transform } from 'node:stream'
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib'
import { PegboardError } from '../core/errors.ts'

export const ENCODINGS = 'gzip, deflate, br'
/** Servers have no use for more layers, which multiply the work of decompressing a small body. */
const MAX_LAYERS = 2

export interface DecompressLimits {
  readonly maxWireBytes: number
  readonly maxBytes: number
  /** The setting for these limits, which errors name. */
  readonly setting: string
}

/** Decompresses a body piece by piece. Input and output each have a size limit. */
export function decompress(body: Readable, encoding: string, limits: DecompressLimits): AsyncIterable<Uint8Array> {
  const layers = encoding
    .toLowerCase()
    .split(',')
    .map((one) => one.trim())
    .filter((one) => one !== '' && one !== 'identity')
  if (layers.length > MAX_LAYERS) throw createUnreadableError(`is compressed ${layers.length} times`)
  const wire = limitSize(body, limits.maxWireBytes, limits.setting)
  if (layers.length === 0) return wire
  let stream: Readable = Readable.from(wire, { objectMode: false })
  for (const [n, layer] of layers.reverse().entries()) {
    // A small body can expand between two layers and shrink again, so the size between layers counts too.
    if (n > 0) stream = Readable.from(limitSize(stream, limits.maxBytes, limits.setting), { objectMode: false })
    stream = pipeline(stream, createDecompressor(layer), () => undefined)
  }
  return limitSize(stream, limits.maxBytes, limits.setting)
}

function createDecompressor(encoding: string): Transform {
  if (encoding === 'gzip' || encoding === 'x-gzip') return createGunzip()
  if (encoding === 'deflate') return createInflate()
  if (encoding === 'br') return createBrotliDecompress()
  throw createUnreadableError('has an unknown compression')
}

async function* limitSize(
  body: AsyncIterable<Uint8Array>,
  maxBytes: number,
  setting: string,
): AsyncGenerator<Uint8Array, void, undefined> {
  let size = 0
  for await (const piece of body) {
    size += piece.length
    if (size > maxBytes)
      throw new PegboardError('E_TOO_LARGE', `The answer is larger than ${maxBytes} bytes.`, {
        hint: `${setting} decides.`,
      })
    yield piece
  }
}

const createUnreadableError = (why: string): PegboardError =>
  new PegboardError('E_HTTP_PROTOCOL', `The answer cannot be read: it ${why}.`)
