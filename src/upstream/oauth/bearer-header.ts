import type { AuthProvider } from '@modelcontextprotocol/client'
import type { Clock } from '../../core/clock.ts'
import { isPegboardError, messageOf, PegboardError } from '../../core/errors.ts'
import type { Log } from '../../core/log.ts'
import { omitUndefined } from '../../core/omit-undefined.ts'
import type { HttpTarget, ServerSettings } from '../upstream-settings.ts'
import { mergeScopes, namedScopes, readChallenge, scopesIn } from './auth-challenge.ts'
import { noAuth, withSite } from './auth-site.ts'
import { clientCredentials, createLoginRequired, isHeadless, loginCommand, refresh } from './token-refresh.ts'
import type { AuthRequirement, Grant, GrantKey, TokenStore } from './token-store.ts'

type Fetch = (url: string | URL, init?: RequestInit) => Promise<Response>

/**
 * The tokens of one server for one principal, without a person present: refreshes tokens, and never opens a browser.
 */
export interface Bearer {
  readonly provider: AuthProvider
  /** Wraps a fetch so that the token of a rejected request is remembered. */
  watched(fetch: Fetch): Fetch
  /** Converts an error that is about the login; remembers a missing scope. */
  explain(error: unknown): Promise<PegboardError | undefined>
  close(): void
}

export interface BearerOptions {
  readonly id: string
  readonly settings: ServerSettings
  readonly target: HttpTarget
  readonly principal?: string | undefined
  readonly store: TokenStore
  readonly clock: Clock
  readonly log: Log
  /** Called when a login that was waited for is complete, possibly in another process. */
  loggedIn(): void
}

/** Tokens are refreshed this long before they expire, or after nine tenths of their life if that is later. */
const AHEAD_MS = 60_000
/** Pause after a temporary refresh failure. */
const QUIET_MS = 5_000
/** Pause before a rejected refresh token is tried again. */
const REFUSED_MS = 10 * 60_000
/** Maximum length of all requested scopes, because a server may request another with every rejection. */
const MAX_SCOPE = 4_096

export function createBearer(options: BearerOptions): Bearer {
  const { id, settings, target, store, clock, log } = options
  const auth = settings.auth ?? noAuth
  const key: GrantKey = { server: id, url: target.url, principal: options.principal }
  const headless = isHeadless(auth)
  const usedBy = new WeakMap<Response, string>()
  let grant: Promise<Grant | undefined> | undefined
  let renewing: Promise<Grant> | undefined
  // Only a change of the store ends this state.
  let waiting: { readonly token: string | undefined; until: number; stepMs: number } | undefined
  let failed: { readonly at: number; readonly error: unknown } | undefined
  // A refresh token that was rejected, possibly by mistake, so it is tried again later.
  let refused: { readonly token: string | undefined; readonly until: number } | undefined
  let lastRequirement = ''
  // The last known token; tells a new login from our own refresh.
  let lastToken: string | undefined
  let loaded = false

  const current = (): Promise<Grant | undefined> => {
    grant ??= store.read(key).then(
      (read) => {
        if (!loaded) lastToken = read?.tokens?.access_token
        loaded = true
        return read
      },
      (error: unknown) => {
        grant = undefined
        throw error
      },
    )
    return grant
  }
  const createLoginError = (): PegboardError => createLoginRequired(id, options.principal)

  const unwatch = store.watch(key, () => {
    grant = undefined
    current()
      .then((now) => {
        const token = now?.tokens?.access_token
        if (token === undefined || token === lastToken) return
        lastToken = token
        waiting = undefined
        failed = undefined
        options.loggedIn()
      })
      .catch((error: unknown) => log.debug('tokens not read', { error: messageOf(error) }))
  })

  /** One refresh at a time, across all processes. @param stale the token that no longer works */
  function renew(stale: string | undefined): Promise<Grant> {
    if (failed && clock.now() - failed.at < QUIET_MS) return Promise.reject(failed.error)
    renewing ??= store
      .exclusively(key, async () => {
        const before = await store.read(key)
        // Another process has refreshed it.
        if (before?.tokens && before.tokens.access_token !== stale && !endsSoon(before)) return before
        const refreshToken = before?.tokens?.refresh_token
        if (!headless && (refreshToken === undefined || isRefused(refreshToken))) throw createLoginError()
        try {
          const renewed = await withSite(id, settings, target, (site) =>
            headless ? clientCredentials(site, before, clock) : refresh(site, before ?? {}, clock),
          )
          lastToken = renewed.tokens?.access_token
          await store.write(key, renewed)
          log.debug('tokens renewed', { expiresAt: renewed.expiresAt })
          return renewed
        } catch (error) {
          if (needsLogin(error)) refused = { token: refreshToken, until: clock.now() + REFUSED_MS }
          throw error
        }
      })
      .then(
        (renewed) => {
          failed = undefined
          waiting = undefined
          grant = Promise.resolve(renewed)
          return renewed
        },
        (error: unknown) => {
          failed = { at: clock.now(), error }
          grant = undefined
          throw error
        },
      )
      .finally(() => {
        renewing = undefined
      })
    return renewing
  }

  const isRefused = (token: string): boolean =>
    refused !== undefined && refused.token === token && clock.now() < refused.until

  function endsSoon({ expiresAt, obtainedAt }: Grant): boolean {
    if (expiresAt === undefined) return false
    const life = obtainedAt === undefined ? Number.POSITIVE_INFINITY : expiresAt - obtainedAt
    return expiresAt - clock.now() < Math.min(AHEAD_MS, life / 10)
  }

  async function token(): Promise<string | undefined> {
    const latest = await current()
    if (!latest?.tokens) return headless ? (await renew(undefined)).tokens?.access_token : undefined
    if (waiting !== undefined && waiting.token === latest.tokens.access_token) {
      // It may have been rejected by mistake, so it is tried again later.
      if (clock.now() < waiting.until) throw createLoginError()
      const stepMs = Math.min(waiting.stepMs * 2, 60_000)
      waiting = { ...waiting, until: clock.now() + stepMs, stepMs }
    }
    if (!endsSoon(latest) || !(headless || latest.tokens.refresh_token)) return latest.tokens.access_token
    try {
      return (await renew(latest.tokens.access_token)).tokens?.access_token
    } catch (error) {
      // An early refresh may fail silently while the old token is valid.
      if ((latest.expiresAt as number) > clock.now()) return latest.tokens.access_token
      if (needsLogin(error)) waitForLogin(latest.tokens.access_token)
      throw error
    }
  }

  function waitForLogin(refused: string | undefined): void {
    if (waiting !== undefined && waiting.token === refused) return
    waiting = { token: refused, until: clock.now() + 1_000, stepMs: 1_000 }
  }

  async function remember({ scope: named, ...more }: AuthRequirement): Promise<void> {
    const requirement: AuthRequirement =
      named === undefined || named.length > MAX_SCOPE ? more : { ...more, scope: named }
    const text = JSON.stringify(requirement)
    // Avoids repeating the same message for many rejections.
    if (text === lastRequirement) return
    lastRequirement = text
    await store.exclusively(key, async () => {
      const before = await store.read(key)
      const all = mergeScopes(before?.wanted?.scope, requirement.scope)
      const scope = all !== undefined && all.length > MAX_SCOPE ? requirement.scope : all
      await store.write(key, {
        ...before,
        wanted: { ...before?.wanted, ...requirement, ...omitUndefined({ scope }) },
      })
    })
    grant = undefined
  }

  async function onUnauthorized({ response }: { readonly response: Response }): Promise<void> {
    const usedToken = usedBy.get(response)
    const challenge = await readChallenge(response)
    const latest = await current()
    // The token was refreshed, or a login completed, since the request was sent.
    if (latest?.tokens && latest.tokens.access_token !== usedToken) return
    const { resourceMetadataUrl } = challenge
    if (resourceMetadataUrl !== undefined)
      await withSite(id, settings, target, (site) => site.assertNamed(resourceMetadataUrl))
    await remember(challenge)
    try {
      await renew(usedToken)
    } catch (error) {
      if (!needsLogin(error)) throw error
      waitForLogin(usedToken)
      throw createLoginError()
    }
  }

  return {
    provider: { token, onUnauthorized },
    watched: (fetch) => async (url, init) => {
      const response = await fetch(url, init)
      if (response.status === 401) {
        const sent = new Headers(init?.headers).get('authorization')
        if (sent !== null) usedBy.set(response, sent.replace(/^Bearer /i, ''))
      } else waiting = undefined
      return response
    },
    async explain(error) {
      const { InsufficientScopeError } = await import('@modelcontextprotocol/client')
      if (InsufficientScopeError.isInstance(error)) {
        const requiredScope = scopesIn(error.requiredScope)
        lastRequirement = ''
        await remember(omitUndefined({ scope: requiredScope, resourceMetadataUrl: error.resourceMetadataUrl?.href }))
        const scope = namedScopes(requiredScope) ?? 'more rights'
        return new PegboardError('E_AUTH_REQUIRED', `it requires ${scope}: ${loginCommand(id, options.principal)}`, {
          cause: error,
          data: { scope: namedScopes(requiredScope) === undefined ? null : (requiredScope ?? null) },
        })
      }
      const { code, data } = error as { code?: unknown; data?: { status?: unknown } }
      // A token that was just refreshed was rejected too.
      if (data?.status !== 401 && code !== 'CLIENT_HTTP_AUTHENTICATION') return undefined
      waitForLogin((await current())?.tokens?.access_token)
      return createLoginError()
    },
    close: unwatch,
  }
}

const needsLogin = (error: unknown): boolean => isPegboardError(error) && error.code === 'E_AUTH_REQUIRED'
