import { hash } from 'node:crypto'
import { once } from '../core/once.ts'
import { isRecord } from '../core/record.ts'
import type { Effect } from '../core/tool.ts'
import type { ToolRecord } from './definition.ts'
import type { ServerSettings } from './settings.ts'

type Json = Readonly<Record<string, unknown>>

/** Which protocol a server spoke when last asked. */
export interface EraVerdict {
  readonly era: 'legacy' | 'modern'
  readonly transport: 'stdio' | 'http' | 'sse'
  /** When it was asked, in milliseconds since the epoch. */
  readonly at: number
  /** It did not answer in time, which may have been the machine's fault. */
  readonly silent?: true
}

const DAY_MS = 24 * 60 * 60_000

/** A legacy verdict holds for a week, because servers get updated; one that silence led to holds for a day. */
export const isStale = ({ era, at, silent }: EraVerdict, now: number): boolean =>
  era === 'legacy' && now - at > (silent ? DAY_MS : 7 * DAY_MS)

/** What a server offered when it was last connected; enough to list its tools without starting it. */
export interface Manifest {
  readonly verdict: EraVerdict
  readonly capabilities: Json
  readonly server?: { readonly name: string; readonly version: string }
  /** How long the last start took, in milliseconds. */
  readonly startMs?: number
  /** It has asked something of a caller. */
  readonly asks?: boolean
  /** Ids of the Pegboards its tools come through. */
  readonly gateways?: readonly string[]
  readonly tools: readonly ToolRecord[]
  readonly resources: readonly Json[]
  readonly templates: readonly Json[]
  readonly prompts: readonly Json[]
  readonly notes?: readonly string[]
  readonly brief?: Brief
}

/** What is said of the tools without reading them: there may be ten thousand, and a start needs none. */
export interface Brief {
  readonly count: number
  /** The prefix they were listed with, and the estimated tokens of listing them so; absent where the records do not tell. */
  readonly prefix: string
  readonly tokens?: number
  /** What the lock had when every tool was approved by it; see `Trust.seal`. */
  readonly seal?: string
}

/** Where manifests are kept, by `manifestKey`. `line` is asked for at start, so it should not be slow. */
export interface ManifestStore {
  /** The first line, which is all that a start needs. */
  line(key: string): Uint8Array | undefined
  get(key: string): Uint8Array | undefined
  set(key: string, bytes: Uint8Array): void
}

/** Names a manifest: the same for the same way to reach a server, whatever it is called or however it is filtered. */
export function manifestKey({ target }: ServerSettings): string {
  return hash('sha256', JSON.stringify(target)).slice(0, 32)
}

/** Counts up with the layout below and with anything that changes what is worked out from a definition. */
const FORMAT = 5
const NEWLINE = 0x0a
const HASH_BYTES = 32
const EFFECTS: Readonly<Record<string, Effect>> = { r: 'read', w: 'write', d: 'destructive' }

/** The first line. */
interface Head extends Omit<Manifest, 'tools'> {
  readonly format: number
  /** SHA-256 of the second line, in hex: what was approved with this head. */
  readonly columns: string
}

/** The second line: tools as columns, because there are many. Definitions follow, one a line. */
interface Columns {
  readonly names: readonly string[]
  readonly listed: readonly number[]
  /** A letter a tool: by its name and annotations, and by its annotations alone. */
  readonly effects: string
  readonly claimed: string
  /** SHA-256 of each, one after the other, in base64. */
  readonly hashes: string
  /** Which ones mirror arguments into headers. */
  readonly mirrors: readonly number[]
}

/** A manifest as it is kept: a line of JSON for what every start needs, one for the tools, then one a definition. */
export function encodeManifest({ tools, ...rest }: Manifest): Uint8Array {
  const columns: Columns = {
    names: tools.map(({ name }) => name),
    listed: tools.map(({ listed }) => listed ?? -1),
    effects: tools.map(({ effect }) => effect[0]).join(''),
    claimed: tools.map(({ claimed }) => claimed[0]).join(''),
    hashes: Buffer.concat(tools.map(({ hash }) => Buffer.from(hash, 'hex'))).toString('base64'),
    mirrors: tools.flatMap(({ mirrors }, at) => (mirrors ? [at] : [])),
  }
  const line = JSON.stringify(columns)
  const head: Head = { format: FORMAT, ...rest, columns: digestOf(Buffer.from(line)) }
  return Buffer.from([JSON.stringify(head), line, ...tools.map(({ text }) => text), ''].join('\n'))
}

/**
 * Reads what every start needs; tools are read when someone looks at them.
 * @param line the first line, or more
 * @param read gives the whole then; by then it may be a newer one
 * @param stale told when it is, or is damaged: there are no tools then
 * @returns undefined for another version's manifest, which is learnt again
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
  if (!isSound(rest, columns)) throw new Error('its parts are not what they should be')
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

/** Whatever was done to the file, nobody who reads a manifest has to doubt its types. */
function isSound(head: { readonly [Key in keyof Omit<Manifest, 'tools'>]?: unknown }, columns: unknown): boolean {
  const { verdict, server, startMs, brief, notes } = head
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
      (isRecord(server) && typeof server['name'] === 'string' && typeof server['version'] === 'string')) &&
    isOr('number', startMs) &&
    (notes === undefined || (Array.isArray(notes) && notes.every((one) => typeof one === 'string'))) &&
    (head.gateways === undefined ||
      (Array.isArray(head.gateways) && head.gateways.every((one) => typeof one === 'string'))) &&
    (brief === undefined ||
      (isRecord(brief) &&
        typeof brief['count'] === 'number' &&
        typeof brief['prefix'] === 'string' &&
        isOr('number', brief['tokens']) &&
        isOr('string', brief['seal'])))
  )
}

const isOr = (type: 'number' | 'string', value: unknown): boolean => value === undefined || typeof value === type
const areEntries = (entries: unknown, id: string): boolean =>
  Array.isArray(entries) && entries.every((one) => isRecord(one) && typeof one[id] === 'string')

function headOf(bytes: Buffer): unknown {
  const end = bytes.indexOf(NEWLINE)
  if (end === -1) throw new Error('it is cut short')
  return JSON.parse(bytes.toString('utf8', 0, end))
}

/** The second line, where it is the one with this digest. */
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
 * The definitions of a server, read when the first one is asked for. The manifest may be a newer one by then: what is not
 * the definition that the record is of reads as none, so that nobody is shown a text that was not looked at.
 */
function createDefinitions(read: () => Uint8Array | undefined): Definitions {
  let bytes: Buffer = Buffer.alloc(0)
  let places: ReadonlyMap<string, readonly [from: number, to: number, hash: string]> | undefined
  const find = (): NonNullable<typeof places> => {
    const given = read()
    const columns = columnsOf(given)
    if (!given || !columns) return new Map()
    bytes = asBuffer(given)
    const hashes = Buffer.from(columns.hashes, 'base64')
    let from = bytes.indexOf(NEWLINE, bytes.indexOf(NEWLINE) + 1) + 1
    return new Map(
      columns.names.map((name, n) => {
        const to = bytes.indexOf(NEWLINE, from)
        const place = [from, to === -1 ? bytes.length : to, hashAt(hashes, n * HASH_BYTES)] as const
        from = place[1] + 1
        return [name, place]
      }),
    )
  }
  return ({ name, hash }) => {
    places ??= find()
    const place = places.get(name)
    return place?.[2] === hash ? bytes.toString('utf8', place[0], place[1]) : ''
  }
}

const hashAt = (hashes: Buffer, at: number): string => hashes.toString('hex', at, at + HASH_BYTES)

interface Kept extends ToolRecord {
  readonly definitions: Definitions
  readonly hashes: Buffer
  /** Where its hash starts. */
  readonly at: number
}

// What a record does not have until it is asked for. On a prototype: ten thousand records share it.
const asked: Pick<ToolRecord, 'text' | 'hash' | 'stamp'> & ThisType<Kept> = {
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
  const shared: object = Object.assign(Object.create(asked), { definitions, hashes })
  const mirrors = new Set(more.mirrors)
  return names.map((name, n) => {
    const record = Object.create(shared)
    record.name = name
    record.effect = EFFECTS[effects[n] as string] ?? 'destructive'
    record.claimed = EFFECTS[claimed[n] as string] ?? 'destructive'
    record.listed = listed[n] === -1 ? undefined : listed[n]
    record.mirrors = mirrors.has(n)
    record.at = n * HASH_BYTES
    return record
  })
}

/** The first 48 bits of a hash: enough to see that something changed. */
export const stampOf = (hash: Buffer, at = 0): number => hash.readUIntBE(at, 6)
