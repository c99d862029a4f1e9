import { isPegboardError, messageOf, PegboardError, sentences } from '../core/errors.ts'
import { type Log, silentLog } from '../core/log.ts'
import type { EmbedderPlaces } from './embedders/choose.ts'
import type { SearchSettings } from './options.ts'
import type { SemanticDocument, SemanticLane, SemanticOptions, SemanticStatus } from './semantic.ts'

/** The lane of the optional model that the settings ask for; undefined where they ask for none. */
export function laneFor(
  settings: SearchSettings,
  places: EmbedderPlaces,
  options: Omit<SemanticOptions, 'source'>,
): SemanticLane | undefined {
  const { embedder } = settings
  if (embedder === 'embedded' || embedder === 'none') return undefined
  return deferLane({
    label: embedder.replace(/\/\/[^/@]*@/, '//'),
    log: options.log,
    ...(options.onChange && { onChange: options.onChange }),
    async load() {
      const [{ embedderFor }, { createSemanticLane }] = await Promise.all([
        import('./embedders/choose.ts'),
        import('./semantic.ts'),
      ])
      const source = embedderFor(settings, places)
      if (!source) throw new PegboardError('E_CONFIG_INVALID', `There is no embedder "${embedder}".`)
      return createSemanticLane({ ...options, source })
    },
  })
}

export interface DeferredOptions {
  /** As in the configuration. */
  readonly label: string
  /** Imports and makes the lane; asked once, when there is something to embed. */
  readonly load: () => Promise<SemanticLane>
  readonly log?: Log
  /** Told when the lane cannot be made at all. */
  readonly onChange?: (status: SemanticStatus) => void
}

/** A lane whose code is not even read before the first catalogue: a start must not wait for it. */
export function deferLane({ label, load, log = silentLog, onChange }: DeferredOptions): SemanticLane {
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
