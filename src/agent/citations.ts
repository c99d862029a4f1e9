const MAX_URLS = 1_000
const URL_LIKE = /https?:\/\/[^\s<>"'`\\^{|}]{1,2000}/gi
/** Characters that end a sentence rather than a URL. */
const TRAILING = /[.,;:!?…*_]$/

/** The URLs in a text, each once, in order, at most 1,000. Surrounding punctuation is removed. */
export function urlsIn(text: string): readonly string[] {
  const found = new Set<string>()
  for (const [match] of text.matchAll(URL_LIKE)) {
    const url = trimUrl(match)
    if (/^https?:\/\/[^/?#]/i.test(url)) found.add(url)
    if (found.size >= MAX_URLS) break
  }
  return [...found]
}

/** A closing bracket belongs to a URL only if the URL contains the opening one. */
function trimUrl(url: string): string {
  let end = url.length
  const unopened: Record<string, number> = { ')': countSurplus(url, '(', ')'), ']': countSurplus(url, '[', ']') }
  for (;;) {
    const last = url[end - 1] ?? ''
    if ((unopened[last] ?? 0) > 0) unopened[last] = (unopened[last] ?? 0) - 1
    else if (!TRAILING.test(last)) return url.slice(0, end)
    end--
  }
}

const countSurplus = (text: string, opener: string, closer: string): number =>
  text.split(closer).length - text.split(opener).length

export interface Citation {
  readonly url: string
  /** Names of the tools whose results contained it. */
  readonly tools: readonly string[]
}

/** Collects the URLs that tools returned in a conversation. */
export interface Citations {
  add(tool: string, text: string): void
  /** In order of first occurrence. */
  readonly all: readonly Citation[]
  /** The URLs that a final answer uses. */
  usedIn(answer: string): readonly Citation[]
}

export function createCitations(): Citations {
  const tools = new Map<string, Set<string>>()
  const all = (): readonly Citation[] => [...tools].map(([url, names]) => ({ url, tools: [...names] }))
  return {
    add(tool, text) {
      for (const url of urlsIn(text)) {
        const citingTools = tools.get(url)
        if (citingTools) citingTools.add(tool)
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
