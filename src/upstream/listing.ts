import { hash } from 'node:crypto'
import { messageOf } from '../core/errors.ts'
import { isRecord } from '../core/record.ts'
import type { Connection } from './connection.ts'
import { readDefinition, type ToolRecord, unenforced } from './definition.ts'
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
  /** Tools that were skipped, and what of the others is not enforced; in words for the operator. */
  readonly notes?: readonly string[]
  /** Of lists that come from disk. */
  readonly brief?: Brief
}

/** What the server sent of each tool, by name. */
export type Definitions = ReadonlyMap<string, Json>

/** A listing that was read just now. */
export interface Read extends Listing {
  /** Of tools that were read. It is many times as large as what is kept of them. */
  readonly definitions?: Definitions
  /** Tools that were not looked at yet; `tools` is empty then. */
  readonly unread?: Unread
}

/** What a server sent of its tools. */
export interface Unread {
  readonly sent: readonly unknown[]
  /** What is kept of one of them, or why it is left out. */
  record(sent: unknown): ToolRecord | string
  read(): Pick<Read, 'tools' | 'definitions' | 'notes'>
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
 * @param heard gets each page of the tools
 */
export async function readListing(
  connection: Connection,
  kinds: ReadonlySet<ListKind>,
  before: Listing,
  warn: (message: string) => void,
  heard: (page: Json) => void = () => undefined,
  later = false,
): Promise<Read> {
  const has = (kind: ListKind): boolean => isRecord(connection.capabilities[kind])
  const optional = async (kind: ListKind, method: string, key: string, id: string): Promise<readonly Json[]> => {
    if (!has(kind)) return []
    try {
      return fitting(light(await pages(connection, method, key, warn), method, warn), method, id, warn)
    } catch (error) {
      warn(`${method} failed: ${messageOf(error)}`)
      return []
    }
  }
  const [asked, resources, templates, prompts]: [Listing | Unread | typeof NO_TOOLS, ...Array<readonly Json[]>] =
    await Promise.all([
      !kinds.has('tools') ? before : has('tools') ? askTools(connection, warn, heard) : NO_TOOLS,
      kinds.has('resources') ? optional('resources', 'resources/list', 'resources', 'uri') : before.resources,
      kinds.has('resources')
        ? optional('resources', 'resources/templates/list', 'resourceTemplates', 'uriTemplate')
        : before.templates,
      kinds.has('prompts') ? optional('prompts', 'prompts/list', 'prompts', 'name') : before.prompts,
    ])
  const others = { resources, templates, prompts }
  if ('sent' in asked && later) return { ...others, tools: [], unread: asked }
  const { tools, definitions, notes }: typeof NO_TOOLS = 'sent' in asked ? asked.read() : asked
  return { tools, ...others, ...(definitions ? { definitions } : {}), ...(notes?.length ? { notes } : {}) }
}

const NO_TOOLS: Pick<Read, 'tools' | 'definitions' | 'notes'> = { tools: [] }

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
  warn(tooMany(method, end))
  return entries.slice(0, end)
}

const tooMany = (method: string, end: number): string =>
  `${method} was cut at ${end} entries: it has more than ${MAX_LIST} bytes`

async function askTools(
  connection: Connection,
  warn: (message: string) => void,
  heard: (page: Json) => void,
): Promise<Unread> {
  const sent = await pages(connection, 'tools/list', 'tools', warn, heard)
  const record = (raw: unknown): ToolRecord | string => recordOf(raw, connection)
  return { sent, record, read: () => readTools(sent, record, warn) }
}

/** @returns why it is left out, where it is */
function recordOf(raw: unknown, { era, transport }: Connection): ToolRecord | string {
  const record = readDefinition(raw)
  if (typeof record === 'string' || !record.mirrors || era !== 'modern' || transport !== 'http') return record
  const mirrored = mirroredArguments((raw as Json)['inputSchema'])
  return typeof mirrored === 'string' ? `${JSON.stringify(record.name)}: ${mirrored}` : record
}

function readTools(
  sent: readonly unknown[],
  recordOf: Unread['record'],
  warn: (message: string) => void,
): Pick<Read, 'tools' | 'definitions' | 'notes'> {
  const notes: string[] = []
  const note = (text: string): void => {
    if (notes.length < MAX_NOTES) notes.push(shownNote(text))
  }
  const tools = new Map<string, ToolRecord>()
  const definitions = new Map<string, Json>()
  let bytes = 0
  for (const [at, raw] of sent.entries()) {
    const record = recordOf(raw)
    if (typeof record === 'string') {
      warn(`skipped ${record}`)
      note(`skipped ${record}`)
      continue
    }
    const first = tools.get(record.name)
    if (first) {
      warn(`skipped a second tool named ${JSON.stringify(record.name)}`)
      // Neither is what somebody approved.
      if (first.hash !== record.hash)
        tools.set(record.name, { ...first, hash: hash('sha256', `${first.hash} ${record.hash}`) })
      continue
    }
    bytes += record.text.length
    if (bytes > MAX_LIST) {
      warn(tooMany('tools/list', at))
      break
    }
    for (const one of unenforced(raw as Json, record.text)) {
      warn(`${JSON.stringify(record.name)}: ${one}`)
      note(`${JSON.stringify(record.name)}: ${one}`)
    }
    tools.set(record.name, record)
    definitions.set(record.name, raw as Json)
  }
  return { tools: [...tools.values()], definitions, notes }
}

const MAX_NOTES = 20

/** Models read notes: of what the server wrote, only short plain names stay. */
const shownNote = (text: string): string =>
  text.replaceAll(/"(?:[^"\\]|\\.)*"?/gs, (quoted) => (/^"[\w./-]{1,64}"$/.test(quoted) ? quoted : '"…"'))

/** Every page, until the server stops, repeats itself or has had enough chances. */
async function pages(
  connection: Connection,
  method: string,
  key: string,
  warn: (message: string) => void,
  heard: (page: Json) => void = () => undefined,
): Promise<readonly unknown[]> {
  const items: unknown[] = []
  const seen = new Set<string>()
  let cursor: string | undefined
  for (let page = 1; ; page++) {
    const result = await connection.request(method, cursor === undefined ? {} : { cursor }, { timeoutMs: LIST_MS })
    heard(result)
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
  return items
}
