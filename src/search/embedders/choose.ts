import { join } from 'node:path'
import type { EmbedderSource } from '../embedder.ts'
import type { SearchSettings } from '../options.ts'
import { openaiEmbedder } from './openai.ts'
import { transformersEmbedder } from './transformers.ts'

export interface EmbedderPlaces {
  /** Folder for what can be fetched again. */
  readonly cacheDir: string
  /** Folder that relative model folders start from: that of the configuration. */
  readonly baseDir: string
}

/**
 * What `search.embedder` asks for; undefined where no optional model is wanted.
 * @throws PegboardError E_CONFIG_INVALID when an option that the choice needs is missing
 */
export function embedderFor(settings: SearchSettings, places: EmbedderPlaces): EmbedderSource | undefined {
  const { embedder, embedderOptions } = settings
  const kind = embedder.slice(0, embedder.indexOf(':'))
  const what = embedder.slice(kind.length + 1).trim()
  if (kind === 'openai') return openaiEmbedder(what, embedderOptions)
  if (kind !== 'transformers') return undefined
  return transformersEmbedder(what, embedderOptions, {
    baseDir: places.baseDir,
    cacheDir: embedderOptions.cacheDir ?? join(places.cacheDir, 'models'),
  })
}
