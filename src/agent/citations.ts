const MAX_URLS = 1_000
const URL_LIKE = /https?:\/\/[^\s<>"'`\\^{|}]{1,2000}/gi
/** Ends a sentence rather than an address. */
const TRAILING = /[.,;:!?…*_]$/

/** The web addresses in a text, each once, in order; at most 1,000. What stands around them in prose is left off. */
export function urlsIn(text: string): readonly string[] {
  const found = new Set<string>()
  for (const [match] of text.matchAll(URL_LIKE)) {
    const url = trimmed(match)
    if (/^https?:\/\/[^/?#]/i.test(url)) found.add(url)
    if (found.size >= MAX_URLS) break
  }
  return [...found]
}

/** Closing brackets belong to an address only when it opens them. */
function trimmed(url: string): string {
  let end = url.length
  const unopened: Record<string, number> = { ')': surplus(url, '(', ')'), ']': surplus(url, '[', ']') }
  for (;;) {
    const last = url[end - 1] ?? ''
    if ((unopened[last] ?? 0) > 0) unopened[last] = (unopened[last] ?? 0) - 1
    else if (!TRAILING.test(last)) return url.slice(0, end)
    end--
  }
}

const surplus = (text: string, opener: string, closer: string): number =>
  text.split(closer).length - text.split(opener).length

export interface Citation {
  readonly url: string
  /** Names of the tools whose results had it. */
  readonly tools: readonly string[]
}

/** Which addresses tools have named in a conversation. */
export interface Citations {
  add(tool: string, text: string): void
  /** In the order in which they first came. */
  readonly all: readonly Citation[]
  /** Those that a final answer uses. */
  usedIn(answer: string): readonly Citation[]
}

export function createCitations(): Citations {
  const tools = new Map<string, Set<string>>()
  const all = (): readonly Citation[] => [...tools].map(([url, names]) => ({ url, tools: [...names] }))
  return {
    add(tool, text) {
      for (const url of urlsIn(text)) {
        const known = tools.get(url)
        if (known) known.add(tool)
        else if (tools.size < MAX_URLS) tools.set(url, new Set([tool]))
      }
    },
    get all() {
      return all()
    },
    usedIn(answer) {
      const used = new Set(urlsIn(answer))
      return all().filter(({ url }) => used.has(url))
    },
  }
}
