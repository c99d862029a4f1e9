import type { OAuthDiscoveryState } from '@modelcontextprotocol/client'
import { isPegboardError, messageOf, PegboardError } from '../../core/errors.ts'
import { networkReason } from '../error-reasons.ts'
import type { Site } from './auth-site.ts'
import { browserUrl } from './browser.ts'
import type { AuthRequirement, Grant } from './token-store.ts'

/**
 * Finds and validates the authorization server of a remote server.
 * @param grant from an earlier login: a secret that was sent to one authorization server must not be sent to another
 * @throws PegboardError E_SSRF_BLOCKED, E_REDIRECT_BLOCKED, E_AUTH_FAILED
 */
export async function discoverIssuer(
  site: Site,
  requirement: AuthRequirement | undefined,
  how: 'browser' | 'headless',
  grant?: Grant,
): Promise<OAuthDiscoveryState> {
  const { discoverOAuthServerInfo } = await import('@modelcontextprotocol/client')
  const { resourceMetadataUrl } = requirement ?? {}
  if (resourceMetadataUrl !== undefined) site.assertNamed(resourceMetadataUrl)
  let found: OAuthDiscoveryState
  try {
    const info = await discoverOAuthServerInfo(site.url, {
      fetchFn: site.fetch,
      ...(resourceMetadataUrl === undefined ? {} : { resourceMetadataUrl: new URL(resourceMetadataUrl) }),
    })
    found = { ...info, ...(resourceMetadataUrl === undefined ? {} : { resourceMetadataUrl }) }
  } catch (error) {
    throw createLoginError(site, error)
  }
  const metadata = found.authorizationServerMetadata
  assertResource(site, found.resourceMetadata?.resource)
  assertIssuer(site, issuerOf(found), grant)
  if (metadata === undefined) return found
  for (const endpoint of [metadata.token_endpoint, metadata.registration_endpoint])
    if (endpoint !== undefined) site.assertNamed(endpoint)
  if (how === 'headless') return found
  browserUrl(new URL(metadata.authorization_endpoint))
  site.assertNamed(metadata.authorization_endpoint)
  if (!metadata.code_challenge_methods_supported?.includes('S256'))
    throw new PegboardError('E_AUTH_FAILED', 'The authorization server does not advertise PKCE S256.', {
      hint: 'Without it, others could use a stolen login. Ask the operator of the server.',
    })
  return found
}

/** Tokens are for this address (RFC 8707). The SDK compares its origin and path only. */
function assertResource({ id }: Site, resource: string | undefined): void {
  const url = resource !== undefined && URL.canParse(resource) ? new URL(resource) : undefined
  if (url === undefined || (url.username === '' && url.password === '' && !resource?.includes('#'))) return
  throw new PegboardError('E_AUTH_FAILED', `${id} reports its address with a user name, password or fragment.`, {
    hint: 'A token for such an address could be used elsewhere. Ask the operator of the server.',
  })
}

export const issuerOf = (found: OAuthDiscoveryState): string =>
  found.authorizationServerMetadata?.issuer ?? found.authorizationServerUrl

/** The configured secret belongs to one authorization server, and the MCP server must not choose another. */
function assertIssuer({ id, where, auth }: Site, issuer: string, grant: Grant | undefined): void {
  const owns = (auth.clientSecret ?? auth.privateKey) !== undefined
  const expected = auth.issuer ?? (owns && grant?.discovery ? issuerOf(grant.discovery) : undefined)
  if (expected === undefined || sameIssuer(expected, issuer)) return
  throw new PegboardError('E_AUTH_FAILED', `${id} names another authorization server than the one its client is for.`, {
    hint: `If that is right, set ${where}.auth.issuer to the new one.`,
  })
}

const sameIssuer = (a: string, b: string): boolean => a.replace(/\/$/, '') === b.replace(/\/$/, '')

/** A login failure in Pegboard's words and OAuth's codes. Text from the other side could be mistaken for Pegboard's. */
export function createLoginError(site: Pick<Site, 'id' | 'where'>, error: unknown): PegboardError {
  if (isPegboardError(error)) return error
  const network = networkReason(error)
  if (network !== 'network error')
    return new PegboardError('E_UPSTREAM_UNAVAILABLE', `the authorization server cannot be reached: ${network}`, {
      cause: error,
    })
  return new PegboardError('E_AUTH_FAILED', `Cannot log in to ${site.id}: ${reasonOf(site.where, error)}.`, {
    cause: error,
  })
}

function reasonOf(where: string, error: unknown): string {
  const { name, code } = error as { name?: unknown; code?: unknown }
  // The parser quotes what it cannot parse, which may be a token.
  if (name === 'SyntaxError') return 'the authorization server answered with something that is not JSON'
  if (name === 'TimeoutError') return 'the authorization server did not answer in time'
  if (name === 'ZodError' || name === '$ZodError') return 'the metadata of the authorization server is not valid'
  if (name === 'RegistrationRejectedError')
    return `it does not register new clients (HTTP ${String((error as { status?: unknown }).status)}); register one there and set ${where}.auth.clientId`
  if (/does not support dynamic client registration/.test(messageOf(error)))
    return `it does not register new clients; register one there and set ${where}.auth.clientId`
  if (typeof code === 'string')
    return PLAIN_CODE.test(code) ? code : 'the authorization server sent an invalid error code'
  return inOurWords(messageOf(error).replace(/\.$/, ''))
}

const PLAIN_CODE = /^[\w.-]{1,40}$/

/** Explains errors without a code. Most of the SDK's messages quote the server. */
function inOurWords(message: string): string {
  if (message.startsWith('Issuer mismatch')) return 'its authorization server reports another address as its issuer'
  if (message.startsWith('Protected resource ')) return 'it reports the address of another server'
  if (/^(the response is longer than \d+ bytes|it gave no token|it has no login page)$/.test(message)) return message
  if (/^Incompatible auth server: does not support [\w ]{1,80}$/.test(message)) return message
  const status = /^(?:HTTP|Token exchange failed with status) (\d{3})\b/.exec(message)?.[1]
  return status === undefined ? 'the response of its authorization server cannot be used' : `HTTP ${status}`
}
