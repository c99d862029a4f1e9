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

/** Where the stems of one tool are in `toolStems`; those of its name come first. */
interface StemRange {
  readonly start: number
  readonly nameEnd: number
  readonly end: number
}

const QUERY_STEMS_CAP = 24
const TOOL_STEMS_CAP = 40

/**
 * Late interaction (Khattab, Zaharia, "ColBERT", 2020) over a static table: each query word counts with the
 * similarity of its nearest tool word, weighted by rarity. Uses the words of the lexical index.
 */
export function createLateInteraction(table: EmbeddingTable, index: LexicalIndex) {
  /** Per stem number: address of its vector (0 if not looked up yet), and its position in `stems` plus 1 (0 if none). */
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

  /** Writes the positions of the tools' stems to `toolStems`. */
  function collectStems(slots: readonly number[]): StemRange[] {
    count = 0
    let used = 0
    const ranges = slots.map((slot): StemRange => {
      toolStems = withRoom(toolStems, used + TOOL_STEMS_CAP)
      const start = used
      const end = start + index.copyStems(slot, toolStems, start, TOOL_STEMS_CAP)
      let nameEnd = start
      for (; used < end; used++) {
        const entry = toolStems[used] as number
        const stem = entry >>> 1
        nameEnd += entry & 1
        const position = positions[stem] ?? 0
        toolStems[used] = position > 0 ? position - 1 : assignPosition(stem)
      }
      return { start, nameEnd, end }
    })
    for (let position = 0; position < count; position++) positions[stems[position] as number] = 0
    return ranges
  }

  /**
   * The highest of `cosines` among a tool's stems. Raises the values of `nearest` for the stems of the tool's name.
   */
  function compareTool({ start, nameEnd, end }: StemRange, nearest: Float32Array): number {
    // Local copies, because reading closure variables in this loop is slower.
    const cosineOf = cosines
    const stemAt = toolStems
    let best = 0
    for (let at = start; at < end; at++) {
      const cosine = cosineOf[stemAt[at] as number] as number
      if (cosine > best) best = cosine
      if (at < nameEnd && cosine > (nearest[at] as number)) nearest[at] = cosine
    }
    return best
  }

  /** @param nearest for each stem of a name, the similarity of the nearest query word */
  function nameCoverageOf(
    { start, nameEnd }: StemRange,
    nearest: Float32Array,
    rarityOf: LexicalMatches['rarityOf'],
  ): number {
    let nameWeight = 0
    let sum = 0
    for (let at = start; at < nameEnd; at++) {
      const rarity = rarityOf(stems[toolStems[at] as number] as number)
      nameWeight += rarity
      sum += rarity * (nearest[at] as number)
    }
    return nameWeight > 0 ? sum / nameWeight : 0
  }

  return {
    /** @param rarityOf of the search that found the slots */
    cover(query: string, slots: readonly number[], rarityOf: LexicalMatches['rarityOf']): Coverage {
      if (generation !== index.generation) {
        generation = index.generation
        addresses.fill(0)
      }
      const tools = collectStems(slots)
      table.choose(stemAddresses, count)
      const covered = new Float32Array(slots.length)
      const nearest = new Float32Array(tools.at(-1)?.end ?? 0)
      let totalWeight = 0
      for (const stem of stemsOf(query)) {
        const weight = rarityOf(stem) * table.rarityOf(stem)
        totalWeight += weight
        table.cosines(table.addressOf(stem, false), cosines)
        tools.forEach((tool, at) => {
          covered[at] = (covered[at] as number) + weight * compareTool(tool, nearest)
        })
      }
      return {
        query: totalWeight > 0 ? covered.map((sum) => sum / totalWeight) : covered,
        name: Float32Array.from(tools, (tool) => nameCoverageOf(tool, nearest, rarityOf)),
      }
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
