import { createFetch, type GuardedFetch, ToolError } from 'pegboard'

/**
 * A `fetch` for the one server that the operator configured, which may be on this machine or in a private network.
 * Reaches nothing else, redirects included, and no metadata addresses of clouds.
 */
export function createOriginFetch(
  baseUrl: string,
  options: {
    readonly setting: string
    readonly timeoutMs: number
    readonly userAgent?: string
    readonly maxBytes?: number
  },
): GuardedFetch {
  const { origin } = new URL(baseUrl)
  const { maxBytes } = options
  return createFetch({
    allowPrivate: true,
    setting: options.setting,
    check(url) {
      if (url.origin !== origin)
        throw new ToolError(`The server redirects this request to ${url.host}.`, {
          code: 'E_SSRF_BLOCKED',
          hint: `Requests go only to the server in ${options.setting}.`,
        })
    },
    maxRedirects: 0,
    timeoutMs: options.timeoutMs,
    ...(options.userAgent === undefined ? {} : { userAgent: options.userAgent }),
    ...(maxBytes === undefined ? {} : { maxBytes, maxWireBytes: maxBytes }),
  })
}
