import type { LexicalIndex } from './lexical.ts'
import { piecesOf } from './pieces.ts'
import type { EmbeddingTable } from './table.ts'
import { STOP_WORDS, stemOf } from './tokenize.ts'

/** How well some tools' words cover a query's, and how well the query covers the words of their names; 0 to 1, by tool asked for. */
export interface Coverage {
  readonly query: Float32Array
  readonly name: Float32Array
}

const QUERY_STEMS_CAP = 24
const TOOL_STEMS_CAP = 40
const QUERY_CHARACTERS_CAP = 2048

/**
 * Late interaction (Khattab, Zaharia, "ColBERT", 2020) over a static table: every word of the query is as well covered as its
 * nearest word of the tool is near, and telling words count more. Words are those of the lexical index.
 */
export function createLateInteraction(table: EmbeddingTable, index: LexicalIndex) {
  /** By stem number: where its vector lies, 0 for not looked up yet; and its place among the stems of this query. */
  let addresses = new Int32Array()
  let places = new Int32Array()
  let generation = index.generation
  let distinct = new Int32Array(1024)
  let rarities = new Float32Array(1024)
  let cosines = new Float32Array(1024)
  /** Of each tool in turn: places of its stems. */
  let flat = new Int32Array(4096)

  function placeOf(stem: number, count: number): number {
    if (stem >= addresses.length) {
      const longer = Math.max(1024, stem * 2)
      addresses = grown(addresses, longer)
      places = grown(places, longer)
    }
    const known = (places[stem] as number) - 1
    if (known >= 0) return known
    if (addresses[stem] === 0) addresses[stem] = table.addressOf(index.stemText(stem), true)
    if (count >= distinct.length) {
      distinct = grown(distinct, count * 2)
      rarities = grown(rarities, count * 2)
      cosines = grown(cosines, count * 2)
    }
    distinct[count] = addresses[stem] as number
    rarities[count] = index.rarityOf(stem)
    places[stem] = count + 1
    return count
  }

  return {
    cover(query: string, slots: readonly number[]): Coverage {
      if (generation !== index.generation) {
        generation = index.generation
        addresses.fill(0)
      }
      const starts = new Int32Array(slots.length + 1)
      const names = new Int32Array(slots.length)
      const seen: number[] = []
      let used = 0
      slots.forEach((slot, at) => {
        let stems = 0
        index.visitStems(slot, (stem, ofName) => {
          if (stems++ >= TOOL_STEMS_CAP) return
          const place = placeOf(stem, seen.length)
          if (place === seen.length) seen.push(stem)
          if (used >= flat.length) flat = grown(flat, used * 2)
          flat[used++] = place
          if (ofName) names[at] = (names[at] as number) + 1
        })
        starts[at + 1] = used
      })
      for (const stem of seen) places[stem] = 0

      const covered: Coverage = { query: new Float32Array(slots.length), name: new Float32Array(slots.length) }
      table.choose(distinct, seen.length)
      /** Of each name's stems in turn: the nearness of the query's nearest word. */
      const nearest = new Float32Array(used)
      let all = 0
      for (const stem of stemsOf(query)) {
        const weight = index.rarityOf(stem) * table.rarityOf(stem)
        const address = table.addressOf(stem, false)
        all += weight
        table.cosines(address, cosines)
        for (let at = 0; at < slots.length; at++) {
          const start = starts[at] as number
          const end = starts[at + 1] as number
          const nameEnd = start + (names[at] as number)
          let best = 0
          for (let index = start; index < end; index++) {
            const near = cosines[flat[index] as number] as number
            if (near > best) best = near
            if (index < nameEnd && near > (nearest[index] as number)) nearest[index] = near
          }
          covered.query[at] = (covered.query[at] as number) + weight * best
        }
      }
      for (let at = 0; at < slots.length; at++) {
        if (all > 0) covered.query[at] = (covered.query[at] as number) / all
        const start = starts[at] as number
        let ofName = 0
        let sum = 0
        for (let index = start; index < start + (names[at] as number); index++) {
          const worth = rarities[flat[index] as number] as number
          ofName += worth
          sum += worth * (nearest[index] as number)
        }
        covered.name[at] = ofName > 0 ? sum / ofName : 0
      }
      return covered
    },
  }
}

/** The distinct stems of a query's telling words. */
function stemsOf(query: string): Set<string> {
  const stems = new Set<string>()
  for (const piece of piecesOf(query.slice(0, QUERY_CHARACTERS_CAP))) {
    if (!STOP_WORDS.has(piece)) stems.add(stemOf(piece))
    if (stems.size >= QUERY_STEMS_CAP) break
  }
  return stems
}

function grown<T extends Int32Array | Float32Array>(array: T, length: number): T {
  const longer = new (array.constructor as new (length: number) => T)(length)
  longer.set(array)
  return longer
}
