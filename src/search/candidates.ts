import type { EmbeddingTable } from './embedding-table.ts'
import type { Features, FusionWeights } from './fuse-rankings.ts'
import { type Coverage, createLateInteraction } from './late-interaction.ts'
import type { LexicalIndex, LexicalMatches } from './lexical-index.ts'
import type { Corpus } from './search-corpus.ts'
import type { SemanticRetriever } from './semantic-retriever.ts'
import { stemOf } from './tokenize.ts'
import type { ToolQueryOptions } from './tool-search.ts'
import { piecesOf } from './word-pieces.ts'

export interface Candidate {
  readonly slot: number
  readonly features: Features
  readonly exactName: boolean
  readonly calls: number
  /** Cosine of a custom model's vectors of query and tool; undefined without such a model. */
  readonly customCosine: number | undefined
}

/** The candidates of a query, and what is needed to order them. */
export interface Candidates {
  readonly candidates: readonly Candidate[]
  readonly table: EmbeddingTable | undefined
  readonly matches: LexicalMatches
  /** Of the encoder, or else of the embedding table. Undefined if neither has compared the candidates. */
  readonly weights: FusionWeights | undefined
  /** True if a custom model has compared them. */
  readonly hasCustomModel: boolean
}

/** Number of candidates per retriever for which all features are computed. Forty give no better results than sixteen. */
const CANDIDATES = 16
/** From this length on, two similar words are seldom two different words. */
const LONG_WORD = 9

/** Collects the candidates of all retrievers for a query: keywords, the embedding table, and the encoder or custom model. */
export function createCandidateFinder(corpus: Corpus, semantic: SemanticRetriever | undefined) {
  let lateInteraction:
    | (ReturnType<typeof createLateInteraction> & { readonly table: EmbeddingTable; readonly index: LexicalIndex })
    | undefined

  function coverageOf(
    table: EmbeddingTable,
    query: string,
    slots: readonly number[],
    rarityOf: LexicalMatches['rarityOf'],
  ): Coverage {
    const index = corpus.lexical
    if (lateInteraction?.table !== table || lateInteraction.index !== index)
      lateInteraction = { table, index, ...createLateInteraction(table, index) }
    return lateInteraction.cover(query, slots, rarityOf)
  }

  /** Finds tools by the words of a query, and corrects its misspelled words. */
  function searchWords(query: string, { limit, visible, hidden, ranker }: ToolQueryOptions) {
    const accept = (slot: number): boolean => visible(corpus.idOf(slot))
    const count = Math.max(CANDIDATES, limit)
    const uncounted = [...(hidden?.() ?? [])].flatMap((id) => corpus.slotOf(id) ?? [])
    const matches = corpus.lexical.search(query, { limit: count, accept, uncounted })
    const table = ranker === 'lexical' ? undefined : corpus.table()
    const corrections = table ? [...matches.corrections].filter(([word, other]) => isTypo(word, other, table)) : []
    return { accept, count, matches, table, corrections }
  }

  /**
   * The query for the encoder, with corrected spelling. Only of long words: a short word that no tool contains is often
   * right, such as `latex`.
   */
  function respell(query: string, options: ToolQueryOptions): string {
    // Most queries have no long word, and need no search for corrections.
    if (!query.split(/\s/).some((word) => word.length >= LONG_WORD)) return query
    const { corrections } = searchWords(query, options)
    // The encoder knows joined words better than their parts.
    const isForEncoder = ([word, other]: readonly [string, string]) => word.length >= LONG_WORD && !other.includes(' ')
    return replaceWords(query, corrections.filter(isForEncoder))
  }

  /** @param modelVector the vector of the query by the encoder or the custom model */
  function findCandidates(query: string, options: ToolQueryOptions, modelVector: Float32Array | undefined): Candidates {
    const { usage, ranker } = options
    const { accept, count, matches, table, corrections } = searchWords(query, options)
    const correctedQuery = replaceWords(query, corrections)
    const tableVector = table?.query(correctedQuery)
    const modelIndex = modelVector && semantic?.index
    const exactHits = matches.hits.filter(({ exactName }) => exactName)
    const exactSlots = new Set(distinctSlots(exactHits))
    const slots = distinctSlots(
      ranker === 'vector' ? exactHits : matches.hits,
      tableVector ? corpus.vectors.search(tableVector, count, accept) : [],
      modelIndex ? modelIndex.search(modelVector, count, accept) : [],
    )
    // Tools that were just added may have no vector yet. Then no tool is compared by the model, because a tool without
    // a cosine cannot be compared with the others.
    const modelCosines =
      modelIndex && slots.every((slot) => modelIndex.has(slot)) ? modelIndex.cosines(slots, modelVector) : undefined
    // Only the encoder has learned weights. The cosines of a custom model are ranked separately.
    const encoderWeights = modelCosines && semantic?.fusion
    const encoderCosines = encoderWeights && modelCosines
    const customCosines = encoderWeights ? undefined : modelCosines
    const tableCosines = tableVector && corpus.vectors.cosines(slots, tableVector)
    const coverage =
      table && ranker !== 'vector' ? coverageOf(table, correctedQuery, slots, matches.rarityOf) : undefined
    const ownerNamed = createOwnerMatcher(correctedQuery, matches.rarityOf)
    const lexicals = slots.map((slot) => (ranker === 'vector' ? 0 : matches.scoreOf(slot)))
    const bestLexical = Math.max(0, ...lexicals.filter((_, at) => !exactSlots.has(slots[at] as number)))
    const candidates = slots.map((slot, at): Candidate => {
      const lexical = lexicals[at] as number
      const id = corpus.idOf(slot)
      return {
        slot,
        features: {
          lexical,
          lexicalShare: bestLexical > 0 ? Math.min(1, lexical / bestLexical) : 0,
          cosine: tableCosines?.[at] ?? 0,
          covered: coverage?.query[at] ?? 0,
          nameCovered: coverage?.name[at] ?? 0,
          encoded: encoderCosines?.[at] ?? 0,
          known: corpus.isKnown(slot) ? 1 : 0,
          ownerNamed: ownerNamed(id),
        },
        exactName: exactSlots.has(slot),
        calls: usage?.(id) ?? 0,
        customCosine: customCosines?.[at],
      }
    })
    return {
      candidates,
      table,
      matches,
      weights: encoderWeights ?? table?.settings.fusion,
      hasCustomModel: customCosines !== undefined,
    }
  }

  return { findCandidates, respell }
}

function distinctSlots(...lists: readonly (readonly { readonly slot: number }[])[]): number[] {
  return [...new Set(lists.flat().map(({ slot }) => slot))]
}

const replaceWords = (query: string, corrections: readonly (readonly [string, string])[]): string =>
  corrections.reduce((text, [word, other]) => text.toLowerCase().replaceAll(word, other), query)

/**
 * True if a word that no tool contains is a misspelling of a known one: if the model does not know the word, or if training
 * saw it in only one tool. In the second case, the word must be long, because short words resemble other words, and must not
 * be the beginning of the known word.
 */
function isTypo(word: string, known: string, { knows, rarityOf }: EmbeddingTable): boolean {
  if (!knows(word)) return true
  const isRare = rarityOf(stemOf(word)) === 1 && rarityOf(stemOf(known)) < 1
  return isRare && word.length >= LONG_WORD && !known.startsWith(word)
}

/** Returns a function that computes the feature `ownerNamed` of a tool. */
function createOwnerMatcher(query: string, rarityOf: LexicalMatches['rarityOf']): (id: string) => number {
  const queryStems = new Set(piecesOf(query).map(stemOf))
  const rarest = rarityOf('')
  return (id) => {
    const namedStems = ownerStemsOf(id).filter((stem) => queryStems.has(stem))
    return Math.max(0, ...namedStems.map((stem) => rarityOf(stem) / rarest))
  }
}

/** The stems of the name of a tool's server or module, which begins its id. */
function ownerStemsOf(id: string): string[] {
  const [, owner = ''] = /^(?:mcp_)?(.+?)(?:\.|::|\/)/.exec(id) ?? []
  return piecesOf(owner).map(stemOf)
}
