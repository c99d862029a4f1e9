import { isPegboardError, messageOf, PegboardError, sentences } from '../core/errors.ts'
import { type Log, silentLog } from '../core/log.ts'
import type { EmbedderPlaces } from './embedders/choose.ts'
import type { SearchSettings } from './options.ts'
import type { SemanticDocument, SemanticLane, SemanticOptions, SemanticStatus } from './semantic.ts'

/**
 * `search.embedder` as people and logs may see it: of an address only scheme, host and port, because a user, a password,
 * a path and a query may all hold secrets; nothing of one in which a password cannot be told from the host.
 */
export function shownEmbedder(embedder: string): string {
  const kind = 'openai:'
  if (!embedder.startsWith(kind)) return embedder
  const [, address = '', rest = ''] = /^([^?#]*)(.*)$/s.exec(embedder.slice(kind.length)) ?? []
  // A password may hold an unescaped "@" or "/", so it ends at the last "@"; one that begins a part of a path is of the path.
  const bare = address.replace(/^(https?:\/\/)(?:.*[^/])?@/i, '$1')
  if (rest.includes('@') || !URL.canParse(bare)) return `${kind}…`
  const { protocol, host } = new URL(bare)
  return `${kind}${protocol}//${host}`
}

/** The lane of the optional model that the settings ask for; undefined where they ask for none. */
export function laneFor(
  settings: SearchSettings,
  places: EmbedderPlaces,
  options: Omit<SemanticOptions, 'source'>,
): SemanticLane | undefined {
  const { embedder } = settings
  if (embedder === 'embedded' || embedder === 'none') return undefined
  return deferLane({
    label: shownEmbedder(embedder),
    log: options.log,
    ...(options.onChange && { onChange: options.onChange }),
    async load() {
      const [{ embedderFor }, { createSemanticLane }] = await Promise.all([
        import('./embedders/choose.ts'),
        import('./semantic.ts'),
      ])
      const source = embedderFor(settings, places)
      if (!source) throw new PegboardError('E_CONFIG_INVALID', `There is no embedder "${shownEmbedder(embedder)}".`)
      return createSemanticLane({ ...options, source })
    },
  })
}

export interface DeferredOptions {
  /** What status and log call it. */
  readonly label: string
  /** Imports and makes the lane; asked once, when there is something to embed. */
  readonly load: () => Promise<SemanticLane>
  readonly log?: Log
  /** Told when the lane cannot be made at all. */
  readonly onChange?: (status: SemanticStatus) => void
}

/** A lane whose code is not even read before the first catalogue: a start must not wait for it. */
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
      reason = isPegboardError(error) ? sentences(error.message, error.hint) : messageOf(error)
      log.warn('the search model is unavailable; search goes on without it', { embedder: label, reason })
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
