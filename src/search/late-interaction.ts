import type { EmbeddingTable } from './embedding-table.ts'
import type { LexicalIndex, LexicalMatches } from './lexical-index.ts'
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
  let positions = new Int32Array()
  let generation = index.generation
  let stemAddresses = new Int32Array(1024)
  let stems = new Int32Array(1024)
  let count = 0
  let cosines = new Float32Array(1024)
  /** Positions of the stems of each tool, one tool after the other. */
  let toolStems = new Int32Array(4096)

  /** Assigns a position to a stem that has none yet. */
  function assignPosition(stem: number): number {
    if (stem >= addresses.length) {
      addresses = withRoom(addresses, stem + 1)
      positions = withRoom(positions, stem + 1)
    }
    if (addresses[stem] === 0) addresses[stem] = table.addressOf(index.stemText(stem), true)
    if (count >= stemAddresses.length) {
      stemAddresses = withRoom(stemAddresses, count + 1)
      stems = withRoom(stems, count + 1)
      cosines = withRoom(cosines, count + 1)
    }
    stemAddresses[count] = addresses[stem] as number
    stems[count] = stem
    positions[stem] = ++count
    return count - 1
  }

  return {
    /** @param rarityOf of the search that found the slots */
    cover(query: string, slots: readonly number[], rarityOf: LexicalMatches['rarityOf']): Coverage {
      if (generation !== index.generation) {
        generation = index.generation
        addresses.fill(0)
      }
      const starts = new Int32Array(slots.length + 1)
      const names = new Int32Array(slots.length)
      let used = 0
      count = 0
      for (let at = 0; at < slots.length; at++) {
        toolStems = withRoom(toolStems, used + TOOL_STEMS_CAP)
        const end = used + index.copyStems(slots[at] as number, toolStems, used, TOOL_STEMS_CAP)
        let nameCount = 0
        for (; used < end; used++) {
          const entry = toolStems[used] as number
          nameCount += entry & 1
          const position = positions[entry >>> 1] ?? 0
          toolStems[used] = position > 0 ? position - 1 : assignPosition(entry >>> 1)
        }
        names[at] = nameCount
        starts[at + 1] = used
      }
      for (let position = 0; position < count; position++) positions[stems[position] as number] = 0

      const coverage: Coverage = { query: new Float32Array(slots.length), name: new Float32Array(slots.length) }
      table.choose(stemAddresses, count)
      /** For each stem of a name, the similarity of the nearest query word. */
      const nearest = new Float32Array(used)
      let totalWeight = 0
      for (const stem of stemsOf(query)) {
        const weight = rarityOf(stem) * table.rarityOf(stem)
        const address = table.addressOf(stem, false)
        totalWeight += weight
        table.cosines(address, cosines)
        const near = cosines
        const list = toolStems
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
          coverage.query[at] = (coverage.query[at] as number) + weight * best
        }
      }
      for (let at = 0; at < slots.length; at++) {
        if (totalWeight > 0) coverage.query[at] = (coverage.query[at] as number) / totalWeight
        const start = starts[at] as number
        let nameWeight = 0
        let sum = 0
        for (let position = start; position < start + (names[at] as number); position++) {
          const rarity = rarityOf(stems[toolStems[position] as number] as number)
          nameWeight += rarity
          sum += rarity * (nearest[position] as number)
        }
        coverage.name[at] = nameWeight > 0 ? sum / nameWeight : 0
      }
      return coverage
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
