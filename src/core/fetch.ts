/** What one request may be, beside what the maker of the `fetch` allows at most. */
export interface FetchInit {
  /** Default GET. */
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
  /** A body that is read as it is sent cannot be sent again: a redirect that asks for that is refused. */
  readonly body?: string | Uint8Array | URLSearchParams | AsyncIterable<Uint8Array>
  readonly signal?: AbortSignal
  /** `manual` gives the redirect itself, `same-origin` follows those to the same scheme, host and port; default `follow`. */
  readonly redirect?: 'follow' | 'same-origin' | 'manual' | 'error'
  /** Throws for an address that a redirect may not lead to; asked before anything is sent there. */
  readonly checkRedirect?: (url: URL) => void
  /** For all of it, body and redirects included. */
  readonly timeoutMs?: number
  /** Bytes of the answer as they come over the wire. */
  readonly maxWireBytes?: number
  /** Bytes of the answer once it is unpacked. */
  readonly maxBytes?: number
}

/**
 * A `fetch` that reaches only what may be reached: every address is looked at before it is used, redirects included.
 * Rejects with PegboardErrors that are safe to show: E_VALIDATION, E_SSRF_BLOCKED, E_REDIRECT_BLOCKED, E_DNS, E_TLS, E_HTTP_PROTOCOL,
 * E_TIMEOUT, E_BACKEND_UNAVAILABLE, or the reason of the signal. Reading the body rejects with those and E_TOO_LARGE.
 */
export type Fetch = (url: string | URL, init?: FetchInit) => Promise<Response>
