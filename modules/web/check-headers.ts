import type { ToolError } from 'pegboard'
import { invalid } from '../_errors.ts'

/** Headers that a request may set. */
const ALLOWED = ['Accept', 'Content-Type', 'User-Agent', 'If-None-Match', 'If-Modified-Since', 'Range']
const DENIED =
  /^(?:authorization|cookie2?|set-cookie2?|host|connection|transfer-encoding|content-length|te|upgrade|expect|forwarded|via|proxy-.*|x-forwarded-.*|x-real-ip)$/

/** Validates the model's headers; names become lower case. @throws ToolError E_VALIDATION with the allowed headers */
export function checkHeaders(
  given: Readonly<Record<string, string>>,
  more: readonly string[] = [],
): Record<string, string> {
  const allowed = [...ALLOWED, ...more]
  const hint = `Allowed are ${allowed.join(', ')}; for logins use auth_profile.`
  const refused = (message: string): ToolError => invalid(message, hint)
  const headers: Record<string, string> = {}
  for (const [written, value] of Object.entries(given)) {
    const name = written.trim().toLowerCase()
    const shown = JSON.stringify(written.slice(0, 60))
    const bare = name.replaceAll(/[-_]/g, '')
    if (DENIED.test(name) || bare.includes('apikey') || bare.includes('token'))
      throw refused(`header ${shown} is not allowed`)
    if (!allowed.some((one) => one.toLowerCase() === name))
      throw refused(`header ${shown} is not allowed (allowlist enforced)`)
    if (!/^[\t\x20-\x7e\x80-\xff]*$/.test(value)) throw refused(`header ${shown} has invalid characters`)
    headers[name] = value
  }
  return headers
}
