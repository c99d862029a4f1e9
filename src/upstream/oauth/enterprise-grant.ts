import { readFile } from 'node:fs/promises'
import type { OAuthDiscoveryState } from '@modelcontextprotocol/client'
import { messageOf, PegboardError } from '../../core/errors.ts'
import { omitUndefined } from '../../core/omit-undefined.ts'
import { replacedByOthers } from '../../core/written-by-others.ts'
import { OPERATOR_NETWORK } from '../../policy/own-network.ts'
import { createHttpClient } from '../http-client.ts'
import type { IdpSettings } from '../upstream-settings.ts'
import { MAX_ANSWER, REQUEST_MS, type Site } from './auth-site.ts'
import { issuerOf } from './discover-issuer.ts'

/**
 * Authenticates at a company's identity provider and gets an identity assertion (ID-JAG) for one authorization server
 * and resource.
 * @throws PegboardError E_AUTH_FAILED, E_SSRF_BLOCKED; network errors unchanged
 */
export async function enterpriseGrant(
  { id, where, url }: Pick<Site, 'id' | 'where' | 'url'>,
  idp: IdpSettings,
  discovery: OAuthDiscoveryState,
  scope: string | undefined,
): Promise<URLSearchParams> {
  const { requestJwtAuthorizationGrant } = await import('@modelcontextprotocol/client')
  const idToken = idp.idToken ?? (await readToken(id, where, idp.idTokenFile as string))
  // The operator configured this address, so it may be in a private network; the SDK requires https except on
  // loopback.
  const http = await createHttpClient(
    {
      allow: new Set(['public', ...OPERATOR_NETWORK]),
      http: true,
      setting: `${where}.auth.idp.tokenEndpoint`,
    },
    MAX_ANSWER,
    MAX_ANSWER,
  )
  try {
    const { jwtAuthGrant } = await requestJwtAuthorizationGrant({
      tokenEndpoint: idp.tokenEndpoint,
      audience: issuerOf(discovery),
      resource: discovery.resourceMetadata?.resource ?? url.href,
      idToken,
      clientId: idp.clientId,
      ...omitUndefined({ clientSecret: idp.clientSecret, scope }),
      fetchFn: (to, init) => http.fetch(to, { ...init, signal: AbortSignal.timeout(REQUEST_MS) }),
    })
    return new URLSearchParams({
      grant_type: 'urn:ietf:params:oauth:grant-type:jwt-bearer',
      assertion: jwtAuthGrant,
      ...omitUndefined({ scope }),
    })
  } catch (error) {
    // These messages quote the provider's whole response.
    if (/^(Token exchange failed with|Invalid token exchange)/.test(messageOf(error)))
      throw new PegboardError('E_AUTH_FAILED', `${id}: the identity provider gave no grant.`, { cause: error })
    throw error
  } finally {
    await http.close()
  }
}

async function readToken(id: string, where: string, file: string): Promise<string> {
  const others = replacedByOthers(file)
  if (others !== undefined)
    throw new PegboardError('E_AUTH_FAILED', `${id}: the file with the ID token is not safe to use: ${others}.`, {
      hint: 'To use it anyway, add --insecure-permissions.',
    })
  const text = await readFile(file, 'utf8').catch((error: unknown) => {
    throw new PegboardError('E_AUTH_FAILED', `${id}: the file with the ID token cannot be read.`, {
      hint: `${where}.auth.idp.idTokenFile names it.`,
      cause: error,
    })
  })
  return text.trim()
}
