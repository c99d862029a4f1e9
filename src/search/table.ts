import { FIELD_WEIGHTS, type SearchDocument } from './document.ts'
import { gramsOf, hashOf, piecesOf } from './pieces.ts'
import { withRoom } from './sections.ts'
import { createKernel, FOUND_AT, type Kernel, LANES, MAX_SCORES, MAX_WIDTH, ROWS_AT, SCORES_AT } from './simd.ts'
import { stemOf } from './tokenize.ts'

/**
 * A static embedding model: a vector for every stem, and for the character n-grams of stems it has never seen (as in fastText:
 * Bojanowski et al., "Enriching Word Vectors with Subword Information", 2017). A text is the weighted sum of its stems' vectors;
 * queries and documents weigh them differently. Made by `npm run train`.
 */
export interface EmbeddingTable {
  /** Another one after every training. */
  readonly id: string
  readonly dims: number
  readonly settings: TableSettings
  /** At length 1; all zeros for a text without words. */
  query(text: string): Float32Array
  document(document: SearchDocument): Float32Array
  /**
   * Where a stem's vector lies: for the life of the table with `keep`, else until the next stem. Stems of tools are kept,
   * those of queries not, or anyone could fill the memory.
   */
  addressOf(stem: string, keep: boolean): number
  /** Whether any word of a text was seen in training; the vectors of others are guessed from their letters. */
  knows(text: string): boolean
  /** How telling a stem is among the tools of the training, 0 to 1; 1 for an unknown one. */
  rarityOf(stem: string): number
  /** Chooses the vectors for `cosines`: the first `count` of these addresses. Until the next choice or the next kept stem. */
  choose(addresses: Int32Array, count: number): void
  /** Cosines of the vector at `address` with the chosen ones, into `out`. */
  cosines(address: number, out: Float32Array): void
}

type FieldName = SearchDocument['fields'][number]['name']

/** What is known of a model beside its numbers. */
export interface TableSettings {
  readonly id: string
  readonly dims: number
  readonly stems: number
  readonly grams: number
  /** By field of a document: its weight, and how many words of it are read. */
  readonly fields: Readonly<Record<FieldName, readonly [weight: number, words: number]>>
  readonly fusion: FusionWeights
}

/** Settings that cannot be used would fail at the first query: better at once. */
function areUsable({ id, dims, stems, grams, fields, fusion }: TableSettings): boolean {
  const areNumbers = (values: Readonly<Record<string, number>> | undefined): boolean =>
    typeof values === 'object' && Object.values(values).every(Number.isFinite)
  return (
    typeof id === 'string' &&
    [dims, stems, grams].every((count) => Number.isInteger(count) && count > 0) &&
    dims % LANES === 0 &&
    dims <= MAX_WIDTH &&
    typeof fields === 'object' &&
    (Object.keys(FIELD_WEIGHTS) as FieldName[]).every(
      (name) => fields[name]?.length === 2 && fields[name].every(Number.isFinite),
    ) &&
    areNumbers(fusion?.rank) &&
    areNumbers(fusion?.relevance)
  )
}

/** What features are worth: in ordering the tools of one answer, and in telling whether a tool answers at all. */
export interface FusionWeights {
  readonly rank: Readonly<Record<string, number>>
  readonly relevance: Readonly<Record<string, number>>
}

/** The arrays of a model file. */
export interface TableParts {
  /** Of the stems, ascending: row i belongs to the stem with the i-th hash. Rows of n-grams follow. */
  readonly hashes: Uint32Array
  readonly queryWeights: Float32Array
  readonly documentWeights: Float32Array
  /** 255 × rarity, stems only. */
  readonly rarities: Uint8Array
  /** Row after row. */
  readonly vectors: Int8Array
}

const MAGIC = 0x4c425450
const VERSION = 1
const HEADER_BYTES = 16
const QUERY_WORDS_CAP = 64
const QUERY_CHARACTERS_CAP = 2048
/** Rows added up in one call of the kernel. Their list lies where other kernels list what they found. */
const BATCH = (ROWS_AT - FOUND_AT) / (2 * Int32Array.BYTES_PER_ELEMENT)
/** Hashes are found by their first bits, then by looking on. */
const BUCKET_BITS = 14
const MADE_CAP = 500_000

/** One file: magic, version, bytes of the settings, bytes in all; the settings as JSON; the arrays, each at a multiple of four. */
export function packTable(settings: TableSettings, parts: TableParts): Uint8Array {
  const json = Buffer.from(JSON.stringify(settings))
  const arrays = [parts.hashes, parts.queryWeights, parts.documentWeights, parts.rarities, parts.vectors]
  const starts: number[] = []
  let total = aligned(HEADER_BYTES + json.length)
  for (const { byteLength } of arrays) {
    starts.push(total)
    total = aligned(total + byteLength)
  }
  const bytes = new Uint8Array(total)
  new Uint32Array(bytes.buffer, 0, 4).set([MAGIC, VERSION, json.length, total])
  bytes.set(json, HEADER_BYTES)
  arrays.forEach(({ buffer, byteOffset, byteLength }, index) => {
    bytes.set(new Uint8Array(buffer, byteOffset, byteLength), starts[index])
  })
  return bytes
}

/** @throws RangeError for another kind of file, another version, or one cut short */
export function openTable(file: Uint8Array, kernel: Kernel = createKernel()): EmbeddingTable {
  const bytes = file.byteOffset % 4 === 0 ? file : file.slice()
  if (bytes.length < HEADER_BYTES) throw new RangeError('not an embedding table')
  const [magic, version, settingsBytes, total] = new Uint32Array(bytes.buffer, bytes.byteOffset, 4)
  if (magic !== MAGIC) throw new RangeError('not an embedding table')
  if (version !== VERSION) throw new RangeError('an embedding table of another version')
  if (total !== bytes.length) throw new RangeError('an embedding table cut short')
  const settings = JSON.parse(
    Buffer.from(bytes.buffer, bytes.byteOffset + HEADER_BYTES, settingsBytes).toString(),
  ) as TableSettings
  if (!areUsable(settings)) throw new RangeError('an embedding table with settings that cannot be used')
  const { dims, stems, grams } = settings
  const rows = stems + grams
  let at = bytes.byteOffset + aligned(HEADER_BYTES + (settingsBytes ?? 0))
  const take = (length: number): number => {
    const start = at
    at = aligned(at + length)
    return start
  }
  // Copies, so that the file need not stay in memory.
  const hashes = new Uint32Array(bytes.buffer, take(stems * 4), stems).slice()
  const queryWeights = new Float32Array(bytes.buffer, take(rows * 4), rows).slice()
  const documentWeights = new Float32Array(bytes.buffer, take(rows * 4), rows).slice()
  const rarities = new Uint8Array(bytes.buffer, take(stems), stems).slice()
  for (const weights of [queryWeights, documentWeights])
    if (!Number.isFinite(weights.reduce((sum, weight) => sum + weight, 0)))
      throw new RangeError('an embedding table with weights that are no numbers')
  const indexOf = finder(hashes)
  /** After the rows: one made for the moment, then those made of n-grams to stay. */
  const passing = ROWS_AT + rows * dims
  let end = passing + dims
  kernel.reserve(end)
  let memory = new Int8Array(kernel.buffer)
  memory.set(new Int8Array(bytes.buffer, take(rows * dims), rows * dims), ROWS_AT)
  /** Where vectors made of n-grams lie. */
  const made = new Map<string, number>()
  let { pairs, factors, sums } = batchViews()
  let pending = 0
  /** By row: 1 / length of its vector, worked out on need. */
  let inverses = new Float32Array(rows + 1)
  /** Of the vectors chosen: where their addresses lie, how many, and 1 / length of each. */
  let list = 0
  let chosen = 0
  let chosenInverses = new Float32Array(1024)

  function batchViews() {
    return {
      pairs: new Int32Array(kernel.buffer, FOUND_AT, BATCH * 2),
      factors: new Float32Array(kernel.buffer, FOUND_AT, BATCH * 2),
      sums: new Float32Array(kernel.buffer, SCORES_AT, dims),
    }
  }

  /** Memory moves when it grows, so views are taken anew. */
  function reserve(bytes: number): void {
    kernel.reserve(bytes)
    if (memory.buffer === kernel.buffer) return
    memory = new Int8Array(kernel.buffer)
    ;({ pairs, factors, sums } = batchViews())
  }

  /** The sum of the rows that `add` names. Until the next one. */
  function sumOf(add: () => void): Float32Array {
    sums.fill(0)
    add()
    addPending()
    return sums
  }

  function addRow(row: number, factor: number): void {
    pairs[pending * 2] = ROWS_AT + row * dims
    factors[pending * 2 + 1] = factor
    if (++pending === BATCH) addPending()
  }

  function addPending(): void {
    if (pending > 0) kernel.add(FOUND_AT, pending, dims)
    pending = 0
  }

  /** A stem's own row, or those of its n-grams. */
  function addStem(stem: string, weight: number, weights: Float32Array | undefined): void {
    const own = indexOf(hashOf(stem))
    if (own >= 0) {
      addRow(own, weights ? weight * (weights[own] as number) : weight)
      return
    }
    const found = gramsOf(stem)
    for (const hash of found) {
      const row = stems + (hash % grams)
      addRow(row, (weight * (weights ? (weights[row] as number) : 1)) / found.length)
    }
  }

  function addText(text: string, weight: number, cap: number, weights: Float32Array): void {
    const counts = new Map<string, number>()
    for (const piece of piecesOf(text, cap)) {
      const stem = stemOf(piece)
      counts.set(stem, (counts.get(stem) ?? 0) + 1)
    }
    for (const [stem, count] of counts) addStem(stem, weight * (1 + Math.log(count)), weights)
  }

  function makeRow(stem: string, keep: boolean): number {
    const sum = sumOf(() => addStem(stem, 1, undefined)).slice()
    let largest = 0
    for (const value of sum) largest = Math.max(largest, Math.abs(value))
    const kept = keep && made.size < MADE_CAP
    const address = kept ? end : passing
    if (kept) {
      made.set(stem, address)
      end += dims
    }
    inverses = withRoom(inverses, (end - ROWS_AT) / dims)
    inverses[(address - ROWS_AT) / dims] = 0
    // By much, so that it is seldom.
    if (end > kernel.buffer.byteLength) reserve(end + (1 << 20))
    for (let index = 0; index < dims; index++)
      memory[address + index] = largest > 0 ? Math.round(((sum[index] as number) * 127) / largest) : 0
    return address
  }

  function inverseOf(address: number): number {
    const row = (address - ROWS_AT) / dims
    const known = inverses[row]
    if (known) return known
    let squares = 0
    for (let index = address; index < address + dims; index++) squares += (memory[index] as number) ** 2
    const inverse = squares > 0 ? 1 / Math.sqrt(squares) : 0
    inverses[row] = inverse
    return inverse
  }

  return {
    id: settings.id,
    dims,
    settings,
    query(text) {
      return atLengthOne(sumOf(() => addText(text.slice(0, QUERY_CHARACTERS_CAP), 1, QUERY_WORDS_CAP, queryWeights)))
    },
    document({ fields }) {
      const sum = sumOf(() => {
        for (const { name, text } of fields) {
          const [weight, words] = settings.fields[name]
          if (weight > 0) addText(text, weight, words, documentWeights)
        }
      })
      return atLengthOne(sum)
    },
    addressOf(stem, keep) {
      const own = indexOf(hashOf(stem))
      return own >= 0 ? ROWS_AT + own * dims : (made.get(stem) ?? makeRow(stem, keep))
    },
    knows: (text) =>
      piecesOf(text.slice(0, QUERY_CHARACTERS_CAP), QUERY_WORDS_CAP).some(
        (piece) => indexOf(hashOf(stemOf(piece))) >= 0,
      ),
    rarityOf(stem) {
      const own = indexOf(hashOf(stem))
      return own >= 0 ? (rarities[own] as number) / 255 : 1
    },
    choose(addresses, count) {
      chosen = count
      list = aligned(end)
      reserve(list + count * 4)
      new Int32Array(kernel.buffer, list, count).set(addresses.subarray(0, count))
      if (chosenInverses.length < count) chosenInverses = new Float32Array(count * 2)
      for (let index = 0; index < count; index++) chosenInverses[index] = inverseOf(addresses[index] as number)
    },
    cosines(address, out) {
      new Int16Array(kernel.buffer, 0, dims).set(memory.subarray(address, address + dims))
      const inverse = inverseOf(address)
      for (let done = 0; done < chosen; done += MAX_SCORES) {
        const size = Math.min(MAX_SCORES, chosen - done)
        kernel.gather(list + done * 4, size, dims)
        const sums = new Int32Array(kernel.buffer, SCORES_AT, size)
        for (let index = 0; index < size; index++)
          out[done + index] = (sums[index] as number) * inverse * (chosenInverses[done + index] as number)
      }
    },
  }
}

/** A copy. */
function atLengthOne(vector: Float32Array): Float32Array {
  const copy = vector.slice()
  let squares = 0
  for (let index = 0; index < copy.length; index++) squares += (copy[index] as number) ** 2
  const factor = squares > 0 ? 1 / Math.sqrt(squares) : 0
  for (let index = 0; index < copy.length; index++) copy[index] = (copy[index] as number) * factor
  return copy
}

function aligned(bytes: number): number {
  return (bytes + 3) & -4
}

/** Finds where a hash is in a sorted list of them; -1 when it is not. */
function finder(sorted: Uint32Array): (hash: number) => number {
  /** Where the hashes with these first bits begin. */
  const starts = new Uint32Array((1 << BUCKET_BITS) + 1)
  for (const hash of sorted) {
    const bucket = hash >>> (32 - BUCKET_BITS)
    starts[bucket + 1] = (starts[bucket + 1] as number) + 1
  }
  for (let bucket = 1; bucket < starts.length; bucket++)
    starts[bucket] = (starts[bucket] as number) + (starts[bucket - 1] as number)
  return (hash) => {
    const bucket = hash >>> (32 - BUCKET_BITS)
    const end = starts[bucket + 1] as number
    for (let at = starts[bucket] as number; at < end; at++) if (sorted[at] === hash) return at
    return -1
  }
}
