import { PegboardError } from '../core/errors.ts'

/** Turns texts into vectors, somewhere else: another process or another machine. */
export interface Embedder {
  /** Tells vectors of one model from those of another; everything that changes a vector is in it. */
  readonly id: string
  readonly dims: number
  /** One vector a text, in order. Any number of texts; they are sent in batches. */
  embed(texts: readonly string[], kind: 'document' | 'query', signal: AbortSignal): Promise<Float32Array[]>
  /** Gives back what it holds; unfinished calls fail. */
  close(): Promise<void>
}

/** What a load has fetched so far, in bytes. `total` is undefined where nobody said. */
export interface LoadProgress {
  readonly file: string
  readonly loaded: number
  readonly total: number | undefined
}

/** An embedder that has been asked for and not been loaded. */
export interface EmbedderSource {
  /** As in the configuration. */
  readonly label: string
  /**
   * @throws PegboardError E_CONFIG_INVALID for what only the operator can mend; any other error may go away by itself
   */
  load(signal: AbortSignal, onProgress: (progress: LoadProgress) => void): Promise<Embedder>
}

/** @throws PegboardError E_CONFIG_INVALID when the model gives vectors of another length than the operator said */
export function checkDims(label: string, dims: number, wanted: number | undefined): void {
  if (wanted !== undefined && wanted !== dims)
    throw new PegboardError(
      'E_CONFIG_INVALID',
      `${label} gives ${dims} numbers a vector, and search.embedderOptions.dims says ${wanted}.`,
    )
}

/** The texts in batches of at most `size`, in order. */
export function batchesOf<T>(items: readonly T[], size: number): T[][] {
  const batches: T[][] = []
  for (let start = 0; start < items.length; start += size) batches.push(items.slice(start, start + size))
  return batches
}
