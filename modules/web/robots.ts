import type { GuardedFetch } from 'pegboard'
import { denied } from '../_errors.ts'
import { SETTING, type Settings } from './config.ts'

/** Robots rules of sites. */
export interface Robots {
  /** @throws ToolError E_DENIED_BY_POLICY for a page that its site disallows, if the operator enabled the check */
  check(url: string, fetch: GuardedFetch, settings: Settings, signal: AbortSignal): Promise<void>
}

interface Rules {
  isAllowed(url: string, agent: string): boolean | undefined
}

const KEPT_MS = 60 * 60_000
const MOST_KEPT = 500
const MOST_BYTES = 500 * 1024
const TIMEOUT_MS = 10_000

/**
 * Reads each site's rules once an hour. A site that does not answer disallows everything (RFC 9309); one without
 * robots.txt allows everything.
 */
export function createRobots(now: () => number = () => performance.now()): Robots {
  const cache = new Map<string, { readonly until: number; readonly rules: Promise<string | undefined> }>()

  async function ask(url: string, fetch: GuardedFetch, signal: AbortSignal): Promise<string | undefined> {
    const answer = await fetch(url, { signal, timeoutMs: TIMEOUT_MS, maxBytes: MOST_BYTES, maxWireBytes: MOST_BYTES })
    if (answer.ok) return await answer.text()
    await answer.body?.cancel()
    return answer.status === 401 || answer.status === 403 || answer.status >= 500 ? undefined : ''
  }

  return {
    async check(url, fetch, settings, signal) {
      if (settings.fetch.robots === 'ignore') return
      const file = new URL('/robots.txt', url).href
      // Not bound to one caller: the result is shared and must not be cut short by one of them.
      let found = cache.get(file)
      if (!found || found.until <= now()) {
        found = { until: now() + KEPT_MS, rules: ask(file, fetch, signal).catch(() => undefined) }
        cache.set(file, found)
        for (const [other] of cache) if (cache.size > MOST_KEPT) cache.delete(other)
      }
      const rules = await found.rules
      if (signal.aborted) cache.delete(file)
      signal.throwIfAborted()
      const parse = parserIn(await import('robots-parser'))
      const agent = settings.user_agent.split(/[/\s]/)[0] || 'pegboard'
      if (rules !== undefined && parse(file, rules).isAllowed(url, agent) !== false) return
      throw denied(
        rules === undefined
          ? 'robots.txt of the site could not be read.'
          : 'The site does not allow robots to read this page (robots.txt).',
        `Use another page; see ${SETTING}.fetch.robots.`,
      )
    },
  }
}

type Parse = (url: string, rules: string) => Rules

/** The package exports one function, which Node and bundlers wrap differently. */
const parserIn = (found: unknown): Parse =>
  typeof found === 'function' ? (found as Parse) : parserIn((found as { readonly default: unknown }).default)
