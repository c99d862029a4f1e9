import type { Matrices } from './matrices.ts'
import { createRandom } from './random.ts'
import type { Source } from './sources.ts'
import type { Bag, Vocabulary } from './vocabulary.ts'

/** What is learnt: a vector a row, and what the row weighs in queries and in documents. */
export interface Model {
  readonly dims: number
  readonly vectors: Float32Array
  readonly queryWeights: Float32Array
  readonly documentWeights: Float32Array
  /** One step on a batch of examples; answers its loss. @param rate of the vectors; that of the weights is scaled alike */
  learn(examples: readonly ReturnType<Source['draw']>[], rate: number, weightRate: number): number
}

export interface ModelOptions {
  readonly dims: number
  readonly batch: number
  readonly scale: number
  readonly seed: number
}

type Side = 'query' | 'document'

const TINY = 1e-8
const LEAST_WEIGHT = 0.02
/** Words commoner than this share of the text start shorter: they say less. */
const COMMON = 1e-3

/** How many numbers `createModel` allocates. */
export const floatsFor = (rows: number, dims: number, batch: number): number =>
  3 * rows * dims + 4 * batch * dims + 2 * batch * batch

/**
 * Symmetric contrastive learning with in-batch negatives (InfoNCE: van den Oord et al. 2018) by Adagrad (Duchi et al. 2011) on
 * the rows a batch touches.
 */
export function createModel(vocabulary: Vocabulary, matrices: Matrices, options: ModelOptions): Model {
  const { dims, batch, scale, seed } = options
  const { rows } = vocabulary
  const bytes = dims * 4
  const vectors = matrices.allocate(rows * dims)
  const gradients = matrices.allocate(rows * dims)
  const history = matrices.allocate(rows * dims)
  const units = { query: matrices.allocate(batch * dims), document: matrices.allocate(batch * dims) }
  const unitGradients = { query: matrices.allocate(batch * dims), document: matrices.allocate(batch * dims) }
  const scores = matrices.allocate(batch * batch)
  const powers = matrices.allocate(batch * batch)
  const norms = { query: new Float32Array(batch), document: new Float32Array(batch) }
  const weights = { query: new Float32Array(rows).fill(1), document: new Float32Array(rows).fill(1) }
  const weightGradients = { query: new Float32Array(rows), document: new Float32Array(rows) }
  const weightHistory = { query: new Float32Array(rows), document: new Float32Array(rows) }
  const touched = new Int32Array(rows)
  const isTouched = new Uint8Array(rows)
  let touchedCount = 0
  initialise()

  function initialise(): void {
    const random = createRandom(seed)
    const total = vocabulary.counts.reduce((sum, count) => sum + count, 0)
    for (let row = 0; row < rows; row++) {
      const share = (vocabulary.counts[row] ?? 0) / total
      const length = COMMON / (COMMON + share) / Math.sqrt(dims)
      for (let index = 0; index < dims; index++) vectors[row * dims + index] = gaussian(random) * length
    }
  }

  /** Writes the bag's vector at length 1 and remembers its length. */
  function embed({ rows: bagRows, weights: bagWeights }: Bag, side: Side, at: number): void {
    const unit = units[side]
    const to = unit.byteOffset + at * bytes
    unit.fill(0, at * dims, (at + 1) * dims)
    for (let index = 0; index < bagRows.length; index++) {
      const row = bagRows[index] as number
      matrices.addScaled(
        vectors.byteOffset + row * bytes,
        (bagWeights[index] as number) * (weights[side][row] as number),
        to,
        bytes,
      )
    }
    const norm = Math.sqrt(matrices.dot(to, to, bytes)) || 1
    norms[side][at] = norm
    for (let index = at * dims; index < (at + 1) * dims; index++) unit[index] = (unit[index] as number) / norm
  }

  /** Takes the gradient of a unit vector back to the rows of its bag. */
  function back({ rows: bagRows, weights: bagWeights }: Bag, side: Side, at: number): void {
    const gradient = unitGradients[side]
    const from = gradient.byteOffset + at * bytes
    const unit = units[side].byteOffset + at * bytes
    matrices.addScaled(unit, -matrices.dot(unit, from, bytes), from, bytes)
    const norm = norms[side][at] as number
    for (let index = at * dims; index < (at + 1) * dims; index++) gradient[index] = (gradient[index] as number) / norm
    for (let index = 0; index < bagRows.length; index++) {
      const row = bagRows[index] as number
      if (isTouched[row] === 0) {
        isTouched[row] = 1
        touched[touchedCount++] = row
      }
      const weight = bagWeights[index] as number
      const along = matrices.dot(from, vectors.byteOffset + row * bytes, bytes)
      matrices.addScaled(from, weight * (weights[side][row] as number), gradients.byteOffset + row * bytes, bytes)
      weightGradients[side][row] = (weightGradients[side][row] as number) + weight * along
    }
  }

  function step(rate: number, weightRate: number): void {
    for (let index = 0; index < touchedCount; index++) {
      const row = touched[index] as number
      const at = row * bytes
      isTouched[row] = 0
      matrices.adagrad(vectors.byteOffset + at, gradients.byteOffset + at, history.byteOffset + at, rate, TINY, bytes)
      for (const side of ['query', 'document'] as const) {
        const gradient = weightGradients[side][row] as number
        const squares = (weightHistory[side][row] as number) + gradient * gradient
        weightHistory[side][row] = squares
        weights[side][row] = Math.max(
          LEAST_WEIGHT,
          (weights[side][row] as number) - (weightRate * gradient) / (Math.sqrt(squares) + TINY),
        )
        weightGradients[side][row] = 0
      }
    }
    touchedCount = 0
  }

  /** Turns `scores` into the gradient of the loss by them; answers the loss. */
  function contrast(count: number, groups: Int32Array): number {
    const rowSums = new Float64Array(count)
    const columnSums = new Float64Array(count)
    let loss = 0
    for (let row = 0; row < count; row++) {
      const at = row * count
      loss -= 2 * ((scores[at + row] as number) - 1) * scale
      let sum = 0
      for (let column = 0; column < count; column++) {
        const masked = row !== column && groups[row] === groups[column]
        // A cosine is 1 at most: with that as the maximum, one exponential serves the row and the column.
        const power = masked ? 0 : Math.exp(((scores[at + column] as number) - 1) * scale)
        powers[at + column] = power
        sum += power
        columnSums[column] = (columnSums[column] as number) + power
      }
      rowSums[row] = sum
    }
    for (let index = 0; index < count; index++) {
      loss += Math.log(rowSums[index] as number) + Math.log(columnSums[index] as number)
      rowSums[index] = 1 / (rowSums[index] as number)
      columnSums[index] = 1 / (columnSums[index] as number)
    }
    const factor = scale / (2 * count)
    for (let row = 0; row < count; row++) {
      const at = row * count
      const inverse = rowSums[row] as number
      for (let column = 0; column < count; column++)
        scores[at + column] = (powers[at + column] as number) * (inverse + (columnSums[column] as number)) * factor
      scores[at + row] = (scores[at + row] as number) - 2 * factor
    }
    return loss / (2 * count)
  }

  return {
    dims,
    vectors,
    queryWeights: weights.query,
    documentWeights: weights.document,
    learn(examples, rate, weightRate) {
      const count = examples.length - (examples.length % 4)
      const numbers = new Map<string, number>()
      const groups = new Int32Array(count)
      for (let at = 0; at < count; at++) {
        const { query, document, group } = examples[at] as (typeof examples)[number]
        embed(query, 'query', at)
        embed(document, 'document', at)
        groups[at] = numbers.get(group) ?? numbers.size
        numbers.set(group, groups[at] as number)
      }
      matrices.timesTransposed(units.query, units.document, scores, count, count, dims)
      const loss = contrast(count, groups)
      matrices.times(scores, units.document, unitGradients.query, count, count, dims)
      for (let row = 0; row < count; row++)
        for (let column = 0; column < count; column++)
          powers[column * count + row] = scores[row * count + column] as number
      matrices.times(powers, units.query, unitGradients.document, count, count, dims)
      for (let at = 0; at < count; at++) {
        const { query, document } = examples[at] as (typeof examples)[number]
        back(query, 'query', at)
        back(document, 'document', at)
      }
      step(rate, weightRate)
      return loss
    },
  }
}

function gaussian(random: () => number): number {
  return Math.sqrt(-2 * Math.log(random() || TINY)) * Math.cos(2 * Math.PI * random())
}
