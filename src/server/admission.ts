import { type Bearer, type BearerToken, checkBearer, givenIn, keptBearer } from './auth.ts'
import { type Refusal, refusal } from './door.ts'
import type { AccessTokens, Rejection } from './oauth.ts'
import type { KeptToken, Tokens } from './tokens.ts'

/** Who a request comes from, by the token it shows. */
export interface Admission {
  check(authorization: string | undefined): Bearer | Refusal | Promise<Bearer | Refusal>
}

export interface AdmissionOptions {
  /** Of the configuration. */
  readonly fixed: readonly BearerToken[]
  /** Made with `pegboard token`. */
  readonly kept?: Tokens | undefined
  /** Of an OAuth issuer. */
  readonly access?: AccessTokens | undefined
  /** The address of this server, as clients know it. */
  origin(): string
}

const METADATA_PATH = '/.well-known/oauth-protected-resource/mcp'

export function createAdmission({ fixed, kept, access, origin }: AdmissionOptions): Admission {
  /** Where a client that was refused reads how to log in. */
  const challenge = (...words: readonly string[]): { readonly headers: Readonly<Record<string, string>> } => {
    const where = access ? [`resource_metadata="${origin()}${METADATA_PATH}"`] : []
    return { headers: { 'www-authenticate': `Bearer ${['realm="pegboard"', ...words, ...where].join(', ')}` } }
  }
  const unauthorized = (...words: readonly string[]): Refusal =>
    refusal(
      401,
      'Unauthorized: send "Authorization: Bearer …" with a token that pegboard serve or pegboard token create printed',
      challenge(...words),
    )
  const refusalOf = (rejection: Rejection): Refusal => {
    if (rejection === 'invalid_token') return unauthorized('error="invalid_token"')
    if (rejection === 'insufficient_scope')
      return refusal(
        403,
        'Forbidden: the access token has no scope that means anything here',
        challenge('error="insufficient_scope"', `scope="${access?.scopes.join(' ')}"`),
      )
    return refusal(503, 'E_STATE_UNAVAILABLE: Access tokens cannot be checked now. Try again shortly.', {
      headers: { 'retry-after': '5' },
    })
  }
  let read: readonly KeptToken[] | undefined
  let made: readonly BearerToken[] = []
  const bearers = (fresh: boolean): readonly BearerToken[] => {
    const now = kept?.valid(fresh) ?? []
    if (now !== read) {
      read = now
      made = now.map(keptBearer)
    }
    return made
  }

  async function byIssuer(tokens: AccessTokens, given: string): Promise<Bearer | Refusal> {
    const found = await tokens.check(given)
    return typeof found === 'string' ? refusalOf(found) : found
  }

  return {
    check(authorization) {
      const given = givenIn(authorization)
      if (given === undefined) return authorization === undefined ? unauthorized() : refusalOf('invalid_token')
      // One that was made this moment is looked for once more.
      const known =
        checkBearer(authorization, fixed) ??
        checkBearer(authorization, bearers(false)) ??
        (kept && given.startsWith('pegboard_') ? checkBearer(authorization, bearers(true)) : undefined)
      if (known) return known
      if (access && given.split('.').length === 3) return byIssuer(access, given)
      return refusalOf('invalid_token')
    },
  }
}
