import type { OAuthDiscoveryState } from '@modelcontextprotocol/client'
import { isPegboardError, messageOf, PegboardError } from '../../core/errors.ts'
import { networkReason } from '../reasons.ts'
import { browserUrl } from './browser.ts'
import type { Site } from './site.ts'
import type { Grant, Wanted } from './store.ts'

/**
 * Finds the authorization server of a remote server and checks what it says of itself.
 * @param known of an earlier login: a secret that was sent to one authorization server is not sent to another
 * @throws PegboardError E_SSRF_BLOCKED, E_REDIRECT_BLOCKED, E_AUTH_FAILED
 */
export async function discover(
  site: Site,
  wanted: Wanted | undefined,
  how: 'browser' | 'headless',
  known?: Grant,
): Promise<OAuthDiscoveryState> {
  const { discoverOAuthServerInfo } = await import('@modelcontextprotocol/client')
  const { resourceMetadataUrl } = wanted ?? {}
  if (resourceMetadataUrl !== undefined) site.assertNamed(resourceMetadataUrl)
  let found: OAuthDiscoveryState
  try {
    const info = await discoverOAuthServerInfo(site.url, {
      fetchFn: site.fetch,
      ...(resourceMetadataUrl === undefined ? {} : { resourceMetadataUrl: new URL(resourceMetadataUrl) }),
    })
    found = { ...info, ...(resourceMetadataUrl === undefined ? {} : { resourceMetadataUrl }) }
  } catch (error) {
    throw failure(site, error)
  }
  const metadata = found.authorizationServerMetadata
  assertIssuer(site, issuerOf(found), known)
  if (metadata === undefined) return found
  for (const endpoint of [metadata.token_endpoint, metadata.registration_endpoint])
    if (endpoint !== undefined) site.assertNamed(endpoint)
  if (how === 'headless') return found
  browserUrl(new URL(metadata.authorization_endpoint))
  if (!metadata.code_challenge_methods_supported?.includes('S256'))
    throw new PegboardError('E_AUTH_FAILED', 'The authorization server does not advertise PKCE S256.', {
      hint: 'Without it a stolen login could be used by others. Ask who runs the server.',
    })
  return found
}

export const issuerOf = (found: OAuthDiscoveryState): string =>
  found.authorizationServerMetadata?.issuer ?? found.authorizationServerUrl

/** Our own secret belongs to one authorization server, and the server behind the tools must not choose another. */
function assertIssuer({ id, where, auth }: Site, issuer: string, known: Grant | undefined): void {
  const owns = (auth.clientSecret ?? auth.privateKey) !== undefined
  const expected = auth.issuer ?? (owns && known?.discovery ? issuerOf(known.discovery) : undefined)
  if (expected === undefined || sameIssuer(expected, issuer)) return
  throw new PegboardError('E_AUTH_FAILED', `${id} names another authorization server than the one its client is for.`, {
    hint: `If that is right, set ${where}.auth.issuer to the new one.`,
  })
}

export const sameIssuer = (a: string, b: string): boolean => a.replace(/\/$/, '') === b.replace(/\/$/, '')

/** What went wrong on the way to a token, fit for people: OAuth's own words, never a body or an address. */
export function failure(site: Pick<Site, 'id' | 'where'>, error: unknown): PegboardError {
  if (isPegboardError(error)) return error
  const network = networkReason(error)
  if (network !== 'network error')
    return new PegboardError('E_UPSTREAM_UNAVAILABLE', `the authorization server cannot be reached: ${network}`, {
      cause: error,
    })
  return new PegboardError('E_AUTH_FAILED', `${site.id} cannot be logged in to: ${reasonOf(site.where, error)}.`, {
    cause: error,
  })
}

function reasonOf(where: string, error: unknown): string {
  const { name, code } = error as { name?: unknown; code?: unknown }
  // The parser quotes what it cannot read, which may be a token.
  if (name === 'SyntaxError') return 'the authorization server answered with something that is not JSON'
  if (name === 'TimeoutError') return 'the authorization server did not answer in time'
  if (name === 'ZodError' || name === '$ZodError') return 'the authorization server describes itself wrongly'
  if (name === 'RegistrationRejectedError')
    return `it does not register new clients (HTTP ${String((error as { status?: unknown }).status)}); register one there and set ${where}.auth.clientId`
  if (/does not support dynamic client registration/.test(messageOf(error)))
    return `it does not register new clients; register one there and set ${where}.auth.clientId`
  const message = messageOf(error).replace(/\.$/, '')
  const said =
    message
      .replaceAll(/https?:\/\/\S+/g, '…')
      .split('Raw body:')[0]
      ?.slice(0, 200) ?? ''
  return typeof code === 'string' && !message.includes(code) ? `${code} (${said})` : said
}
