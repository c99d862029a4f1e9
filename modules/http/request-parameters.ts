import { z } from 'pegboard'
import { invalid } from '../_errors.ts'
import type { Settings } from './config.ts'
import { headersFor } from './headers.ts'

export const url = z.string().min(1).max(8192).describe('Full address, with https:// or http://.')
export const headers = z.record(z.string(), z.string()).default({}).describe('Request headers; for logins use auth.')
const query = z
  .record(z.string(), z.union([z.string(), z.number(), z.boolean()]))
  .default({})
  .describe('Query parameters to add to the address.')
export const auth = z.string().max(100).optional().describe('Name of a login that the operator configured.')
const follow = z.boolean().default(true).describe('Follow redirects.')
const timeout = z.int().min(1).max(300).optional().describe('Timeout in seconds.')

export const commonParameters = { url, headers, query_params: query, auth, follow_redirects: follow, timeout }

export interface RequestInput {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly query_params: Readonly<Record<string, string | number | boolean>>
  readonly auth?: string | undefined
  readonly follow_redirects: boolean
  readonly timeout?: number | undefined
}

/** The URL with its query parameters, or unchanged if it is invalid: fetching it reports the error. */
function addQuery({ url: address, query_params }: Pick<RequestInput, 'url' | 'query_params'>): string {
  if (!URL.canParse(address)) return address
  const url = new URL(address)
  for (const [name, value] of Object.entries(query_params)) url.searchParams.append(name, String(value))
  return url.href
}

/** The common parameters of all requests. */
export function createRequest(input: RequestInput, settings: Settings) {
  const address = addQuery(input)
  const url = URL.canParse(address) ? new URL(address) : undefined
  return {
    address,
    init: {
      headers: headersFor(url, input.headers, input.auth, settings),
      redirect: input.follow_redirects ? 'follow' : 'manual',
      ...(input.timeout === undefined ? {} : { timeoutMs: input.timeout * 1000 }),
    } as const,
  }
}

export interface BodyInput {
  readonly body?: string | undefined
  readonly json?: unknown
}

export const bodyParameters = {
  body: z.string().optional().describe('Body as text.'),
  json: z
    .unknown()
    .meta({ type: ['object', 'array', 'string', 'number', 'boolean', 'null'] })
    .optional()
    .describe('Body as JSON, instead of body.'),
}

/** Body and content type, unless the headers set one. */
export function createContent({ body, json }: BodyInput, headers: Readonly<Record<string, string>>) {
  if (body !== undefined && json !== undefined) throw invalid('body and json cannot be combined.', 'Leave one out.')
  const withContentType = (type: string) =>
    headers['content-type'] === undefined ? { ...headers, 'content-type': type } : headers
  if (json !== undefined) return { body: JSON.stringify(json), headers: withContentType('application/json') }
  return body === undefined ? { headers } : { body, headers: withContentType('text/plain;charset=utf-8') }
}
