import type { CryptoKey, FetchImplementation, JWTPayload, JWTVerifyGetKey } from 'jose'
import type { Clock } from '../core/clock.ts'
import { messageOf, PegboardError } from '../core/errors.ts'
import type { Fetch } from '../core/fetch.ts'
import type { Log } from '../core/log.ts'
import { isRecord } from '../core/record.ts'
import { createFetch } from '../policy/fetch.ts'
import type { Bearer } from './auth.ts'
import type { OAuthSettings } from './options.ts'
import { rightsOfScopes } from './scopes.ts'

/** Why an access token lets nobody in, in the words of RFC 6750; `unavailable`: that cannot be told now. */
export type Rejection = 'invalid_token' | 'insufficient_scope' | 'unavailable'

/** Access tokens of an OAuth issuer, for this server as the resource. */
export interface AccessTokens {
  check(token: string): Promise<Bearer | Rejection>
  /** Where a client logs in, as RFC 9728 wants it told. */
  metadata(): object
  /** Those that mean something here. */
  readonly scopes: readonly string[]
}

export interface AccessTokensOptions {
  readonly settings: OAuthSettings
  /** The address of this server, which is what tokens must be for. */
  readonly resource: () => string
  readonly clock: Clock
  readonly log: Log
}

/** An answer of an issuer is short. */
const LIMITS = { timeoutMs: 5_000, maxWireBytes: 256 * 1024, maxBytes: 512 * 1024, maxRedirects: 0 } as const
/** Clocks of two machines. */
const TOLERANCE_S = 5
/** Other kinds of tokens that issuers sign with the same keys are no access tokens. */
const TYPES = new Set([undefined, 'jwt', 'at+jwt', 'application/at+jwt'])
const PRINCIPAL = /^[\x21-\x7e]{1,128}$/
/** Of what has nothing to do with the token. */
const ABSENT = new Set(['ERR_JWKS_TIMEOUT', 'ERR_JWKS_INVALID', 'ERR_JOSE_GENERIC'])

export function createAccessTokens({ settings, resource, clock, log }: AccessTokensOptions): AccessTokens {
  const { issuer, audience, algorithms, principalClaim, scopes, keysCooldownMs } = settings
  const fetch = createFetch({ ...LIMITS, allowPrivate: true, setting: 'server.http.oauth', check: assertSafe })
  const ask = sparing(fetch, clock, keysCooldownMs)
  let keys: Promise<JWTVerifyGetKey> | undefined
  let isAway = false

  async function open(): Promise<JWTVerifyGetKey> {
    const { createRemoteJWKSet, customFetch } = await import('jose')
    const uri = settings.jwksUri ?? (await discover(issuer, ask))
    const fetchKeys: FetchImplementation = (url, { signal }) => ask(url, signal)
    return createRemoteJWKSet(new URL(uri), {
      cooldownDuration: keysCooldownMs,
      timeoutDuration: LIMITS.timeoutMs,
      [customFetch]: fetchKeys,
    })
  }

  async function verified(token: string): Promise<JWTPayload> {
    const { decodeJwt, decodeProtectedHeader, jwtVerify } = await import('jose')
    // What is plainly none of its tokens is no reason to ask anybody anything.
    let alg: string | undefined
    try {
      alg = decodeProtectedHeader(token).alg
    } catch (error) {
      throw invalid(messageOf(error))
    }
    if (decodeJwt(token).iss !== issuer || !algorithms.some((one) => one === alg))
      throw invalid('it is of somebody else')
    // An issuer that was away is asked again with the next token.
    keys ??= open().catch((error: unknown) => {
      keys = undefined
      throw error
    })
    const wanted = {
      issuer,
      audience: audience ?? resource(),
      algorithms,
      requiredClaims: ['exp'],
      clockTolerance: TOLERANCE_S,
      currentDate: new Date(clock.now()),
    }
    const getKey = await keys
    try {
      const { payload, protectedHeader } = await jwtVerify(token, getKey, wanted)
      return sound(payload, protectedHeader.typ)
    } catch (error) {
      // It names no key, and the issuer has several.
      if (codeOf(error) !== 'ERR_JWKS_MULTIPLE_MATCHING_KEYS') throw error
      for await (const key of error as AsyncIterable<CryptoKey>) {
        const found = await jwtVerify(token, key, wanted).catch((why: unknown) => {
          if (codeOf(why) !== 'ERR_JWS_SIGNATURE_VERIFICATION_FAILED') throw why
        })
        if (found) return sound(found.payload, found.protectedHeader.typ)
      }
      throw error
    }
  }

  return {
    scopes: Object.keys(scopes),
    metadata: () => ({
      resource: resource(),
      authorization_servers: [issuer],
      bearer_methods_supported: ['header'],
      ...(Object.keys(scopes).length > 0 ? { scopes_supported: Object.keys(scopes) } : {}),
    }),
    async check(token) {
      let payload: JWTPayload
      try {
        payload = await verified(token)
      } catch (error) {
        const code = codeOf(error)
        if (code?.startsWith('ERR_J') && !ABSENT.has(code)) {
          log.debug('an access token was refused', { reason: messageOf(error) })
          return 'invalid_token'
        }
        log[isAway ? 'debug' : 'warn']('access tokens cannot be checked', { issuer, error: messageOf(error) })
        isAway = true
        return 'unavailable'
      }
      isAway = false
      const name = payload[principalClaim]
      if (typeof name !== 'string' || !PRINCIPAL.test(name)) {
        log.warn('an access token names no principal', { claim: principalClaim })
        return 'invalid_token'
      }
      const held = scopesOf(payload)
      const rights = rightsOfScopes(settings, held)
      if (!rights) return 'insufficient_scope'
      const until = (payload.exp as number) * 1_000
      return {
        ...rights,
        principal: `oauth:${name}`,
        credential: { oauth: held, until },
        expiresAt: until,
      }
    },
  }
}

/** @throws Error as `jose` does, for a token that is signed well and is no access token that anybody may bear */
function sound(payload: JWTPayload, type: string | undefined): JWTPayload {
  if (!TYPES.has(type?.toLowerCase())) throw invalid('it is no access token')
  // It is bound to a key that nobody has shown.
  if (payload['cnf'] !== undefined) throw invalid('it is for who has its key')
  return payload
}

const invalid = (why: string): Error => Object.assign(new Error(why), { code: 'ERR_JWT_INVALID' })
const codeOf = (error: unknown): string | undefined =>
  isRecord(error) && typeof error.code === 'string' ? error.code : undefined

/** Sorted, as they say which rights a session has. */
function scopesOf({ scope, scp }: JWTPayload): readonly string[] {
  const said = scope ?? scp
  const list = typeof said === 'string' ? said.split(' ') : Array.isArray(said) ? said : []
  return [...new Set(list.filter((one): one is string => typeof one === 'string' && one !== ''))].sort()
}

function assertSafe(url: URL): void {
  const loopback = url.hostname === 'localhost' || url.hostname === '[::1]' || /^127(?:\.\d+){3}$/.test(url.hostname)
  if (url.protocol === 'https:' || loopback) return
  throw new PegboardError('E_SSRF_BLOCKED', 'The keys of an issuer are read over https only.')
}

type Ask = (url: string, signal?: AbortSignal) => Promise<Response>

/** An address that failed is left alone for a while: whoever sends tokens must not make us ask all the time. */
function sparing(fetch: Fetch, clock: Clock, cooldownMs: number): Ask {
  const failed = new Map<string, { readonly at: number; readonly error: unknown }>()
  return async (url, signal) => {
    const last = failed.get(url)
    if (last && clock.now() - last.at < cooldownMs) throw last.error
    failed.delete(url)
    try {
      const response = await fetch(url, {
        headers: { accept: 'application/json' },
        redirect: 'error',
        ...(signal ? { signal } : {}),
      })
      if (response.status === 200) return response
      throw new Error(`${url} answered ${response.status}`)
    } catch (error) {
      failed.set(url, { at: clock.now(), error })
      throw error
    }
  }
}

/** Where an issuer says that its keys are (RFC 8414, then OpenID Connect Discovery). */
async function discover(issuer: string, ask: Ask): Promise<string> {
  const { origin, pathname } = new URL(issuer)
  const path = pathname === '/' ? '' : pathname.replace(/\/$/, '')
  const places = [
    `${origin}/.well-known/oauth-authorization-server${path}`,
    `${origin}${path}/.well-known/openid-configuration`,
  ]
  let why: unknown
  for (const place of places) {
    try {
      const metadata = (await (await ask(place)).json()) as unknown
      if (!isRecord(metadata) || metadata.issuer !== issuer) throw new Error(`${place} is of another issuer`)
      if (typeof metadata.jwks_uri !== 'string') throw new Error(`${place} names no jwks_uri`)
      assertSafe(new URL(metadata.jwks_uri))
      return metadata.jwks_uri
    } catch (error) {
      why = error
    }
  }
  throw why
}
