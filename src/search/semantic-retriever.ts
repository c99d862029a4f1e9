import { setImmediate } from 'node:timers/promises'
import { type Clock, systemClock } from '../core/clock.ts'
import { dropOldest } from '../core/drop-oldest.ts'
import { isPegboardError, joinSentences, messageOf, PegboardError } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import { waitAtMost } from '../core/wait-at-most.ts'
import { batchesOf, type Embedder, type EmbedderSource, type LoadProgress } from './embedder.ts'
import { corpusText } from './embedders/corpus-text.ts'
import {
  hashOfText,
  openVectorCache,
  type VectorCache,
  type VectorStore,
  vectorCacheName,
} from './embedders/vector-cache.ts'
import type { FusionWeights } from './fuse-rankings.ts'
import type { SearchSource } from './search-document.ts'
import { MAX_QUERY_CHARACTERS } from './tokenize.ts'
import { unitVector } from './unit-vector.ts'
import { createVectorIndex, type VectorIndex } from './vector-index.ts'

/** A tool as the retriever needs it. */
export interface SemanticDocument {
  readonly slot: number
  /** Id of the tool in this slot. */
  readonly id: string
  /** Changes when the text of `source` changes. */
  readonly hash: string
  /** Read only if there is no vector for this hash. */
  readonly source: SearchSource
}

/** `unavailable` can become `ready` again, unless only the operator can fix the cause. */
export type SemanticState = 'loading' | 'ready' | 'unavailable'

export interface SemanticStatus {
  readonly state: SemanticState
  /** As written in the configuration. */
  readonly embedder: string
  /** Why it is unavailable, for the operator. */
  readonly reason?: string
  /** Number of tools, and number of tools with a vector. */
  readonly documents: number
  readonly indexed: number
}

/**
 * Finds tools by the vectors of the encoder or a custom model. All work happens in the background; no method throws or
 * delays an answer for long.
 */
export interface SemanticRetriever {
  readonly status: SemanticStatus
  /** Vectors by slot; undefined unless ready. Slots of recently added tools may still be empty. */
  readonly index: VectorIndex | undefined
  /** See `Embedder.fusion`; undefined until the model is loaded. */
  readonly fusion: FusionWeights | undefined
  /**
   * Sets the current tools. Reassigned slots are emptied at once; vectors follow in the background. The latest call
   * wins.
   */
  sync(documents: readonly SemanticDocument[]): void
  /** Resolves when the current work is finished or abandoned. */
  settled(): Promise<void>
  /** The vector of a query; undefined if the retriever is not ready, fails or misses the deadline. */
  embedQuery(query: string): Promise<Float32Array | undefined>
  close(): Promise<void>
}

export interface SemanticOptions {
  readonly source: EmbedderSource
  /** `search.embedderOptions.queryTimeoutMs`. */
  readonly queryTimeoutMs: number
  readonly log: Log
  readonly store?: VectorStore
  readonly clock?: Clock
  readonly onProgress?: (progress: LoadProgress) => void
  readonly onChange?: (status: SemanticStatus) => void
}

/** Part of each hash. Increase it when `corpusText` changes, because the vectors change, too. */
const CORPUS_VERSION = '1'
const BATCH_SIZE = 128
const FIRST_SAVE = 2_048
const SLICE_MS = 4
const MAX_CACHED_QUERIES = 256
const MAX_PENDING_QUERIES = 8
const MISSES_BEFORE_PAUSE = 3
const FIRST_RETRY_MS = 30_000
const LAST_RETRY_MS = 600_000
const PROGRESS_LOG_MS = 5_000

/** The vectors of one embedder, with the tool of each slot. */
interface EmbeddedTools {
  readonly embedderId: string
  readonly index: VectorIndex
  readonly owners: Map<number, { readonly id: string; readonly hash: string }>
}

export function createSemanticRetriever(options: SemanticOptions): SemanticRetriever {
  const { source, log, store, queryTimeoutMs } = options
  const clock = options.clock ?? systemClock
  const stopped = new AbortController()
  const queries = new Map<string, Float32Array>()
  const pendingQueries = new Map<string, Promise<Float32Array>>()

  let state: SemanticState = 'loading'
  let reason: string | undefined
  let embedder: Embedder | undefined
  let current: EmbeddedTools | undefined
  let documents: readonly SemanticDocument[] = []
  let isStale = false
  let running: Promise<void> | undefined
  let cancelRetry: (() => void) | undefined
  let isPermanent = false
  let hasWarned = false
  let failures = 0
  let missedQueries = 0

  const getStatus = (): SemanticStatus => ({
    state,
    embedder: source.label,
    ...(reason === undefined ? {} : { reason }),
    documents: documents.length,
    indexed: current?.index.size ?? 0,
  })

  function setState(nextState: SemanticState, nextReason?: string): void {
    const changed = nextState !== state
    state = nextState
    reason = nextReason
    if (changed) options.onChange?.(getStatus())
  }

  function start(): void {
    if (running || cancelRetry || isPermanent || stopped.signal.aborted) return
    running = run().finally(() => {
      running = undefined
      if (isStale) start()
    })
  }

  async function run(): Promise<void> {
    // Several triggers within one turn of the event loop cause one run.
    await setImmediate()
    try {
      while (isStale && !stopped.signal.aborted) {
        isStale = false
        await updateVectors(documents)
      }
    } catch (error) {
      await giveUp(error)
    }
  }

  /** Updates the vectors to `nextDocuments`; returns early if there is a newer list. */
  async function updateVectors(nextDocuments: readonly SemanticDocument[]): Promise<void> {
    embedder ??= await load()
    if (current?.embedderId !== embedder.id) current = createEmptyIndex(embedder)
    const { index, owners } = current
    const outdated = nextDocuments.filter(({ slot, hash }) => owners.get(slot)?.hash !== hash)
    if (outdated.length > 0) {
      const cache = await loadCache(embedder)
      const keys = new Map<SemanticDocument, string>()
      const { vectorOf } = embedder
      await runInSlices(outdated, (document) => {
        const { slot, id, hash } = document
        const ownVector = vectorOf?.(document.source)
        if (!ownVector) return keys.set(document, keyOf(document))
        index.set(slot, unitVector(ownVector))
        owners.set(slot, { id, hash })
      })
      await embedMissing(embedder, cache, keys)
      await runInSlices([...keys], ([{ slot, id, hash }, key]) => {
        index.set(slot, cache.get(key)!)
        owners.set(slot, { id, hash })
      })
    }
    if (isStale) return
    if (index.size !== nextDocuments.length) throw new Error(`${index.size} vectors for ${nextDocuments.length} tools`)
    if (state !== 'ready') log.info('the search model is ready', { embedder: source.label, tools: index.size })
    setState('ready')
  }

  async function load(): Promise<Embedder> {
    let lastLogMs = Number.NEGATIVE_INFINITY
    const loaded = await source.load(stopped.signal, (progress) => {
      options.onProgress?.(progress)
      if (clock.now() - lastLogMs < PROGRESS_LOG_MS) return
      lastLogMs = clock.now()
      log.info('loading the search model', { embedder: source.label, ...progress })
    })
    if (!stopped.signal.aborted) return loaded
    await loaded.close()
    throw new Error('closed')
  }

  /** Yields every few milliseconds; stops early if there is a newer list. */
  async function runInSlices<T>(items: readonly T[], work: (item: T) => unknown): Promise<void> {
    let started = performance.now()
    for (const item of items) {
      if (performance.now() - started > SLICE_MS) {
        await setImmediate()
        started = performance.now()
      }
      if (isStale) return
      work(item)
    }
  }

  /** Stops early if a newer list makes the rest useless; finished vectors are kept. */
  async function embedMissing(
    model: Embedder,
    cache: VectorCache,
    keys: ReadonlyMap<SemanticDocument, string>,
  ): Promise<void> {
    const { textOf = corpusText } = model
    const texts = new Map<string, string>()
    await runInSlices([...keys], ([document, key]) => {
      if (!cache.has(key)) texts.set(key, textOf(document.source))
    })
    // Texts of similar length go together, because a batch costs as much as its longest text.
    const missing = [...texts].sort(([, a], [, b]) => a.length - b.length)
    let unsaved = 0
    // Each save writes everything, so saves become rarer.
    let saveThreshold = FIRST_SAVE
    const save = async (): Promise<void> => {
      unsaved = 0
      await saveCache(model, cache, new Set(documents.map(keyOf)))
    }
    try {
      for (const batch of batchesOf(missing, BATCH_SIZE)) {
        const vectors = await model.embed(
          batch.map(([, text]) => text),
          'document',
          stopped.signal,
        )
        checkVectors(vectors, batch.length, model.dims)
        vectors.forEach((vector, at) => {
          cache.add(batch[at]![0], unitVector(vector))
        })
        unsaved += batch.length
        // Some embedders return without yielding.
        await setImmediate()
        if (unsaved >= saveThreshold) {
          saveThreshold *= 2
          await save()
        }
        if (isStale) return
      }
    } finally {
      // Also after a failure, so that nothing is embedded twice.
      if (unsaved > 0) await save()
    }
  }

  async function loadCache(model: Embedder): Promise<VectorCache> {
    try {
      return openVectorCache(model.dims, await store?.load(vectorCacheName(model.id)))
    } catch (error) {
      log.debug('stored vectors cannot be used', { error: messageOf(error) })
      return openVectorCache(model.dims, undefined)
    }
  }

  async function saveCache(model: Embedder, cache: VectorCache, used: ReadonlySet<string>): Promise<void> {
    try {
      await store?.save(vectorCacheName(model.id), cache.pack(used))
    } catch (error) {
      log.debug('cannot store vectors', { error: messageOf(error) })
    }
  }

  /**
   * Reports the failure once, and retries later unless only the operator can fix it. The other retrievers continue alone.
   */
  async function giveUp(error: unknown): Promise<void> {
    if (stopped.signal.aborted) return
    const message = isPegboardError(error) ? joinSentences(error.message, error.hint) : messageOf(error)
    isPermanent = isPegboardError(error) && error.code === 'E_CONFIG_INVALID'
    isStale = true
    missedQueries = 0
    setState('unavailable', message)
    const logFields = { embedder: source.label, reason: message }
    if (hasWarned) log.info('the search model is unavailable again', logFields)
    else log.warn('the search model is unavailable; search continues without it', logFields)
    hasWarned = true
    const failedEmbedder = embedder
    embedder = undefined
    cancelRetry?.()
    cancelRetry = undefined
    if (!isPermanent) {
      const delayMs = Math.min(FIRST_RETRY_MS * 2 ** failures++, LAST_RETRY_MS)
      cancelRetry = clock.after(delayMs, () => {
        cancelRetry = undefined
        start()
      })
    }
    await failedEmbedder?.close().catch(() => undefined)
  }

  function countMiss(error: Error): void {
    if (++missedQueries >= MISSES_BEFORE_PAUSE && embedder) void giveUp(error)
  }

  async function embedNow(model: Embedder, query: string): Promise<Float32Array> {
    const vectors = await model.embed([query], 'query', stopped.signal)
    checkVectors(vectors, 1, model.dims)
    const vector = unitVector(vectors[0]!)
    if (model === embedder) {
      queries.set(query, vector)
      dropOldest(queries, MAX_CACHED_QUERIES)
    }
    return vector
  }

  return {
    get status() {
      return getStatus()
    },
    get index() {
      return state === 'ready' ? current?.index : undefined
    },

    get fusion() {
      return embedder?.fusion
    },

    sync(next) {
      documents = next
      isStale = true
      if (current) {
        const ids = new Map(next.map(({ slot, id }) => [slot, id]))
        for (const [slot, { id }] of current.owners) {
          if (ids.get(slot) === id) continue
          current.index.clear(slot)
          current.owners.delete(slot)
        }
        // An index with less than half of the tools would hide the others.
        if (state === 'ready' && current.index.size * 2 < next.length) setState('loading')
      }
      start()
    },

    async settled() {
      while (running) await running
    },

    async embedQuery(query) {
      const text = query.trim().slice(0, MAX_QUERY_CHARACTERS)
      const model = embedder
      if (state !== 'ready' || !model || !text) return undefined
      const cachedVector = queries.get(text)
      if (cachedVector) {
        queries.delete(text)
        queries.set(text, cachedVector)
        return cachedVector
      }
      let pending = pendingQueries.get(text)
      if (!pending) {
        if (pendingQueries.size >= MAX_PENDING_QUERIES) return undefined
        pending = embedNow(model, text).finally(() => pendingQueries.delete(text))
        pendingQueries.set(text, pending)
      }
      // A late vector still serves the next identical query.
      try {
        const vector = await waitAtMost(queryTimeoutMs, pending, undefined, clock)
        if (vector) missedQueries = failures = 0
        else
          countMiss(
            new Error(
              `vectors of queries take longer than search.embedderOptions.queryTimeoutMs, ${queryTimeoutMs} ms`,
            ),
          )
        if (!vector) pending.catch(() => undefined)
        return vector
      } catch (error) {
        countMiss(error instanceof Error ? error : new Error(String(error)))
        return undefined
      }
    },

    async close() {
      stopped.abort()
      cancelRetry?.()
      const last = embedder
      embedder = undefined
      await last?.close().catch(() => undefined)
      await running
      if (state === 'ready') setState('unavailable', 'closed')
    },
  }

  function createEmptyIndex(model: Embedder): EmbeddedTools {
    queries.clear()
    try {
      return { embedderId: model.id, index: createVectorIndex(model.dims), owners: new Map() }
    } catch (error) {
      throw new PegboardError('E_CONFIG_INVALID', `${source.label}: ${messageOf(error)} cannot be searched.`, {
        hint: 'Choose a smaller model, or ask for fewer with search.embedderOptions.dims.',
      })
    }
  }
}

const keyOf = ({ hash }: SemanticDocument): string => hashOfText(`${CORPUS_VERSION} ${hash}`)

/** @throws Error if there is not exactly one finite vector of `dims` numbers per text */
function checkVectors(vectors: readonly Float32Array[], count: number, dims: number): void {
  if (vectors.length !== count) throw new Error(`the model gave ${vectors.length} vectors for ${count} texts`)
  for (const vector of vectors) {
    if (vector.length !== dims)
      throw new Error(`the model gave a vector of ${vector.length} numbers instead of ${dims}`)
    let sum = 0
    for (const value of vector) sum += value
    if (!Number.isFinite(sum)) throw new Error('the model gave a vector with numbers that are not finite')
  }
}
