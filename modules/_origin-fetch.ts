import { createFetch, type GuardedFetch, ToolError } from 'pegboard'

/**
 * A `fetch` for the one server that the operator named: it may be on this machine or a private network, and nothing else is
 * reached, redirects included. Addresses where clouds keep credentials stay closed.
 */
export function createOriginFetch(
  baseUrl: string,
  how: {
    readonly setting: string
    readonly timeoutMs: number
    readonly userAgent?: string
    readonly maxBytes?: number
  },
): GuardedFetch {
  const { origin } = new URL(baseUrl)
  const { maxBytes } = how
  return createFetch({
    allowPrivate: true,
    setting: how.setting,
    check(url) {
      if (url.origin !== origin)
        throw new ToolError(`The server sends this request to ${url.host}.`, {
          code: 'E_SSRF_BLOCKED',
          hint: `Only the server of ${how.setting} is asked.`,
        })
    },
    maxRedirects: 0,
    timeoutMs: how.timeoutMs,
    ...(how.userAgent === undefined ? {} : { userAgent: how.userAgent }),
    ...(maxBytes === undefined ? {} : { maxBytes, maxWireBytes: maxBytes }),
  })
}
