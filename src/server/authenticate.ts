import type { AccessTokens, Rejection } from './access-tokens.ts'
import { type Bearer, type BearerToken, checkBearer, parseBearer, toBearerToken } from './bearer-tokens.ts'
import { HttpError } from './http-error.ts'
import type { StoredToken, TokenStore } from './token-store.ts'

/** Finds the bearer of the token in an `Authorization` header. @throws HttpError 401, 403 or 503 */
export type Authenticator = (authorization: string | undefined) => Bearer | Promise<Bearer>

export interface AuthenticatorOptions {
  /** Tokens of the configuration. */
  readonly fixed: readonly BearerToken[]
  readonly tokens?: TokenStore | undefined
  readonly access?: AccessTokens | undefined
  /** The address of this server that clients use. */
  origin(): string
}

const METADATA_PATH = '/.well-known/oauth-protected-resource/mcp'

export function createAuthenticator({ fixed, tokens, access, origin }: AuthenticatorOptions): Authenticator {
  /** The header that tells a refused client how to log in. */
  const challenge = (...parameters: readonly string[]): { readonly headers: Readonly<Record<string, string>> } => {
    const metadataParameter = access ? [`resource_metadata="${origin()}${METADATA_PATH}"`] : []
    return {
      headers: { 'www-authenticate': `Bearer ${['realm="pegboard"', ...parameters, ...metadataParameter].join(', ')}` },
    }
  }
  const createError = (rejection: Rejection | 'no_token'): HttpError => {
    if (rejection === 'unavailable')
      return new HttpError(503, 'E_STATE_UNAVAILABLE: Access tokens cannot be checked now. Try again shortly.', {
        headers: { 'retry-after': '5' },
      })
    if (rejection === 'insufficient_scope')
      return new HttpError(
        403,
        'Forbidden: no scope of the access token is configured in server.http.oauth.scopes',
        challenge('error="insufficient_scope"', `scope="${access?.scopes.join(' ')}"`),
      )
    const source = access === undefined ? '' : `an access token of ${access.issuer} or `
    return new HttpError(
      401,
      `Unauthorized: send "Authorization: Bearer …" with ${source}a token from the operator (pegboard token create)`,
      challenge(...(rejection === 'no_token' ? [] : ['error="invalid_token"'])),
    )
  }
  let cachedFrom: readonly StoredToken[] | undefined
  let cachedBearers: readonly BearerToken[] = []
  const bearers = (fresh: boolean): readonly BearerToken[] => {
    const storedTokens = tokens?.valid(fresh) ?? []
    if (storedTokens !== cachedFrom) {
      cachedFrom = storedTokens
      cachedBearers = storedTokens.map(toBearerToken)
    }
    return cachedBearers
  }

  async function checkAccessToken({ check }: AccessTokens, token: string): Promise<Bearer> {
    const found = await check(token)
    if (typeof found === 'string') throw createError(found)
    return found
  }

  return (authorization) => {
    const token = parseBearer(authorization)
    if (token === undefined) throw createError(authorization === undefined ? 'no_token' : 'invalid_token')
    // A token may have been created since the last look.
    const bearer =
      checkBearer(token, fixed) ??
      checkBearer(token, bearers(false)) ??
      (tokens && token.startsWith('pegboard_') ? checkBearer(token, bearers(true)) : undefined)
    if (bearer) return bearer
    if (access && token.split('.').length === 3) return checkAccessToken(access, token)
    throw createError('invalid_token')
  }
}
