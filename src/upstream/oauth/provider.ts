import type {
  AddClientAuthentication,
  OAuthClientMetadata,
  OAuthClientProvider,
  OAuthDiscoveryState,
  StoredOAuthClientInformation,
  StoredOAuthTokens,
} from '@modelcontextprotocol/client'
import type { AuthSettings } from '../settings.ts'

/** One run of a flow, as the SDK drives it: everything it saves stays here until the flow is over. */
export interface Flow {
  readonly provider: OAuthClientProvider
  /** Set once the flow has tokens. */
  readonly tokens: StoredOAuthTokens | undefined
  /** A client that was registered, or named by its document, in this flow. */
  readonly client: StoredOAuthClientInformation | undefined
  /** Where the person has to go. */
  readonly page: URL | undefined
}

export interface FlowOptions {
  readonly auth: AuthSettings
  readonly discovery: OAuthDiscoveryState
  /** Absent in flows without a person. */
  readonly redirectUrl?: string | undefined
  readonly state?: string | undefined
  /** Registered earlier with this authorization server. */
  readonly client?: StoredOAuthClientInformation | undefined
  /** What is shown at the token endpoint in flows without a person. */
  readonly grant?: (scope?: string) => URLSearchParams | Promise<URLSearchParams>
}

export async function createFlow(options: FlowOptions): Promise<Flow> {
  const { auth, redirectUrl, discovery } = options
  let { client } = options
  let tokens: StoredOAuthTokens | undefined
  let page: URL | undefined
  let verifier = ''
  let found = discovery
  const authenticate = await clientAuthentication(auth)
  const provider: OAuthClientProvider = {
    redirectUrl,
    clientMetadata: metadataOf(auth, redirectUrl, discovery),
    ...(auth.clientMetadataUrl === undefined ? {} : { clientMetadataUrl: auth.clientMetadataUrl }),
    ...(options.state === undefined ? {} : { state: () => options.state as string }),
    ...(authenticate === undefined ? {} : { addClientAuthentication: authenticate }),
    clientInformation: (ctx) => configuredClient(auth, ctx?.issuer) ?? client,
    saveClientInformation(saved) {
      client = saved
    },
    tokens: () => tokens,
    saveTokens(saved) {
      tokens = saved
    },
    redirectToAuthorization(url) {
      page = url
    },
    saveCodeVerifier(saved) {
      verifier = saved
    },
    codeVerifier: () => verifier,
    discoveryState: () => found,
    saveDiscoveryState(saved) {
      found = saved
    },
    ...(options.grant === undefined ? {} : { prepareTokenRequest: options.grant }),
  }
  return {
    provider,
    get tokens() {
      return tokens
    },
    get client() {
      return client
    },
    get page() {
      return page
    },
  }
}

/** The client the operator registered beforehand, as belonging to `issuer`. */
export function configuredClient(
  auth: AuthSettings,
  issuer: string | undefined,
): StoredOAuthClientInformation | undefined {
  if (auth.clientId === undefined) return undefined
  return {
    client_id: auth.clientId,
    ...(auth.clientSecret === undefined ? {} : { client_secret: auth.clientSecret }),
    ...(auth.tokenEndpointAuth === undefined ? {} : { token_endpoint_auth_method: auth.tokenEndpointAuth }),
    ...(issuer === undefined ? {} : { issuer }),
  }
}

/** How the client proves itself with a key; undefined leaves it to the SDK. */
export async function clientAuthentication(auth: AuthSettings): Promise<AddClientAuthentication | undefined> {
  const { clientId, privateKey, algorithm } = auth
  if (clientId === undefined || privateKey === undefined) return undefined
  const { createPrivateKeyJwtAuth } = await import('@modelcontextprotocol/client')
  return createPrivateKeyJwtAuth({ issuer: clientId, subject: clientId, privateKey, alg: algorithm ?? 'RS256' })
}

function metadataOf(auth: AuthSettings, redirectUrl: string | undefined, discovery: OAuthDiscoveryState) {
  const scope = auth.scopes.join(' ')
  // A program on somebody's machine keeps no secret, so it asks for none where it need not have one.
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
