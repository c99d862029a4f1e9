import type {
  AddClientAuthentication,
  OAuthClientMetadata,
  OAuthClientProvider,
  OAuthDiscoveryState,
  StoredOAuthClientInformation,
  StoredOAuthTokens,
} from '@modelcontextprotocol/client'
import { omitUndefined } from '../../core/omit-undefined.ts'
import type { AuthSettings } from '../upstream-settings.ts'
import type { Site } from './auth-site.ts'
import { createLoginError } from './discover-issuer.ts'

/** One OAuth flow, as the SDK drives it. Everything it saves stays here until the flow is complete. */
export interface Flow {
  readonly provider: OAuthClientProvider
  /** Set when the flow has tokens. */
  tokens: StoredOAuthTokens | undefined
  /** The client registered, or named by a metadata document, in this flow. */
  client: StoredOAuthClientInformation | undefined
  /** The page that the person must open. */
  page: URL | undefined
}

export interface FlowOptions {
  readonly auth: AuthSettings
  readonly discovery: OAuthDiscoveryState
  /** Absent in flows without a person. */
  readonly redirectUrl?: string | undefined
  readonly state?: string | undefined
  /** Registered with this authorization server in an earlier flow. */
  readonly client?: StoredOAuthClientInformation | undefined
  /** Parameters for the token endpoint in flows without a person. */
  readonly grant?: (scope?: string) => URLSearchParams | Promise<URLSearchParams>
}

export async function createFlow(options: FlowOptions): Promise<Flow> {
  const { auth, redirectUrl, discovery, state } = options
  let verifier = ''
  let found = discovery
  const provider: OAuthClientProvider = {
    redirectUrl,
    clientMetadata: metadataOf(auth, redirectUrl, discovery),
    ...(state === undefined ? {} : { state: () => state }),
    ...omitUndefined({
      clientMetadataUrl: auth.clientMetadataUrl,
      addClientAuthentication: await clientAuthentication(auth),
      prepareTokenRequest: options.grant,
    }),
    clientInformation: (ctx) => configuredClient(auth, ctx?.issuer) ?? flow.client,
    saveClientInformation(saved) {
      flow.client = saved
    },
    tokens: () => flow.tokens,
    saveTokens(saved) {
      flow.tokens = saved
    },
    redirectToAuthorization(url) {
      flow.page = url
    },
    saveCodeVerifier(saved) {
      verifier = saved
    },
    codeVerifier: () => verifier,
    discoveryState: () => found,
    saveDiscoveryState(saved) {
      found = saved
    },
  }
  const flow: Flow = { provider, tokens: undefined, client: options.client, page: undefined }
  return flow
}

/**
 * Runs one step of a flow with the SDK: from the metadata to the login page, or from a code or grant to the tokens.
 * @throws PegboardError E_AUTH_FAILED, E_SSRF_BLOCKED, E_UPSTREAM_UNAVAILABLE
 */
export async function runFlow(
  site: Site,
  flow: Flow,
  step: {
    readonly scope: string | undefined
    readonly forceReauthorization?: boolean
    readonly authorizationCode?: string
    readonly iss?: string | undefined
  },
): Promise<void> {
  const { auth } = await import('@modelcontextprotocol/client')
  try {
    await auth(flow.provider, { serverUrl: site.url, fetchFn: site.fetch, ...omitUndefined(step) })
  } catch (error) {
    throw createLoginError(site, error)
  }
}

/** The client that the operator registered in advance with `issuer`. */
export function configuredClient(
  auth: AuthSettings,
  issuer: string | undefined,
): StoredOAuthClientInformation | undefined {
  if (auth.clientId === undefined) return undefined
  return {
    client_id: auth.clientId,
    ...omitUndefined({ client_secret: auth.clientSecret, token_endpoint_auth_method: auth.tokenEndpointAuth, issuer }),
  }
}

/** Client authentication with a private key; undefined leaves it to the SDK. */
export async function clientAuthentication(auth: AuthSettings): Promise<AddClientAuthentication | undefined> {
  const { clientId, privateKey, algorithm } = auth
  if (clientId === undefined || privateKey === undefined) return undefined
  const { createPrivateKeyJwtAuth } = await import('@modelcontextprotocol/client')
  return createPrivateKeyJwtAuth({ issuer: clientId, subject: clientId, privateKey, alg: algorithm ?? 'RS256' })
}

function metadataOf(auth: AuthSettings, redirectUrl: string | undefined, discovery: OAuthDiscoveryState) {
  const scope = auth.scopes.join(' ')
  // A program on a user's machine cannot keep a secret, so it avoids requesting one.
  const methods = discovery.authorizationServerMetadata?.token_endpoint_auth_methods_supported
  const metadata: OAuthClientMetadata = {
    client_name: 'Pegboard',
    redirect_uris: redirectUrl === undefined ? [] : [redirectUrl],
    grant_types: redirectUrl === undefined ? ['client_credentials'] : ['authorization_code', 'refresh_token'],
    ...(redirectUrl === undefined ? {} : { response_types: ['code'] }),
    ...(methods === undefined
      ? {}
      : { token_endpoint_auth_method: methods.includes('none') ? 'none' : (methods[0] as string) }),
    ...(scope === '' ? {} : { scope }),
  }
  return metadata
}
