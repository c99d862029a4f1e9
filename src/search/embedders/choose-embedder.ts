import { join } from 'node:path'
import type { EmbedderSource } from '../embedder.ts'
import type { SearchSettings } from '../search-options.ts'
import { createIncludedEncoder, type EncoderFiles } from './included-encoder.ts'
import { createOpenaiEmbedder } from './openai-embedder.ts'
import { createTransformersEmbedder } from './transformers-embedder.ts'

export interface EmbedderPlaces {
  /** Folder for downloads. */
  readonly cacheDir: string
  /** Folder of the configuration file; relative model folders start here. */
  readonly baseDir: string
  /** The included encoder; without it `embedded` is the embedding table alone. */
  readonly encoder?: EncoderFiles
}

/**
 * The embedder that `search.embedder` names; undefined if none is configured.
 * @throws PegboardError E_CONFIG_INVALID when a required option is missing
 */
export function chooseEmbedder(settings: SearchSettings, places: EmbedderPlaces): EmbedderSource | undefined {
  const { embedder, embedderOptions } = settings
  if (embedder === 'embedded') return places.encoder && createIncludedEncoder(places.encoder)
  const kind = embedder.slice(0, embedder.indexOf(':'))
  const target = embedder.slice(kind.length + 1).trim()
  if (kind === 'openai') return createOpenaiEmbedder(target, embedderOptions)
  if (kind !== 'transformers') return undefined
  return createTransformersEmbedder(target, embedderOptions, {
    baseDir: places.baseDir,
    cacheDir: embedderOptions.cacheDir ?? join(places.cacheDir, 'models'),
  })
}
