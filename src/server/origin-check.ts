import type { IncomingMessage, ServerResponse } from 'node:http'
import { isIP } from 'node:net'
import { HttpError } from './http-error.ts'
import type { HttpSettings } from './server-options.ts'

/** Checks Host and Origin, before the token. */
export type OriginCheck = ReturnType<typeof createOriginCheck>

const LOOPBACK = ['localhost', '127.0.0.1', '[::1]']
const WILDCARD = new Set(['0.0.0.0', '::', ''])
const CLOSE = { connection: 'close' }

// A proxy may have read the first of two such headers, so a second one is refused with this status.
const SINGLE = new Map<string, number>([
  ['host', 403],
  ['origin', 403],
  ['authorization', 400],
  ['content-type', 415],
  ['mcp-session-id', 400],
  ['mcp-protocol-version', 400],
  ['mcp-method', 400],
  ['mcp-name', 400],
])

export function createOriginCheck(settings: HttpSettings) {
  const listenHosts = isWildcard(settings.host)
    ? []
    : [isIP(settings.host) === 6 ? `[${settings.host}]` : settings.host]
  const publicHosts = settings.publicUrl === undefined ? [] : [new URL(settings.publicUrl).hostname]
  const hosts = new Set(
    [...LOOPBACK, ...listenHosts, ...publicHosts, ...settings.allowedHosts].map((name) => name.toLowerCase()),
  )
  const origins = new Set([...LOOPBACK, ...settings.allowedOrigins].map((name) => name.toLowerCase()))

  return {
    /** @throws HttpError for a request that is not allowed */
    check(req: IncomingMessage): void {
      const doubled = doubledHeader(req.rawHeaders)
      if (doubled) throw new HttpError(doubled.status, `Duplicate header: ${doubled.name}`, { headers: CLOSE })
      if (!hosts.has(hostnameOf(req.headers.host)))
        throw new HttpError(403, 'Host not allowed. Add it to server.http.allowedHosts.', { headers: CLOSE })
      const { origin } = req.headers
      if (origin !== undefined && !allows(origins, origin))
        throw new HttpError(403, 'Origin not allowed. Add it to server.http.allowedOrigins.', { headers: CLOSE })
      // Browsers send no Origin for images, scripts and frames.
      const site = req.headers['sec-fetch-site']
      if (origin === undefined && (site === 'cross-site' || site === 'same-site'))
        throw new HttpError(403, 'Requests from other web pages are not allowed.', { headers: CLOSE })
    },
    /** Adds CORS headers, so that an allowed browser origin can read the answer. */
    share(req: IncomingMessage, res: ServerResponse): void {
      const { origin } = req.headers
      if (origin === undefined) return
      res.setHeader('access-control-allow-origin', origin)
      res.setHeader('access-control-expose-headers', 'Mcp-Session-Id, WWW-Authenticate')
      res.setHeader('vary', 'Origin')
    },
    /** Answers a preflight of an allowed origin. */
    preflight(req: IncomingMessage, res: ServerResponse, methods: readonly string[]): void {
      res.statusCode = 204
      if (req.headers.origin !== undefined) {
        const requestedHeaders = String(req.headers['access-control-request-headers'] ?? '')
          .toLowerCase()
          .split(',')
        const allowed = requestedHeaders.map((name) => name.trim()).filter((name) => READABLE.test(name))
        res.setHeader('access-control-allow-methods', methods.join(', '))
        res.setHeader('access-control-allow-headers', allowed.join(', '))
        res.setHeader('access-control-max-age', '600')
      }
      res.end()
    },
  }
}

const READABLE = /^(?:authorization|content-type|accept|last-event-id|mcp-[a-z0-9-]+)$/

/** True if only this machine can reach the address. */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^(?:::ffff:)?127\.\d+\.\d+\.\d+$/.test(host)
}

/** True for all addresses of this machine. */
export const isWildcard = (host: string): boolean => WILDCARD.has(host)

/** The host of a URL for a client on this machine. */
export function urlHost(host: string): string {
  if (host === '::') return '[::1]'
  if (isWildcard(host)) return '127.0.0.1'
  return isIP(host) === 6 ? `[${host}]` : host
}

function hostnameOf(header: string | undefined): string {
  const match = /^(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::\d{1,5})?$/i.exec(header ?? '')
  return (match?.[1] ?? '').toLowerCase()
}

/** Entries are host names, whole origins (`https://app.example`), or every origin of a scheme (`vscode-webview://*`). */
function allows(origins: ReadonlySet<string>, origin: string): boolean {
  let url: URL
  try {
    url = new URL(origin)
  } catch {
    // `null`, a list, or nonsense.
    return false
  }
  if (origins.has(origin.toLowerCase())) return true
  if (url.protocol === 'http:' || url.protocol === 'https:') return url.username === '' && origins.has(url.hostname)
  return origins.has(`${url.protocol}//*`)
}

function doubledHeader(raw: readonly string[]): { readonly name: string; readonly status: number } | undefined {
  let seen: Set<string> | undefined
  for (let i = 0; i < raw.length; i += 2) {
    const name = (raw[i] as string).toLowerCase()
    const status = SINGLE.get(name)
    if (status === undefined) continue
    seen ??= new Set()
    if (seen.has(name)) return { name, status }
    seen.add(name)
  }
  return undefined
}
