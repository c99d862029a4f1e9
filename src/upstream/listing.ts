import { messageOf } from '../core/errors.ts'
import { isRecord } from '../core/record.ts'
import type { Connection } from './connection.ts'
import { readDefinition, type ToolRecord } from './definition.ts'
import { deeperThan, entryFault } from './entry.ts'
import type { Brief } from './manifest.ts'
import { mirroredArguments } from './mirror.ts'

type Json = Readonly<Record<string, unknown>>

export type ListKind = 'tools' | 'resources' | 'prompts'

/** All a server offers. */
export interface Listing {
  readonly tools: readonly ToolRecord[]
  readonly resources: readonly Json[]
  readonly templates: readonly Json[]
  readonly prompts: readonly Json[]
  /** Of lists that come from disk. */
  readonly brief?: Brief
}

export const emptyListing: Listing = { tools: [], resources: [], templates: [], prompts: [] }

const MAX_PAGES = 50
const MAX_ITEMS = 500
const LIST_MS = 15_000
/** Bytes of one list, in JSON. */
const MAX_LIST = 4 * 1024 * 1024
const MAX_COUNTED = 64

/**
 * Asks for the lists of these kinds and leaves the others as they were. Without tools there is nothing to show, so a
 * failure there is thrown; the other lists are warned about and taken as empty.
 */
export async function readListing(
  connection: Connection,
  kinds: ReadonlySet<ListKind>,
  before: Listing,
  warn: (message: string) => void,
  scope: (cacheScope: unknown) => void = () => undefined,
): Promise<Listing> {
  const has = (kind: ListKind): boolean => isRecord(connection.capabilities[kind])
  const optional = async (kind: ListKind, method: string, key: string, id: string): Promise<readonly Json[]> => {
    if (!has(kind)) return []
    try {
      return fitting(await pages(connection, method, key, warn), method, id, warn)
    } catch (error) {
      warn(`${method} failed: ${messageOf(error)}`)
      return []
    }
  }
  const [tools, resources, templates, prompts] = await Promise.all([
    !kinds.has('tools') ? before.tools : has('tools') ? readTools(connection, warn, scope) : [],
    kinds.has('resources') ? optional('resources', 'resources/list', 'resources', 'uri') : before.resources,
    kinds.has('resources')
      ? optional('resources', 'resources/templates/list', 'resourceTemplates', 'uriTemplate')
      : before.templates,
    kinds.has('prompts') ? optional('prompts', 'prompts/list', 'prompts', 'name') : before.prompts,
  ])
  return { tools, resources, templates, prompts }
}

/** Those that have an id, and that every client can be given. */
function fitting(entries: readonly unknown[], method: string, id: string, warn: (message: string) => void): Json[] {
  return entries.filter((one): one is Json => {
    if (!isRecord(one)) return false
    const { [id]: name } = one
    if (typeof name !== 'string') return false
    const fault = entryFault(one)
    if (fault) warn(`${method}: skipped ${JSON.stringify(name.slice(0, 60))}: ${fault}`)
    return fault === undefined
  })
}

/** The first entries that have no more than so many bytes together. Those too deep to count are for others to refuse. */
function light(entries: readonly unknown[], method: string, warn: (message: string) => void): readonly unknown[] {
  let bytes = 0
  const end = entries.findIndex((one) => {
    bytes += deeperThan(one, MAX_COUNTED) ? 0 : (JSON.stringify(one)?.length ?? 0)
    return bytes > MAX_LIST
  })
  if (end === -1) return entries
  warn(`${method} was cut at ${end} entries: it has more than ${MAX_LIST} bytes`)
  return entries.slice(0, end)
}

async function readTools(
  connection: Connection,
  warn: (message: string) => void,
  scope: (cacheScope: unknown) => void,
): Promise<readonly ToolRecord[]> {
  const tools = new Map<string, ToolRecord>()
  for (const raw of await pages(connection, 'tools/list', 'tools', warn, scope)) {
    const record = readDefinition(raw)
    if (typeof record === 'string') {
      warn(`skipped ${record}`)
      continue
    }
    if (tools.has(record.name)) {
      warn(`skipped a second tool named ${JSON.stringify(record.name)}`)
      continue
    }
    if (record.mirrors && connection.era === 'modern' && connection.transport === 'http') {
      const mirrored = mirroredArguments((raw as Json)['inputSchema'])
      if (typeof mirrored === 'string') {
        warn(`skipped ${JSON.stringify(record.name)}: ${mirrored}`)
        continue
      }
    }
    tools.set(record.name, record)
  }
  return [...tools.values()]
}

/** Every page, until the server stops, repeats itself or has had enough chances. */
async function pages(
  connection: Connection,
  method: string,
  key: string,
  warn: (message: string) => void,
  scope: (cacheScope: unknown) => void = () => undefined,
): Promise<readonly unknown[]> {
  const items: unknown[] = []
  const seen = new Set<string>()
  let cursor: string | undefined
  for (let page = 1; ; page++) {
    const result = await connection.request(method, cursor === undefined ? {} : { cursor }, { timeoutMs: LIST_MS })
    scope(result['cacheScope'])
    const part = result[key]
    if (!Array.isArray(part)) {
      warn(`${method} answered without ${key}`)
      break
    }
    const room = MAX_ITEMS - items.length
    for (const one of part.slice(0, room)) items.push(one)
    if (part.length > room) {
      warn(`${method} was cut at ${MAX_ITEMS} entries`)
      break
    }
    const next = result['nextCursor']
    if (typeof next !== 'string' || next === '') break
    const stop =
      items.length >= MAX_ITEMS
        ? `${MAX_ITEMS} entries`
        : page >= MAX_PAGES
          ? `${MAX_PAGES} pages`
          : seen.has(next)
            ? 'a page it repeats'
            : undefined
    if (stop) {
      warn(`${method} was cut at ${stop}`)
      break
    }
    seen.add(next)
    cursor = next
  }
  return light(items, method, warn)
}
