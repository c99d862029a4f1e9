import { pipeline, Readable, type Transform } from 'node:stream'
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib'
import { PegboardError } from '../core/errors.ts'

export const ENCODINGS = 'gzip, deflate, br'
/** More layers than anyone needs are a way to make a little data a lot of work. */
const MOST_LAYERS = 2

export interface Caps {
  readonly maxWireBytes: number
  readonly maxBytes: number
  /** The settings that decide, for whoever reads the refusal. */
  readonly setting: string
}

/** A body as it was before it was packed, a piece at a time: neither what comes in nor what comes out passes its cap. */
export function unpacked(body: Readable, encoding: string, caps: Caps): AsyncIterable<Uint8Array> {
  const layers = encoding
    .toLowerCase()
    .split(',')
    .map((one) => one.trim())
    .filter((one) => one !== '' && one !== 'identity')
  if (layers.length > MOST_LAYERS) throw unreadable(`is packed ${layers.length} times over`)
  const wire = counted(body, caps.maxWireBytes, caps.setting)
  if (layers.length === 0) return wire
  let stream: Readable = Readable.from(wire, { objectMode: false })
  for (const [n, layer] of layers.reverse().entries()) {
    // A little can be packed into much that comes to nothing, so what lies between two layers counts as well.
    if (n > 0) stream = Readable.from(counted(stream, caps.maxBytes, caps.setting), { objectMode: false })
    stream = pipeline(stream, unpackerOf(layer), () => undefined)
  }
  return counted(stream, caps.maxBytes, caps.setting)
}

function unpackerOf(encoding: string): Transform {
  if (encoding === 'gzip' || encoding === 'x-gzip') return createGunzip()
  if (encoding === 'deflate') return createInflate()
  if (encoding === 'br') return createBrotliDecompress()
  throw unreadable('is packed in a way that is not known here')
}

async function* counted(
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

const unreadable = (why: string): PegboardError =>
  new PegboardError('E_HTTP_PROTOCOL', `The answer cannot be read: it ${why}.`)
