/** A page described by the index. */
export interface Entry {
  readonly id: string
  /** The source of the index it belongs to. */
  readonly src: string
  readonly url: string
  readonly tags: readonly string[]
  readonly summary: string
}

/** Words that occur in every question about boards and do not distinguish pages. */
const STOP_WORDS = new Set(
  `a about all an and any are as at be been but by can could did do does for from get give had has have how i in info information into is
  it its know like list looking made me more most my of on or our please share show some tell than that the their them there these they
  this those to us want was we were what when where which who why will with would you your
  bbs bbses board boards bulletin system systems website websites page pages site sites link links`.split(/\s+/),
)

/** The lower-case words of a text: letters and digits, including inner joiners as in `tcp/ip` and `rbbs-pc`. */
const wordsOf = (text: string): string[] => text.toLowerCase().match(/[\p{L}\p{N}]+(?:[/.'-][\p{L}\p{N}]+)*/gu) ?? []

export const termsOf = (query: string): string[] => [
  ...new Set(wordsOf(query).filter((word) => word.length > 1 && !STOP_WORDS.has(word))),
]

/** True if a text contains a term as whole words. */
function containsTerm(text: string, term: string): boolean {
  const lowerText = text.toLowerCase()
  for (let at = lowerText.indexOf(term); at !== -1; at = lowerText.indexOf(term, at + 1))
    if (!isWordCharacter(lowerText[at - 1]) && !isWordCharacter(lowerText[at + term.length])) return true
  return false
}

const isWordCharacter = (character: string | undefined): boolean =>
  character !== undefined && /[\p{L}\p{N}]/u.test(character)

interface Match {
  readonly entry: Entry
  /** Number of terms that match. */
  readonly termCount: number
  /** Number of terms that match a tag. */
  readonly tagTermCount: number
  /** True if a tag equals one of the terms, or all of them in a row. */
  readonly isExactTag: boolean
}

function matchEntry(entry: Entry, terms: readonly string[]): Match {
  const tags = entry.tags.map((tag) => tag.toLowerCase())
  const isInTags = (term: string): boolean => tags.some((tag) => containsTerm(tag, term))
  const isInTexts = (term: string): boolean => [entry.summary, entry.url].some((text) => containsTerm(text, term))
  return {
    entry,
    termCount: terms.filter((term) => isInTags(term) || isInTexts(term)).length,
    tagTermCount: terms.filter(isInTags).length,
    isExactTag: tags.some((tag) => terms.includes(tag) || tag === terms.join(' ')),
  }
}

/**
 * Matching entries, best first. One matching word of several is not enough unless it is a tag: "history" alone would
 * match most entries. A single word that is a tag of some entries is searched in tags only.
 */
export function findEntries(entries: readonly Entry[], terms: readonly string[]): readonly Entry[] {
  const matches = entries.map((entry) => matchEntry(entry, terms)).filter(({ termCount }) => termCount > 0)
  const tagMatches = matches.filter(({ tagTermCount }) => tagTermCount > 0)
  const relevantMatches =
    terms.length > 1
      ? matches.filter(({ termCount, isExactTag }) => termCount > 1 || isExactTag)
      : tagMatches.length > 0
        ? tagMatches
        : matches
  return relevantMatches
    .sort((a, b) => b.termCount - a.termCount || b.tagTermCount - a.tagTermCount)
    .map(({ entry }) => entry)
}

/** The valid entries of an index file; undefined if it is not an index. */
export function parseEntries(value: unknown): readonly Entry[] | undefined {
  const list = Array.isArray(value) ? value : (value as { entries?: unknown } | null | undefined)?.entries
  return Array.isArray(list) ? list.filter(isEntry) : undefined
}

const isEntry = (value: unknown): value is Entry => {
  const { url, summary, tags } = (value ?? {}) as Record<string, unknown>
  return (
    typeof url === 'string' &&
    /^https?:\/\//.test(url) &&
    typeof summary === 'string' &&
    Array.isArray(tags) &&
    tags.every((tag) => typeof tag === 'string')
  )
}

export interface Redirect {
  readonly names: readonly string[]
  readonly terms: readonly string[]
  readonly wiki: string
}

/** True if a question is about operating the board's software, which its own manual answers. */
export const isForManual = (query: string, { names, terms }: Redirect): boolean =>
  [names, terms].every((words) => words.some((word) => containsTerm(query, word.toLowerCase())))
