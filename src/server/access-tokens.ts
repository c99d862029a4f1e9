import type { CryptoKey, FetchImplementation, JWTPayload, JWTVerifyGetKey } from 'jose'
import type { Clock } from '../core/clock.ts'
import { messageOf, PegboardError } from '../core/errors.ts'
import type { Fetch } from '../core/fetch-types.ts'
import { isRecord } from '../core/is-record.ts'
import type { Log } from '../core/log.ts'
import { createFetch } from '../policy/guarded-fetch.ts'
import { isSafeUrl } from '../policy/network-rules.ts'
import { type Bearer, rightsOfScopes } from './bearer-tokens.ts'
import type { OAuthSettings } from './server-options.ts'

/** Why an access token is rejected, as in RFC 6750; `unavailable`: it cannot be checked now. */
export type Rejection = 'invalid_token' | 'insufficient_scope' | 'unavailable'

/** Access tokens of an OAuth issuer, for this server as the resource. */
export type AccessTokens = ReturnType<typeof createAccessTokens>

export interface AccessTokensOptions {
  readonly settings: OAuthSettings
  /** The address of this server: the default `aud` of tokens. */
  readonly resource: () => string
  readonly clock: Clock
  readonly log: Log
}

/** Limits for answers of an issuer, which are short. */
const LIMITS = { timeoutMs: 5_000, maxWireBytes: 256 * 1024, maxBytes: 512 * 1024, maxRedirects: 0 } as const
const REFUSAL_LOG_MS = 60_000
/** Tolerated clock difference, in seconds. */
const CLOCK_TOLERANCE_S = 5
/** Values of `typ` for access tokens. Issuers sign other tokens with the same keys. */
const ACCESS_TOKEN_TYPES = new Set([undefined, 'jwt', 'at+jwt', 'application/at+jwt'])
const PRINCIPAL = /^[\x21-\x7e]{1,128}$/
/** Errors of jose that do not depend on the token. */
const ISSUER_ERRORS = new Set(['ERR_JWKS_TIMEOUT', 'ERR_JWKS_INVALID', 'ERR_JOSE_GENERIC'])

export function createAccessTokens({ settings, resource, clock, log }: AccessTokensOptions) {
  const { issuer, audience, algorithms, principalClaim, scopes, keysCooldownMs } = settings
  const fetch = createFetch({ ...LIMITS, allowPrivate: true, setting: 'server.http.oauth', check: assertSafe })
  const fetchFromIssuer = limitRequests(fetch, clock, keysCooldownMs)
  let keys: Promise<JWTVerifyGetKey> | undefined
  let isUnavailable = false
  const refusals = new Map<string, { readonly loggedAt: number; more: number }>()

  /**
   * Clients repeat requests, so each kind of refusal is logged once a minute.
   * @param kind one of few, while a reason may quote a name in the header of the token
   */
  function logRefusal(reason: string, kind = reason, fields: Readonly<Record<string, unknown>> = {}): void {
    const last = refusals.get(kind)
    const now = clock.now()
    if (last && Math.abs(now - last.loggedAt) < REFUSAL_LOG_MS) {
      last.more++
      return
    }
    refusals.set(kind, { loggedAt: now, more: 0 })
    log.info('an access token was refused', {
      reason: reason.slice(0, 200),
      ...fields,
      ...(last && last.more > 0 ? { alsoSinceLastLine: last.more } : {}),
    })
  }

  async function loadKeys(): Promise<JWTVerifyGetKey> {
    const { createRemoteJWKSet, customFetch } = await import('jose')
    const uri = settings.jwksUri ?? (await discoverKeys(issuer, fetchFromIssuer))
    const fetchKeys: FetchImplementation = (url, { signal }) => fetchFromIssuer(url, signal)
    return createRemoteJWKSet(new URL(uri), {
      cooldownDuration: keysCooldownMs,
      timeoutDuration: LIMITS.timeoutMs,
      [customFetch]: fetchKeys,
    })
  }

  async function verifyToken(token: string): Promise<JWTPayload> {
    const { decodeJwt, decodeProtectedHeader, jwtVerify } = await import('jose')
    // A token of another issuer must not cause a request to this one.
    let alg: string | undefined
    try {
      alg = decodeProtectedHeader(token).alg
    } catch (error) {
      throw createTokenError(messageOf(error))
    }
    if (decodeJwt(token).iss !== issuer || !algorithms.some((one) => one === alg))
      throw createTokenError('it is from another issuer')
    // After a failure, the next token tries again.
    keys ??= loadKeys().catch((error: unknown) => {
      keys = undefined
      throw error
    })
    const verifyOptions = {
      issuer,
      audience: audience ?? resource(),
      algorithms,
      requiredClaims: ['exp'],
      clockTolerance: CLOCK_TOLERANCE_S,
      currentDate: new Date(clock.now()),
    }
    const getKey = await keys
    try {
      const { payload, protectedHeader } = await jwtVerify(token, getKey, verifyOptions)
      return requireBearerToken(payload, protectedHeader.typ)
    } catch (error) {
      // The token names no key, and the issuer has several.
      if (codeOf(error) !== 'ERR_JWKS_MULTIPLE_MATCHING_KEYS') throw error
      for await (const key of error as AsyncIterable<CryptoKey>) {
        const found = await jwtVerify(token, key, verifyOptions).catch((why: unknown) => {
          if (codeOf(why) !== 'ERR_JWS_SIGNATURE_VERIFICATION_FAILED') throw why
        })
        if (found) return requireBearerToken(found.payload, found.protectedHeader.typ)
      }
      throw error
    }
  }

  /** Logs why a token could not be verified. */
  function rejectionOf(error: unknown): Rejection {
    const code = codeOf(error)
    if (!code?.startsWith('ERR_J') || ISSUER_ERRORS.has(code)) {
      log[isUnavailable ? 'debug' : 'warn']('access tokens cannot be checked', { issuer, error: messageOf(error) })
      isUnavailable = true
      return 'unavailable'
    }
    const claim = isRecord(error) ? String(error.claim) : ''
    const kind = code === OWN_CODE ? messageOf(error) : `${code} ${claim}`
    logRefusal(messageOf(error), kind, claim === 'aud' ? { expectedAudience: audience ?? resource() } : {})
    return 'invalid_token'
  }

  return {
    issuer,
    /** The scopes that the configuration gives rights. */
    scopes: Object.keys(scopes),
    /** Protected resource metadata (RFC 9728): where a client logs in. */
    metadata: (): object => ({
      resource: resource(),
      authorization_servers: [issuer],
      bearer_methods_supported: ['header'],
      ...(Object.keys(scopes).length > 0 ? { scopes_supported: Object.keys(scopes) } : {}),
    }),
    async check(token: string): Promise<Bearer | Rejection> {
      let payload: JWTPayload
      try {
        payload = await verifyToken(token)
      } catch (error) {
        return rejectionOf(error)
      }
      isUnavailable = false
      const name = payload[principalClaim]
      if (typeof name !== 'string' || !PRINCIPAL.test(name)) {
        log.warn('an access token names no principal', { claim: principalClaim })
        return 'invalid_token'
      }
      const scopes = scopesOf(payload)
      const rights = rightsOfScopes(settings, scopes)
      if (!rights) {
        logRefusal('none of its scopes is in server.http.oauth.scopes')
        return 'insufficient_scope'
      }
      const until = (payload.exp as number) * 1_000
      return { ...rights, principal: `oauth:${name}`, credential: { oauth: scopes, until }, expiresAt: until }
    },
  }
}

/** @throws Error as `jose` does, for a signed token that is not a bearer access token */
function requireBearerToken(payload: JWTPayload, type: string | undefined): JWTPayload {
  if (!ACCESS_TOKEN_TYPES.has(type?.toLowerCase())) throw createTokenError('it is not an access token')
  // The token is bound to a key, which the client would have to prove.
  if (payload['cnf'] !== undefined) throw createTokenError('it is bound to a key')
  return payload
}

/** Of jose, whose messages for it are constants, too. */
const OWN_CODE = 'ERR_JWT_INVALID'
const createTokenError = (why: string): Error => Object.assign(new Error(why), { code: OWN_CODE })
const codeOf = (error: unknown): string | undefined =>
  isRecord(error) && typeof error.code === 'string' ? error.code : undefined

/** Sorted, because they are part of the identity of a session. */
function scopesOf({ scope, scp }: JWTPayload): readonly string[] {
  const claim = scope ?? scp
  const list = typeof claim === 'string' ? claim.split(' ') : Array.isArray(claim) ? claim : []
  return [...new Set(list.filter((one): one is string => typeof one === 'string' && one !== ''))].sort()
}

function assertSafe(url: URL): void {
  if (!isSafeUrl(url)) throw new PegboardError('E_SSRF_BLOCKED', 'Keys of an issuer are read over https only.')
}

type FetchFromIssuer = (url: string, signal?: AbortSignal) => Promise<Response>

/** Remembers failures for a while, so that invalid tokens cannot cause a flood of requests to the issuer. */
function limitRequests(fetch: Fetch, clock: Clock, cooldownMs: number): FetchFromIssuer {
  const failed = new Map<string, { readonly at: number; readonly error: unknown }>()
  return async (url, signal) => {
    const failure = failed.get(url)
    if (failure && clock.now() - failure.at < cooldownMs) throw failure.error
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

/** Finds the address of the issuer's keys (RFC 8414, then OpenID Connect Discovery). */
async function discoverKeys(issuer: string, fetchFromIssuer: FetchFromIssuer): Promise<string> {
  const { origin, pathname } = new URL(issuer)
  const path = pathname === '/' ? '' : pathname.replace(/\/$/, '')
  const urls = [
    `${origin}/.well-known/oauth-authorization-server${path}`,
    `${origin}${path}/.well-known/openid-configuration`,
  ]
  let why: unknown
  for (const url of urls) {
    try {
      const metadata = (await (await fetchFromIssuer(url)).json()) as unknown
      if (!isRecord(metadata) || metadata.issuer !== issuer) throw new Error(`${url} is the metadata of another issuer`)
      if (typeof metadata.jwks_uri !== 'string') throw new Error(`${url} names no jwks_uri`)
      assertSafe(new URL(metadata.jwks_uri))
      return metadata.jwks_uri
    } catch (error) {
      why = error
    }
  }
  throw why
}
