import { type CallContext, type Fetch, ToolError } from 'pegboard'
import { unavailable } from '../../_errors.ts'
import { asRecord } from '../../_is-record.ts'
import { oneLine } from '../../_page.ts'
import { bytesOf, parseJsonText } from '../../_text.ts'
import type { Category, Settings } from '../config.ts'
import type { Reader } from '../reader.ts'

export interface SearchRequest {
  readonly query: string
  readonly category: Category
  readonly count: number
}

export interface Result {
  readonly title: string
  readonly url: string
  readonly snippet?: string
  readonly image_url?: string
  readonly thumbnail_url?: string
  readonly published?: string
  readonly source?: string
  readonly duration?: string
}

/** What an engine needs. */
export interface SearchContext {
  readonly settings: Settings
  /** Reaches the configured engines only. */
  readonly fetch: Fetch
  readonly reader: Reader
  readonly signal: AbortSignal
  /** Who asked. */
  readonly principal: string
  readonly call: CallContext['call']
}

/** A search engine. Models see only one search tool over all engines. */
export interface SearchEngine {
  /** Name in results and messages. */
  nameIn(settings: Settings): string
  /** Its address, used for health checks; `undefined` if it is not configured. */
  addressIn(settings: Settings): string | undefined
  categoriesIn(settings: Settings): readonly Category[]
  /** @throws PegboardError E_RATE_LIMITED, E_BACKEND_UNAVAILABLE, and errors of fetch */
  search(request: SearchRequest, context: SearchContext): Promise<readonly Result[]>
}

export const asString = (value: unknown): string => (typeof value === 'string' ? value : '')
export const asArray = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])

const MAX_TITLE = 300
const MAX_SNIPPET = 1_000
/** Invisible characters, which may hide text. */
const INVISIBLE = /\p{Cc}|[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]|\u{e0000}|[\u{e0001}-\u{e007f}]/gu

/** Text of others on one line, without markup, shortened. */
const toPlainText = (text: unknown, maxLength = MAX_SNIPPET): string => {
  const line = oneLine(
    asString(text)
      .slice(0, 8 * maxLength)
      .replaceAll(/<\/?[a-z][^<>]{0,500}>/gi, ''),
  ).replaceAll(INVISIBLE, '')
  return line.length > maxLength ? `${line.slice(0, maxLength)}…` : line
}

const addressOf = (value: unknown): string | undefined => {
  const address = asString(value)
  return /^https?:\/\//i.test(address) && address.length <= 4_096 && URL.canParse(address) ? address : undefined
}

/** A search result without missing fields; undefined if it has no page or image address. */
export function toResults(fields: Partial<Record<keyof Result, unknown>>): readonly Result[] {
  const url = addressOf(fields.url) ?? addressOf(fields.image_url)
  if (url === undefined) return []
  const [image_url, thumbnail_url] = [addressOf(fields.image_url), addressOf(fields.thumbnail_url)]
  const texts = (['snippet', 'published', 'source', 'duration'] as const).flatMap((key) => {
    const text = toPlainText(fields[key], key === 'snippet' ? MAX_SNIPPET : 100)
    return text === '' ? [] : [[key, text] as const]
  })
  return [
    {
      title: toPlainText(fields.title, MAX_TITLE) || url,
      url,
      ...Object.fromEntries(texts),
      ...(image_url === undefined ? {} : { image_url }),
      ...(thumbnail_url === undefined ? {} : { thumbnail_url }),
    },
  ]
}

/** The response of an engine. @throws ToolError for every status except success */
export async function requestEngine(
  name: string,
  url: URL,
  { fetch, settings, signal }: SearchContext,
  headers: Readonly<Record<string, string>> = {},
): Promise<{ readonly status: number; readonly bytes: Buffer; readonly type: string }> {
  const response = await fetch(url, {
    headers: { accept: 'application/json', ...headers },
    signal,
    redirect: 'error',
    timeoutMs: settings.search.timeout * 1000,
  })
  const bytes = await bytesOf(response)
  if (!response.ok) throw createStatusError(name, response)
  return { status: response.status, bytes, type: response.headers.get('content-type') ?? '' }
}

/** The same as JSON. */
export async function requestJson(
  name: string,
  url: URL,
  context: SearchContext,
  headers?: Readonly<Record<string, string>>,
) {
  const { bytes } = await requestEngine(name, url, context, headers)
  const json = parseJsonText(bytes.toString('utf8'))
  if (!json) throw new ToolError(`${name} answered with something other than JSON.`, { code: 'E_BACKEND_UNAVAILABLE' })
  return asRecord(json.value)
}

function createStatusError(name: string, response: Response): ToolError {
  const message = `web_search non-2xx status=${response.status} (${name})`
  if (response.status !== 429) return unavailable(message, hintFor(name, response.status))
  const after = Number(response.headers.get('retry-after') ?? response.headers.get('x-ratelimit-reset')?.split(',')[0])
  const retryAfterMs = Number.isFinite(after) && after > 0 ? Math.min(after, 86_400) * 1000 : 60_000
  return new ToolError(message, {
    code: 'E_RATE_LIMITED',
    hint: `Try again in ${Math.ceil(retryAfterMs / 1000)} s.`,
    retryAfterMs,
  })
}

function hintFor(name: string, status: number): string {
  if (status === 401 || status === 403 || status === 422)
    return name === 'searxng'
      ? 'Its settings.yml must allow the format json (search.formats).'
      : 'The operator checks the key of the engine.'
  return 'Try again later.'
}
