import { hash } from 'node:crypto'
import { isRecord, type Json } from '../core/is-record.ts'
import { once } from '../core/once.ts'
import type { Effect } from '../core/tool.ts'
import type { BytesStore } from '../state/file-store.ts'
import type { Implementation } from './connection.ts'
import type { EraVerdict } from './era-history.ts'
import type { Listing } from './read-listing.ts'
import type { ToolRecord } from './tool-definition.ts'
import type { ServerSettings } from './upstream-settings.ts'

/** What a server offered when it was last connected; enough to list its tools without starting it. */
export interface Manifest extends Omit<Listing, 'missing'> {
  readonly verdict: EraVerdict
  readonly capabilities: Json
  /** Called `implementation` elsewhere. Stored under this name since earlier versions. */
  readonly server?: Implementation | undefined
  /** Duration of the last start in milliseconds. */
  readonly startMs?: number | undefined
  /** True if the server has sent requests to clients. */
  readonly asks?: boolean | undefined
  /** Ids of the Pegboards that its tools come through. */
  readonly gateways?: readonly string[] | undefined
}

/** A summary of the tools that can be read without parsing ten thousand of them. */
export interface Brief {
  readonly count: number
  /**
   * The prefix they were listed with, and the estimated tokens of listing them with it, without output schemas; absent if
   * the records do not tell.
   */
  readonly prefix: string
  readonly tokens?: number
  /** Seal of the lock file when every tool was approved; see `Trust.seal`. */
  readonly seal?: string
}

/** Storage for manifests by `manifestKey`. `line` is called during the start, so it should be fast. */
export type ManifestStore = Pick<BytesStore, 'line' | 'get' | 'set'>

/** Key of a manifest: the same for the same way to reach a server, whatever its name and filters. */
export function manifestKey({ target }: ServerSettings): string {
  return hash('sha256', JSON.stringify(target)).slice(0, 32)
}

/** Increased when the layout changes, or anything computed from a definition. */
const FORMAT = 8
const NEWLINE = 0x0a
const HASH_BYTES = 32
const EFFECTS: Readonly<Record<string, Effect>> = { r: 'read', w: 'write', d: 'destructive' }

/** The first line. */
interface Head extends Omit<Manifest, 'tools'> {
  readonly format: number
  /** SHA-256 of the second line in hex; ties the approval in this line to those tools. */
  readonly columns: string
}

/** The second line: tools as columns, because there are many. Definitions follow, one per line. */
interface Columns {
  readonly names: readonly string[]
  readonly listed: readonly number[]
  /** One letter per tool: its effect by name and annotations, and by annotations alone. */
  readonly effects: string
  readonly claimed: string
  /** The concatenated SHA-256 hashes in base64. */
  readonly hashes: string
  /** Indexes of tools that mirror arguments into headers. */
  readonly mirrors: readonly number[]
  /** Indexes of tools that the server lists twice with different definitions. */
  readonly ambiguous: readonly number[]
}

/** Encodes a manifest: one line of JSON that every start needs, one for the tools, then one per definition. */
export function encodeManifest({ tools, ...rest }: Manifest): Uint8Array {
  const columns: Columns = {
    names: tools.map(({ name }) => name),
    listed: tools.map(({ listed }) => listed ?? -1),
    effects: tools.map(({ effect }) => effect[0]).join(''),
    claimed: tools.map(({ claimed }) => claimed[0]).join(''),
    hashes: Buffer.concat(tools.map(({ hash }) => Buffer.from(hash, 'hex'))).toString('base64'),
    mirrors: tools.flatMap(({ mirrors }, at) => (mirrors ? [at] : [])),
    ambiguous: tools.flatMap(({ isAmbiguous }, at) => (isAmbiguous ? [at] : [])),
  }
  const line = JSON.stringify(columns)
  const head: Head = { format: FORMAT, ...rest, columns: digestOf(Buffer.from(line)) }
  return Buffer.from([JSON.stringify(head), line, ...tools.map(({ text }) => text), ''].join('\n'))
}

/**
 * Decodes the first line; tools are decoded on access.
 * @param line the first line, or more
 * @param read returns the whole file later, which may then be newer
 * @param stale called if it is newer or damaged; there are no tools then
 * @returns undefined for another version's manifest
 * @throws Error for a damaged first line
 */
export function decodeManifest(
  line: Uint8Array,
  read: () => Uint8Array | undefined = () => line,
  stale: () => void = () => undefined,
): Manifest | undefined {
  const head = headOf(asBuffer(line)) as Partial<Head> | null
  if (!isRecord(head) || head['format'] !== FORMAT) return undefined
  const { format: _format, columns, ...rest } = head as unknown as Head
  if (!isSound(rest, columns)) throw new Error('its parts are not valid')
  const tools = once(() => {
    const found = columnsOf(read(), columns)
    if (!found) stale()
    return found ? readRecords(found, createDefinitions(read)) : []
  })
  return {
    ...rest,
    get tools() {
      return tools()
    },
  }
}

/** Checks all types, because the file may have been changed. */
function isSound(head: { readonly [Key in keyof Omit<Manifest, 'tools'>]?: unknown }, columns: unknown): boolean {
  const { verdict, server, startMs, brief } = head
  return (
    typeof columns === 'string' &&
    isRecord(verdict) &&
    ['legacy', 'modern'].includes(verdict['era'] as string) &&
    ['stdio', 'http', 'sse'].includes(verdict['transport'] as string) &&
    typeof verdict['at'] === 'number' &&
    isRecord(head.capabilities) &&
    areEntries(head.resources, 'uri') &&
    areEntries(head.templates, 'uriTemplate') &&
    areEntries(head.prompts, 'name') &&
    (server === undefined ||
      (isRecord(server) &&
        typeof server['name'] === 'string' &&
        typeof server['version'] === 'string' &&
        isOr('string', server['about']))) &&
    isOr('number', startMs) &&
    areStringsOrNone(head.notes) &&
    areStringsOrNone(head.gateways) &&
    (brief === undefined ||
      (isRecord(brief) &&
        typeof brief['count'] === 'number' &&
        typeof brief['prefix'] === 'string' &&
        isOr('number', brief['tokens']) &&
        isOr('string', brief['seal'])))
  )
}

const isOr = (type: 'number' | 'string', value: unknown): boolean => value === undefined || typeof value === type
const areStringsOrNone = (value: unknown): boolean =>
  value === undefined || (Array.isArray(value) && value.every((one) => typeof one === 'string'))
const areEntries = (entries: unknown, id: string): boolean =>
  Array.isArray(entries) && entries.every((one) => isRecord(one) && typeof one[id] === 'string')

function headOf(bytes: Buffer): unknown {
  const end = bytes.indexOf(NEWLINE)
  if (end === -1) throw new Error('it is cut short')
  return JSON.parse(bytes.toString('utf8', 0, end))
}

/** The second line, if its digest matches. */
function columnsOf(bytes: Uint8Array | undefined, digest?: string): Columns | undefined {
  if (!bytes) return undefined
  const from = bytes.indexOf(NEWLINE) + 1
  const to = bytes.indexOf(NEWLINE, from)
  const line = bytes.subarray(from, Math.max(from, to))
  if (digest !== undefined && digestOf(line) !== digest) return undefined
  return JSON.parse(asBuffer(line).toString('utf8')) as Columns
}

const digestOf = (bytes: Uint8Array): string => hash('sha256', bytes)
const asBuffer = (bytes: Uint8Array): Buffer => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)

type Definitions = (record: Pick<ToolRecord, 'name' | 'hash'>) => string

/**
 * Definitions, read when the first one is accessed. The file may be newer by then: a definition that does not match
 * its record's hash reads as empty, so that no unapproved text is shown.
 */
function createDefinitions(read: () => Uint8Array | undefined): Definitions {
  let bytes: Buffer = Buffer.alloc(0)
  let positions: ReadonlyMap<string, readonly [from: number, to: number, hash: string]> | undefined
  const find = (): NonNullable<typeof positions> => {
    const currentBytes = read()
    const columns = columnsOf(currentBytes)
    if (!currentBytes || !columns) return new Map()
    bytes = asBuffer(currentBytes)
    const hashes = Buffer.from(columns.hashes, 'base64')
    let from = bytes.indexOf(NEWLINE, bytes.indexOf(NEWLINE) + 1) + 1
    return new Map(
      columns.names.map((name, n) => {
        const to = bytes.indexOf(NEWLINE, from)
        const position = [from, to === -1 ? bytes.length : to, hashAt(hashes, n * HASH_BYTES)] as const
        from = position[1] + 1
        return [name, position]
      }),
    )
  }
  return ({ name, hash }) => {
    positions ??= find()
    const position = positions.get(name)
    return position?.[2] === hash ? bytes.toString('utf8', position[0], position[1]) : ''
  }
}

const hashAt = (hashes: Buffer, at: number): string => hashes.toString('hex', at, at + HASH_BYTES)

interface StoredRecord extends ToolRecord {
  readonly definitions: Definitions
  readonly hashes: Buffer
  /** Offset of its hash. */
  readonly at: number
}

// Properties that are computed on access, on a prototype shared by all records.
const lazyProperties: Pick<ToolRecord, 'text' | 'hash' | 'stamp'> & ThisType<StoredRecord> = {
  get text(): string {
    return this.definitions(this)
  },
  get hash(): string {
    return hashAt(this.hashes, this.at)
  },
  get stamp(): number {
    return stampOf(this.hashes, this.at)
  },
}

function readRecords({ names, effects, claimed, listed, ...more }: Columns, definitions: Definitions): ToolRecord[] {
  const hashes = Buffer.from(more.hashes, 'base64')
  if (
    [listed, effects, claimed].some(({ length }) => length !== names.length) ||
    hashes.length !== names.length * HASH_BYTES
  )
    throw new Error('its columns differ in length')
  const shared: object = Object.assign(Object.create(lazyProperties), { definitions, hashes })
  const mirrors = new Set(more.mirrors)
  const ambiguous = new Set(more.ambiguous)
  return names.map((name, n) => {
    const record = Object.create(shared)
    record.name = name
    record.effect = EFFECTS[effects[n] as string] ?? 'destructive'
    record.claimed = EFFECTS[claimed[n] as string] ?? 'destructive'
    record.listed = listed[n] === -1 ? undefined : listed[n]
    record.mirrors = mirrors.has(n)
    record.isAmbiguous = ambiguous.has(n)
    record.at = n * HASH_BYTES
    return record
  })
}

/** The first 48 bits of a hash, enough to detect a change. */
export const stampOf = (hash: Buffer, at = 0): number => hash.readUIntBE(at, 6)
