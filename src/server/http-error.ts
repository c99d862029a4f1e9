import type { ServerResponse } from 'node:http'

export interface HttpErrorOptions {
  /** JSON-RPC error code in the body (default -32000). */
  readonly code?: number
  /** Id of the request (default null). */
  readonly id?: string | number | null
  readonly data?: unknown
  readonly headers?: Readonly<Record<string, string>>
}

/** A request is refused. Its handler throws this, and the server sends it. */
export class HttpError extends Error {
  readonly status: number
  readonly options: HttpErrorOptions

  constructor(status: number, message: string, options: HttpErrorOptions = {}) {
    super(message)
    this.status = status
    this.options = options
  }
}

export function sendHttpError(res: ServerResponse, { status, message, options }: HttpError): void {
  if (res.headersSent || res.destroyed) return
  const { code = -32000, id = null, data, headers = {} } = options
  for (const [name, value] of Object.entries(headers)) res.setHeader(name, value)
  sendJson(res, status, { jsonrpc: '2.0', error: { code, message, data }, id })
}

export function sendJson(res: ServerResponse, status: number, value: object): void {
  res.statusCode = status
  res.setHeader('content-type', 'application/json')
  res.end(JSON.stringify(value))
}
