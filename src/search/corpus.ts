import { messageOf } from '../core/errors.ts'
import { type Log, silentLog } from '../core/log.ts'
import { documentOf, type SearchDocument, type SearchSource } from './document.ts'
import { corpusText } from './embedders/corpus.ts'
import type { BytesStore } from './index.ts'
import { createLexicalIndex, type LexicalIndex, loadLexicalIndex } from './lexical.ts'
import { hashOf } from './pieces.ts'
import { packSections, unpackSections } from './sections.ts'
import type { SemanticDocument } from './semantic.ts'
import type { EmbeddingTable } from './table.ts'
import { createVectorIndex, loadVectorIndex, type VectorIndex } from './vectors.ts'

/** `none`: not asked for. `loading` until every tool has its vector. */
export type ModelState = 'none' | 'loading' | 'ready' | 'unavailable'

export interface CorpusOptions {
  readonly log?: Log
  readonly store?: BytesStore
  readonly table?: () => EmbeddingTable | undefined
  /** Told which tools are in which slots, once their words are indexed. */
  readonly onIndexed?: (documents: readonly SemanticDocument[]) => void
}

/** All tools in slots, with their keyword index and their vectors; each re-indexed when its own text changes, and never else. */
export interface Corpus {
  readonly lexical: LexicalIndex
  /** Empty until there is a table. */
  readonly vectors: VectorIndex
  /** The embedded model, once every tool has its vector; until then keywords answer alone. */
  table(): EmbeddingTable | undefined
  readonly model: ModelState
  idOf(slot: number): string
  /** True when there is an index to answer from, be it of a moment ago. */
  usable(): boolean
  /** True when the words of every tool that was last followed are in it. */
  current(): boolean
  /**
   * Follows a catalogue, one tool a step: first the words of all, then the vectors. May be left half-way for a newer one.
   * A source that is the same object as before, or has the same stamp, is not read again.
   */
  follow(sources: readonly SearchSource[]): Generator<void>
  /** Keeps the index in the store, when it changed since it was last kept and nothing is missing. Answers whether it did. */
  save(): boolean
}

/** Counts up with anything that changes what a tool's text is, or the layout below. */
const VERSION = 2
const NAME = 'search-index'
/** "PGSI" on little-endian machines. */
const MAGIC = 0x49534750
const FORMAT = 1
const SIZES_BYTES = 3 * Uint32Array.BYTES_PER_ELEMENT
/** Without this many tools an index is made as fast as it is read. */
const WORTH_KEEPING = 200

interface KeptMeta {
  readonly version: number
  readonly table: string
  /** By slot; empty for a free one. */
  readonly ids: string[]
}

export function createCorpus({ log = silentLog, store, table: openTable, onIndexed }: CorpusOptions): Corpus {
  // Made when something is indexed or asked: a client waits for its list until this is done.
  let words: LexicalIndex | undefined
  let meanings: VectorIndex | undefined
  let table: EmbeddingTable | undefined
  let opened = false
  let broken = false
  let started = false
  /** By slot; an empty id is a free slot. */
  let ids: string[] = []
  let hashes: number[] = []
  /** What each slot was last indexed from, in this run. */
  const seen: (SearchSource | undefined)[] = []
  let slots = new Map<string, number>()
  const free: number[] = []
  let wordsReady = false
  let wordsBehind = false
  let vectorsReady = false
  let dirty = false
  /** A catalogue is being followed. */
  let behind = false

  function open(): void {
    if (opened) return
    opened = true
    try {
      table = openTable?.()
    } catch (error) {
      broken = true
      log.warn('the search model cannot be used; keywords answer alone', { reason: messageOf(error) })
    }
    meanings = createVectorIndex(table?.dims ?? 16)
  }

  function lexical(): LexicalIndex {
    words ??= createLexicalIndex()
    return words
  }

  function vectors(): VectorIndex {
    meanings ??= createVectorIndex(16)
    return meanings
  }

  /** Takes over what the last run kept, if it is of this version and this model. */
  function load(): void {
    open()
    started = true
    try {
      const kept = readKept(store?.get(NAME), table)
      if (!kept) return
      words = kept.lexical
      meanings = kept.vectors
      ids = kept.ids
      hashes = kept.hashes
      slots = kept.slots
      ids.forEach((id, slot) => {
        if (!id) free.push(slot)
      })
      wordsReady = true
      vectorsReady = table !== undefined && vectors().size === slots.size
    } catch (error) {
      log.warn('the search index that was kept cannot be used and is made anew', { reason: messageOf(error) })
    }
  }

  function release(id: string, slot: number): void {
    slots.delete(id)
    ids[slot] = ''
    hashes[slot] = 0
    seen[slot] = undefined
    free.push(slot)
    lexical().clear(slot)
    vectors().clear(slot)
    dirty = true
  }

  function follow(sources: readonly SearchSource[]): Generator<void> {
    wordsBehind = true
    return steps(sources)
  }

  function* steps(sources: readonly SearchSource[]): Generator<void> {
    if (!started) {
      load()
      yield
    }
    behind = true
    const present = new Set<string>()
    for (const { id } of sources) present.add(id)
    let removed = 0
    for (const [id, slot] of slots)
      if (!present.has(id)) {
        release(id, slot)
        removed++
      }
    const bare: { readonly slot: number; readonly source: SearchSource; readonly document?: SearchDocument }[] = []
    let indexed = 0
    for (const source of sources) {
      const known = slots.get(source.id)
      if (known !== undefined && (seen[known] === source || hashes[known] === source.stamp)) {
        if (table && !vectors().has(known)) bare.push({ slot: known, source })
        continue
      }
      const document = read(source)
      const hash = source.stamp ?? contentHash(document)
      const slot = known ?? free.pop() ?? ids.length
      if (known === undefined || hashes[slot] !== hash) {
        lexical().set(slot, document)
        vectors().clear(slot)
        ids[slot] = source.id
        hashes[slot] = hash
        slots.set(source.id, slot)
        dirty = true
        indexed++
      }
      if (source.stamp === undefined) seen[slot] = source
      if (table && !vectors().has(slot)) bare.push({ slot, source, document })
      yield
    }
    wordsReady = true
    wordsBehind = false
    onIndexed?.(sources.map(semanticDocument))
    if (table)
      for (const { slot, source, document } of bare) {
        vectors().set(slot, table.document(document ?? read(source)))
        dirty = true
        yield
      }
    vectorsReady = table !== undefined
    behind = false
    log.debug('search follows the catalogue', { tools: slots.size, indexed, removed, embedded: bare.length })
  }

  /** A definition that cannot be read takes its parameters away, not the tool. */
  function read(source: SearchSource): SearchDocument {
    try {
      return documentOf(source)
    } catch (error) {
      log.warn('parameters of a tool cannot be searched', { tool: source.id, reason: messageOf(error) })
      return documentOf(Object.create(source, { inputJson: { value: {} } }) as SearchSource)
    }
  }

  function semanticDocument(source: SearchSource): SemanticDocument {
    const slot = slots.get(source.id) as number
    return { slot, id: source.id, hash: (hashes[slot] as number).toString(36), text: () => corpusText(source) }
  }

  return {
    get lexical() {
      return lexical()
    },
    get vectors() {
      return vectors()
    },
    table: () => (vectorsReady ? table : undefined),
    get model() {
      if (!openTable) return 'none'
      return broken ? 'unavailable' : vectorsReady ? 'ready' : 'loading'
    },
    idOf: (slot) => ids[slot] ?? '',
    usable: () => wordsReady,
    current: () => !wordsBehind,
    follow,
    save() {
      if (!dirty || behind || !store || slots.size < WORTH_KEEPING) return false
      dirty = false
      const meta: KeptMeta = { version: VERSION, table: table?.id ?? '', ids }
      const head = packSections(MAGIC, FORMAT, [
        Buffer.from(JSON.stringify(meta)),
        new Uint8Array(Float64Array.from(hashes).buffer),
      ])
      const parts = [head, lexical().save(), vectors().save()]
      const sizes = Uint32Array.from(parts, ({ length }) => length)
      store.set(NAME, Buffer.concat([new Uint8Array(sizes.buffer), ...parts]))
      return true
    },
  }
}

interface Kept {
  readonly ids: string[]
  readonly hashes: number[]
  readonly slots: Map<string, number>
  readonly lexical: LexicalIndex
  readonly vectors: VectorIndex
}

/**
 * Undefined when there is nothing, or nothing of this version and model. Each part has a checksum of its own.
 * @throws Error for damaged bytes
 */
function readKept(given: Uint8Array | undefined, table: EmbeddingTable | undefined): Kept | undefined {
  if (!given) return undefined
  // A plain array that starts at a multiple of four: `slice` of a Buffer does not copy.
  const whole = new Uint8Array(given.buffer, given.byteOffset, given.length)
  const bytes = whole.byteOffset % 4 === 0 ? whole : whole.slice()
  if (bytes.length < SIZES_BYTES) throw new Error('cut short')
  const sizes = [...new Uint32Array(bytes.buffer, bytes.byteOffset, SIZES_BYTES / 4)]
  if (sizes.reduce((sum, size) => sum + size, SIZES_BYTES) !== bytes.length) throw new Error('cut short')
  const [headBytes = 0, wordBytes = 0] = sizes
  const head = bytes.subarray(SIZES_BYTES, SIZES_BYTES + headBytes)
  const words = bytes.subarray(SIZES_BYTES + headBytes, SIZES_BYTES + headBytes + wordBytes)
  const rows = bytes.subarray(SIZES_BYTES + headBytes + wordBytes)
  const [json, numbers] = unpackSections(MAGIC, FORMAT, head, 2) as [Uint8Array, Uint8Array]
  const meta = JSON.parse(Buffer.from(json.buffer, json.byteOffset, json.length).toString()) as KeptMeta
  if (meta.version !== VERSION || meta.table !== (table?.id ?? '')) return undefined
  const { ids } = meta
  const kept = new Float64Array(numbers.slice().buffer)
  const hashes: number[] = []
  for (let slot = 0; slot < kept.length; slot++) hashes.push(kept[slot] as number)
  const slots = new Map<string, number>()
  let used = 0
  for (let slot = 0; slot < ids.length; slot++) {
    const id = ids[slot]
    if (!id) continue
    used++
    slots.set(id, slot)
  }
  // A copy, because the index goes on using it and would keep the whole file in memory.
  const lexical = loadLexicalIndex(words.slice())
  const vectors = loadVectorIndex(rows)
  if (slots.size !== used || lexical.size !== used || hashes.length !== ids.length)
    throw new Error('its parts do not belong together')
  if (table && vectors.dims !== table.dims) throw new Error(`its vectors have ${vectors.dims} dimensions`)
  return { ids, hashes, slots, lexical, vectors }
}

/** 53 bits over a document's text, which is all that its index depends on. */
function contentHash({ fields, names, synonyms }: SearchDocument): number {
  let low = hashOf(names.join('\n'))
  let high = hashOf(JSON.stringify(synonyms ?? ''))
  for (const { name, text } of fields) {
    low = Math.imul(low ^ hashOf(text), 0x01000193)
    high = (Math.imul(high, 31) + hashOf(`${text.length}${name}${text.slice(-64)}`) + low) >>> 0
  }
  return (high & 0x1fffff) * 0x100000000 + (low >>> 0)
}
