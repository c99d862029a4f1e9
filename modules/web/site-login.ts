import type { ToolError } from 'pegboard'
import { denied, invalid, notFound } from '../_errors.ts'
import { type AuthProfile, SETTING, type Settings } from './config.ts'
import { hasPrefix } from './web-clients.ts'

export interface Login {
  readonly profile: AuthProfile
  /** The header with the secret, sent to the allowed address only. */
  readonly header: Readonly<Record<string, string>>
  /** Spellings of the secret that may occur in a response. */
  readonly spellings: readonly string[]
}

/**
 * The login that a model names, for this address and method only.
 * @throws ToolError E_DENIED_BY_POLICY, E_NOT_FOUND, E_VALIDATION
 */
export function loginFor(
  id: string,
  url: URL,
  method: string,
  headers: Readonly<Record<string, string>>,
  { url_fetch: { secrets, auth_profiles } }: Settings,
): Login {
  const where = `${SETTING}.url_fetch`
  const shownId = JSON.stringify(id.slice(0, 100))
  if (!secrets.enabled)
    throw denied('auth_profile is not enabled (set secrets.enabled=true)', `See ${where}.secrets.enabled.`)
  if (!secrets.allow_profiles.includes(id))
    throw denied(`auth_profile ${shownId} is not allowed (fail-closed)`, `See ${where}.secrets.allow_profiles.`)
  const profile = Object.hasOwn(auth_profiles, id) ? auth_profiles[id] : undefined
  if (!profile) throw notFound(`auth_profile not found: ${shownId}`, `Set ${where}.auth_profiles.`)
  checkLoginTarget(profile, shownId, url, method)
  const names = Object.keys(headers).map((name) => name.trim().toLowerCase())
  if (names.length > 0 && profile.allow_headers.length === 0)
    throw invalid(
      `headers are not allowed when using auth_profile ${shownId}`,
      `Leave headers out; see ${where}.auth_profiles.${id}.allow_headers.`,
    )
  if (names.includes(profile.header.toLowerCase()))
    throw invalid(
      `header ${JSON.stringify(profile.header)} must not be provided when using auth_profile ${shownId}`,
      'Leave it out.',
    )
  const { secret, format } = profile
  const encoded = Buffer.from(secret).toString('base64')
  const value = format === 'bearer' ? `Bearer ${secret}` : format === 'basic' ? `Basic ${encoded}` : secret
  const spellings = [secret, encoded, encodeURIComponent(secret), JSON.stringify(secret).slice(1, -1)]
  return { profile, header: { [profile.header.toLowerCase()]: value }, spellings: [...new Set(spellings)] }
}

/** @throws ToolError E_DENIED_BY_POLICY if the login is for other addresses or methods */
function checkLoginTarget({ url_prefixes, methods }: AuthProfile, shownId: string, url: URL, method: string): void {
  const createLoginError = (what: string): ToolError =>
    denied(`auth_profile ${shownId} is not for ${what}`, `See ${SETTING}.url_fetch.auth_profiles.`)
  if (!url_prefixes.some((prefix) => hasPrefix(url.href, prefix))) throw createLoginError('this address')
  if (!(methods as readonly string[]).includes(method)) throw createLoginError(`the method ${method}`)
}

/** Removes a secret in all its spellings from a text. */
export const removeSecrets = (text: string, secrets: readonly string[]): string =>
  secrets.reduce((result, secret) => (secret === '' ? result : result.replaceAll(secret, '[redacted]')), text)
