import { denied, invalid } from '../_errors.ts'
import { matchesHostList, SETTING, type Settings } from './config.ts'

/** Headers that any request may set. */
const ALLOWED_HEADERS = [
  'accept',
  'accept-language',
  'content-type',
  'user-agent',
  'range',
  'if-match',
  'if-none-match',
  'if-modified-since',
  'if-unmodified-since',
  'idempotency-key',
  'prefer',
]
/** Headers that impersonate others or change how a request is parsed; no setting allows them. */
const FORBIDDEN_HEADERS =
  /^(?:host|connection|keep-alive|te|trailer|transfer-encoding|upgrade|expect|content-length|content-encoding|cookie|authorization|forwarded|via|proxy-.*|x-forwarded-.*|x-real-ip|sec-.*)$/

const HOST_ENTRY = /^(?:(https?):\/\/)?(\[[^\]]+\]|[^:/]+)(?::(\d+|\*))?\/?$/i

/** True if the URL is at a host where a login may be used: `host`, `host:8443`, `host:*`, optionally with a scheme. */
function isUrlOf(url: URL, entry: string): boolean {
  const [, scheme, host, port = ''] = HOST_ENTRY.exec(entry) ?? []
  if (host === undefined || !matchesHostList(url.hostname, [host])) return false
  if (scheme !== undefined && url.protocol !== `${scheme.toLowerCase()}:`) return false
  const defaultPort = url.protocol === 'https:' ? '443' : '80'
  return port === '*' || (url.port || defaultPort) === (port || defaultPort)
}

/** The headers of a request: the operator's, the allowed ones of the model, and the login it names. */
export function headersFor(
  url: URL | undefined,
  rawHeaders: Readonly<Record<string, string>>,
  auth: string | undefined,
  settings: Settings,
): Record<string, string> {
  const allowedNames = [
    ...new Set([...ALLOWED_HEADERS, ...settings.allowed_headers.map((name) => name.toLowerCase())]),
  ].filter((name) => !FORBIDDEN_HEADERS.test(name))
  const headers: Record<string, string> = {}
  for (const [name, value] of Object.entries(settings.default_headers)) headers[name.toLowerCase()] = value
  for (const [name, value] of Object.entries(rawHeaders)) {
    if (!allowedNames.includes(name.toLowerCase()))
      throw invalid(
        `The header ${JSON.stringify(name.slice(0, 60))} is not allowed; allowed are ${allowedNames.join(', ')}.`,
        `Leave it out; ${SETTING}.allowed_headers allows more. For logins use ${SETTING}.credentials.`,
      )
    if (!/^[\t\x20-\x7e\x80-\xff]*$/.test(value))
      throw invalid(
        `The value of the header ${name} has invalid characters; allowed headers are ${allowedNames.join(', ')}.`,
        'Send plain text on one line.',
      )
    headers[name.toLowerCase()] = value
  }
  return auth === undefined ? headers : { ...headers, ...loginHeaders(url, auth, settings) }
}

function loginHeaders(url: URL | undefined, name: string, { credentials, allow_private_hosts }: Settings) {
  const credential = Object.hasOwn(credentials, name) ? credentials[name] : undefined
  if (!credential) {
    const credentialNames = Object.keys(credentials).join(', ')
    throw invalid(
      `There are no credentials called "${name.slice(0, 60)}"; ${credentialNames === '' ? 'there are none at all' : `there are ${credentialNames}`}.`,
      `The operator sets ${SETTING}.credentials.`,
    )
  }
  if (!url || !credential.hosts.some((entry) => isUrlOf(url, entry)))
    throw denied(
      `The credentials "${name}" are for another scheme, host or port.`,
      `See ${SETTING}.credentials.${name}.hosts. An entry without a port means the default port: "api.example.com:8443" names another.`,
    )
  if (url.protocol !== 'https:' && !allow_private_hosts)
    throw denied(`The credentials "${name}" are only sent over https.`, 'Use the https address.')
  if (credential.type === 'api_key') return { [credential.header.toLowerCase()]: credential.token }
  if (credential.type === 'bearer') return { authorization: `Bearer ${credential.token}` }
  const pair = Buffer.from(`${credential.username}:${credential.password}`).toString('base64')
  return { authorization: `Basic ${pair}` }
}

/** Response headers, without those that only a browser may see. */
export const visibleHeaders = (headers: Headers): Record<string, string> =>
  Object.fromEntries([...headers].filter(([name]) => !/^(?:set-cookie2?|authorization|proxy-auth.*)$/.test(name)))
