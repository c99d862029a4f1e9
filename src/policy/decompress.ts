import { pipeline, Readable, type Transform } from 'node:stream'
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib'
import { PegboardError } from '../core/errors.ts'

export const ENCODINGS = 'gzip, deflate, br'
/** More layers have no use and multiply the work of a small body. */
const MAX_LAYERS = 2

export interface DecompressLimits {
  readonly maxWireBytes: number
  readonly maxBytes: number
  /** The settings that decide, named in refusals. */
  readonly setting: string
}

/** Decompresses a body piece by piece. Input and output each have a size limit. */
export function decompress(body: Readable, encoding: string, caps: DecompressLimits): AsyncIterable<Uint8Array> {
  const layers = encoding
    .toLowerCase()
    .split(',')
    .map((one) => one.trim())
    .filter((one) => one !== '' && one !== 'identity')
  if (layers.length > MAX_LAYERS) throw createUnreadableError(`is compressed ${layers.length} times`)
  const wire = limitSize(body, caps.maxWireBytes, caps.setting)
  if (layers.length === 0) return wire
  let stream: Readable = Readable.from(wire, { objectMode: false })
  for (const [n, layer] of layers.reverse().entries()) {
    // A small body can expand between two layers and shrink again, so the size between layers counts too.
    if (n > 0) stream = Readable.from(limitSize(stream, caps.maxBytes, caps.setting), { objectMode: false })
    stream = pipeline(stream, unpackerOf(layer), () => undefined)
  }
  return limitSize(stream, caps.maxBytes, caps.setting)
}

function unpackerOf(encoding: string): Transform {
  if (encoding === 'gzip' || encoding === 'x-gzip') return createGunzip()
  if (encoding === 'deflate') return createInflate()
  if (encoding === 'br') return createBrotliDecompress()
  throw createUnreadableError('has an unknown compression')
}

async function* limitSize(
  body: AsyncIterable<Uint8Array>,
  most: number,
  setting: string,
): AsyncGenerator<Uint8Array, void, undefined> {
  let size = 0
  for await (const piece of body) {
    size += piece.length
    if (size > most)
      throw new PegboardError('E_TOO_LARGE', `The answer is larger than ${most} bytes.`, {
        hint: `${setting} decides.`,
      })
    yield piece
  }
}

const createUnreadableError = (why: string): PegboardError =>
  new PegboardError('E_HTTP_PROTOCOL', `The answer cannot be read: it ${why}.`)
