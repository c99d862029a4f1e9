import type { AccessTokens, Rejection } from './access-tokens.ts'
import { type Bearer, type BearerToken, checkBearer, parseBearer, toBearerToken } from './bearer-tokens.ts'
import { createHttpError, type HttpError } from './origin-check.ts'
import type { StoredToken, TokenStore } from './token-store.ts'

/** Finds the bearer of a token. */
export interface Authenticator {
  check(authorization: string | undefined): Bearer | HttpError | Promise<Bearer | HttpError>
}

export interface AuthenticatorOptions {
  /** Tokens of the configuration. */
  readonly fixed: readonly BearerToken[]
  /** Tokens of `pegboard token`. */
  readonly tokens?: TokenStore | undefined
  /** Access tokens of an OAuth issuer. */
  readonly access?: AccessTokens | undefined
  /** The address of this server that clients use. */
  origin(): string
}

const METADATA_PATH = '/.well-known/oauth-protected-resource/mcp'

export function createAuthenticator({ fixed, tokens, access, origin }: AuthenticatorOptions): Authenticator {
  /** The header that tells a refused client how to log in. */
  const challenge = (...words: readonly string[]): { readonly headers: Readonly<Record<string, string>> } => {
    const where = access ? [`resource_metadata="${origin()}${METADATA_PATH}"`] : []
    return { headers: { 'www-authenticate': `Bearer ${['realm="pegboard"', ...words, ...where].join(', ')}` } }
  }
  const unauthorized = (...words: readonly string[]): HttpError =>
    createHttpError(
      401,
      'Unauthorized: send "Authorization: Bearer …" with a token that pegboard serve or pegboard token create printed',
      challenge(...words),
    )
  const refusalOf = (rejection: Rejection): HttpError => {
    if (rejection === 'invalid_token') return unauthorized('error="invalid_token"')
    if (rejection === 'insufficient_scope')
      return createHttpError(
        403,
        'Forbidden: no scope of the access token is configured in server.http.oauth.scopes',
        challenge('error="insufficient_scope"', `scope="${access?.scopes.join(' ')}"`),
      )
    return createHttpError(503, 'E_STATE_UNAVAILABLE: Access tokens cannot be checked now. Try again shortly.', {
      headers: { 'retry-after': '5' },
    })
  }
  let read: readonly StoredToken[] | undefined
  let made: readonly BearerToken[] = []
  const bearers = (fresh: boolean): readonly BearerToken[] => {
    const now = tokens?.valid(fresh) ?? []
    if (now !== read) {
      read = now
      made = now.map(toBearerToken)
    }
    return made
  }

  async function byIssuer(tokens: AccessTokens, given: string): Promise<Bearer | HttpError> {
    const found = await tokens.check(given)
    return typeof found === 'string' ? refusalOf(found) : found
  }

  return {
    check(authorization) {
      const given = parseBearer(authorization)
      if (given === undefined) return authorization === undefined ? unauthorized() : refusalOf('invalid_token')
      // A token may have been created since the last look.
      const known =
        checkBearer(authorization, fixed) ??
        checkBearer(authorization, bearers(false)) ??
        (tokens && given.startsWith('pegboard_') ? checkBearer(authorization, bearers(true)) : undefined)
      if (known) return known
      if (access && given.split('.').length === 3) return byIssuer(access, given)
      return refusalOf('invalid_token')
    },
  }
}
