import { setImmediate } from 'node:timers/promises'
import { type Clock, systemClock } from '../core/clock.ts'
import { isPegboardError, messageOf, PegboardError, sentences } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import { batchesOf, type Embedder, type EmbedderSource, type LoadProgress } from './embedder.ts'
import { hashOfText, type KeptVectors, keptName, keptVectors, type VectorStore } from './embedders/kept.ts'
import { createVectorIndex, type VectorIndex } from './vectors.ts'

/** One tool as the lane wants it. */
export interface SemanticDocument {
  readonly slot: number
  /** Whose the slot is. */
  readonly id: string
  /** Changes when `text` does. */
  readonly hash: string
  /** Asked for only when no vector of this hash is known. */
  readonly text: () => string
}

/** `unavailable` may become `ready` again, unless only the operator can mend it. */
export type SemanticState = 'loading' | 'ready' | 'unavailable'

export interface SemanticStatus {
  readonly state: SemanticState
  /** As in the configuration. */
  readonly embedder: string
  /** Why it is unavailable, for the operator. */
  readonly reason?: string
  readonly dims?: number
  /** Tools it should know, and tools it knows. */
  readonly documents: number
  readonly indexed: number
}

/** The lane of an optional model. Everything happens in the background; nothing here throws or holds up an answer for long. */
export interface SemanticLane {
  readonly status: SemanticStatus
  /** The vectors by slot; undefined unless ready. Slots of tools that came a moment ago may still be empty. */
  readonly index: VectorIndex | undefined
  /** Says which tools exist now. Slots that changed hands are emptied at once, the rest follows; the last word counts. */
  sync(documents: readonly SemanticDocument[]): void
  /** Resolves when the work in hand is done or given up. */
  settled(): Promise<void>
  /** The vector of a query; undefined when the lane is not ready, fails, or takes longer than the deadline. */
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
  /** Told when the state changes. */
  readonly onChange?: (status: SemanticStatus) => void
}

/** Part of the hash: another way to write the text makes other vectors. */
const CORPUS_VERSION = '1'
const STEP = 128
const FIRST_SAVE = 2_048
const SLICE_MS = 4
const QUERY_CHARACTERS = 2_048
const QUERIES_KEPT = 256
const QUERIES_AT_ONCE = 8
const MISSES_BEFORE_PAUSE = 3
const FIRST_RETRY_MS = 30_000
const LAST_RETRY_MS = 600_000
const PROGRESS_LOG_MS = 5_000

/** The vectors of one embedder, and whose they are. */
interface Served {
  readonly embedderId: string
  readonly index: VectorIndex
  readonly owners: Map<number, { readonly id: string; readonly hash: string }>
}

export function createSemanticLane(options: SemanticOptions): SemanticLane {
  const { source, log, store, queryTimeoutMs } = options
  const clock = options.clock ?? systemClock
  const stopped = new AbortController()
  const queries = new Map<string, Float32Array>()
  const asking = new Map<string, Promise<Float32Array>>()

  let state: SemanticState = 'loading'
  let reason: string | undefined
  let embedder: Embedder | undefined
  let served: Served | undefined
  let documents: readonly SemanticDocument[] = []
  let stale = false
  let running: Promise<void> | undefined
  let cancelRetry: (() => void) | undefined
  let hopeless = false
  let warned = false
  let failures = 0
  let misses = 0

  const statusNow = (): SemanticStatus => ({
    state,
    embedder: source.label,
    ...(reason === undefined ? {} : { reason }),
    ...(served === undefined ? {} : { dims: served.index.dims }),
    documents: documents.length,
    indexed: served?.index.size ?? 0,
  })

  function become(next: SemanticState, why?: string): void {
    const changed = next !== state
    state = next
    reason = why
    if (changed) options.onChange?.(statusNow())
  }

  function start(): void {
    if (running || cancelRetry || hopeless || stopped.signal.aborted) return
    running = run().finally(() => {
      running = undefined
      if (stale) start()
    })
  }

  async function run(): Promise<void> {
    // Several triggers of one turn are one run.
    await setImmediate()
    try {
      while (stale && !stopped.signal.aborted) {
        stale = false
        await follow(documents)
      }
    } catch (error) {
      await giveUp(error)
    }
  }

  /** Brings the vectors up to `wanted`; returns early when there is newer word. */
  async function follow(wanted: readonly SemanticDocument[]): Promise<void> {
    embedder ??= await load()
    if (served?.embedderId !== embedder.id) served = emptyIndex(embedder)
    const { index, owners } = served
    const todo = wanted.filter(({ slot, hash }) => owners.get(slot)?.hash !== hash)
    if (todo.length > 0) {
      const kept = await readKept(embedder)
      const keys = new Map<SemanticDocument, string>()
      await inSlices(todo, (document) => keys.set(document, keyOf(document)))
      await embedMissing(embedder, kept, keys)
      await inSlices([...keys], ([{ slot, id, hash }, key]) => {
        index.set(slot, kept.get(key)!)
        owners.set(slot, { id, hash })
      })
    }
    if (stale) return
    if (index.size !== wanted.length) throw new Error(`${index.size} vectors for ${wanted.length} tools`)
    if (state !== 'ready') log.info('the search model is ready', { embedder: source.label, tools: index.size })
    become('ready')
  }

  async function load(): Promise<Embedder> {
    let lastLine = Number.NEGATIVE_INFINITY
    const loaded = await source.load(stopped.signal, (progress) => {
      options.onProgress?.(progress)
      if (clock.now() - lastLine < PROGRESS_LOG_MS) return
      lastLine = clock.now()
      log.info('loading the search model', { embedder: source.label, ...progress })
    })
    if (!stopped.signal.aborted) return loaded
    await loaded.close()
    throw new Error('closed')
  }

  /** Does a part every few milliseconds, so that nobody waits for the whole; stops early when there is newer word. */
  async function inSlices<T>(items: readonly T[], work: (item: T) => void): Promise<void> {
    let started = performance.now()
    for (const item of items) {
      if (performance.now() - started > SLICE_MS) {
        await setImmediate()
        started = performance.now()
      }
      if (stale) return
      work(item)
    }
  }

  /** Stops early when newer word makes the rest pointless; what was embedded is kept. */
  async function embedMissing(
    model: Embedder,
    kept: KeptVectors,
    keys: ReadonlyMap<SemanticDocument, string>,
  ): Promise<void> {
    const texts = new Map<string, string>()
    await inSlices([...keys], ([document, key]) => {
      if (!kept.has(key)) texts.set(key, document.text())
    })
    // Texts of like length together: a batch costs what its longest one does.
    const missing = [...texts].sort(([, a], [, b]) => a.length - b.length)
    let unsaved = 0
    // Each save writes everything, so they grow rarer.
    let saveAt = FIRST_SAVE
    const save = async (): Promise<void> => {
      unsaved = 0
      await writeKept(model, kept, new Set(documents.map(keyOf)))
    }
    try {
      for (const batch of batchesOf(missing, STEP)) {
        const vectors = await model.embed(
          batch.map(([, text]) => text),
          'document',
          stopped.signal,
        )
        checkVectors(vectors, batch.length, model.dims)
        vectors.forEach((vector, at) => {
          kept.add(batch[at]![0], unit(vector))
        })
        unsaved += batch.length
        // Not every embedder waits for anything.
        await setImmediate()
        if (unsaved >= saveAt) {
          saveAt *= 2
          await save()
        }
        if (stale) return
      }
    } finally {
      // Also when it failed half-way: nothing is embedded twice.
      if (unsaved > 0) await save()
    }
  }

  async function readKept(model: Embedder): Promise<KeptVectors> {
    try {
      return keptVectors(model.dims, await store?.load(keptName(model.id)))
    } catch (error) {
      log.debug('kept vectors are of no use', { error: messageOf(error) })
      return keptVectors(model.dims, undefined)
    }
  }

  async function writeKept(model: Embedder, kept: KeptVectors, used: ReadonlySet<string>): Promise<void> {
    try {
      await store?.save(keptName(model.id), kept.pack(used))
    } catch (error) {
      log.debug('vectors could not be kept', { error: messageOf(error) })
    }
  }

  /** The other lanes go on alone. Says so once, and tries again later unless only the operator can mend it. */
  async function giveUp(error: unknown): Promise<void> {
    if (stopped.signal.aborted) return
    const why = isPegboardError(error) ? sentences(error.message, error.hint) : messageOf(error)
    hopeless = isPegboardError(error) && error.code === 'E_CONFIG_INVALID'
    stale = true
    misses = 0
    become('unavailable', why)
    const told = { embedder: source.label, reason: why }
    if (warned) log.info('the search model is unavailable again', told)
    else log.warn('the search model is unavailable; search goes on without it', told)
    warned = true
    const broken = embedder
    embedder = undefined
    cancelRetry?.()
    cancelRetry = undefined
    if (!hopeless) {
      const wait = Math.min(FIRST_RETRY_MS * 2 ** failures++, LAST_RETRY_MS)
      cancelRetry = clock.after(wait, () => {
        cancelRetry = undefined
        start()
      })
    }
    await broken?.close().catch(() => undefined)
  }

  function missed(error: Error): void {
    if (++misses >= MISSES_BEFORE_PAUSE && embedder) void giveUp(error)
  }

  async function ask(model: Embedder, query: string): Promise<Float32Array> {
    const vectors = await model.embed([query], 'query', stopped.signal)
    checkVectors(vectors, 1, model.dims)
    const vector = unit(vectors[0]!)
    if (model === embedder) {
      queries.set(query, vector)
      if (queries.size > QUERIES_KEPT) queries.delete(queries.keys().next().value!)
    }
    return vector
  }

  return {
    get status() {
      return statusNow()
    },
    get index() {
      return state === 'ready' ? served?.index : undefined
    },

    sync(next) {
      documents = next
      stale = true
      if (served) {
        const ids = new Map(next.map(({ slot, id }) => [slot, id]))
        for (const [slot, { id }] of served.owners) {
          if (ids.get(slot) === id) continue
          served.index.clear(slot)
          served.owners.delete(slot)
        }
        // An index of the minority would only hide the others.
        if (state === 'ready' && served.index.size * 2 < next.length) become('loading')
      }
      start()
    },

    async settled() {
      while (running) await running
    },

    async embedQuery(query) {
      const text = query.trim().slice(0, QUERY_CHARACTERS)
      const model = embedder
      if (state !== 'ready' || !model || !text) return undefined
      const known = queries.get(text)
      if (known) {
        queries.delete(text)
        queries.set(text, known)
        return known
      }
      let answer = asking.get(text)
      if (!answer) {
        if (asking.size >= QUERIES_AT_ONCE) return undefined
        answer = ask(model, text).finally(() => asking.delete(text))
        asking.set(text, answer)
      }
      // A late answer still serves the next one who asks the same.
      let cancel: (() => void) | undefined
      const late = new Promise<undefined>((resolve) => {
        cancel = clock.after(queryTimeoutMs, () => resolve(undefined))
      })
      try {
        const vector = await Promise.race([answer, late])
        if (vector) misses = failures = 0
        else
          missed(
            new Error(
              `vectors of queries take longer than search.embedderOptions.queryTimeoutMs, ${queryTimeoutMs} ms`,
            ),
          )
        if (!vector) answer.catch(() => undefined)
        return vector
      } catch (error) {
        missed(error instanceof Error ? error : new Error(String(error)))
        return undefined
      } finally {
        cancel?.()
      }
    },

    async close() {
      stopped.abort()
      cancelRetry?.()
      const last = embedder
      embedder = undefined
      await last?.close().catch(() => undefined)
      await running
      if (state === 'ready') become('unavailable', 'closed')
    },
  }

  function emptyIndex(model: Embedder): Served {
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

/** @throws Error when there is not one finite vector of `dims` numbers for each text */
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

/** The same direction, length 1; zeros stay zeros. */
function unit(vector: Float32Array): Float32Array {
  let squares = 0
  for (const value of vector) squares += value * value
  const length = Math.sqrt(squares)
  return length > 0 ? vector.map((value) => value / length) : vector
}
