import { createHash } from 'node:crypto'
import type { Effect } from '../core/tool.ts'
import type { ToolRecord } from './definition.ts'
import { isRecord } from './envelope.ts'
import type { ServerSettings } from './settings.ts'

type Json = Readonly<Record<string, unknown>>

/** Which protocol a server spoke when last asked. */
export interface EraVerdict {
  readonly era: 'legacy' | 'modern'
  readonly transport: 'stdio' | 'http' | 'sse'
  /** Milliseconds since the epoch. A legacy verdict is tried again after a week: servers get updated. */
  readonly at: number
}

/** What a server offered when it was last connected; enough to list its tools without starting it. */
export interface Manifest {
  readonly verdict: EraVerdict
  readonly capabilities: Json
  readonly server?: { readonly name: string; readonly version: string }
  /** How long the last start took, in milliseconds. */
  readonly startMs?: number
  readonly tools: readonly ToolRecord[]
  readonly resources: readonly Json[]
  readonly templates: readonly Json[]
  readonly prompts: readonly Json[]
}

/** Where manifests are kept, by `manifestKey`. `get` is asked once at start, so it should not be slow. */
export interface ManifestStore {
  get(key: string): Uint8Array | undefined
  set(key: string, bytes: Uint8Array): void
}

/** Names a manifest: the same for the same way to reach a server, whatever it is called or however it is filtered. */
export function manifestKey({ target }: ServerSettings): string {
  return createHash('sha256').update(JSON.stringify(target)).digest('hex').slice(0, 32)
}

/** Counts up with the layout below and with anything that changes what is worked out from a definition. */
const FORMAT = 2
const NEWLINE = 0x0a
const HASH_BYTES = 32
const EFFECTS: Readonly<Record<string, Effect>> = { r: 'read', w: 'write', d: 'destructive' }

/** The first line. Tools are columns, because ten thousand of them are read at every start; definitions follow, one a line. */
interface Head extends Omit<Manifest, 'tools'> {
  readonly format: number
  readonly tools: {
    readonly names: readonly string[]
    /** Bytes of each definition. */
    readonly bytes: readonly number[]
    readonly listed: readonly number[]
    /** A letter a tool: by its name and annotations, and by its annotations alone. */
    readonly effects: string
    readonly claimed: string
    /** SHA-256 of each, one after the other, in base64. */
    readonly hashes: string
    /** Which ones mirror arguments into headers. */
    readonly mirrors: readonly number[]
  }
}

/** A manifest as it is kept: a line of JSON for what every start needs, then a line for each tool's definition. */
export function encodeManifest({ tools, ...rest }: Manifest): Uint8Array {
  const texts = tools.map(({ text }) => Buffer.from(text))
  const head: Head = {
    format: FORMAT,
    ...rest,
    tools: {
      names: tools.map(({ name }) => name),
      bytes: texts.map(({ length }) => length),
      listed: tools.map(({ listed }) => listed ?? -1),
      effects: tools.map(({ effect }) => effect[0]).join(''),
      claimed: tools.map(({ claimed }) => claimed[0]).join(''),
      hashes: Buffer.concat(tools.map(({ hash }) => Buffer.from(hash, 'hex'))).toString('base64'),
      mirrors: tools.flatMap(({ mirrors }, at) => (mirrors ? [at] : [])),
    },
  }
  const newline = Buffer.of(NEWLINE)
  return Buffer.concat([Buffer.from(JSON.stringify(head)), newline, ...texts.flatMap((text) => [text, newline])])
}

/**
 * Reads the first line; the definitions stay bytes until someone asks for one.
 * @returns undefined for another version's manifest, which is learnt again
 * @throws Error for a damaged one
 */
export function decodeManifest(given: Uint8Array): Manifest | undefined {
  const bytes = Buffer.from(given.buffer, given.byteOffset, given.length)
  const end = bytes.indexOf(NEWLINE)
  if (end === -1) throw new Error('it is cut short')
  const head = JSON.parse(bytes.toString('utf8', 0, end)) as Partial<Head> | null
  if (!isRecord(head) || head['format'] !== FORMAT) return undefined
  const { format: _format, tools, ...rest } = head as unknown as Head
  if (![rest.resources, rest.templates, rest.prompts].every(Array.isArray) || !isRecord(rest.verdict))
    throw new Error('its parts are not what they should be')
  return { ...rest, tools: readRecords(tools, bytes, end + 1) }
}

interface Kept extends ToolRecord {
  readonly bytes: Buffer
  readonly hashes: Buffer
  readonly from: number
  readonly to: number
  readonly at: number
}

// What a record does not have until it is asked for. On a prototype: ten thousand records share it.
const asked: Pick<ToolRecord, 'text' | 'hash' | 'stamp'> & ThisType<Kept> = {
  get text(): string {
    return this.bytes.toString('utf8', this.from, this.to)
  },
  get hash(): string {
    return this.hashes.toString('hex', this.at, this.at + HASH_BYTES)
  },
  get stamp(): number {
    return stampOf(this.hashes, this.at)
  },
}

function readRecords(columns: Head['tools'], bytes: Buffer, start: number): ToolRecord[] {
  const { names, effects, claimed, listed } = columns
  const hashes = Buffer.from(columns.hashes, 'base64')
  const count = names.length
  if (
    [columns.bytes, listed, effects, claimed].some(({ length }) => length !== count) ||
    hashes.length !== count * HASH_BYTES
  )
    throw new Error('its columns differ in length')
  const shared = Object.defineProperties(Object.create(asked), { bytes: { value: bytes }, hashes: { value: hashes } })
  const mirrors = new Set(columns.mirrors)
  const records: ToolRecord[] = []
  let from = start
  for (let n = 0; n < count; n++) {
    const to = from + (columns.bytes[n] as number)
    const record = Object.create(shared)
    record.name = names[n]
    record.effect = EFFECTS[effects[n] as string]
    record.claimed = EFFECTS[claimed[n] as string]
    record.listed = listed[n] === -1 ? undefined : listed[n]
    record.mirrors = mirrors.has(n)
    record.at = n * HASH_BYTES
    record.from = from
    record.to = to
    records.push(record)
    from = to + 1
  }
  if (from !== bytes.length) throw new Error('its definitions are cut short')
  return records
}

/** The first 53 bits of a hash: enough to see that something changed. */
export const stampOf = (hash: Buffer, at = 0): number =>
  (hash.readUInt32BE(at) >>> 11) * 0x100000000 + hash.readUInt32BE(at + 4)
