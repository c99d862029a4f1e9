import type { ToolError } from 'pegboard'
import { invalid } from '../_errors.ts'

/** Headers that a request may set. */
const ALLOWED = ['Accept', 'Content-Type', 'User-Agent', 'If-None-Match', 'If-Modified-Since', 'Range']
const DENIED =
  /^(?:authorization|cookie2?|set-cookie2?|host|connection|transfer-encoding|content-length|te|upgrade|expect|forwarded|via|proxy-.*|x-forwarded-.*|x-real-ip)$/

/** Validates the model's headers; names become lower case. @throws ToolError E_VALIDATION with the allowed headers */
export function checkHeaders(
  rawHeaders: Readonly<Record<string, string>>,
  extraAllowed: readonly string[] = [],
): Record<string, string> {
  const allowed = [...ALLOWED, ...extraAllowed]
  const hint = `Allowed are ${allowed.join(', ')}; for logins use auth_profile.`
  const createRefusal = (message: string): ToolError => invalid(message, hint)
  const headers: Record<string, string> = {}
  for (const [writtenName, value] of Object.entries(rawHeaders)) {
    const name = writtenName.trim().toLowerCase()
    const shownName = JSON.stringify(writtenName.slice(0, 60))
    const letters = name.replaceAll(/[-_]/g, '')
    if (DENIED.test(name) || letters.includes('apikey') || letters.includes('token'))
      throw createRefusal(`header ${shownName} is not allowed`)
    if (!allowed.some((allowedName) => allowedName.toLowerCase() === name))
      throw createRefusal(`header ${shownName} is not allowed (allowlist enforced)`)
    if (!/^[\t\x20-\x7e\x80-\xff]*$/.test(value)) throw createRefusal(`header ${shownName} has invalid characters`)
    headers[name] = value
  }
  return headers
}
