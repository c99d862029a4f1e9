import type { FusionWeights } from '../fuse-rankings.ts'
import { alignUp, type ModelFileKind, openModelFile, packModelFile } from '../model-file.ts'
import { unitVector } from '../unit-vector.ts'
import { createEncoderKernel, type EncoderKernel } from './encoder-kernel.ts'
import type { EncoderInput } from './encoder-text.ts'

/**
 * A transformer encoder (Vaswani et al. 2017) with layer norms before each block and GELU, as trained by
 * `training/encoder`. One network reads queries and tools.
 */
export interface Encoder {
  /** Changes with every training. */
  readonly id: string
  /** Length of a text's vector. */
  readonly dims: number
  readonly fusion: FusionWeights
  /** The vocabulary of the model. */
  readonly pieces: readonly string[]
  /** The vector of a text: `dims` numbers, length 1. */
  encode(input: EncoderInput, side: 'query' | 'tool'): Float32Array
}

interface EncoderSettings {
  readonly id: string
  readonly pieces: number
  readonly width: number
  readonly layers: number
  readonly heads: number
  /** Width inside the feed-forward part of a block. */
  readonly inner: number
  /** Maximum number of pieces. */
  readonly positions: number
  readonly dims: number
  readonly fusion: FusionWeights
  /** Name, kind and bytes of each array, in the order of the file. */
  readonly arrays: readonly (readonly [name: string, kind: 'text' | 'int8' | 'float32', bytes: number])[]
}

/** Addresses of a matrix in the kernel's memory. */
interface Matrix {
  readonly weights: number
  readonly scales: number
  readonly bias: number
  readonly inner: number
  readonly outer: number
}

interface LayerNorm {
  readonly weights: Float32Array
  readonly bias: Float32Array
}

interface Block {
  readonly attentionNorm: LayerNorm
  readonly queryKeyValue: Matrix
  readonly output: Matrix
  readonly feedForwardNorm: LayerNorm
  readonly expand: Matrix
  readonly contract: Matrix
}

const ENCODER_FILE: ModelFileKind = { name: 'a search encoder', magic: 0x4e454750, version: 1, alignment: 16 }
const EPSILON = 1e-5
const INT32_MAX = 2_147_483_647
const WEIGHT_PEAK = 127
const INT16_MAX = 32_767

/** @throws RangeError for another kind of file, another version, or a truncated file */
export function openEncoder(file: Uint8Array, createKernel = createEncoderKernel): Encoder {
  const { settings, arrays } = readModelFile(file)
  const { width, heads, inner, positions, dims } = settings
  const headWidth = width / heads
  const loadBytes = (name: string): Int8Array => {
    const bytes = arrays.get(name)
    if (!bytes) throw new RangeError(`a search encoder without ${name}`)
    return new Int8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  }
  const loadFloats = (name: string): Float32Array => new Float32Array(loadBytes(name).slice().buffer)

  const { kernel, allocate } = createMemory(settings, createKernel)
  const memory = new Int8Array(kernel.buffer)
  const rounded = allocate(positions * inner * 2)
  const scales = allocate(positions * 4)
  const wide = allocate(positions * Math.max(inner, 3 * width) * 4)
  const narrow = allocate(positions * width * 4)
  const similarities = allocate(positions * positions * 4)
  const noBias = allocate(dims * 4)
  const f32 = new Float32Array(kernel.buffer)
  const i16 = new Int16Array(kernel.buffer)

  const copyToMemory = (bytes: Int8Array | Float32Array): number => {
    const address = allocate(bytes.byteLength)
    memory.set(new Int8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength), address)
    return address
  }
  const loadMatrix = (name: string, innerWidth: number, outer: number): Matrix => ({
    weights: copyToMemory(loadBytes(`${name}.weight`)),
    scales: copyToMemory(loadFloats(`${name}.weight/scale`)),
    bias: arrays.has(`${name}.bias`) ? copyToMemory(loadFloats(`${name}.bias`)) : noBias,
    inner: innerWidth,
    outer,
  })
  const loadNorm = (name: string): LayerNorm => ({
    weights: loadFloats(`${name}.weight`),
    bias: loadFloats(`${name}.bias`),
  })

  const embeddings = loadBytes('emb.weight').slice()
  const embeddingScales = loadFloats('emb.weight/scale')
  const positionRows = loadBytes('pos.weight').slice()
  const positionScales = loadFloats('pos.weight/scale')
  const partRows = loadFloats('seg.weight')
  const poolRows = loadBytes('pool.weight').slice()
  const poolScales = loadFloats('pool.weight/scale')
  const inputNorm = loadNorm('ne')
  const blocks = Array.from({ length: settings.layers }, (_, layer): Block => {
    const name = `blocks.${layer}`
    return {
      attentionNorm: loadNorm(`${name}.n1`),
      queryKeyValue: loadMatrix(`${name}.qkv`, width, 3 * width),
      output: loadMatrix(`${name}.o`, width, width),
      feedForwardNorm: loadNorm(`${name}.n2`),
      expand: loadMatrix(`${name}.f1`, width, inner),
      contract: loadMatrix(`${name}.f2`, inner, width),
    }
  })
  const outputNorm = loadNorm('nf')
  const toVector = loadMatrix('out', width, dims)
  const pieces = new TextDecoder().decode(arrays.get('pieces')).split('\n')
  const states = new Float32Array(positions * width)
  const normed = new Float32Array(positions * width)

  /** Rounds `count` rows to int16 and multiplies them; the result is float32 at `out`. */
  function multiply(rows: Float32Array, count: number, matrix: Matrix, out: number): void {
    // Keeps sums of products within int32.
    const peak = Math.min(INT16_MAX, Math.floor(INT32_MAX / (WEIGHT_PEAK * matrix.inner)))
    const padded = (count + 3) & -4
    for (let row = 0; row < padded; row++) {
      const start = row * matrix.inner
      const end = start + matrix.inner
      const largest = row < count ? largestOf(rows, start, end) : 0
      const factor = largest > 0 ? peak / largest : 0
      f32[scales / 4 + row] = largest / peak
      for (let at = start; at < end; at++) i16[rounded / 2 + at] = factor === 0 ? 0 : rows[at]! * factor
    }
    kernel.multiply(
      rounded,
      scales,
      padded,
      matrix.weights,
      matrix.scales,
      matrix.bias,
      out,
      matrix.inner,
      matrix.outer,
    )
  }

  function attend(count: number): void {
    const pitch = 3 * width * 4
    for (let head = 0; head < heads; head++) {
      const at = wide + head * headWidth * 4
      kernel.compare(at, at + width * 4, similarities, count, pitch, headWidth * 4)
      softmaxRows(f32.subarray(similarities / 4, similarities / 4 + count * count), count, 1 / Math.sqrt(headWidth))
      kernel.mix(
        similarities,
        at + 2 * width * 4,
        narrow + head * headWidth * 4,
        count,
        pitch,
        headWidth * 4,
        width * 4,
      )
    }
  }

  function addNarrowRows(count: number): void {
    for (let at = 0; at < count * width; at++) states[at]! += f32[narrow / 4 + at]!
  }

  function embed({ pieces: numbers, parts }: EncoderInput, count: number): void {
    for (let token = 0; token < count; token++) {
      const piece = numbers[token]!
      const part = parts[token]!
      for (let at = 0; at < width; at++)
        normed[token * width + at] =
          embeddings[piece * width + at]! * embeddingScales[piece]! +
          positionRows[token * width + at]! * positionScales[token]! +
          partRows[part * width + at]!
    }
    normalizeLayer(normed, count, width, inputNorm, states)
  }

  return {
    id: settings.id,
    dims,
    fusion: settings.fusion,
    pieces,
    encode(input, side) {
      const count = Math.min(input.pieces.length, positions)
      const narrowRows = f32.subarray(narrow / 4, narrow / 4 + count * width)
      const wideRows = f32.subarray(wide / 4, wide / 4 + count * inner)
      embed(input, count)
      for (const block of blocks) {
        normalizeLayer(states, count, width, block.attentionNorm, normed)
        multiply(normed, count, block.queryKeyValue, wide)
        attend(count)
        multiply(narrowRows, count, block.output, narrow)
        addNarrowRows(count)
        normalizeLayer(states, count, width, block.feedForwardNorm, normed)
        multiply(normed, count, block.expand, wide)
        applyGelu(wideRows)
        multiply(wideRows, count, block.contract, narrow)
        addNarrowRows(count)
      }
      normalizeLayer(states, count, width, outputNorm, normed)
      const shares = new Float32Array(count)
      let sum = 0
      for (let token = 0; token < count; token++) {
        const piece = input.pieces[token]!
        shares[token] = Math.exp(poolRows[piece * 2 + (side === 'query' ? 0 : 1)]! * poolScales[piece]!)
        sum += shares[token]!
      }
      const pooled = new Float32Array(width)
      for (let token = 0; token < count; token++) {
        shares[token]! /= sum
        for (let at = 0; at < width; at++) pooled[at]! += normed[token * width + at]! * shares[token]!
      }
      multiply(pooled, 1, toVector, wide)
      return unitVector(f32.subarray(wide / 4, wide / 4 + dims))
    },
  }
}

/** A model file with other fusion weights in its header. */
export function replaceFusion(file: Uint8Array, fusion: FusionWeights): Uint8Array {
  const { settings, arrays } = readModelFile(file)
  return packModelFile(ENCODER_FILE, { ...settings, fusion }, [...arrays.values()])
}

/** The arrays of a model file by name, not copied. */
function readModelFile(file: Uint8Array): { settings: EncoderSettings; arrays: ReadonlyMap<string, Uint8Array> } {
  const opened = openModelFile(ENCODER_FILE, file)
  const settings = opened.settings as EncoderSettings
  const arrays = new Map<string, Uint8Array>()
  let at = 0
  for (const [name, , bytes] of settings.arrays) {
    arrays.set(name, opened.arrays.subarray(at, at + bytes))
    at += alignUp(bytes, ENCODER_FILE.alignment)
  }
  if (at !== opened.arrays.length) throw new RangeError('a search encoder cut short')
  return { settings, arrays }
}

/** A kernel with memory for weights and one text, and a function that reserves parts of it. */
function createMemory(
  { width, layers, inner, positions, dims }: EncoderSettings,
  createKernel: (bytes: number) => EncoderKernel,
) {
  const weights = layers * (4 * width * width + 2 * width * inner) + width * dims
  const rowValues = layers * (3 * width + 2 * width + inner) * 2 + 2 * dims
  const buffers = positions * (inner * 2 + 4 + Math.max(inner, 3 * width) * 4 + width * 4 + positions * 4)
  const kernel = createKernel(weights + rowValues * 4 + buffers + 1_000 * 16)
  let end = 16
  return {
    kernel,
    allocate(bytes: number): number {
      const start = end
      end += alignUp(bytes, 16)
      return start
    },
  }
}

/** The largest absolute value in a part of an array. */
function largestOf(values: Float32Array, start: number, end: number): number {
  let largest = 0
  for (let at = start; at < end; at++) {
    const size = Math.abs(values[at]!)
    if (size > largest) largest = size
  }
  return largest
}

function normalizeLayer(
  rows: Float32Array,
  count: number,
  width: number,
  { weights, bias }: LayerNorm,
  out: Float32Array,
) {
  for (let start = 0; start < count * width; start += width) {
    let sum = 0
    let squares = 0
    for (let at = start; at < start + width; at++) {
      const value = rows[at]!
      sum += value
      squares += value * value
    }
    const mean = sum / width
    const factor = 1 / Math.sqrt(squares / width - mean * mean + EPSILON)
    for (let at = 0; at < width; at++) out[start + at] = (rows[start + at]! - mean) * factor * weights[at]! + bias[at]!
  }
}

function softmaxRows(rows: Float32Array, width: number, factor: number): void {
  for (let start = 0; start < rows.length; start += width) {
    let largest = Number.NEGATIVE_INFINITY
    for (let at = start; at < start + width; at++) if (rows[at]! > largest) largest = rows[at]!
    let sum = 0
    for (let at = start; at < start + width; at++) {
      const value = Math.exp((rows[at]! - largest) * factor)
      rows[at] = value
      sum += value
    }
    for (let at = start; at < start + width; at++) rows[at]! /= sum
  }
}

/** GELU with the usual tanh approximation (Hendrycks, Gimpel 2016). */
function applyGelu(values: Float32Array): void {
  for (let at = 0; at < values.length; at++) {
    const value = values[at]!
    values[at] = value / (1 + Math.exp(-1.595769121605731 * (value + 0.044715 * value * value * value)))
  }
}
