import type { EmbeddingTable } from './embedding-table.ts'
import type { LexicalIndex } from './lexical-index.ts'
import { withRoom } from './packed-sections.ts'
import { isStopWord, MAX_QUERY_CHARACTERS, stemOf } from './tokenize.ts'
import { piecesOf } from './word-pieces.ts'

/**
 * How well some tools' words cover the query's words, and how well the query covers the words of their names; 0 to 1,
 * in the order of the tools given.
 */
export interface Coverage {
  readonly query: Float32Array
  readonly name: Float32Array
}

const QUERY_STEMS_CAP = 24
const TOOL_STEMS_CAP = 40

/**
 * Late interaction (Khattab, Zaharia, "ColBERT", 2020) over a static table: each query word counts as much as its
 * nearest tool word is similar, weighted by rarity. Uses the words of the lexical index.
 */
export function createLateInteraction(table: EmbeddingTable, index: LexicalIndex) {
  /** Per stem number: address of its vector (0 if not looked up yet) and its position among the stems of this query. */
  let addresses = new Int32Array()
  let places = new Int32Array()
  let generation = index.generation
  let distinct = new Int32Array(1024)
  let stems = new Int32Array(1024)
  let count = 0
  let cosines = new Float32Array(1024)
  /** Positions of the stems of each tool, one tool after the other. */
  let flat = new Int32Array(4096)

  /** Assigns a position to a stem that has none yet. */
  function newPlace(stem: number): number {
    if (stem >= addresses.length) {
      addresses = withRoom(addresses, stem + 1)
      places = withRoom(places, stem + 1)
    }
    if (addresses[stem] === 0) addresses[stem] = table.addressOf(index.stemText(stem), true)
    if (count >= distinct.length) {
      distinct = withRoom(distinct, count + 1)
      stems = withRoom(stems, count + 1)
      cosines = withRoom(cosines, count + 1)
    }
    distinct[count] = addresses[stem] as number
    stems[count] = stem
    places[stem] = ++count
    return count - 1
  }

  return {
    /** @param accept as in `rarityOf` */
    cover(query: string, slots: readonly number[], accept?: (slot: number) => boolean): Coverage {
      if (generation !== index.generation) {
        generation = index.generation
        addresses.fill(0)
      }
      const starts = new Int32Array(slots.length + 1)
      const names = new Int32Array(slots.length)
      let used = 0
      count = 0
      for (let at = 0; at < slots.length; at++) {
        flat = withRoom(flat, used + TOOL_STEMS_CAP)
        const end = used + index.copyStems(slots[at] as number, flat, used, TOOL_STEMS_CAP)
        let ofName = 0
        for (; used < end; used++) {
          const entry = flat[used] as number
          ofName += entry & 1
          const place = places[entry >>> 1] ?? 0
          flat[used] = place > 0 ? place - 1 : newPlace(entry >>> 1)
        }
        names[at] = ofName
        starts[at + 1] = used
      }
      for (let place = 0; place < count; place++) places[stems[place] as number] = 0

      const covered: Coverage = { query: new Float32Array(slots.length), name: new Float32Array(slots.length) }
      table.choose(distinct, count)
      /** For each stem of a name, the similarity of the nearest query word. */
      const nearest = new Float32Array(used)
      let all = 0
      for (const stem of stemsOf(query)) {
        const weight = index.rarityOf(stem, accept) * table.rarityOf(stem)
        const address = table.addressOf(stem, false)
        all += weight
        table.cosines(address, cosines)
        const near = cosines
        const list = flat
        for (let at = 0; at < slots.length; at++) {
          const start = starts[at] as number
          const end = starts[at + 1] as number
          const nameEnd = start + (names[at] as number)
          let best = 0
          for (let index = start; index < end; index++) {
            const cosine = near[list[index] as number] as number
            if (cosine > best) best = cosine
            if (index < nameEnd && cosine > (nearest[index] as number)) nearest[index] = cosine
          }
          covered.query[at] = (covered.query[at] as number) + weight * best
        }
      }
      for (let at = 0; at < slots.length; at++) {
        if (all > 0) covered.query[at] = (covered.query[at] as number) / all
        const start = starts[at] as number
        let ofName = 0
        let sum = 0
        for (let place = start; place < start + (names[at] as number); place++) {
          const worth = index.rarityOf(stems[flat[place] as number] as number)
          ofName += worth
          sum += worth * (nearest[place] as number)
        }
        covered.name[at] = ofName > 0 ? sum / ofName : 0
      }
      return covered
    },
  }
}

/** The distinct stems of a query's informative words. */
function stemsOf(query: string): Set<string> {
  const stems = new Set<string>()
  for (const piece of piecesOf(query.slice(0, MAX_QUERY_CHARACTERS))) {
    if (!isStopWord(piece)) stems.add(stemOf(piece))
    if (stems.size >= QUERY_STEMS_CAP) break
  }
  return stems
}
