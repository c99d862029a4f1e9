/** Options of a request, within the limits of the `fetch` it is passed to. */
export interface FetchInit {
  /** Default GET. */
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
  /** A streamed body cannot be sent again, so redirects that require it fail. */
  readonly body?: string | Uint8Array | URLSearchParams | AsyncIterable<Uint8Array>
  readonly signal?: AbortSignal
  /** `manual` returns the redirect, `same-origin` follows it to the same origin only; default `follow`. */
  readonly redirect?: 'follow' | 'same-origin' | 'manual' | 'error'
  /** Throws for a redirect target that is not allowed. Called before anything is sent there. */
  readonly checkRedirect?: (url: URL) => void
  /** For the whole request, including body and redirects. */
  readonly timeoutMs?: number
  /** Maximum size of the response before decompression. */
  readonly maxWireBytes?: number
  /** Maximum size of the response after decompression. */
  readonly maxBytes?: number
}

/**
 * A `fetch` that checks every address before use, including redirects. Rejects with PegboardErrors that are safe to
 * show: E_VALIDATION, E_SSRF_BLOCKED, E_REDIRECT_BLOCKED, E_DNS, E_TLS, E_HTTP_PROTOCOL, E_TIMEOUT,
 * E_BACKEND_UNAVAILABLE, or the signal's reason. Reading the body rejects with those and E_TOO_LARGE.
 */
export type Fetch = (url: string | URL, init?: FetchInit) => Promise<Response>
