import type { FetchLike } from '@modelcontextprotocol/client'
import { abortAfter } from '../../core/abort.ts'
import { isPegboardError } from '../../core/errors.ts'
import { assertReachable } from '../../policy/network-rules.ts'
import { createHttpClient } from '../http-client.ts'
import { namedRules, serverRules } from '../server-network-rules.ts'
import type { AuthSettings, HttpTarget, ServerSettings } from '../upstream-settings.ts'

/** A remote server from the point of view of its logins. */
export interface Site {
  readonly id: string
  /** Path of its entry in the configuration. */
  readonly where: string
  readonly url: URL
  readonly auth: AuthSettings
  /**
   * Fetch for login requests. The configured origin is always allowed, addresses that a server names only where the
   * rules allow. Sends none of the entry's headers. After one disallowed address it rejects all requests, because the
   * SDK would continue without the response.
   */
  readonly fetch: FetchLike
  /** @throws PegboardError E_SSRF_BLOCKED based on the address text */
  assertNamed(url: string | URL): void
  close(): Promise<void>
}

export const noAuth: AuthSettings = { type: 'oauth', scopes: [], perPrincipal: false, allowPrivate: false }

/** Timeout of one login request. */
export const REQUEST_MS = 15_000
/** Maximum size of a response; metadata of an authorization server is read completely and stored. */
export const MAX_ANSWER = 1024 * 1024

/** @param target of `settings`; must be remote */
export async function createSite(id: string, settings: ServerSettings, target: HttpTarget): Promise<Site> {
  const auth = settings.auth ?? noAuth
  const url = new URL(target.url)
  const rulesForNamed = namedRules(settings.where, target, auth.allowPrivate)
  const [serverClient, namedClient] = await Promise.all([
    createHttpClient(serverRules(settings), MAX_ANSWER, MAX_ANSWER),
    createHttpClient(rulesForNamed, MAX_ANSWER, MAX_ANSWER),
  ])
  let refusal: unknown
  return {
    id,
    where: settings.where,
    url,
    auth,
    async fetch(input, init) {
      if (refusal !== undefined) throw refusal
      const to = new URL(input)
      // The body may be read until then.
      const { signal } = abortAfter(init?.signal ?? undefined, REQUEST_MS)
      try {
        return await (to.origin === url.origin ? serverClient : namedClient).fetch(to, { ...init, signal })
      } catch (error) {
        if (isPegboardError(error) && error.code === 'E_SSRF_BLOCKED') refusal = error
        throw error
      }
    },
    assertNamed(namedUrl) {
      const to = new URL(namedUrl)
      if (to.origin !== url.origin) assertReachable(to, rulesForNamed)
    },
    async close() {
      await Promise.all([serverClient.close(), namedClient.close()])
    },
  }
}

/** Runs `work` with a site that is closed afterwards. */
export async function withSite<T>(
  id: string,
  settings: ServerSettings,
  target: HttpTarget,
  work: (site: Site) => T | Promise<T>,
): Promise<T> {
  const site = await createSite(id, settings, target)
  try {
    return await work(site)
  } finally {
    await site.close()
  }
}
