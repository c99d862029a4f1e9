import type { FetchLike } from '@modelcontextprotocol/client'
import { isPegboardError } from '../../core/errors.ts'
import { limited } from '../../core/limit.ts'
import { assertReachable } from '../../policy/net.ts'
import { createHttpClient } from '../fetch.ts'
import { namedRules, serverRules } from '../reach.ts'
import type { AuthSettings, HttpTarget, ServerSettings } from '../settings.ts'

/** One remote server as its logins see it. */
export interface Site {
  readonly id: string
  /** Where it stands in the file. */
  readonly where: string
  readonly url: URL
  readonly auth: AuthSettings
  /**
   * For everything about logins: the configured server's origin as configured, every address a server names only where
   * such addresses may lead. Sends none of the headers of the entry. After one refused address it refuses all, because
   * the SDK would go on without what it was refused.
   */
  readonly fetch: FetchLike
  /** @throws PegboardError E_SSRF_BLOCKED by the look of the address */
  assertNamed(url: string | URL): void
  close(): Promise<void>
}

export const noAuth: AuthSettings = { type: 'oauth', scopes: [], perPrincipal: false, allowPrivate: false }

/** How long one request about a login may take. */
export const REQUEST_MS = 15_000
/** Bytes of one answer: what an authorization server says of itself is kept. */
export const MAX_ANSWER = 1024 * 1024

/** @param target of `settings`, known to be remote */
export async function createSite(id: string, settings: ServerSettings, target: HttpTarget): Promise<Site> {
  const auth = settings.auth ?? noAuth
  const url = new URL(target.url)
  const named = namedRules(settings.where, target, auth.allowPrivate)
  const [own, others] = await Promise.all([
    createHttpClient(serverRules(settings), MAX_ANSWER),
    createHttpClient(named, MAX_ANSWER),
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
      // What is answered may be read until then.
      const { signal } = limited(init?.signal ?? undefined, REQUEST_MS)
      try {
        return await (to.origin === url.origin ? own : others).fetch(to, { ...init, signal })
      } catch (error) {
        if (isPegboardError(error) && error.code === 'E_SSRF_BLOCKED') refusal = error
        throw error
      }
    },
    assertNamed(named_) {
      const to = new URL(named_)
      if (to.origin !== url.origin) assertReachable(to, named)
    },
    async close() {
      await Promise.all([own.close(), others.close()])
    },
  }
}
