import { randomBytes } from 'node:crypto'
import type { OAuthDiscoveryState, StoredOAuthClientInformation } from '@modelcontextprotocol/client'
import { raceAbort } from '../../core/abort.ts'
import { equalsInConstantTime } from '../../core/equals-in-constant-time.ts'
import { isPegboardError, PegboardError } from '../../core/errors.ts'
import { waitAtMost } from '../../core/wait-at-most.ts'
import { mergeScopes } from './auth-challenge.ts'
import { createFlow, type Flow, runFlow } from './auth-provider.ts'
import { type Site, withSite } from './auth-site.ts'
import type { BearerOptions } from './bearer-header.ts'
import { browserUrl, type OpenBrowser } from './browser.ts'
import { createLoginError, discoverIssuer, issuerOf } from './discover-issuer.ts'
import { type Loopback, listenForRedirect } from './loopback.ts'
import { probeServer } from './probe-server.ts'
import { clientCredentials, isHeadless, withTokens } from './token-refresh.ts'
import type { AuthRequirement, Grant, GrantKey } from './token-store.ts'

/** How to interact with the person who logs in. */
export interface LoginPrompt {
  /** Shows the URL of the login page before it is opened. */
  show(url: string): void
  /** Absent: the person opens the page. */
  readonly open?: OpenBrowser | undefined
  /** Reads the URL where the browser ended, if it cannot reach this machine. */
  readonly paste?: (() => Promise<string>) | undefined
  /** For example, that the browser could not be opened. */
  warn(message: string): void
}

export interface LoginOptions extends Omit<BearerOptions, 'log' | 'loggedIn'> {
  readonly prompt: LoginPrompt
  readonly timeoutMs: number
  readonly signal: AbortSignal
}

/**
 * Logs in at a remote server in the browser, or without one for client credentials. Tokens are stored when it
 * resolves; on failure the stored ones remain.
 * @throws PegboardError E_AUTH_FAILED, E_SSRF_BLOCKED, E_REDIRECT_BLOCKED, E_UPSTREAM_UNAVAILABLE
 */
export async function login(options: LoginOptions): Promise<Grant> {
  const { id, settings, target, store, clock } = options
  const key: GrantKey = { server: id, url: target.url, principal: options.principal }
  return await withSite(id, settings, target, async (site) => {
    const stored = await store.read(key).catch(() => store.readOpen(key))
    const requirement = await probeServer(site, target.kind, stored?.wanted)
    const grant = isHeadless(site.auth)
      ? await clientCredentials(site, { ...stored, wanted: requirement }, clock)
      : await inBrowser(options, site, stored, requirement)
    await store.exclusively(key, () => store.write(key, grant))
    return grant
  })
}

async function inBrowser(
  options: LoginOptions,
  site: Site,
  before: Grant | undefined,
  requirement: AuthRequirement,
): Promise<Grant> {
  const discovery = await discoverIssuer(site, requirement, 'browser', before)
  const issuer = issuerOf(discovery)
  const scope = mergeScopes(
    site.auth.scopes.join(' '),
    requirement.scope,
    before?.wanted?.scope && mergeScopes(before.asked, before.tokens?.scope),
  )
  // The last login did not complete, so the authorization server may no longer know the client.
  const registered = before?.begun === true ? undefined : before?.clients?.[issuer]
  const knownClient = coversScope(registered, scope) ? registered : undefined
  const loopback = await listen(site, issuer, redirectsOf(knownClient)[0])
  try {
    const state = randomBytes(32).toString('base64url')
    const flow = await createFlow({
      auth: site.auth,
      discovery,
      redirectUrl: loopback.redirectUrl,
      state,
      // A client registered with another redirect URL would be rejected.
      client: redirectsOf(knownClient).includes(loopback.redirectUrl) ? knownClient : undefined,
    })
    if (knownClient) await markLoginStarted(options)
    const params = await throughBrowser(options, site, flow, loopback, state, scope, discovery)
    await redeem(site, flow, params, scope)
    if (!flow.tokens) throw createLoginError(site, new Error('it gave no token'))
    // Ours, because the next login listens on its port.
    const redirect = { redirect_uris: [loopback.redirectUrl] }
    const clients = flow.client ? { ...before?.clients, [issuer]: { ...flow.client, ...redirect } } : before?.clients
    const requestedScope = flow.page?.searchParams.get('scope')
    return withTokens(
      { ...(clients ? { clients } : {}), ...(requestedScope ? { asked: requestedScope } : {}), discovery },
      getGrantedScope(flow, scope),
      options.clock,
    )
  } finally {
    loopback.close()
  }
}

/** If the server does not name the scope, the requested one was granted. */
function getGrantedScope({ tokens }: Flow, scope: string | undefined) {
  const granted = tokens as NonNullable<typeof tokens>
  return granted.scope !== undefined || scope === undefined ? granted : { ...granted, scope }
}

/** Reuses the port of the earlier registration, so that the client need not register again. */
async function listen({ auth }: Site, issuer: string, earlierRedirect: string | undefined): Promise<Loopback> {
  if (auth.redirectPort !== undefined) return await listenForRedirect(auth.redirectPort, issuer)
  const port =
    earlierRedirect !== undefined && URL.canParse(earlierRedirect) ? Number(new URL(earlierRedirect).port) : 0
  return await listenForRedirect(port, issuer).catch(() => listenForRedirect(0, issuer))
}

async function markLoginStarted({ id, target, principal, store }: LoginOptions): Promise<void> {
  const key: GrantKey = { server: id, url: target.url, principal }
  await store.exclusively(key, async () => store.write(key, { ...(await store.read(key)), begun: true }))
}

/** A client may request only scopes that it was registered with. */
function coversScope(client: StoredOAuthClientInformation | undefined, scope: string | undefined): boolean {
  const allowed = (client as { scope?: string } | undefined)?.scope
  return allowed === undefined || scope === undefined || mergeScopes(allowed, scope) === mergeScopes(allowed)
}

const redirectsOf = (client: StoredOAuthClientInformation | undefined): readonly string[] =>
  (client as { redirect_uris?: readonly string[] } | undefined)?.redirect_uris ?? []

async function throughBrowser(
  { prompt, timeoutMs, signal }: LoginOptions,
  site: Site,
  flow: Flow,
  loopback: Loopback,
  state: string,
  scope: string | undefined,
  { authorizationServerMetadata, resourceMetadata }: OAuthDiscoveryState,
): Promise<URLSearchParams> {
  try {
    await runFlow(site, flow, { scope, forceReauthorization: true })
  } catch (error) {
    throw (authorizationServerMetadata ?? resourceMetadata) ? error : withoutOAuth(site, error)
  }
  if (!flow.page) throw createLoginError(site, new Error('it has no login page'))
  const url = browserUrl(flow.page)
  const redirected = loopback.redirected(state)
  prompt.show(url)
  prompt.open?.(url).catch((error: NodeJS.ErrnoException) => prompt.warn(`the browser was not opened (${error.code})`))
  const { paste } = prompt
  const readPasted = async (): Promise<URLSearchParams> =>
    redirectOf((await paste?.()) ?? '', state, loopback.redirectUrl)
  const pasted = paste
    ? readPasted().catch((error: unknown) => {
        // A single mistake is ignored.
        if (!isPegboardError(error) || error.message !== WRONG_ADDRESS) throw error
        prompt.warn(`${error.message} ${error.hint}`)
        return readPasted()
      })
    : undefined
  return await withTimeLimit(pasted ? Promise.race([redirected, pasted]) : redirected, timeoutMs, signal)
}

const WRONG_ADDRESS = 'This is not the redirect address of this login.'

/** The server requires authorization, but no OAuth metadata was found. */
const withoutOAuth = ({ id, where }: Site, cause: unknown): PegboardError =>
  new PegboardError('E_AUTH_FAILED', `${id} does not name a login page, so it probably needs a fixed token.`, {
    hint: `Set one: ${where}.headers {"Authorization": "Bearer \${env:TOKEN}"}.`,
    cause,
  })

/** @throws PegboardError E_AUTH_FAILED if it is not a redirect of this login */
function redirectOf(text: string, state: string, redirectUrl: string): URLSearchParams {
  const trimmed = text.trim()
  const url = URL.canParse(trimmed) ? new URL(trimmed) : undefined
  // Another page with the same state could carry a code that someone else requested.
  const isOurs =
    url !== undefined && url.username === '' && url.password === '' && url.origin + url.pathname === redirectUrl
  if (isOurs && equalsInConstantTime(state, url.searchParams.get('state') ?? '')) return url.searchParams
  throw new PegboardError('E_AUTH_FAILED', WRONG_ADDRESS, {
    hint: 'Paste the whole address of the page the browser shows after the login, even if it shows an error.',
  })
}

function withTimeLimit<T>(work: Promise<T>, ms: number, signal: AbortSignal): Promise<T> {
  const throwTimeout = (): never => {
    throw new PegboardError('E_AUTH_FAILED', `Nobody logged in within ${Math.round(ms / 1_000)} s.`)
  }
  const cancelled = () => new PegboardError('E_AUTH_FAILED', 'The login was cancelled.')
  return raceAbort(waitAtMost(ms, work, throwTimeout), signal, cancelled)
}

/** Exchanges the code for tokens after checking that it comes from the right authorization server. */
async function redeem(site: Site, flow: Flow, params: URLSearchParams, scope: string | undefined): Promise<void> {
  const { validateAuthorizationResponseIssuer } = await import('@modelcontextprotocol/client')
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
    throw new PegboardError('E_AUTH_FAILED', 'The response is from another authorization server than expected.', {
      cause: error,
    })
  }
  const refusal = params.get('error')
  if (refusal !== null)
    throw new PegboardError('E_AUTH_FAILED', `The authorization server refused the login: ${describeCode(refusal)}.`)
  const code = params.get('code')
  if (code === null) throw new PegboardError('E_AUTH_FAILED', 'The authorization server sent no code.')
  await runFlow(site, flow, { scope, authorizationCode: code, iss })
}

/** OAuth's error codes are plain words; anything else must not reach a terminal. */
const describeCode = (code: string): string => (/^[\w.-]{1,64}$/.test(code) ? code : 'it gave no reason')
