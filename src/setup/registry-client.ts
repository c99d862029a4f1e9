import { isPegboardError, messageOf, PegboardError } from '../core/errors.ts'
import type { Fetch } from '../core/fetch-types.ts'
import { asRecord, isRecord, type Json } from '../core/is-record.ts'
import { tryParseJson } from '../core/try-parse-json.ts'
import { createFetch } from '../policy/guarded-fetch.ts'
import { isLoopback, isSafeUrl } from '../policy/network-rules.ts'
import { parseRegistryServer, type RegistryServer, SERVER_NAME, shownText } from './registry-server.ts'

/** A server of a search, without what is needed to run it. */
export interface RegistryHit extends Pick<RegistryServer, 'name' | 'version' | 'title' | 'description'> {
  readonly deprecated?: true
}

export interface Registry {
  readonly url: string
  /** Servers whose name, title or description has most of the words, best first. */
  search(words: readonly string[], limit: number): Promise<readonly RegistryHit[]>
  /** All versions, newest first. @throws PegboardError E_NOT_FOUND */
  versions(name: string): Promise<readonly string[]>
  /** @param version default the latest @throws PegboardError E_NOT_FOUND; E_REGISTRY_ENTRY for an entry that is not valid */
  server(name: string, version?: string): Promise<RegistryServer>
  close(): Promise<void>
}

export interface RegistryOptions {
  /** Base URL, with or without the version of the API. */
  readonly url: string
  /** Allow a registry at a private address. Loopback addresses are always allowed. */
  readonly allowPrivate: boolean
}

const PAGE = 100
const MAX_PAGES = 10
const MAX_WORDS = 5
const MAX_BYTES = 8 * 1024 * 1024
const MAX_CURSOR = 4_096
const TIMEOUT_MS = 15_000

/**
 * A client of the MCP registry API, versions 0.1 and 0. Everything in its answers was written by others.
 * @throws PegboardError E_CONFIG_INVALID for a URL that is not https, unless it is on this machine
 */
export function createRegistry({ url, allowPrivate }: RegistryOptions): Registry {
  const base = baseOf(url)
  const isOwn = isLoopback(base)
  const guarded = createFetch({
    allowPrivate: allowPrivate || isOwn,
    setting: 'registry.allowPrivate',
    timeoutMs: TIMEOUT_MS,
    maxBytes: MAX_BYTES,
    check(target) {
      if (target.protocol !== 'https:' && base.protocol === 'https:')
        throw new PegboardError('E_SSRF_BLOCKED', 'The registry redirects to an address without TLS.')
    },
  })
  const [, path = '', pinned] = /^(.*?)(\/v\d+(?:\.\d+)?)?\/*$/.exec(base.pathname) ?? []
  /** The version of the API that the registry has; newer registries have both. */
  let api = pinned

  async function get(route: string, query: Readonly<Record<string, string>> = {}): Promise<Json> {
    const ask = async (version: string): Promise<Json> => {
      const answer = await read(guarded, addressOf(version, route, query))
      api = version
      return answer
    }
    if (api !== undefined) return await ask(api)
    return await ask('/v0.1').catch((error: unknown) => {
      if (isPegboardError(error) && error.code === 'E_NOT_FOUND') return ask('/v0')
      throw error
    })
  }

  const addressOf = (version: string, route: string, query: Readonly<Record<string, string>>): URL => {
    const address = new URL(base)
    address.pathname = `${path}${version}${route}`
    for (const [name, value] of Object.entries(query)) address.searchParams.set(name, value)
    return address
  }

  async function* listed(query: Readonly<Record<string, string>>): AsyncGenerator<RegistryHit> {
    const seen = new Set<string>()
    let cursor = ''
    for (let page = 0; page < MAX_PAGES; page++) {
      const answer = await get('/servers', {
        limit: String(PAGE),
        ...query,
        ...(cursor === '' ? {} : { cursor }),
      })
      for (const entry of entriesOf(answer)) {
        const hit = hitOf(entry)
        if (hit) yield hit
      }
      const metadata = asRecord(answer['metadata'])
      const next = metadata['nextCursor'] ?? metadata['next_cursor']
      // A cursor that comes again would never end.
      if (typeof next !== 'string' || next === '' || next.length > MAX_CURSOR || seen.has(next)) return
      seen.add(next)
      cursor = next
    }
  }

  return {
    url: base.href,
    async search(words, limit) {
      // The registry looks for one text in names only, so each word is searched and the answers are merged.
      const distinctWords = new Set(words.map((word) => word.toLowerCase()).filter((word) => word.length > 1))
      const searchWords = [...distinctWords].slice(0, MAX_WORDS)
      const found = new Map<string, RegistryHit>()
      for (const word of searchWords)
        for await (const hit of listed({ search: word, version: 'latest' }))
          if (!found.has(hit.name)) found.set(hit.name, hit)
      return [...found.values()]
        .map((hit) => ({ hit, score: scoreOf(hit, searchWords) }))
        .sort((one, other) => other.score - one.score || (one.hit.name < other.hit.name ? -1 : 1))
        .slice(0, limit)
        .map(({ hit }) => hit)
    },
    async versions(name) {
      const answer = await get(`/servers/${encodeURIComponent(checkedName(name))}/versions`)
      return entriesOf(answer).flatMap((entry) => hitOf(entry)?.version ?? [])
    },
    async server(name, version = 'latest') {
      const answer = await get(
        `/servers/${encodeURIComponent(checkedName(name))}/versions/${encodeURIComponent(version)}`,
      )
      const server = parseRegistryServer(serverOf(answer), statusOf(answer))
      if (server.name !== name)
        throw new PegboardError('E_REGISTRY_ENTRY', `The registry answered with another server than ${name}.`)
      if (version !== 'latest' && server.version !== version)
        throw new PegboardError(
          'E_REGISTRY_ENTRY',
          `The registry answered with another version than ${name} ${version}.`,
        )
      return server
    },
    close: () => guarded.close(),
  }
}

function baseOf(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (!url || !isSafeUrl(url) || url.username !== '' || url.password !== '')
    throw new PegboardError(
      'E_CONFIG_INVALID',
      'The address of the registry must be an https URL without a password.',
      {
        hint: 'Correct registry.url or --registry.',
      },
    )
  url.search = ''
  url.hash = ''
  return url
}

const checkedName = (name: string): string => {
  if (SERVER_NAME.test(name)) return name
  throw new PegboardError('E_VALIDATION', `${JSON.stringify(name.slice(0, 80))} is not a name of the registry.`, {
    hint: 'Names look like io.github.user/server. pegboard registry search finds them.',
  })
}

async function read(fetch: Fetch, url: URL): Promise<Json> {
  const { host } = url
  let response: Response
  let text: string
  try {
    response = await fetch(url, { headers: { accept: 'application/json' } })
    text = await response.text()
  } catch (error) {
    if (isPegboardError(error) && error.code === 'E_SSRF_BLOCKED') throw error
    throw new PegboardError('E_REGISTRY_UNAVAILABLE', `The registry ${host} cannot be reached: ${messageOf(error)}`, {
      cause: error,
    })
  }
  const parsed = tryParseJson(text)
  const body = isRecord(parsed) ? parsed : undefined
  if (response.status === 404)
    throw new PegboardError('E_NOT_FOUND', `The registry ${host} does not have it.`, {
      hint: 'pegboard registry search finds servers.',
    })
  if (!response.ok) {
    const detail = body?.['detail'] ?? body?.['error'] ?? body?.['title']
    const words = typeof detail === 'string' ? `: ${shownText(detail, 200)}` : ''
    throw new PegboardError(
      'E_REGISTRY_UNAVAILABLE',
      `The registry ${host} answered with HTTP ${response.status}${words}.`,
    )
  }
  if (!body) throw new PegboardError('E_REGISTRY_UNAVAILABLE', `The answer of ${host} is not that of an MCP registry.`)
  return body
}

const entriesOf = (answer: Json): readonly Json[] =>
  Array.isArray(answer['servers']) ? answer['servers'].filter(isRecord) : []

/** Registries of 2025-09 have no envelope. */
const serverOf = (entry: Json): unknown => (isRecord(entry['server']) ? entry['server'] : entry)

function statusOf(entry: Json): { readonly status?: string; readonly message?: string } {
  const meta = asRecord(entry['_meta'])['io.modelcontextprotocol.registry/official']
  const { status, statusMessage } = asRecord(meta)
  return {
    ...(typeof status === 'string' ? { status } : {}),
    ...(typeof statusMessage === 'string' ? { message: statusMessage } : {}),
  }
}

/** Undefined for an entry whose name or version is not valid, or that was deleted. */
function hitOf(entry: Json): RegistryHit | undefined {
  const server = serverOf(entry)
  const { status } = statusOf(entry)
  if (!isRecord(server) || status === 'deleted') return undefined
  const { name, version, title, description } = server
  if (typeof name !== 'string' || !SERVER_NAME.test(name) || typeof version !== 'string') return undefined
  return {
    name,
    version: shownText(version, 80),
    ...(typeof title === 'string' ? { title: shownText(title, 100) } : {}),
    description: typeof description === 'string' ? shownText(description, 200) : '',
    ...(status === 'deprecated' ? { deprecated: true as const } : {}),
  }
}

/** Words in the name count most. */
function scoreOf({ name, title = '', description, deprecated }: RegistryHit, words: readonly string[]): number {
  const texts = [
    [name.slice(name.indexOf('/')), 4],
    [name, 2],
    [title, 2],
    [description, 1],
  ] as const
  const points = words.map((word) =>
    texts.reduce((sum, [text, weight]) => sum + (text.toLowerCase().includes(word) ? weight : 0), 0),
  )
  return points.reduce((sum, one) => sum + one, 0) - (deprecated ? 3 : 0)
}
