import { readFile } from 'node:fs/promises'
import type { OAuthDiscoveryState } from '@modelcontextprotocol/client'
import { messageOf, PegboardError } from '../../core/errors.ts'
import { replacedByOthers } from '../../core/written-by-others.ts'
import { createHttpClient } from '../fetch.ts'
import type { IdpSettings } from '../settings.ts'
import { issuerOf } from './discover.ts'
import { MAX_ANSWER, REQUEST_MS, type Site } from './site.ts'

/**
 * Shows the company's identity provider who the person is, and gets the grant (ID-JAG) that one authorization server takes
 * for one resource: what a token request there is made of.
 * @throws PegboardError E_AUTH_FAILED, E_SSRF_BLOCKED; errors of the network as they are
 */
export async function enterpriseGrant(
  { id, where, url }: Pick<Site, 'id' | 'where' | 'url'>,
  idp: IdpSettings,
  discovery: OAuthDiscoveryState,
  scope: string | undefined,
): Promise<URLSearchParams> {
  const { requestJwtAuthorizationGrant } = await import('@modelcontextprotocol/client')
  const idToken = idp.idToken ?? (await readToken(id, where, idp.idTokenFile as string))
  // The operator wrote this address, so it may be inside the company; the SDK wants https wherever that is not this machine.
  const http = await createHttpClient(
    {
      allow: new Set(['public', 'private', 'loopback']),
      http: true,
      setting: `${where}.auth.idp.tokenEndpoint`,
    },
    MAX_ANSWER,
  )
  try {
    const { jwtAuthGrant } = await requestJwtAuthorizationGrant({
      tokenEndpoint: idp.tokenEndpoint,
      audience: issuerOf(discovery),
      resource: discovery.resourceMetadata?.resource ?? url.href,
      idToken,
      clientId: idp.clientId,
      ...(idp.clientSecret === undefined ? {} : { clientSecret: idp.clientSecret }),
      ...(scope === undefined ? {} : { scope }),
      fetchFn: (to, init) => http.fetch(to, { ...init, signal: AbortSignal.timeout(REQUEST_MS) }),
    })
    return new URLSearchParams({
      grant_type: 'urn:ietf:params:oauth:grant-type:jwt-bearer',
      assertion: jwtAuthGrant,
      ...(scope === undefined ? {} : { scope }),
    })
  } catch (error) {
    // Both carry what the provider answered, whole.
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
      hint: 'To use it all the same: --insecure-permissions.',
    })
  const text = await readFile(file, 'utf8').catch((error: unknown) => {
    throw new PegboardError('E_AUTH_FAILED', `${id}: the file with the ID token cannot be read.`, {
      hint: `${where}.auth.idp.idTokenFile names it.`,
      cause: error,
    })
  })
  return text.trim()
}
