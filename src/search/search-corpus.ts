import { messageOf } from '../core/errors.ts'
import { silentLog } from '../core/log.ts'
import type { Atlas } from './atlas.ts'
import type { EmbeddingTable } from './embedding-table.ts'
import { createLexicalIndex, type LexicalIndex, loadLexicalIndex } from './lexical-index.ts'
import { packSections, unpackSections } from './packed-sections.ts'
import { documentOf, type SearchDocument, type SearchSource } from './search-document.ts'
import type { SemanticDocument } from './semantic-retriever.ts'
import type { ToolSearchOptions } from './tool-search.ts'
import { createVectorIndex, loadVectorIndex, type VectorIndex } from './vector-index.ts'
import { hashOf } from './word-pieces.ts'

/** `none`: no model configured. `loading`: some tools have no vector yet. */
export type ModelState = 'none' | 'loading' | 'ready' | 'unavailable'

export interface CorpusOptions extends Pick<ToolSearchOptions, 'log' | 'store' | 'table' | 'atlas'> {
  /** Called with the tool of each slot after its words are indexed. */
  readonly onIndexed?: (documents: readonly SemanticDocument[]) => void
}

/** All tools in slots, with their keyword index and vectors. A tool is indexed again only when its own text changes. */
export type Corpus = ReturnType<typeof createCorpus>

/** Increased when a tool's text or the file layout changes. */
const VERSION = 3
const NAME = 'search-index'
/** "PGSI" on little-endian machines. */
const MAGIC = 0x49534750
const FORMAT = 2
/** With fewer tools, building the index is as fast as reading it. */
const MIN_STORED_TOOLS = 200

interface StoredMeta {
  readonly version: number
  readonly models: string
  /** Per slot; empty for a free slot. */
  readonly ids: string[]
  /** Slots of tools in the atlas. */
  readonly known: readonly number[]
}

interface IndexedTool {
  readonly slot: number
  readonly source: SearchSource
  /** Undefined if it was not read in this run. */
  readonly document: SearchDocument | undefined
}

export function createCorpus({ log = silentLog, store, table: openTable, atlas: openAtlas, onIndexed }: CorpusOptions) {
  // Created on first use, because a client waits for its list until this constructor returns.
  let lexicalIndex: LexicalIndex | undefined
  let vectorIndex: VectorIndex | undefined
  let table: EmbeddingTable | undefined
  let atlas: Atlas | undefined
  let isOpen = false
  let tableFailed = false
  let isLoaded = false
  /** Per slot; an empty id marks a free slot. */
  let ids: string[] = []
  let hashes: number[] = []
  /** The source of each slot's last indexing in this run. */
  const lastSources: (SearchSource | undefined)[] = []
  let slots = new Map<string, number>()
  /** Slots of tools in the atlas. */
  let atlasSlots = new Set<number>()
  const freeSlots: number[] = []
  let wordsReady = false
  let wordsBehind = false
  let vectorsReady = false
  let hasChanges = false
  /** True while a catalog is being followed. */
  let isFollowing = false

  function open(): void {
    if (isOpen) return
    isOpen = true
    try {
      table = openTable?.()
    } catch (error) {
      tableFailed = true
      log.warn('the search model is unavailable; search uses keywords only', { reason: messageOf(error) })
    }
    try {
      atlas = openAtlas?.()
    } catch (error) {
      log.warn('the atlas of known tools cannot be read', { reason: messageOf(error) })
    }
    vectorIndex = createVectorIndex(table?.dims ?? 16)
  }

  /** What a saved index depends on besides the tools. */
  const describeModels = (): string => [table?.id, atlas?.id].join(' ')

  function lexical(): LexicalIndex {
    lexicalIndex ??= createLexicalIndex()
    return lexicalIndex
  }

  function vectors(): VectorIndex {
    vectorIndex ??= createVectorIndex(16)
    return vectorIndex
  }

  /** Loads the saved index, if its version and model match. */
  function load(): void {
    open()
    isLoaded = true
    try {
      const stored = readStored(store?.get(NAME), table, describeModels())
      if (!stored) return
      lexicalIndex = stored.lexical
      vectorIndex = stored.vectors
      ids = stored.ids
      hashes = stored.hashes
      slots = stored.slots
      atlasSlots = new Set(stored.known)
      ids.forEach((id, slot) => {
        if (!id) freeSlots.push(slot)
      })
      wordsReady = true
      vectorsReady = table !== undefined && vectors().size === slots.size
    } catch (error) {
      log.warn('the stored search index cannot be used; Pegboard builds a new one', { reason: messageOf(error) })
    }
  }

  function release(id: string, slot: number): void {
    slots.delete(id)
    ids[slot] = ''
    hashes[slot] = 0
    lastSources[slot] = undefined
    atlasSlots.delete(slot)
    freeSlots.push(slot)
    lexical().clear(slot)
    vectors().clear(slot)
    hasChanges = true
  }

  /**
   * Follows a catalog, one tool per step: first the words of all tools, then the vectors. May be abandoned for a
   * newer catalog. A source that is the same object as before, or has the same stamp, is not read again.
   */
  function follow(sources: readonly SearchSource[]): Generator<void> {
    wordsBehind = true
    return followSteps(sources)
  }

  function* followSteps(sources: readonly SearchSource[]): Generator<void> {
    if (!isLoaded) {
      load()
      yield
    }
    isFollowing = true
    const removed = releaseMissing(sources)
    const withoutVector: IndexedTool[] = []
    let indexed = 0
    for (const source of sources) {
      const document = isUnchanged(source) ? undefined : readDocument(source)
      if (document && indexWords(source, document)) indexed++
      const slot = slots.get(source.id) as number
      if (table && !vectors().has(slot)) withoutVector.push({ slot, source, document })
      if (document) yield
    }
    wordsReady = true
    wordsBehind = false
    onIndexed?.(sources.map(semanticDocument))
    if (table) yield* embed(table, withoutVector)
    vectorsReady = table !== undefined
    isFollowing = false
    log.debug('updated the search index', { tools: slots.size, indexed, removed, embedded: withoutVector.length })
  }

  /** @returns the number of tools that are gone */
  function releaseMissing(sources: readonly SearchSource[]): number {
    const present = new Set(sources.map(({ id }) => id))
    const missing = [...slots].filter(([id]) => !present.has(id))
    for (const [id, slot] of missing) release(id, slot)
    return missing.length
  }

  /** True if the tool need not be read again. */
  function isUnchanged(source: SearchSource): boolean {
    const slot = slots.get(source.id)
    return slot !== undefined && (lastSources[slot] === source || hashes[slot] === source.stamp)
  }

  /** @returns false if the text is the same as before */
  function indexWords(source: SearchSource, document: SearchDocument): boolean {
    const hash = source.stamp ?? contentHash(document)
    const existingSlot = slots.get(source.id)
    const slot = existingSlot ?? freeSlots.pop() ?? ids.length
    if (source.stamp === undefined) lastSources[slot] = source
    if (existingSlot !== undefined && hashes[slot] === hash) return false
    lexical().set(slot, document)
    vectors().clear(slot)
    if (document.fields.some(({ name }) => name === 'requests')) atlasSlots.add(slot)
    else atlasSlots.delete(slot)
    ids[slot] = source.id
    hashes[slot] = hash
    slots.set(source.id, slot)
    hasChanges = true
    return true
  }

  function* embed(model: EmbeddingTable, tools: readonly IndexedTool[]): Generator<void> {
    for (const { slot, source, document } of tools) {
      vectors().set(slot, model.document(document ?? readDocument(source)))
      hasChanges = true
      yield
    }
  }

  /** Indexes a tool without its parameters if its definition cannot be read. */
  function readDocument(source: SearchSource): SearchDocument {
    try {
      return documentOf(source, atlas?.requestsOf(source))
    } catch (error) {
      log.warn('parameters of a tool cannot be searched', { tool: source.id, reason: messageOf(error) })
      return documentOf(Object.create(source, { inputJson: { value: {} } }) as SearchSource)
    }
  }

  function semanticDocument(source: SearchSource): SemanticDocument {
    const slot = slots.get(source.id) as number
    return { slot, id: source.id, hash: (hashes[slot] as number).toString(36), source }
  }

  return {
    get lexical(): LexicalIndex {
      return lexical()
    },
    /** Empty until the table is loaded. */
    get vectors(): VectorIndex {
      return vectors()
    },
    /** The embedding table once every tool has its vector. Until then only keywords are searched. */
    table: (): EmbeddingTable | undefined => (vectorsReady ? table : undefined),
    get model(): ModelState {
      if (!openTable) return 'none'
      return tableFailed ? 'unavailable' : vectorsReady ? 'ready' : 'loading'
    },
    idOf: (slot: number): string => ids[slot] ?? '',
    slotOf: (id: string): number | undefined => slots.get(id),
    /** True if the tool is in the atlas. */
    isKnown: (slot: number): boolean => atlasSlots.has(slot),
    /** True if there is an index to answer from, even if it is slightly out of date. */
    usable: (): boolean => wordsReady,
    /** True if it contains the words of all current tools. */
    current: (): boolean => !wordsBehind,
    follow,
    /** Saves the index if it has changed and is complete. @returns whether it was saved */
    save(): boolean {
      if (!hasChanges || isFollowing || !store || slots.size < MIN_STORED_TOOLS) return false
      hasChanges = false
      const meta: StoredMeta = { version: VERSION, models: describeModels(), ids, known: [...atlasSlots] }
      const sections = [
        Buffer.from(JSON.stringify(meta)),
        new Uint8Array(Float64Array.from(hashes).buffer),
        lexical().save(),
        vectors().save(),
      ]
      store.set(NAME, packSections(MAGIC, FORMAT, sections))
      return true
    },
  }
}

/**
 * Reads the stored index. Undefined if there is none with this version and these models.
 * @throws Error for damaged bytes
 */
function readStored(bytes: Uint8Array | undefined, table: EmbeddingTable | undefined, models: string) {
  if (!bytes) return undefined
  const sections = unpackSections(MAGIC, FORMAT, bytes, 4)
  const [json, numbers, words, rows] = sections as [Uint8Array, Uint8Array, Uint8Array, Uint8Array]
  const meta = JSON.parse(Buffer.from(json.buffer, json.byteOffset, json.length).toString()) as StoredMeta
  if (meta.version !== VERSION || meta.models !== models) return undefined
  const { ids, known } = meta
  const hashes = [...new Float64Array(numbers.slice().buffer)]
  const slots = new Map<string, number>()
  let usedCount = 0
  for (let slot = 0; slot < ids.length; slot++) {
    const id = ids[slot]
    if (!id) continue
    usedCount++
    slots.set(id, slot)
  }
  // A copy, because the index keeps using it and would keep the whole file in memory.
  const lexical = loadLexicalIndex(words.slice())
  const vectors = loadVectorIndex(rows)
  if (slots.size !== usedCount || lexical.size !== usedCount || hashes.length !== ids.length)
    throw new Error('its parts do not belong together')
  if (table && vectors.dims !== table.dims) throw new Error(`its vectors have ${vectors.dims} dimensions`)
  return { ids, known, hashes, slots, lexical, vectors }
}

/** A 53-bit hash of the text that a document's index entry depends on. */
function contentHash({ fields, names, synonyms }: SearchDocument): number {
  let low = hashOf(names.join('\n'))
  let high = hashOf(JSON.stringify(synonyms ?? ''))
  for (const { name, text } of fields) {
    low = Math.imul(low ^ hashOf(text), 0x01000193)
    high = (Math.imul(high, 31) + hashOf(`${text.length}${name}${text.slice(-64)}`) + low) >>> 0
  }
  return (high & 0x1fffff) * 0x100000000 + (low >>> 0)
}
