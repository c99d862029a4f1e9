import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { toNodeHandler } from '@modelcontextprotocol/node'
import {
  createMcpHandler,
  Server as McpServer,
  OAuthError,
  OAuthErrorCode,
  requireBearerAuth,
} from '@modelcontextprotocol/server'
import Provider from 'oidc-provider'
import { systemClock } from '../../../src/core/clock.ts'
import { type LoginOptions, login } from '../../../src/upstream/oauth/login.ts'
import { createTokenStore, type Grant, type TokenStore } from '../../../src/upstream/oauth/token-store.ts'
import type { HttpTarget } from '../../../src/upstream/upstream-settings.ts'
import { settingsOf } from '../host.ts'

/** An HTTP server on a free port for one test. */
export async function listenOnFreePort(
  answer: (origin: string) => RequestListener | Promise<RequestListener>,
): Promise<{ readonly origin: string; close(): void }> {
  let listener: RequestListener = (_request, response) => void response.writeHead(503).end()
  const server: Server = createServer((request, response) => listener(request, response))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  listener = await answer(origin)
  return {
    origin,
    close() {
      server.closeAllConnections()
      server.close()
    },
  }
}

/**
 * The metadata of a server at `/mcp` that requires a login, and of its authorization server, at one origin; `undefined`
 * for other paths.
 * @param change overrides the metadata of the authorization server
 */
export function oauthMetadata(own: string, path: string | undefined, change: object = {}): object | undefined {
  if (path?.startsWith('/.well-known/oauth-protected-resource'))
    return { resource: `${own}/mcp`, authorization_servers: [own] }
  if (path !== '/.well-known/oauth-authorization-server') return undefined
  return {
    issuer: own,
    authorization_endpoint: `${own}/authorize`,
    token_endpoint: `${own}/token`,
    response_types_supported: ['code'],
    code_challenge_methods_supported: ['S256'],
    ...change,
  }
}

export interface AuthorizationServer {
  readonly origin: string
  readonly provider: Provider
  /** Its requests, such as `POST /token`. */
  readonly requests: string[]
  /** Answers token requests with `invalid_grant`. */
  refuseAll: boolean
  count(request: string): number
  close(): void
}

export interface AuthorizationOptions {
  readonly accessTtl?: number
  /** Clients registered beforehand; `<issuer>` in their redirect URIs is this server without the scheme. */
  readonly clients?: readonly object[]
  /** Enables registration. */
  readonly registration?: boolean
  /** Answers for the address of a client-id metadata document, as in `clients`. */
  readonly document?: object
  /** False: its redirects contain no `iss`, as those of servers older than RFC 9207. */
  readonly iss?: boolean
}

/** A real authorization server (oidc-provider) whose login pages accept any name. */
export async function startAuthorizationServer(options: AuthorizationOptions = {}): Promise<AuthorizationServer> {
  const requests: string[] = []
  const state = { refuseAll: false }
  let provider!: Provider
  const { origin, close } = await listenOnFreePort((issuer) => {
    provider = new Provider(issuer, {
      clients: withIssuer(options.clients ?? [], issuer),
      cookies: { keys: ['test'] },
      jwks: undefined,
      scopes: ['openid', 'offline_access', 'read', 'write'],
      clientAuthMethods: ['none', 'client_secret_basic', 'client_secret_post', 'private_key_jwt'],
      pkce: { required: () => true },
      rotateRefreshToken: true,
      responseTypes: ['code'],
      ttl: { AccessToken: options.accessTtl ?? 3_600, ClientCredentials: options.accessTtl ?? 3_600 },
      findAccount: (_ctx: unknown, id: string) => ({ accountId: id, claims: () => ({ sub: id }) }),
      ...(options.document
        ? {
            fetch: async () =>
              Response.json(withIssuer(options.document, issuer), { headers: { 'cache-control': 'max-age=60' } }),
          }
        : {}),
      features: {
        devInteractions: { enabled: true },
        registration: { enabled: options.registration !== false },
        clientCredentials: { enabled: true },
        revocation: { enabled: true },
        resourceIndicators: {
          enabled: true,
          getResourceServerInfo: () => ({
            scope: 'read write',
            accessTokenTTL: options.accessTtl ?? 3_600,
            accessTokenFormat: 'opaque',
          }),
          useGrantedResource: () => true,
        },
        ...(options.document
          ? {
              clientIdMetadataDocument: {
                enabled: true,
                ack: 'draft-02',
                allowFetch: () => true,
                allowClient: () => true,
              },
            }
          : {}),
      },
    })
    if (options.iss === false)
      provider.use(async (ctx, next) => {
        await next()
        delete ctx.body?.['authorization_response_iss_parameter_supported']
        const to = ctx.response.get('location')
        if (to) ctx.set('location', to.replace(/&iss=[^&]*/, ''))
      })
    const answer = provider.callback()
    return (request, response) => {
      const asked = `${request.method} ${request.url?.split('?')[0]}`
      requests.push(asked)
      if (!state.refuseAll || asked !== 'POST /token') return void answer(request, response)
      response.writeHead(400, { 'content-type': 'application/json' }).end('{"error":"invalid_grant"}')
    }
  })
  const count = (text: string): number => requests.filter((one) => one === text).length
  return Object.assign(state, { origin, provider, requests, count, close })
}

const withIssuer = (registered: unknown, issuer: string): unknown =>
  JSON.parse(JSON.stringify(registered).replaceAll('<issuer>', issuer.replace('http://', '')))

export interface ProtectedServer {
  /** Of its MCP endpoint. */
  readonly url: string
  /** Rejects every token. */
  refuseAll: boolean
  /** Rejects only these tokens. */
  readonly refused: Set<string>
  /** The tokens of all requests to the endpoint. */
  readonly tokens: Array<string | undefined>
  readonly refusals: () => number
  /** Number of `tools/list` requests. */
  /** Rejects logins of these accounts, whatever their tokens. */
  readonly refusedAccounts: Set<string>
  readonly lists: () => number
  readonly headers: Array<NodeJS.Dict<string | string[]>>
  close(): void
}

/**
 * A real MCP server behind that authorization server. Its tools: `who` returns the account of the token, `write`
 * requires a scope.
 */
export async function startProtectedServer(
  authorizationServer: AuthorizationServer,
  options: {
    readonly metadata?: object
    readonly challenge?: string
    readonly scope?: string
    readonly cacheScope?: string
    /** The cache hints of its list pages; the tools are spread over them. */
    readonly pages?: readonly { readonly cacheScope?: string; readonly ttlMs?: number }[]
    /** Adds a resource that returns its reader. */
    readonly readable?: boolean
  } = {},
): Promise<ProtectedServer> {
  const tokens: Array<string | undefined> = []
  const headers: Array<NodeJS.Dict<string | string[]>> = []
  const refused = new Set<string>()
  const refusedAccounts = new Set<string>()
  let refusals = 0
  let lists = 0
  const state = { refuseAll: false }
  const { origin, close } = await listenOnFreePort((own) => {
    const metadataUrl = `${own}/.well-known/oauth-protected-resource/mcp`
    const gate = (requiredScopes: string[]) =>
      requireBearerAuth({
        resourceMetadataUrl: metadataUrl,
        requiredScopes,
        verifier: {
          async verifyAccessToken(token) {
            const { AccessToken } = authorizationServer.provider
            const Credentials = (authorizationServer.provider as unknown as { ClientCredentials: typeof AccessToken })
              .ClientCredentials
            const found = (await AccessToken.find(token)) ?? (await Credentials.find(token))
            if (!found || state.refuseAll || refused.has(token) || refusedAccounts.has(String(found.accountId)))
              throw new OAuthError(OAuthErrorCode.InvalidToken, 'no such token')
            return {
              token,
              clientId: found.clientId,
              scopes: found.scope?.split(' ') ?? [],
              expiresAt: found.exp,
              extra: { account: found.accountId ?? found.clientId },
            }
          },
        },
      })
    const build = (): McpServer => {
      const server = new McpServer(
        { name: 'guarded', version: '1' },
        {
          capabilities: { tools: {}, ...(options.readable ? { resources: {} } : {}) },
        },
      )
      if (options.readable) {
        server.setRequestHandler('resources/list', () => ({ resources: [{ uri: 'file:///own', name: 'own' }] }))
        server.setRequestHandler('resources/templates/list', () => ({ resourceTemplates: [] }))
        server.setRequestHandler('resources/read', (_request, ctx) => ({
          contents: [{ uri: 'file:///own', text: String(ctx.http?.authInfo?.extra?.['account']) }],
        }))
      }
      const inputSchema = { type: 'object' as const }
      server.setRequestHandler('tools/list', ({ params }, ctx) => {
        const tools = [
          { name: 'who', inputSchema },
          { name: 'write', inputSchema },
          ...(ctx.http?.authInfo?.extra?.['account'] === 'ann' ? [{ name: 'secret', inputSchema }] : []),
        ]
        if (options.pages) {
          const at = Number(params?.cursor ?? 0)
          const last = at === options.pages.length - 1
          return {
            tools: last ? tools.slice(at) : [tools[at]],
            ...options.pages[at],
            ...(last ? {} : { nextCursor: String(at + 1) }),
          } as never
        }
        return {
          tools,
          ...(options.cacheScope === undefined ? {} : { ttlMs: 60_000, cacheScope: options.cacheScope }),
        }
      })
      server.setRequestHandler('tools/call', (_request, ctx) => ({
        content: [{ type: 'text', text: String(ctx.http?.authInfo?.extra?.['account']) }],
      }))
      return server
    }
    const mcp = toNodeHandler(createMcpHandler(build))
    return async (request, response) => {
      if (request.url?.startsWith('/.well-known/oauth-protected-resource')) {
        response.writeHead(200, { 'content-type': 'application/json' })
        const metadata = {
          resource: `${own}/mcp`,
          authorization_servers: [authorizationServer.origin],
          ...(options.scope === undefined ? {} : { scopes_supported: options.scope.split(' ') }),
          ...options.metadata,
        }
        return void response.end(JSON.stringify(metadata))
      }
      if (request.url !== '/mcp') return void response.writeHead(404).end()
      const chunks: Buffer[] = []
      for await (const chunk of request) chunks.push(chunk as Buffer)
      const body = Buffer.concat(chunks).toString()
      headers.push(request.headers)
      if (body.includes('"tools/list"')) lists++
      tokens.push(request.headers.authorization?.replace('Bearer ', ''))
      const asks = new Request(`${own}/mcp`, { headers: request.headers as Record<string, string> })
      const verdict = await gate(body.includes('"write"') && body.includes('tools/call') ? ['write'] : [])(asks)
      if (verdict instanceof Response) {
        refusals++
        const sent = Object.fromEntries(verdict.headers)
        if (options.challenge !== undefined) sent['www-authenticate'] = options.challenge
        response.writeHead(verdict.status, sent)
        return void response.end(await verdict.text())
      }
      Object.assign(request, { auth: verdict })
      await (mcp as (a: unknown, b: unknown, c: unknown) => Promise<void>)(
        request,
        response,
        body === '' ? undefined : JSON.parse(body),
      )
    }
  })
  return Object.assign(state, {
    url: `${origin}/mcp`,
    refused,
    refusedAccounts,
    tokens,
    headers,
    refusals: () => refusals,
    lists: () => lists,
    close,
  })
}

/** Logs in like a person: follows every page and fills in every form. Returns the last address and response. */
export async function logInLikePerson(
  start: string,
  who = 'alice',
): Promise<{ readonly url: string; readonly status: number }> {
  const cookies = new Map<string, string>()
  let url = start
  let form: URLSearchParams | undefined
  for (let step = 0; step < 20; step++) {
    const response = await fetch(url, {
      redirect: 'manual',
      headers: { cookie: [...cookies].map(([name, value]) => `${name}=${value}`).join('; ') },
      ...(form ? { method: 'POST', body: form } : {}),
    })
    form = undefined
    for (const line of response.headers.getSetCookie()) {
      const [pair = ''] = line.split(';')
      const at = pair.indexOf('=')
      cookies.set(pair.slice(0, at), pair.slice(at + 1))
    }
    const location = response.headers.get('location')
    const page = await response.text()
    if (location !== null) {
      url = new URL(location, url).href
      continue
    }
    const prompt = /name="prompt" value="(\w+)"/.exec(page)?.[1]
    const action = /action="([^"]+)"/.exec(page)?.[1]
    if (prompt === undefined || action === undefined) return { url, status: response.status }
    url = new URL(action, url).href
    form = new URLSearchParams({ prompt, ...(prompt === 'login' ? { login: who, password: 'x' } : {}) })
  }
  throw new Error(`the login goes round in circles at ${url}`)
}

export interface OAuthServers {
  readonly authorizationServer: AuthorizationServer
  readonly server: ProtectedServer
  readonly store: TokenStore
  /** Of the store. */
  readonly dir: string
  /** Logs in at the server under the id `web`; the person follows all pages immediately. */
  login(auth?: object, prompt?: Partial<LoginOptions['prompt']>, principal?: string): Promise<Grant>
}

/** Logs in at any address as `web`. */
export function loginAt(
  url: string,
  store: TokenStore,
  entry: object = {},
  prompt: Partial<LoginOptions['prompt']> = {},
  principal?: string,
): Promise<Grant> {
  const settings = settingsOf({ web: { url, ...entry } })['web']
  if (!settings) throw new Error('no settings')
  return login({
    id: 'web',
    settings,
    target: settings.target as HttpTarget,
    principal,
    store,
    clock: systemClock,
    timeoutMs: 10_000,
    signal: new AbortController().signal,
    prompt: {
      show: () => undefined,
      warn: () => undefined,
      open: async (page) => void (await logInLikePerson(page, principal)),
      ...prompt,
    },
  })
}

/** A folder for one test. */
export async function withFolder(test: (dir: string) => Promise<void>): Promise<void> {
  const dir = mkdtempSync(join(tmpdir(), 'pegboard-login-'))
  try {
    await test(dir)
  } finally {
    rmSync(dir, { recursive: true, force: true })
  }
}

/** An authorization server, an MCP server behind it, and a store, for one test. */
export const withOAuthServers = (
  test: (servers: OAuthServers) => Promise<void>,
  options: AuthorizationOptions & { readonly resource?: Parameters<typeof startProtectedServer>[1] } = {},
): Promise<void> =>
  withFolder(async (folder) => {
    const authorizationServer = await startAuthorizationServer(options)
    const server = await startProtectedServer(authorizationServer, { scope: 'read', ...options.resource })
    const dir = join(folder, 'auth')
    const store = createTokenStore(dir, undefined)
    try {
      await test({
        authorizationServer,
        server,
        store,
        dir,
        login: (auth, prompt, principal) => loginAt(server.url, store, auth ? { auth } : {}, prompt, principal),
      })
    } finally {
      authorizationServer.close()
      server.close()
    }
  })
