import { createFetch, type GuardedFetch, ToolError } from 'pegboard'
import { denied } from '../_errors.ts'
import { allowsPrivate, crawl4aiUrl, PRIVATE_SWITCH, SETTING, type Settings } from './config.ts'

/** The HTTP clients of one configuration. */
export interface WebClients {
  /** For pages that a model names. */
  readonly pages: GuardedFetch
  /** For url_fetch, which has its own rules. */
  readonly requests: GuardedFetch
  /** For engines that the operator configured, at any address. */
  readonly engines: GuardedFetch
}

export interface ClientPool {
  clientsFor(settings: Settings): WebClients
  close(): Promise<void>
}

/** One set of clients per configuration, because profiles may have their own. */
export function createClientPool(): ClientPool {
  const clientsByKey = new Map<string, WebClients>()
  return {
    clientsFor(settings) {
      const key = JSON.stringify(settings)
      const clients = clientsByKey.get(key) ?? createClients(settings)
      clientsByKey.set(key, clients)
      return clients
    },
    async close() {
      await Promise.all(
        [...clientsByKey.values()]
          .flatMap((clients) => Object.values(clients))
          .map((client: GuardedFetch) => client.close()),
      )
      clientsByKey.clear()
    },
  }
}

function createClients(settings: Settings): WebClients {
  const { fetch, url_fetch, search, user_agent: userAgent } = settings
  const common = { allowPrivate: allowsPrivate(settings), setting: PRIVATE_SWITCH, userAgent }
  const engines = [search.brave_url, search.searxng_url, search.ddg_base_url, crawl4aiUrl(settings)]
  const origins = new Set(engines.flatMap((url) => (URL.canParse(url) ? [new URL(url).origin] : [])))
  return {
    pages: createFetch({
      ...common,
      sizeSetting: `${SETTING}.fetch.max_bytes`,
      maxRedirects: fetch.max_redirects,
      timeoutMs: fetch.timeout * 1000,
      maxWireBytes: fetch.max_bytes,
      maxBytes: fetch.max_bytes,
    }),
    requests: createFetch({
      ...common,
      sizeSetting: `${SETTING}.url_fetch`,
      maxRedirects: 3,
      check: ({ href }) => checkPrefix(href, url_fetch.guard.allowed_url_prefixes),
    }),
    engines: createFetch({
      allowPrivate: true,
      setting: `${SETTING}.search and ${SETTING}.fetch`,
      userAgent,
      maxBytes: 2 * fetch.max_bytes,
      check(url) {
        if (!origins.has(url.origin)) throw new ToolError('Unknown engine.', { code: 'E_SSRF_BLOCKED' })
      },
    }),
  }
}

/** @throws ToolError E_DENIED_BY_POLICY */
export function checkPrefix(href: string, allowed: readonly string[]): void {
  if (allowed.length === 0)
    throw denied(
      'url_fetch is blocked by guard (no allowed_url_prefixes configured)',
      `Set ${SETTING}.url_fetch.guard.allowed_url_prefixes.`,
    )
  if (!allowed.some((prefix) => hasPrefix(href, prefix)))
    throw denied('url is not allowed by guard', `See ${SETTING}.url_fetch.guard.allowed_url_prefixes.`)
}

/**
 * Path segments that some servers resolve to the parent folder, because they read `%2F` as a slash. Plain ones are
 * resolved by the URL parser.
 */
const PARENT_SEGMENT = /(?:[/\\]|%2f|%5c)(?:\.|%2e){2}(?:[/\\]|%2f|%5c|$)/i

/** A prefix that ends with a host name matches only that host, not longer names. */
export function hasPrefix(href: string, prefix: string): boolean {
  if (prefix === '' || !href.startsWith(prefix) || PARENT_SEGMENT.test(href.split(/[?#]/, 1)[0] ?? '')) return false
  return !/^https?:\/\/[^/?#]+$/i.test(prefix) || /^(?:$|[/?#])/.test(href.slice(prefix.length))
}
