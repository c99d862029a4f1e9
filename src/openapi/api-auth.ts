import { raceAbort } from '../core/abort.ts'
import type { Clock } from '../core/clock.ts'
import { PegboardError } from '../core/errors.ts'
import { asRecord, isRecord, type Json } from '../core/is-record.ts'
import { tryParseJson } from '../core/try-parse-json.ts'
import { lookUp } from './api-document.ts'
import { baseOf, type RequestDraft } from './build-request.ts'
import type { ApiSettings, AuthProfile } from './openapi-options.ts'
import type { RequestPlan } from './plan-operation.ts'
import type { Send } from './send-request.ts'

export interface Auth {
  /** Adds credentials to a request. @throws PegboardError E_BACKEND_UNAVAILABLE if no token could be obtained */
  sign(draft: RequestDraft, plan: RequestPlan, document: Json, signal: AbortSignal): Promise<void>
  /**
   * Called when the API rejected the credentials, so that the next request gets a new token.
   * @returns whether a new token can be obtained
   */
  discardTokens(): boolean
  /** Removes every secret of this API from a text. */
  redact(text: string): string
}

const SECRET_HEADER = /auth|key|token|secret|cookie|session|password/i

interface Token {
  readonly value: string
  readonly expiresAt: number
}

/**
 * @param mayHaveSecrets true for addresses that may get credentials
 */
export function createAuth(
  id: string,
  settings: Pick<ApiSettings, 'auth' | 'headers' | 'baseUrl' | 'document'>,
  send: Send,
  clock: Clock,
  mayHaveSecrets: (url: URL) => boolean,
): Auth {
  const { auth: profiles, headers } = settings
  const tokens = new Map<string, Promise<Token>>()
  const secrets = new Set([
    ...Object.entries(headers).flatMap(([name, value]) =>
      SECRET_HEADER.test(name) ? [value, value.replace(/^\S+\s+/, '')] : [],
    ),
    ...Object.values(profiles).flatMap(secretsOf),
  ])

  /** The profiles for an operation: those of the first alternative that is fully configured. */
  function chooseProfiles(plan: RequestPlan, schemes: Json): readonly ChosenProfile[] {
    const generalProfile = profiles['*']
    if (generalProfile) {
      if (plan.security?.length === 0) return []
      const names = plan.security?.flatMap((requirement) => Object.keys(requirement)) ?? Object.keys(schemes)
      const name = names.find((schemeName) => matchesScheme(generalProfile, schemes[schemeName])) ?? ''
      const scopes = plan.security?.find((requirement) => Object.hasOwn(requirement, name))?.[name] ?? []
      return [{ profile: generalProfile, path: authPath(id), scheme: asRecord(schemes[name]), scopes }]
    }
    const alternatives = plan.security ?? Object.keys(profiles).map((name) => ({ [name]: [] }))
    const alternative = alternatives.find((requirement) => {
      const names = Object.keys(requirement)
      return names.length > 0 && names.every((name) => Object.hasOwn(profiles, name))
    })
    return Object.entries(alternative ?? {}).flatMap(([name, scopes]) => {
      const profile = profiles[name]
      return profile ? [{ profile, path: authPath(id, name), scheme: asRecord(schemes[name]), scopes }] : []
    })
  }

  async function getToken(
    profile: OAuthProfile,
    { path, scheme, scopes: requiredScopes }: ChosenProfile,
    document: Json,
    signal: AbortSignal,
  ): Promise<string> {
    const url =
      profile.tokenUrl === undefined ? tokenUrlOf(scheme, serverOf(id, settings, document)) : new URL(profile.tokenUrl)
    const scopes = profile.scopes ?? requiredScopes
    const hint = `The operator can set ${path}.tokenUrl.`
    if (!url)
      throw new PegboardError('E_BACKEND_UNAVAILABLE', `The document of ${id} names no token URL.`, {
        class: 'server_setup',
        hint,
      })
    if (profile.tokenUrl === undefined && !mayHaveSecrets(url))
      throw new PegboardError(
        'E_BACKEND_UNAVAILABLE',
        `The document of ${id} wants its credentials sent to an address the operator did not name.`,
        { class: 'server_setup', hint },
      )
    const key = JSON.stringify([url.href, profile.clientId, scopes])
    const cached = tokens.get(key)
    if (cached) {
      const { value, expiresAt } = await raceAbort(cached, signal)
      if (expiresAt > clock.now()) return value
    }
    // Shared by concurrent calls, so cancelling one of them does not cancel the request.
    const pendingToken = requestToken(url, profile, scopes)
    tokens.set(key, pendingToken)
    pendingToken.catch(() => tokens.get(key) === pendingToken && tokens.delete(key))
    return (await raceAbort(pendingToken, signal)).value
  }

  async function requestToken(url: URL, profile: OAuthProfile, scopes: readonly string[]): Promise<Token> {
    const response = await send({
      method: 'POST',
      url,
      headers: {
        accept: 'application/json',
        'content-type': 'application/x-www-form-urlencoded',
        authorization: createBasicHeader(
          encodeURIComponent(profile.clientId),
          encodeURIComponent(profile.clientSecret),
        ),
      },
      body: new URLSearchParams({
        grant_type: 'client_credentials',
        ...(scopes.length > 0 ? { scope: scopes.join(' ') } : {}),
      }).toString(),
      timeoutMs: 30_000,
      maxBytes: 65_536,
    })
    const { access_token: value, expires_in: seconds } = parseBody(response.body)
    if (response.status !== 200 || typeof value !== 'string')
      throw new PegboardError(
        'E_BACKEND_UNAVAILABLE',
        `No token for ${id}: its authorization server returned status ${response.status}.`,
        {
          class: response.status >= 500 ? 'network' : 'login',
          hint: `The operator can check openapi.${id}.auth.`,
        },
      )
    secrets.add(value)
    const lifetimeSeconds = typeof seconds === 'number' && seconds > 0 ? seconds : 300
    // A token that expires on the way is useless.
    return { value, expiresAt: clock.now() + Math.max(lifetimeSeconds - 30, lifetimeSeconds / 2) * 1_000 }
  }

  return {
    async sign(draft, plan, document, signal) {
      const chosen = chooseProfiles(plan, securitySchemesOf(document))
      if ((chosen.length > 0 || Object.keys(headers).length > 0) && !mayHaveSecrets(draft.url))
        throw new PegboardError(
          'E_BACKEND_UNAVAILABLE',
          `The document of ${id} is on another server than its API, so credentials are not sent there.`,
          { class: 'server_setup', hint: `The operator can set openapi.${id}.baseUrl.` },
        )
      for (const one of chosen) {
        const { profile } = one
        if (profile.type === 'apiKey') addApiKey(draft, profile, one.scheme)
        else if (profile.type === 'bearer') draft.headers['authorization'] = `Bearer ${profile.token}`
        else if (profile.type === 'basic')
          draft.headers['authorization'] = createBasicHeader(profile.username, profile.password)
        else draft.headers['authorization'] = `Bearer ${await getToken(profile, one, document, signal)}`
      }
    },
    discardTokens() {
      const hadTokens = tokens.size > 0
      tokens.clear()
      return hadTokens
    },
    redact(text) {
      let redacted = text
      for (const secret of secrets)
        for (const form of new Set([secret, encodeURIComponent(secret)]))
          if (form.length >= 6 && redacted.includes(form)) redacted = redacted.replaceAll(form, '<secret>')
      return redacted
    },
  }
}

type OAuthProfile = Extract<AuthProfile, { type: 'oauth2' }>

interface ChosenProfile {
  readonly profile: AuthProfile
  /** The setting that has the profile. */
  readonly path: string
  readonly scheme: Json
  readonly scopes: readonly string[]
}

export const authPath = (id: string, schemeName?: string): string =>
  `openapi.${id}.auth${schemeName === undefined ? '' : `.${schemeName}`}`

export function securitySchemesOf(document: Json): Readonly<Record<string, Json>> {
  const declaredSchemes = asRecord(asRecord(document['components'])['securitySchemes'])
  return Object.fromEntries(
    Object.entries(declaredSchemes).map(([name, scheme]) => [name, lookUp(document, scheme) ?? {}]),
  )
}

/** The server that relative token URLs belong to; undefined if neither the settings nor the document name one. */
export function serverOf(
  id: string,
  { baseUrl, document: location }: Pick<ApiSettings, 'baseUrl' | 'document'>,
  document: Json,
): URL | undefined {
  try {
    return baseOf(id, { servers: Array.isArray(document['servers']) ? document['servers'] : [] }, baseUrl, location)
  } catch {
    return undefined
  }
}

/** OpenAPI resolves a relative token URL against the server. */
export function tokenUrlOf(scheme: Json, server: URL | undefined): URL | undefined {
  const { tokenUrl } = asRecord(asRecord(scheme['flows'])['clientCredentials'])
  return typeof tokenUrl === 'string' && URL.canParse(tokenUrl, server?.href) ? new URL(tokenUrl, server) : undefined
}

function addApiKey(draft: RequestDraft, profile: Extract<AuthProfile, { type: 'apiKey' }>, scheme: Json): void {
  const location = profile.in ?? scheme['in'] ?? 'header'
  const name = profile.name ?? (typeof scheme['name'] === 'string' ? scheme['name'] : 'x-api-key')
  if (location === 'query') draft.url.searchParams.set(name, profile.value)
  else if (location === 'cookie') {
    // For duplicate headers some servers use the first, others the last.
    const otherCookies = (draft.headers['cookie'] ?? '')
      .split('; ')
      .filter((cookie) => cookie !== '' && !cookie.startsWith(`${name}=`))
    draft.headers['cookie'] = [...otherCookies, `${name}=${encodeURIComponent(profile.value)}`].join('; ')
  } else draft.headers[name.toLowerCase()] = profile.value
}

export function matchesScheme(profile: AuthProfile, scheme: unknown): boolean {
  if (!isRecord(scheme)) return false
  if (profile.type === 'apiKey' || profile.type === 'oauth2') return scheme['type'] === profile.type
  return scheme['type'] === 'http' && String(scheme['scheme']).toLowerCase() === profile.type
}

const createBasicHeader = (user: string, password: string): string =>
  `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`

function secretsOf(profile: AuthProfile): string[] {
  if (profile.type === 'apiKey') return [profile.value]
  if (profile.type === 'bearer') return [profile.token]
  if (profile.type === 'basic')
    return [profile.password, createBasicHeader(profile.username, profile.password).slice('Basic '.length)]
  return [profile.clientSecret]
}

function parseBody(body: Buffer): Json {
  // Anything else is most likely an error page of a proxy.
  return asRecord(tryParseJson(body.toString('utf8')))
}
