import { PegboardError } from '../core/errors.ts'
import type { FusionWeights } from './fuse-rankings.ts'
import type { SearchSource } from './search-document.ts'

/** Turns texts into vectors, in another process or on another machine. */
export interface Embedder {
  /** Identifies the model and every option that changes its vectors. */
  readonly id: string
  readonly dims: number
  /**
   * How to combine its cosine with the other features. Absent for a model that is not known here: its ranking is
   * joined by reciprocal rank fusion.
   */
  readonly fusion?: FusionWeights
  /** The text of a tool as this model expects it; default: `corpusText`. */
  readonly textOf?: (source: SearchSource) => string
  /** A known vector of a tool, of any length. */
  readonly vectorOf?: (source: SearchSource) => Float32Array | undefined
  /** Returns one vector per text, in order. Any number of texts; they are sent in batches. */
  embed(texts: readonly string[], kind: 'document' | 'query', signal: AbortSignal): Promise<Float32Array[]>
  /** Releases its resources; unfinished calls fail. */
  close(): Promise<void>
}

/** Bytes downloaded so far. `total` is undefined if the server did not send a length. */
export interface LoadProgress {
  readonly file: string
  readonly loaded: number
  readonly total: number | undefined
}

/** A configured embedder that is not loaded yet. */
export interface EmbedderSource {
  /** As written in the configuration. */
  readonly label: string
  /**
   * @throws PegboardError E_CONFIG_INVALID if only the operator can fix the problem; any other error may be temporary
   */
  load(signal: AbortSignal, onProgress: (progress: LoadProgress) => void): Promise<Embedder>
}

/** @throws PegboardError E_CONFIG_INVALID if the model's vectors do not have the configured length */
export function checkDims(label: string, dims: number, configuredDims: number | undefined): void {
  if (configuredDims !== undefined && configuredDims !== dims)
    throw new PegboardError(
      'E_CONFIG_INVALID',
      `${label} returns vectors of ${dims} dimensions, but search.embedderOptions.dims is ${configuredDims}.`,
    )
}

export function batchesOf<T>(items: readonly T[], size: number): T[][] {
  const batches: T[][] = []
  for (let start = 0; start < items.length; start += size) batches.push(items.slice(start, start + size))
  return batches
}
