import type { OAuthDiscoveryState, StoredOAuthTokens } from '@modelcontextprotocol/client'
import type { Clock } from '../../core/clock.ts'
import { PegboardError } from '../../core/errors.ts'
import type { AuthSettings } from '../settings.ts'
import { union } from './challenge.ts'
import { discover, failure, issuerOf } from './discover.ts'
import { clientAuthentication, configuredClient, createFlow, type FlowOptions } from './provider.ts'
import type { Site } from './site.ts'
import { type Grant, isToken } from './store.ts'

/**
 * What a grant becomes with new tokens; what was wanted is had. A life that ended before it began, or that never ends, is none
 * that was told.
 * @throws PegboardError E_AUTH_FAILED for a token that cannot be sent
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
    expiresAt: lifeMs > 0 && Number.isSafeInteger(now + lifeMs) ? now + lifeMs : undefined,
    wanted: undefined,
  }
}

/** The authorization server will not take this refresh token, or this client, again: only a login helps. */
export const isRefused = (error: unknown): boolean =>
  ['invalid_grant', 'invalid_client', 'unauthorized_client'].includes(String((error as { code?: unknown }).code))

/**
 * New tokens for the refresh token of a grant, which stays when the server gives no other.
 * @throws PegboardError E_AUTH_REQUIRED when only a login helps; E_UPSTREAM_UNAVAILABLE and others when later may do
 */
export async function refresh(site: Site, grant: Grant, clock: Clock): Promise<Grant> {
  const { tokens, discovery } = grant
  if (!tokens?.refresh_token || !discovery) throw loginWanted(site.id)
  const issuer = issuerOf(discovery)
  const client = configuredClient(site.auth, issuer) ?? grant.clients?.[issuer]
  if (!client) throw loginWanted(site.id)
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
    // An answer without a scope means the scope stays.
    const scope = renewed.scope ?? tokens.scope
    return withTokens(grant, { ...renewed, issuer, ...(scope === undefined ? {} : { scope }) }, clock)
  } catch (error) {
    throw isRefused(error) ? loginWanted(site.id, undefined, error) : failure(site, error)
  }
}

/** Whether tokens can be had without a person. */
export const isHeadless = ({ type }: Pick<AuthSettings, 'type'>): boolean =>
  type === 'client-credentials' || type === 'enterprise'

/**
 * Tokens for the client itself, or for whom the identity provider of a company vouches, without a person.
 * @throws PegboardError E_AUTH_FAILED, E_SSRF_BLOCKED, E_UPSTREAM_UNAVAILABLE
 */
export async function clientCredentials(site: Site, grant: Grant | undefined, clock: Clock): Promise<Grant> {
  const { auth } = await import('@modelcontextprotocol/client')
  const discovery = await discover(site, grant?.wanted, 'headless', grant)
  const flow = await createFlow({ auth: site.auth, discovery, grant: await grantOf(site, discovery) })
  const scope = union(site.auth.scopes.join(' '), grant?.wanted?.scope)
  try {
    await auth(flow.provider, {
      serverUrl: site.url,
      fetchFn: site.fetch,
      ...(scope === undefined ? {} : { scope }),
    })
  } catch (error) {
    throw failure(site, error)
  }
  if (!flow.tokens) throw failure(site, new Error('it gave no token'))
  return withTokens({ ...grant, discovery }, flow.tokens, clock)
}

async function grantOf(site: Site, discovery: OAuthDiscoveryState): Promise<NonNullable<FlowOptions['grant']>> {
  const { idp } = site.auth
  if (idp === undefined || site.auth.type !== 'enterprise')
    return (scope) => new URLSearchParams({ grant_type: 'client_credentials', ...(scope ? { scope } : {}) })
  const { enterpriseGrant } = await import('./enterprise.ts')
  return (scope) => enterpriseGrant(site, idp, discovery, scope)
}

/** What everyone is told who needs a login that is not there. Its exact words are shown by list and status. */
export const loginWanted = (id: string, principal?: string, cause?: unknown): PegboardError =>
  new PegboardError(
    'E_AUTH_REQUIRED',
    `it wants a login: run \`pegboard auth ${id}${principal === undefined ? '' : ` --principal ${principal}`}\``,
    cause === undefined ? {} : { cause },
  )
