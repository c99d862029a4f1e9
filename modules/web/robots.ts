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

const KEEP_MS = 60 * 60_000
const MAX_KEPT = 500
const MAX_BYTES = 500 * 1024
const TIMEOUT_MS = 10_000

/**
 * Reads each site's rules once an hour. A site that does not answer disallows everything (RFC 9309); one without
 * robots.txt allows everything.
 */
export function createRobots(now: () => number = () => performance.now()): Robots {
  const cache = new Map<string, { readonly expiresAt: number; readonly rules: Promise<string | undefined> }>()

  async function fetchRules(url: string, fetch: GuardedFetch, signal: AbortSignal): Promise<string | undefined> {
    const response = await fetch(url, { signal, timeoutMs: TIMEOUT_MS, maxBytes: MAX_BYTES, maxWireBytes: MAX_BYTES })
    if (response.ok) return await response.text()
    await response.body?.cancel()
    return response.status === 401 || response.status === 403 || response.status >= 500 ? undefined : ''
  }

  return {
    async check(url, fetch, settings, signal) {
      if (settings.fetch.robots === 'ignore') return
      const file = new URL('/robots.txt', url).href
      // Not bound to one caller: the result is shared and must not be cut short by one of them.
      let entry = cache.get(file)
      if (!entry || entry.expiresAt <= now()) {
        entry = { expiresAt: now() + KEEP_MS, rules: fetchRules(file, fetch, signal).catch(() => undefined) }
        cache.set(file, entry)
        for (const [other] of cache) if (cache.size > MAX_KEPT) cache.delete(other)
      }
      const rules = await entry.rules
      if (signal.aborted) cache.delete(file)
      signal.throwIfAborted()
      const parse = findParser(await import('robots-parser'))
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
const findParser = (loadedModule: unknown): Parse =>
  typeof loadedModule === 'function'
    ? (loadedModule as Parse)
    : findParser((loadedModule as { readonly default: unknown }).default)
