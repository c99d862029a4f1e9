import type { OAuthDiscoveryState, StoredOAuthTokens } from '@modelcontextprotocol/client'
import type { Clock } from '../../core/clock.ts'
import { PegboardError } from '../../core/errors.ts'
import { quoteWord } from '../../core/quote-word.ts'
import type { AuthSettings } from '../upstream-settings.ts'
import { mergeScopes } from './auth-challenge.ts'
import { clientAuthentication, configuredClient, createFlow, type FlowOptions, runFlow } from './auth-provider.ts'
import type { Site } from './auth-site.ts'
import { createLoginError, discoverIssuer, issuerOf } from './discover-issuer.ts'
import { type Grant, isToken } from './token-store.ts'

/** The latest time that a `Date` can have, in milliseconds since the epoch. */
const LATEST_DATE = 8.64e15

/**
 * Adds new tokens to a grant and clears its open requirement. An expiry in the past, or never, counts as unknown.
 * @throws PegboardError E_AUTH_FAILED for a token that is invalid in a header
 */
export function withTokens(grant: Grant | undefined, tokens: StoredOAuthTokens, clock: Clock): Grant {
  if (!isToken(tokens.access_token))
    throw new PegboardError('E_AUTH_FAILED', 'the authorization server gave a token that no header can carry')
  const now = clock.now()
  const lifeMs = Math.floor(Number(tokens.expires_in) * 1_000)
  return {
    ...grant,
    tokens,
    obtainedAt: now,
    expiresAt: lifeMs > 0 && now + lifeMs <= LATEST_DATE ? now + lifeMs : undefined,
    wanted: undefined,
  }
}

/** True if the authorization server permanently rejects this refresh token or client, so that only a login helps. */
const isRefused = (error: unknown): boolean =>
  ['invalid_grant', 'invalid_client', 'unauthorized_client'].includes(String((error as { code?: unknown }).code))

/**
 * Refreshes a grant's tokens; the refresh token is kept if the server sends no new one.
 * @throws PegboardError E_AUTH_REQUIRED if only a login helps; E_UPSTREAM_UNAVAILABLE and others if a later attempt
 * may succeed
 */
export async function refresh(site: Site, grant: Grant, clock: Clock): Promise<Grant> {
  const { tokens, discovery } = grant
  if (!tokens?.refresh_token || !discovery) throw createLoginRequired(site.id)
  const issuer = issuerOf(discovery)
  const client = configuredClient(site.auth, issuer) ?? grant.clients?.[issuer]
  if (!client) throw createLoginRequired(site.id)
  const { refreshAuthorization } = await import('@modelcontextprotocol/client')
  const authenticate = await clientAuthentication(site.auth)
  try {
    const endpoint = discovery.authorizationServerMetadata?.token_endpoint
    if (endpoint !== undefined) site.assertNamed(endpoint)
    const renewed = await refreshAuthorization(discovery.authorizationServerUrl, {
      ...(discovery.authorizationServerMetadata ? { metadata: discovery.authorizationServerMetadata } : {}),
      clientInformation: client,
      refreshToken: tokens.refresh_token,
      fetchFn: site.fetch,
      ...(discovery.resourceMetadata ? { resource: discovery.resourceMetadata.resource } : {}),
      ...(authenticate ? { addClientAuthentication: authenticate } : {}),
    })
    // Without a scope in the response, the scope is unchanged.
    const scope = renewed.scope ?? tokens.scope
    return withTokens(grant, { ...renewed, issuer, ...(scope === undefined ? {} : { scope }) }, clock)
  } catch (error) {
    throw isRefused(error) ? createLoginRequired(site.id, undefined, error) : createLoginError(site, error)
  }
}

/** True if tokens can be obtained without a person. */
export const isHeadless = ({ type }: Pick<AuthSettings, 'type'>): boolean =>
  type === 'client-credentials' || type === 'enterprise'

/**
 * Gets tokens for the client itself, or through a company's identity provider, without a person.
 * @throws PegboardError E_AUTH_FAILED, E_SSRF_BLOCKED, E_UPSTREAM_UNAVAILABLE
 */
export async function clientCredentials(site: Site, grant: Grant | undefined, clock: Clock): Promise<Grant> {
  const discovery = await discoverIssuer(site, grant?.wanted, 'headless', grant)
  const flow = await createFlow({ auth: site.auth, discovery, grant: await grantOf(site, discovery) })
  const scope = mergeScopes(site.auth.scopes.join(' '), grant?.wanted?.scope)
  await runFlow(site, flow, { scope })
  if (!flow.tokens) throw createLoginError(site, new Error('it gave no token'))
  return withTokens({ ...grant, discovery }, flow.tokens, clock)
}

async function grantOf(site: Site, discovery: OAuthDiscoveryState): Promise<NonNullable<FlowOptions['grant']>> {
  const { idp } = site.auth
  if (idp === undefined || site.auth.type !== 'enterprise')
    return (scope) => new URLSearchParams({ grant_type: 'client_credentials', ...(scope ? { scope } : {}) })
  const { enterpriseGrant } = await import('./enterprise-grant.ts')
  return (scope) => enterpriseGrant(site, idp, discovery, scope)
}

/** What a person has to run to log in. */
export const loginCommand = (id: string, principal: string | undefined): string =>
  `run \`pegboard auth ${quoteWord(id)}${principal === undefined ? '' : ` --principal ${quoteWord(principal)}`}\``

/** The message for a missing login. `list` and `status` show the same words. */
export const createLoginRequired = (id: string, principal?: string, cause?: unknown): PegboardError =>
  new PegboardError('E_AUTH_REQUIRED', `it requires a login: ${loginCommand(id, principal)}`, { cause })
