import { readdirSync, readFileSync } from 'node:fs'
import type { ServerResponse } from 'node:http'
import { extname, join } from 'node:path'
import { once } from '../core/once.ts'

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
}

/** Nothing from elsewhere, no inline code, no frame around the page, and no HTML from strings. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join('; ')

const HEADERS: Readonly<Record<string, string>> = {
  'content-security-policy': POLICY,
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'permissions-policy': 'camera=(), microphone=(), geolocation=(), payment=(), usb=()',
}

export function setSecurityHeaders(res: ServerResponse): void {
  for (const [name, value] of Object.entries(HEADERS)) res.setHeader(name, value)
}

/** Answers with a file of the built page. @returns false if there is no such file */
export type FileSender = (path: string, res: ServerResponse, head: boolean) => boolean

/**
 * Without a session the page shows a login, so its files need none.
 * @param dir `dist/ui`. Its files are listed once, so that no request can name another file.
 */
export function createFileSender(dir: string): FileSender {
  const list = once(
    () =>
      new Map(
        readdirSync(dir, { recursive: true, withFileTypes: true })
          .filter((entry) => entry.isFile() && TYPES[extname(entry.name)] !== undefined)
          .map(({ parentPath, name }) => join(parentPath, name))
          .map((file) => [file.slice(dir.length).replaceAll('\\', '/'), file]),
      ),
  )
  return (path, res, head) => {
    const name = path === '' || path === '/' ? '/index.html' : path
    const file = list().get(name)
    if (file === undefined) return false
    res.setHeader('content-type', TYPES[extname(file)] as string)
    // Other names hold a hash of their content.
    res.setHeader('cache-control', name.startsWith('/assets/') ? 'public, max-age=31536000, immutable' : 'no-cache')
    const bytes = readFileSync(file)
    res.setHeader('content-length', bytes.length)
    res.end(head ? undefined : bytes)
    return true
  }
}
