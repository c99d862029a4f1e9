import { PegboardError } from '../core/errors.ts'
import type { EmbedderPlaces } from './embedders/choose-embedder.ts'
import type { SearchSettings } from './search-options.ts'
import { createSemanticRetriever, type SemanticOptions, type SemanticRetriever } from './semantic-retriever.ts'

/**
 * `search.embedder` as people and logs may see it. Only scheme, host and port of an address are shown, because user,
 * password, path and query can all contain secrets. If the password cannot be told from the host, nothing is shown.
 */
export function describeEmbedder(embedder: string): string {
  const kind = 'openai:'
  if (!embedder.startsWith(kind)) return embedder
  const [, address = '', rest = ''] = /^([^?#]*)(.*)$/s.exec(embedder.slice(kind.length)) ?? []
  // A password may contain an unescaped "@" or "/", so it ends at the last "@"; an "@" at the start of a path segment
  // belongs to the path.
  const withoutPassword = address.replace(/^(https?:\/\/)(?:.*[^/])?@/i, '$1')
  if (rest.includes('@') || !URL.canParse(withoutPassword)) return `${kind}…`
  const { protocol, host } = new URL(withoutPassword)
  return `${kind}${protocol}//${host}`
}

/**
 * The retriever of the configured model. The code of the model is loaded with it, so that it does not delay the start.
 * Undefined for keywords only, or if the encoder's files are not given.
 */
export function createConfiguredRetriever(
  settings: SearchSettings,
  places: EmbedderPlaces,
  options: Omit<SemanticOptions, 'source'>,
): SemanticRetriever | undefined {
  const { embedder } = settings
  if (embedder === 'none' || (embedder === 'embedded' && !places.encoder)) return undefined
  const label = describeEmbedder(embedder)
  return createSemanticRetriever({
    ...options,
    source: {
      label,
      async load(signal, onProgress) {
        const { chooseEmbedder } = await import('./embedders/choose-embedder.ts')
        const source = chooseEmbedder(settings, places)
        if (!source) throw new PegboardError('E_CONFIG_INVALID', `There is no embedder "${label}".`)
        return await source.load(signal, onProgress)
      },
    },
  })
}
