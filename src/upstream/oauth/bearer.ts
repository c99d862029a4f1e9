import type { AuthProvider } from '@modelcontextprotocol/client'
import type { Clock } from '../../core/clock.ts'
import { isPegboardError, messageOf, PegboardError } from '../../core/errors.ts'
import type { Log } from '../../core/log.ts'
import type { HttpTarget, ServerSettings } from '../settings.ts'
import { union, wantedBy } from './challenge.ts'
import { clientCredentials, isHeadless, loginWanted, refresh } from './renew.ts'
import { createSite, noAuth } from './site.ts'
import type { Grant, GrantKey, TokenStore, Wanted } from './store.ts'

type Fetch = (url: string | URL, init?: RequestInit) => Promise<Response>

/** The tokens of one server for one principal, in a process without a person: it renews, and never opens a browser. */
export interface Bearer {
  readonly provider: AuthProvider
  /** Notes which token a refused request carried. */
  watched(fetch: Fetch): Fetch
  /** A failure of a request as others should see it, when it is about the login. Remembers a scope that is missing. */
  explain(error: unknown): Promise<PegboardError | undefined>
  /** Whether there are tokens, or can be without a person. */
  has(): Promise<boolean>
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
  /** A login that was waited for has been made, maybe by another process. */
  loggedIn(): void
}

/** How long before the end tokens are renewed, at most; a tenth of their life when that is less. */
const AHEAD_MS = 60_000
/** After a failure that may pass, renewing is not tried again for so long. */
const QUIET_MS = 5_000
/** A refresh token that was refused is not shown again for so long. */
const REFUSED_MS = 10 * 60_000
/** Characters of all that a server wants: it may name another with every refusal. */
const MAX_SCOPE = 4_096

export function createBearer(options: BearerOptions): Bearer {
  const { id, settings, target, store, clock, log } = options
  const auth = settings.auth ?? noAuth
  const key: GrantKey = { server: id, url: target.url, principal: options.principal }
  const headless = isHeadless(auth)
  const usedBy = new WeakMap<Response, string>()
  let grant: Promise<Grant | undefined> | undefined
  let renewing: Promise<Grant> | undefined
  // Only a change of the store ends this.
  let waiting: { readonly token: string | undefined; until: number; stepMs: number } | undefined
  let failed: { readonly at: number; readonly error: unknown } | undefined
  // A refresh token the authorization server said no to, maybe by mistake: it is shown again now and then.
  let refused: { readonly token: string | undefined; readonly until: number } | undefined
  let noted = ''
  // The last token known here, to tell a login from what we wrote ourselves.
  let seen: string | undefined
  let loaded = false

  const current = (): Promise<Grant | undefined> => {
    grant ??= store.read(key).then(
      (read) => {
        if (!loaded) seen = read?.tokens?.access_token
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
  const wanted = (): PegboardError => loginWanted(id, options.principal)

  const unwatch = store.watch(key, () => {
    grant = undefined
    current()
      .then((now) => {
        const token = now?.tokens?.access_token
        if (token === undefined || token === seen) return
        seen = token
        waiting = undefined
        failed = undefined
        options.loggedIn()
      })
      .catch((error: unknown) => log.debug('tokens not read', { error: messageOf(error) }))
  })

  /** One at a time, whoever asks; over all processes, too. @param stale the token that is no longer good */
  function renew(stale: string | undefined): Promise<Grant> {
    if (failed && clock.now() - failed.at < QUIET_MS) return Promise.reject(failed.error)
    renewing ??= store
      .exclusively(key, async () => {
        const before = await store.read(key)
        // Another process was quicker.
        if (before?.tokens && before.tokens.access_token !== stale && !endsSoon(before)) return before
        const used = before?.tokens?.refresh_token
        if (!headless && (used === undefined || isRefused(used))) throw wanted()
        const site = await createSite(id, settings, target)
        try {
          const renewed = headless
            ? await clientCredentials(site, before, clock)
            : await refresh(site, before ?? {}, clock)
          seen = renewed.tokens?.access_token
          await store.write(key, renewed)
          log.debug('tokens renewed', { expiresAt: renewed.expiresAt })
          return renewed
        } catch (error) {
          if (needsLogin(error)) refused = { token: used, until: clock.now() + REFUSED_MS }
          throw error
        } finally {
          await site.close()
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
    const now = await current()
    if (!now?.tokens) return headless ? (await renew(undefined)).tokens?.access_token : undefined
    if (waiting !== undefined && waiting.token === now.tokens.access_token) {
      // It may have been refused by mistake, so it is shown again now and then.
      if (clock.now() < waiting.until) throw wanted()
      const stepMs = Math.min(waiting.stepMs * 2, 60_000)
      waiting = { ...waiting, until: clock.now() + stepMs, stepMs }
    }
    if (!endsSoon(now) || !(headless || now.tokens.refresh_token)) return now.tokens.access_token
    try {
      return (await renew(now.tokens.access_token)).tokens?.access_token
    } catch (error) {
      // Renewing ahead may fail; while the old token is good nobody need know.
      if ((now.expiresAt as number) > clock.now()) return now.tokens.access_token
      if (needsLogin(error)) wait(now.tokens.access_token)
      throw error
    }
  }

  function wait(refused: string | undefined): void {
    if (waiting !== undefined && waiting.token === refused) return
    waiting = { token: refused, until: clock.now() + 1_000, stepMs: 1_000 }
  }

  async function remember({ scope: named, ...more }: Wanted): Promise<void> {
    const asked: Wanted = named === undefined || named.length > MAX_SCOPE ? more : { ...more, scope: named }
    const text = JSON.stringify(asked)
    // A storm of refusals says the same a hundred times.
    if (text === noted) return
    noted = text
    await store.exclusively(key, async () => {
      const before = await store.read(key)
      const all = union(before?.wanted?.scope, asked.scope)
      const scope = all !== undefined && all.length > MAX_SCOPE ? asked.scope : all
      await store.write(key, {
        ...before,
        wanted: { ...before?.wanted, ...asked, ...(scope === undefined ? {} : { scope }) },
      })
    })
    grant = undefined
  }

  async function onUnauthorized({ response }: { readonly response: Response }): Promise<void> {
    const used = usedBy.get(response)
    const asked = await wantedBy(response)
    const now = await current()
    // Renewed, or logged in, since that request was sent.
    if (now?.tokens && now.tokens.access_token !== used) return
    if (asked.resourceMetadataUrl !== undefined) {
      const site = await createSite(id, settings, target)
      try {
        site.assertNamed(asked.resourceMetadataUrl)
      } finally {
        await site.close()
      }
    }
    await remember(asked)
    try {
      await renew(used)
    } catch (error) {
      if (!needsLogin(error)) throw error
      wait(used)
      throw wanted()
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
      const { code, status, requiredScope, resourceMetadataUrl } = about(error)
      if (requiredScope !== undefined || (error as Error).name === 'InsufficientScopeError') {
        noted = ''
        await remember({
          ...(requiredScope === undefined ? {} : { scope: requiredScope }),
          ...(resourceMetadataUrl === undefined ? {} : { resourceMetadataUrl }),
        })
        const scope =
          requiredScope === undefined || requiredScope.length > MAX_SCOPE
            ? 'more rights'
            : `the scope "${requiredScope}"`
        const run = `run \`pegboard auth ${id}${options.principal === undefined ? '' : ` --principal ${options.principal}`}\``
        return new PegboardError('E_AUTH_REQUIRED', `it wants ${scope}: ${run}`, {
          cause: error,
          data: { scope: requiredScope ?? null },
        })
      }
      // A token that was just renewed is refused, too.
      if (status !== 401 && code !== 'CLIENT_HTTP_AUTHENTICATION') return undefined
      wait((await current())?.tokens?.access_token)
      return wanted()
    },
    async has() {
      return headless || (await current())?.tokens !== undefined
    },
    close: unwatch,
  }
}

const needsLogin = (error: unknown): boolean => isPegboardError(error) && error.code === 'E_AUTH_REQUIRED'

interface Refusal {
  readonly code?: unknown
  readonly status?: unknown
  readonly requiredScope?: string
  readonly resourceMetadataUrl?: string
}

function about(error: unknown): Refusal {
  const { code, data, requiredScope, resourceMetadataUrl } = error as Readonly<Record<string, unknown>>
  return {
    code,
    status: (data as { status?: unknown } | undefined)?.status,
    ...(typeof requiredScope === 'string' ? { requiredScope } : {}),
    ...(resourceMetadataUrl instanceof URL ? { resourceMetadataUrl: resourceMetadataUrl.href } : {}),
  }
}
