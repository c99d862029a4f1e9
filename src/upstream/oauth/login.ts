import { randomBytes } from 'node:crypto'
import type { OAuthDiscoveryState, StoredOAuthClientInformation } from '@modelcontextprotocol/client'
import type { Clock } from '../../core/clock.ts'
import { isPegboardError, PegboardError } from '../../core/errors.ts'
import type { HttpTarget, ServerSettings } from '../settings.ts'
import { browserUrl, type OpenBrowser } from './browser.ts'
import { union } from './challenge.ts'
import { discover, failure, issuerOf } from './discover.ts'
import { type Loopback, listenForRedirect, same } from './loopback.ts'
import { probe } from './probe.ts'
import { createFlow, type Flow } from './provider.ts'
import { clientCredentials, isHeadless, withTokens } from './renew.ts'
import { createSite, type Site } from './site.ts'
import type { Grant, GrantKey, TokenStore, Wanted } from './store.ts'

/** Where a person is, and how they are spoken to. */
export interface Person {
  /** Shows the address of the login page, before anything is opened. */
  show(url: string): void
  /** Absent: the person opens the page themselves. */
  readonly open?: OpenBrowser | undefined
  /** Reads the address the browser ended at, where it cannot come back to this machine. */
  readonly paste?: (() => Promise<string>) | undefined
  /** The browser could not be opened, or some such thing. */
  warn(message: string): void
}

export interface LoginOptions {
  readonly id: string
  readonly settings: ServerSettings
  readonly target: HttpTarget
  readonly principal?: string | undefined
  readonly store: TokenStore
  readonly clock: Clock
  readonly person: Person
  /** How long the person may take. */
  readonly timeoutMs: number
  readonly signal: AbortSignal
}

/**
 * Logs in at a remote server: in the browser, or without one for client credentials. The tokens are in the store when
 * it settles; whatever was there stays when it fails.
 * @throws PegboardError E_AUTH_FAILED, E_SSRF_BLOCKED, E_REDIRECT_BLOCKED, E_UPSTREAM_UNAVAILABLE
 */
export async function login(options: LoginOptions): Promise<Grant> {
  const { id, settings, target, store, clock } = options
  const key: GrantKey = { server: id, url: target.url, principal: options.principal }
  const site = await createSite(id, settings, target)
  try {
    const before = await store.read(key).catch(() => store.readOpen(key))
    const wanted = await probe(site, target.kind, before?.wanted)
    const grant = isHeadless(site.auth)
      ? await clientCredentials(site, { ...before, wanted }, clock)
      : await inBrowser(options, site, before, wanted)
    await store.exclusively(key, () => store.write(key, grant))
    return grant
  } finally {
    await site.close()
  }
}

async function inBrowser(options: LoginOptions, site: Site, before: Grant | undefined, wanted: Wanted): Promise<Grant> {
  const discovery = await discover(site, wanted, 'browser', before)
  const issuer = issuerOf(discovery)
  const scope = union(
    site.auth.scopes.join(' '),
    wanted.scope,
    before?.wanted?.scope && union(before.asked, before.tokens?.scope),
  )
  // One whose last login was begun and not finished may no longer be known there.
  const registered = before?.begun === true ? undefined : before?.clients?.[issuer]
  const known = covers(registered, scope) ? registered : undefined
  const loopback = await listen(site, redirectsOf(known)[0])
  try {
    const state = randomBytes(32).toString('base64url')
    const flow = await createFlow({
      auth: site.auth,
      discovery,
      redirectUrl: loopback.redirectUrl,
      state,
      // Registered for another port, it would be refused.
      client: redirectsOf(known).includes(loopback.redirectUrl) ? known : undefined,
    })
    if (known) await begin(options)
    const params = await throughBrowser(options, site, flow, loopback, state, scope, isNowhere(discovery))
    await redeem(site, flow, params, scope)
    if (!flow.tokens) throw failure(site, new Error('it gave no token'))
    const clients = flow.client ? { ...before?.clients, [issuer]: flow.client } : before?.clients
    const asked = flow.page?.searchParams.get('scope')
    return withTokens(
      { ...(clients ? { clients } : {}), ...(asked ? { asked } : {}), discovery },
      granted(flow, scope),
      options.clock,
    )
  } finally {
    loopback.close()
  }
}

const isNowhere = ({ authorizationServerMetadata, resourceMetadata }: OAuthDiscoveryState): boolean =>
  authorizationServerMetadata === undefined && resourceMetadata === undefined

/** A server that says nothing of the scope gave what was asked for. */
function granted({ tokens }: Flow, scope: string | undefined) {
  const had = tokens as NonNullable<typeof tokens>
  return had.scope !== undefined || scope === undefined ? had : { ...had, scope }
}

/** The port of an earlier registration is taken again, so that the client need not be registered again. */
async function listen({ auth }: Site, before: string | undefined): Promise<Loopback> {
  if (auth.redirectPort !== undefined) return await listenForRedirect(auth.redirectPort)
  const port = before !== undefined && URL.canParse(before) ? Number(new URL(before).port) : 0
  return await listenForRedirect(port).catch(() => listenForRedirect(0))
}

async function begin({ id, target, principal, store }: LoginOptions): Promise<void> {
  const key: GrantKey = { server: id, url: target.url, principal }
  await store.exclusively(key, async () => store.write(key, { ...(await store.read(key)), begun: true }))
}

/** A client may only ask for what it was registered with. */
function covers(client: StoredOAuthClientInformation | undefined, scope: string | undefined): boolean {
  const allowed = (client as { scope?: string } | undefined)?.scope
  return allowed === undefined || scope === undefined || union(allowed, scope) === union(allowed)
}

const redirectsOf = (client: StoredOAuthClientInformation | undefined): readonly string[] =>
  (client as { redirect_uris?: readonly string[] } | undefined)?.redirect_uris ?? []

async function throughBrowser(
  { person, timeoutMs, signal }: LoginOptions,
  site: Site,
  flow: Flow,
  loopback: Loopback,
  state: string,
  scope: string | undefined,
  /** There was neither metadata of a resource nor of an authorization server. */
  nowhere: boolean,
): Promise<URLSearchParams> {
  const { auth } = await import('@modelcontextprotocol/client')
  try {
    await auth(flow.provider, {
      serverUrl: site.url,
      fetchFn: site.fetch,
      forceReauthorization: true,
      ...(scope === undefined ? {} : { scope }),
    })
  } catch (error) {
    if (nowhere) throw withoutOAuth(site, error)
    throw failure(site, error)
  }
  if (!flow.page) throw failure(site, new Error('it has no login page'))
  const url = browserUrl(flow.page)
  const back = loopback.redirected(state)
  person.show(url)
  person.open?.(url).catch((error: NodeJS.ErrnoException) => person.warn(`the browser was not opened (${error.code})`))
  const { paste } = person
  const read = async (): Promise<URLSearchParams> => redirectOf((await paste?.()) ?? '', state, loopback.redirectUrl)
  const pasted = paste
    ? read().catch((error: unknown) => {
        // Once is a slip of the hand.
        if (!isPegboardError(error) || error.message !== WRONG_ADDRESS) throw error
        person.warn(`${error.message} ${error.hint}`)
        return read()
      })
    : undefined
  return await limited(pasted ? Promise.race([back, pasted]) : back, timeoutMs, signal)
}

const WRONG_ADDRESS = 'That is not the address this login leads to.'

/** It wants something of us, and nothing that speaks OAuth is where it would have to be. */
const withoutOAuth = ({ id, where }: Site, cause: unknown): PegboardError =>
  new PegboardError('E_AUTH_FAILED', `${id} does not say where to log in, so it seems to want a fixed token.`, {
    hint: `Give it one: ${where}.headers {"Authorization": "Bearer \${env:TOKEN}"}.`,
    cause,
  })

/** @throws PegboardError E_AUTH_FAILED when it is not what the login page should have led to */
function redirectOf(text: string, state: string, redirectUrl: string): URLSearchParams {
  const trimmed = text.trim()
  const url = URL.canParse(trimmed) ? new URL(trimmed) : undefined
  // The same state on another page may come with a code that somebody else asked for.
  const isOurs =
    url !== undefined && url.username === '' && url.password === '' && url.origin + url.pathname === redirectUrl
  if (isOurs && same(state, url.searchParams.get('state') ?? '')) return url.searchParams
  throw new PegboardError('E_AUTH_FAILED', WRONG_ADDRESS, {
    hint: 'Paste the whole address of the page the browser shows after the login, even if it shows an error.',
  })
}

async function limited<T>(work: Promise<T>, ms: number, signal: AbortSignal): Promise<T> {
  let end = (): void => undefined
  const ended = new Promise<never>((_, reject) => {
    const timer = setTimeout(
      () => reject(new PegboardError('E_AUTH_FAILED', `Nobody logged in within ${Math.round(ms / 1_000)} s.`)),
      ms,
    )
    const onAbort = (): void => reject(new PegboardError('E_AUTH_FAILED', 'The login was given up.'))
    signal.addEventListener('abort', onAbort, { once: true })
    if (signal.aborted) onAbort()
    end = () => {
      clearTimeout(timer)
      signal.removeEventListener('abort', onAbort)
    }
  })
  try {
    return await Promise.race([work, ended])
  } finally {
    end()
  }
}

/** Exchanges the code for tokens, once it is known to come from the authorization server that was asked. */
async function redeem(site: Site, flow: Flow, params: URLSearchParams, scope: string | undefined): Promise<void> {
  const { auth, validateAuthorizationResponseIssuer } = await import('@modelcontextprotocol/client')
  const discovery = (await flow.provider.discoveryState?.()) as OAuthDiscoveryState
  const metadata = discovery.authorizationServerMetadata
  const iss = params.get('iss') ?? undefined
  try {
    validateAuthorizationResponseIssuer({
      iss,
      expectedIssuer: metadata?.issuer,
      issParameterSupported: metadata?.['authorization_response_iss_parameter_supported'] === true,
    })
  } catch (error) {
    throw new PegboardError('E_AUTH_FAILED', 'The answer comes from another authorization server than was asked.', {
      cause: error,
    })
  }
  const refusal = params.get('error')
  if (refusal !== null)
    throw new PegboardError('E_AUTH_FAILED', `The authorization server refused the login: ${words(refusal)}.`)
  const code = params.get('code')
  if (code === null) throw new PegboardError('E_AUTH_FAILED', 'The authorization server sent no code.')
  try {
    await auth(flow.provider, {
      serverUrl: site.url,
      authorizationCode: code,
      fetchFn: site.fetch,
      ...(iss === undefined ? {} : { iss }),
      ...(scope === undefined ? {} : { scope }),
    })
  } catch (error) {
    throw failure(site, error)
  }
}

/** OAuth's error codes are plain words; anything else does not belong on a terminal. */
const words = (code: string): string => (/^[\w.-]{1,64}$/.test(code) ? code : 'it did not say why')
