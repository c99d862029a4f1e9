import { randomUUID } from 'node:crypto'
import type { RequestListener } from 'node:http'
import type { OAuthClientProvider, StoredOAuthTokens } from '@modelcontextprotocol/client'
import { exportJWK, generateKeyPair, type JWK, type JWTHeaderParameters, SignJWT } from 'jose'
import Provider from 'oidc-provider'
import { onTestFinished } from 'vitest'
import { listenOnFreePort, logInLikePerson } from '../upstream/oauth/oauth-servers.ts'

/** A real authorization server that issues JWT access tokens and registers clients, with one client for machines. */
export interface Issuer {
  readonly origin: string
  /** Number of requests such as `GET /jwks`. */
  count(request: string): number
  /** The current signing key. */
  readonly key: JWK & { readonly kid: string }
  /** From now on it signs with a new key and publishes no other. */
  rotate(): Promise<void>
  /** From now on it does not answer. */
  away(isAway: boolean): void
  /** An access token of a machine client. */
  token(resource: string, scope?: string): Promise<string>
  /** Any token, signed with its own key unless another is given. */
  sign(claims: Readonly<Record<string, unknown>>, header?: Partial<JWTHeaderParameters>, key?: unknown): Promise<string>
}

const SCOPES = ['probe:read', 'probe:write', 'team']

async function newKey(): Promise<JWK & { readonly kid: string }> {
  const { privateKey } = await generateKeyPair('RS256', { extractable: true })
  return { ...(await exportJWK(privateKey)), kid: randomUUID(), alg: 'RS256', use: 'sig' }
}

export async function startIssuer({ ttlS = 3_600 }: { readonly ttlS?: number } = {}): Promise<Issuer> {
  const requests: string[] = []
  let key = await newKey()
  let answer: RequestListener
  let gone = false
  const serve = (origin: string): void => {
    answer = new Provider(origin, {
      clients: [
        {
          client_id: 'machine',
          client_secret: 'secret-of-the-machine',
          grant_types: ['client_credentials'],
          redirect_uris: [],
          response_types: [],
        },
      ],
      cookies: { keys: ['test'] },
      jwks: { keys: [key] },
      scopes: ['openid', 'offline_access', ...SCOPES],
      pkce: { required: () => true },
      responseTypes: ['code'],
      ttl: { AccessToken: ttlS, ClientCredentials: ttlS },
      findAccount: (_ctx: unknown, id: string) => ({ accountId: id, claims: () => ({ sub: id }) }),
      features: {
        devInteractions: { enabled: true },
        registration: { enabled: true },
        clientCredentials: { enabled: true },
        resourceIndicators: {
          enabled: true,
          getResourceServerInfo: (_ctx: unknown, resource: string) => ({
            scope: SCOPES.join(' '),
            audience: resource,
            accessTokenTTL: ttlS,
            accessTokenFormat: 'jwt',
            jwt: { sign: { alg: 'RS256' } },
          }),
          useGrantedResource: () => true,
        },
      },
    }).callback()
  }
  const { origin, close } = await listenOnFreePort((own) => {
    serve(own)
    return (request, response) => {
      requests.push(`${request.method} ${request.url?.split('?')[0]}`)
      if (gone) response.writeHead(503).end()
      else answer(request, response)
    }
  })
  onTestFinished(close)
  return {
    origin,
    count: (request) => requests.filter((one) => one === request).length,
    get key() {
      return key
    },
    async rotate() {
      key = await newKey()
      serve(origin)
    },
    away(isAway) {
      gone = isAway
    },
    async token(resource, scope) {
      const body = new URLSearchParams({ grant_type: 'client_credentials', resource, ...(scope ? { scope } : {}) })
      const response = await fetch(`${origin}/token`, {
        method: 'POST',
        headers: { authorization: `Basic ${Buffer.from('machine:secret-of-the-machine').toString('base64')}` },
        body,
      })
      return ((await response.json()) as { access_token: string }).access_token
    },
    async sign(claims, header = {}, own = key) {
      return await new SignJWT({ ...claims })
        .setProtectedHeader({ alg: 'RS256', kid: key.kid, ...header })
        .sign(own as Parameters<SignJWT['sign']>[0])
    },
  }
}

/** The OAuth provider of a client whose person follows every page of the login immediately. */
export async function person(who: string): Promise<OAuthClientProvider & { readonly code: () => string }> {
  let code = ''
  const { origin, close } = await listenOnFreePort(() => (request, response) => {
    code = new URL(request.url ?? '', 'http://localhost').searchParams.get('code') ?? ''
    response.end('done')
  })
  onTestFinished(close)
  const redirectUrl = `${origin}/callback`
  let verifier = ''
  let tokens: StoredOAuthTokens | undefined
  let client: Awaited<ReturnType<OAuthClientProvider['clientInformation']>>
  return {
    code: () => code,
    redirectUrl,
    clientMetadata: {
      client_name: 'front-test',
      redirect_uris: [redirectUrl],
      token_endpoint_auth_method: 'none',
      grant_types: ['authorization_code', 'refresh_token'],
      response_types: ['code'],
      application_type: 'native',
    },
    clientInformation: () => client,
    saveClientInformation(registered) {
      client = registered
    },
    tokens: () => tokens,
    saveTokens(got) {
      tokens = got
    },
    saveCodeVerifier(text) {
      verifier = text
    },
    codeVerifier: () => verifier,
    redirectToAuthorization: async (page) => void (await logInLikePerson(page.href, who)),
  }
}
