import { hash } from 'node:crypto'
import { messageOf } from '../core/errors.ts'
import { isRecord, type Json } from '../core/is-record.ts'
import type { ListKind } from '../core/list-kinds.ts'
import { omitUndefined } from '../core/omit-undefined.ts'
import type { Connection } from './connection.ts'
import { deeperThan, entryFault } from './list-entry-limits.ts'
import type { Brief } from './manifest.ts'
import { mirroredArguments } from './mirrored-headers.ts'
import { listUnenforced, readDefinition, type ToolRecord } from './tool-definition.ts'

export interface Listing {
  readonly tools: readonly ToolRecord[]
  readonly resources: readonly Json[]
  readonly templates: readonly Json[]
  readonly prompts: readonly Json[]
  /** True if a list of resources could not be read and is empty instead. */
  readonly missing?: boolean
  /** Skipped tools and constraints that are not enforced, in words for the operator. */
  readonly notes?: readonly string[]
  /** Only for lists loaded from disk. */
  readonly brief?: Brief
}

/** The definitions as sent by the server, by name. */
export type Definitions = ReadonlyMap<string, Json>

export interface FreshListing extends Listing {
  /** Definitions of the tools; many times larger than their records. */
  readonly definitions?: Definitions
  /** The answers with the tools, which have cache hints. */
  readonly pages?: readonly Json[]
}

export const emptyListing: Listing = { tools: [], resources: [], templates: [], prompts: [] }

const MAX_PAGES = 50
const MAX_ITEMS = 500
const LIST_MS = 15_000
/** Maximum size of one list, as JSON in bytes. */
const MAX_LIST = 4 * 1024 * 1024
const MAX_COUNTED = 64
const MAX_CURSOR = 64 * 1024
/** A deeper value cannot be serialized, so its size is unknown. */
const MAX_WRITTEN = 1_000

/**
 * Reads the lists of these kinds and keeps the others. A failure to read tools is thrown; a failure to read other
 * lists is logged, and the list is empty.
 */
export async function readListing(
  connection: Connection,
  kinds: ReadonlySet<ListKind>,
  known: Listing,
  warn: (message: string) => void,
): Promise<FreshListing> {
  const has = (kind: ListKind): boolean => isRecord(connection.capabilities[kind])
  let missing = !kinds.has('resources') && known.missing === true
  const readOptional = async (kind: ListKind, method: string, key: string, id: string): Promise<readonly Json[]> => {
    if (!has(kind)) return []
    try {
      const { items } = await readPages(connection, method, key, warn)
      const entries = keepWithinSize(items, method, warn)
      return keepValidEntries(entries, method, id, warn)
    } catch (error) {
      warn(`${method} failed: ${messageOf(error)}`)
      if (method !== 'prompts/list') missing = true
      return []
    }
  }
  const [{ tools, definitions, pages, notes }, resources, templates, prompts]: [ReadTools, ...Array<readonly Json[]>] =
    await Promise.all([
      !kinds.has('tools') ? known : has('tools') ? readTools(connection, warn) : emptyListing,
      kinds.has('resources') ? readOptional('resources', 'resources/list', 'resources', 'uri') : known.resources,
      kinds.has('resources')
        ? readOptional('resources', 'resources/templates/list', 'resourceTemplates', 'uriTemplate')
        : known.templates,
      kinds.has('prompts') ? readOptional('prompts', 'prompts/list', 'prompts', 'name') : known.prompts,
    ])
  const others = { resources, templates, prompts, ...(missing ? { missing } : {}) }
  return { tools, ...others, ...omitUndefined({ definitions, pages }), ...(notes?.length ? { notes } : {}) }
}

type ReadTools = Pick<FreshListing, 'tools' | 'definitions' | 'pages' | 'notes'>

/** Entries with an id that every client accepts. */
function keepValidEntries(
  entries: readonly unknown[],
  method: string,
  id: string,
  warn: (message: string) => void,
): Json[] {
  return entries.filter((one): one is Json => {
    if (!isRecord(one)) return false
    const { [id]: name } = one
    if (typeof name !== 'string') return false
    const fault = entryFault(one)
    if (fault) warn(`${method}: skipped ${JSON.stringify(name.slice(0, 60))}: ${fault}`)
    return fault === undefined
  })
}

/** The first entries whose total size is within the limit. Entries too deep to measure are rejected elsewhere. */
function keepWithinSize(
  entries: readonly unknown[],
  method: string,
  warn: (message: string) => void,
): readonly unknown[] {
  let bytes = 0
  const end = entries.findIndex((one) => {
    bytes += deeperThan(one, MAX_COUNTED) ? 0 : (JSON.stringify(one)?.length ?? 0)
    return bytes > MAX_LIST
  })
  if (end === -1) return entries
  warn(tooMany(method, end))
  return entries.slice(0, end)
}

const tooMany = (method: string, end: number): string =>
  `${method} was cut at ${end} entries: it has more than ${MAX_LIST} bytes`

/** @returns why the tool is skipped, if it is */
function recordOf(raw: unknown, { era, transport }: Connection): ToolRecord | string {
  const record = readDefinition(raw)
  if (typeof record === 'string' || !record.mirrors || era !== 'modern' || transport !== 'http') return record
  const mirrored = mirroredArguments((raw as Json)['inputSchema'])
  return typeof mirrored === 'string' ? `${JSON.stringify(record.name)}: ${mirrored}` : record
}

async function readTools(connection: Connection, warn: (message: string) => void): Promise<ReadTools> {
  const { items, pages } = await readPages(connection, 'tools/list', 'tools', warn)
  const notes: string[] = []
  const note = (text: string): void => {
    warn(text)
    if (notes.length < MAX_NOTES) notes.push(shownNote(text))
  }
  const tools = new Map<string, ToolRecord>()
  const definitions = new Map<string, Json>()
  let bytes = 0
  for (const [at, raw] of items.entries()) {
    const record = recordOf(raw, connection)
    if (typeof record === 'string') {
      note(`skipped ${record}`)
      continue
    }
    const first = tools.get(record.name)
    if (first) {
      warn(`skipped a second tool named ${JSON.stringify(record.name)}`)
      // Neither of two different definitions is the one that was approved.
      if (first.hash !== record.hash)
        tools.set(record.name, { ...first, isAmbiguous: true, hash: hash('sha256', `${first.hash} ${record.hash}`) })
      continue
    }
    bytes += record.text.length
    if (bytes > MAX_LIST) {
      warn(tooMany('tools/list', at))
      break
    }
    for (const one of listUnenforced(raw as Json, record.text)) note(`${JSON.stringify(record.name)}: ${one}`)
    tools.set(record.name, record)
    definitions.set(record.name, raw as Json)
  }
  return { tools: [...tools.values()], definitions, pages, notes }
}

const MAX_NOTES = 20

/** Models see notes, so only short plain names of the server's text are kept. */
const shownNote = (text: string): string =>
  text.replaceAll(/"(?:[^"\\]|\\.)*"?/gs, (quoted) => (/^"[\w./-]{1,64}"$/.test(quoted) ? quoted : '"…"'))

const sizeOf = (one: unknown): number =>
  deeperThan(one, MAX_WRITTEN) ? MAX_LIST + 1 : (JSON.stringify(one)?.length ?? 0)

/** Reads pages until there are no more, one repeats, or the limit is reached. */
async function readPages(
  connection: Connection,
  method: string,
  key: string,
  warn: (message: string) => void,
): Promise<{ readonly items: readonly unknown[]; readonly pages: readonly Json[] }> {
  const items: unknown[] = []
  const pages: Json[] = []
  const seen = new Set<string>()
  let cursor: string | undefined
  let bytes = 0
  for (;;) {
    const result = await connection.request(method, cursor === undefined ? {} : { cursor }, { timeoutMs: LIST_MS })
    pages.push(result)
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
    // All pages, and their names, are in memory at once.
    for (const one of part) bytes += sizeOf(one)
    const end =
      limitReached(items.length, pages.length, bytes, next) ?? (seen.has(next) ? 'a page it repeats' : undefined)
    if (end !== undefined) {
      warn(`${method} was cut at ${end}`)
      break
    }
    seen.add(next)
    cursor = next
  }
  return { items, pages }
}

/** The limit at which a list ends although it has another page. */
function limitReached(items: number, pages: number, bytes: number, cursor: string): string | undefined {
  if (items >= MAX_ITEMS) return `${MAX_ITEMS} entries`
  if (pages >= MAX_PAGES) return `${MAX_PAGES} pages`
  if (bytes > MAX_LIST) return `page ${pages}: it has more than ${MAX_LIST} bytes`
  if (cursor.length > MAX_CURSOR) return `page ${pages}: its cursor has ${cursor.length} characters`
  return undefined
}
