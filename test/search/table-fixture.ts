import { type EmbeddingTable, openTable, packTable, type TableSettings } from '../../src/search/embedding-table.ts'
import { stemOf } from '../../src/search/tokenize.ts'
import { hashOf } from '../../src/search/word-pieces.ts'

/** Words of a group mean the same; groups have nothing in common. */
const MEANINGS = [
  ['remember', 'memory', 'store', 'fact', 'recall', 'keepsake'],
  ['read', 'open', 'content', 'peruse'],
  ['write', 'save', 'scribble'],
  ['file', 'document', 'folder', 'directory', 'paper'],
  ['delete', 'erase', 'shred', 'destroy'],
  ['weather', 'forecast', 'umbrella', 'rain'],
  ['message', 'send', 'telegram', 'chat', 'tell'],
  ['task', 'todo', 'list', 'chore'],
  ['database', 'sql', 'query', 'table'],
  ['issue', 'bug', 'github', 'ticket'],
  ['paint', 'colour', 'fence'],
  ['calendar', 'event', 'appointment', 'meeting'],
] as const

const DIMS = 16

export interface TableFixture {
  readonly id?: string
  readonly meanings?: readonly (readonly string[])[]
  /** Results below this relevance are dropped. */
  readonly least?: number
  /** Weight of the distance to the next tool in the relevance that is shown (default: it has no influence). */
  readonly margin?: number
  /** Weight of every stem in a query. */
  readonly queryWeight?: number
}

/** A hand-made model in the format of the real one: every group of words is an axis, and other words have no vector. */
export function packedTable({
  id = 'by-hand',
  meanings = MEANINGS,
  least = 0,
  margin,
  queryWeight = 1,
}: TableFixture = {}): Uint8Array {
  const axes = new Map<number, number>()
  meanings.forEach((words, axis) => {
    for (const word of words) axes.set(hashOf(stemOf(word)), axis)
  })
  const stems = [...axes].sort(([a], [b]) => a - b)
  const rows = stems.length + 1
  const vectors = new Int8Array(rows * DIMS)
  stems.forEach(([, axis], row) => {
    vectors[row * DIMS + axis] = 100
  })
  const settings: TableSettings = {
    id,
    dims: DIMS,
    stems: stems.length,
    grams: 1,
    fields: {
      name: [1, 20],
      aliases: [1, 20],
      description: [1, 60],
      parameters: [0, 0],
      tags: [0, 0],
      effects: [0, 0],
      module: [0, 0],
      context: [0, 0],
      requests: [0, 0],
    },
    fusion: {
      rank: { lexical: 2, lexicalShare: 1, cosine: 4, covered: 1, nameCovered: 1 },
      relevance: { lexical: 4, cosine: 4, bias: -3, least },
      ...(margin === undefined ? {} : { shown: { evidence: 1, margin, bias: 0 } }),
    },
  }
  return packTable(settings, {
    hashes: Uint32Array.from(stems, ([hash]) => hash),
    queryWeights: new Float32Array(rows).fill(queryWeight),
    documentWeights: new Float32Array(rows).fill(1),
    rarities: new Uint8Array(stems.length).fill(255),
    vectors,
  })
}

/** The opened model. */
export const tableByHand = (fixture: TableFixture = {}): EmbeddingTable => openTable(packedTable(fixture))
