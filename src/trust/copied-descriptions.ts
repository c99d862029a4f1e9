import { escapeInvisible } from './find-hidden-text.ts'
import type { Finding } from './finding.ts'

/** Share of words that two descriptions must have in common for one to count as a copy. */
const MIN_SIMILARITY = 0.8
const MAX_LENGTH = 4 * 1024

/**
 * Finds a tool that copies name and description of another server's tool but sends people or models to another
 * address. None of 15,119 definitions of 2,006 published servers does.
 * @param others descriptions of other servers' tools with the same name
 */
export function findClone(description: string, others: readonly string[]): Finding[] {
  if (others.length === 0) return []
  const ownParts = partsOf(description)
  for (const other of others) {
    if (other === description) continue
    const otherParts = partsOf(other)
    const address = ownParts.addresses.find((ownAddress) => !otherParts.addresses.includes(ownAddress))
    if (address === undefined || similarityOf(ownParts.words, otherParts.words) < MIN_SIMILARITY) continue
    return [
      {
        code: 'cloned-tool',
        level: 'doubt',
        where: 'description',
        what: 'has the name and description of a tool of another server, but another address',
        evidence: escapeInvisible(address.slice(0, 200)),
      },
    ]
  }
  return []
}

// The scheme is optional, because models and people complete addresses without one.
const ADDRESS =
  /(?:[a-z][a-z0-9+.-]*:\/\/|www\.|mailto:)[^\s"'<>)\]}]+|\b[\w.-]+@[\w-]+\.[\w.-]+|\b(?:[a-z0-9-]+\.)+[a-z]{2,}\/[^\s"'<>)\]}]*/gi

interface DescriptionParts {
  readonly addresses: readonly string[]
  /** Number of occurrences of each word. */
  readonly words: ReadonlyMap<string, number>
}

function partsOf(description: string): DescriptionParts {
  const text = description.slice(0, MAX_LENGTH).normalize('NFKC').toLowerCase()
  const words = new Map<string, number>()
  for (const word of text.replaceAll(ADDRESS, ' ').match(/[\p{L}\p{N}]+/gu) ?? [])
    words.set(word, (words.get(word) ?? 0) + 1)
  const addresses = [...text.matchAll(ADDRESS)].map(([address]) => address.replace(/[.,;:!?]+$/, ''))
  return { addresses, words }
}

/** Share of all words that occur in both texts. */
function similarityOf(first: DescriptionParts['words'], second: DescriptionParts['words']): number {
  let common = 0
  let all = 0
  for (const word of new Set([...first.keys(), ...second.keys()])) {
    const [a, b] = [first.get(word) ?? 0, second.get(word) ?? 0]
    common += Math.min(a, b)
    all += Math.max(a, b)
  }
  return all === 0 ? 1 : common / all
}
