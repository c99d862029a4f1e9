import { isPegboardError, joinSentences, messageOf, PegboardError } from '../core/errors.ts'
import { type Log, silentLog } from '../core/log.ts'
import type { EmbedderPlaces } from './embedders/choose-embedder.ts'
import type { SearchSettings } from './search-options.ts'
import type { SemanticDocument, SemanticLane, SemanticOptions, SemanticStatus } from './semantic-lane.ts'

/**
 * `search.embedder` as people and logs may see it. Only scheme, host and port of an address are shown, because user,
 * password, path and query can all contain secrets. If the password cannot be told from the host, nothing is shown.
 */
export function shownEmbedder(embedder: string): string {
  const kind = 'openai:'
  if (!embedder.startsWith(kind)) return embedder
  const [, address = '', rest = ''] = /^([^?#]*)(.*)$/s.exec(embedder.slice(kind.length)) ?? []
  // A password may contain an unescaped "@" or "/", so it ends at the last "@"; an "@" at the start of a path segment
  // belongs to the path.
  const bare = address.replace(/^(https?:\/\/)(?:.*[^/])?@/i, '$1')
  if (rest.includes('@') || !URL.canParse(bare)) return `${kind}…`
  const { protocol, host } = new URL(bare)
  return `${kind}${protocol}//${host}`
}

/** The search lane of the configured model; undefined for keywords only, or if the encoder's files are not given. */
export function laneFor(
  settings: SearchSettings,
  places: EmbedderPlaces,
  options: Omit<SemanticOptions, 'source'>,
): SemanticLane | undefined {
  const { embedder } = settings
  if (embedder === 'none' || (embedder === 'embedded' && !places.encoder)) return undefined
  return deferLane({
    label: shownEmbedder(embedder),
    log: options.log,
    ...(options.onChange && { onChange: options.onChange }),
    async load() {
      const [{ embedderFor }, { createSemanticLane }] = await Promise.all([
        import('./embedders/choose-embedder.ts'),
        import('./semantic-lane.ts'),
      ])
      const source = embedderFor(settings, places)
      if (!source) throw new PegboardError('E_CONFIG_INVALID', `There is no embedder "${shownEmbedder(embedder)}".`)
      return createSemanticLane({ ...options, source })
    },
  })
}

export interface DeferredOptions {
  /** Name in status and logs. */
  readonly label: string
  /** Imports and creates the lane. Called once, when there is something to embed. */
  readonly load: () => Promise<SemanticLane>
  readonly log?: Log
  /** Called when the lane cannot be created. */
  readonly onChange?: (status: SemanticStatus) => void
}

/** A lane whose code is loaded only after the first catalog, so that it does not delay the start. */
function deferLane({ label, load, log = silentLog, onChange }: DeferredOptions): SemanticLane {
  let lane: SemanticLane | undefined
  let loading: Promise<void> | undefined
  let documents: readonly SemanticDocument[] = []
  let reason: string | undefined
  let closed = false

  async function open(): Promise<void> {
    try {
      const opened = await load()
      if (closed) return await opened.close()
      lane = opened
      lane.sync(documents)
    } catch (error) {
      reason = isPegboardError(error) ? joinSentences(error.message, error.hint) : messageOf(error)
      log.warn('the search model is unavailable; search continues without it', { embedder: label, reason })
      onChange?.(status())
    }
  }

  const status = (): SemanticStatus =>
    lane?.status ?? {
      state: reason === undefined ? 'loading' : 'unavailable',
      embedder: label,
      ...(reason === undefined ? {} : { reason }),
      documents: documents.length,
      indexed: 0,
    }

  return {
    get status() {
      return status()
    },
    get index() {
      return lane?.index
    },
    get fusion() {
      return lane?.fusion
    },
    sync(next) {
      documents = next
      if (lane) lane.sync(next)
      else if (!closed) loading ??= open()
    },
    async settled() {
      await loading
      await lane?.settled()
    },
    embedQuery: async (query) => lane?.embedQuery(query),
    async close() {
      closed = true
      await loading
      await lane?.close()
    },
  }
}
