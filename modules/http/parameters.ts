import { ToolError, z } from 'pegboard'
import type { Settings } from './config.ts'
import { headersFor } from './headers.ts'

export const url = z.string().min(1).max(8192).describe('The whole address, with https:// or http://.')
export const headers = z
  .record(z.string(), z.string())
  .default({})
  .describe('Headers of the request; logins go by auth.')
export const query = z
  .record(z.string(), z.union([z.string(), z.number(), z.boolean()]))
  .default({})
  .describe('Parameters added to the address.')
export const auth = z.string().max(100).optional().describe('Name of a login that the operator has set up.')
export const follow = z.boolean().default(true).describe('Follow redirects.')
export const timeout = z.int().min(1).max(300).optional().describe('Seconds the request may take.')

export const base = { url, headers, query_params: query, auth, follow_redirects: follow, timeout }

export interface Asked {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly query_params: Readonly<Record<string, string | number | boolean>>
  readonly auth?: string | undefined
  readonly follow_redirects: boolean
  readonly timeout?: number | undefined
}

/** The address with its parameters, or as it was given where it is none: whoever fetches it says so. */
export function addressOf({ url: given, query_params }: Pick<Asked, 'url' | 'query_params'>): string {
  if (!URL.canParse(given)) return given
  const made = new URL(given)
  for (const [name, value] of Object.entries(query_params)) made.searchParams.append(name, String(value))
  return made.href
}

/** What all kinds of requests have in common. */
export function requestOf(asked: Asked, settings: Settings) {
  const address = addressOf(asked)
  const at = URL.canParse(address) ? new URL(address) : undefined
  return {
    address,
    init: {
      headers: headersFor(at, asked.headers, asked.auth, settings),
      redirect: asked.follow_redirects ? 'follow' : 'manual',
      ...(asked.timeout === undefined ? {} : { timeoutMs: asked.timeout * 1000 }),
    } as const,
  }
}

export interface Content {
  readonly body?: string | undefined
  readonly json?: unknown
}

export const content = {
  body: z.string().optional().describe('What to send, as text.'),
  json: z
    .unknown()
    .meta({ type: ['object', 'array', 'string', 'number', 'boolean', 'null'] })
    .optional()
    .describe('What to send as JSON, instead of body.'),
}

/** What is sent, and as what, where the headers do not say. */
export function contentOf({ body, json }: Content, given: Readonly<Record<string, string>>) {
  if (body !== undefined && json !== undefined)
    throw new ToolError('Either body or json can be sent, not both.', { code: 'E_VALIDATION', hint: 'Leave one out.' })
  const typed = (type: string) => (given['content-type'] === undefined ? { ...given, 'content-type': type } : given)
  if (json !== undefined) return { body: JSON.stringify(json), headers: typed('application/json') }
  return body === undefined ? { headers: given } : { body, headers: typed('text/plain;charset=utf-8') }
}
