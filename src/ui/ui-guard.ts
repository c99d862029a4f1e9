import type { IncomingMessage } from 'node:http'
import { HttpError } from '../server/http-error.ts'

const FORWARDED = ['forwarded', 'x-forwarded-for', 'x-forwarded-host', 'x-real-ip', 'via']
const LOOPBACK_HOST = /^(?:localhost|127\.0\.0\.1|\[::1\])(?::\d{1,5})?$/i
const LOOPBACK_ADDRESS = /^(?:::ffff:)?127\.\d+\.\d+\.\d+$|^::1$/

/** True if the browser is on this machine and no proxy is in between. */
export const isDirect = ({ headers, socket }: IncomingMessage): boolean =>
  LOOPBACK_ADDRESS.test(socket.remoteAddress ?? '') &&
  LOOPBACK_HOST.test(headers.host ?? '') &&
  FORWARDED.every((name) => headers[name] === undefined)

/**
 * Refuses requests that another web page made. Pages on other ports of this machine count as the same site for cookies,
 * so that SameSite alone does not keep them out.
 * @throws HttpError 403
 */
export function checkPageOrigin({ headers }: IncomingMessage): void {
  const { origin, host, 'sec-fetch-site': site } = headers
  const isOwnOrigin = origin === undefined || origin === `http://${host}`
  const isOwnSite = site === undefined || site === 'same-origin' || site === 'none'
  if (!isOwnOrigin || !isOwnSite) throw new HttpError(403, 'Only the page itself may send this request.')
}

/** Scripts of other origins cannot set it without a preflight, which is never answered. */
export const PAGE_HEADER = 'x-pegboard-page'

/** For requests of the API, once the origin was checked. @throws HttpError 403 */
export function checkApiRequest({ headers, method }: IncomingMessage): void {
  if (headers['sec-fetch-site'] === 'none') throw new HttpError(403, 'Open the page, not its API.')
  if (method !== 'GET' && headers[PAGE_HEADER] !== '1') throw new HttpError(403, `Send the header ${PAGE_HEADER}: 1.`)
}

/** The cookie of a port: cookies of one host are shared by all its ports. */
export const cookieName = ({ socket }: IncomingMessage): string => `pegboard_ui_${socket.localPort ?? 0}`

export function readCookie(req: IncomingMessage): string | undefined {
  const name = `${cookieName(req)}=`
  const found = (req.headers.cookie ?? '').split(/; */).filter((one) => one.startsWith(name))
  // A second one may come from another program on this machine.
  return found.length === 1 ? found[0]?.slice(name.length) : undefined
}
