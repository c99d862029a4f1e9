import { plain } from '../core/plain.ts'
import { isRecord } from '../core/record.ts'
import type { JsonSchema } from '../core/schema.ts'
import { charactersOf } from '../core/tokens.ts'
import type { Effect } from '../core/tool.ts'
import { MAX_UNFOLDED, unfolded } from '../core/unfolded.ts'
import { digestOf } from '../trust/fingerprint.ts'
import { deeperThan, ENTRY } from './entry.ts'
import { guessEffect, wordsOf } from './hints.ts'
import { stampOf } from './manifest.ts'

type Json = Readonly<Record<string, unknown>>

/** A tool as its server defined it, with what every start needs taken out of the definition. */
export interface ToolRecord {
  /** The server's own name for it. */
  readonly name: string
  /** The worst it may do, by its name and its annotations. */
  readonly effect: Effect
  /** The same for who trusts its annotations. */
  readonly claimed: Effect
  /** Characters that listing it takes beside its name, as `charactersOf` counts; undefined where its server alone does not decide. */
  readonly listed: number | undefined
  /** It mirrors arguments into HTTP headers (`x-mcp-header`). */
  readonly mirrors: boolean
  /** The whole definition as JSON: parsed when a schema is asked for, which for most tools is never. */
  readonly text: string
  /** SHA-256 in hex of the whole definition, whatever the order of its keys. */
  readonly hash: string
  /** 48 bits of `hash`. */
  readonly stamp: number
}

/** What a definition says, fit to show. */
export interface Definition {
  readonly title: string
  /** Capped at 4 KiB; empty where there is none. */
  readonly description: string
  readonly input: JsonSchema
  readonly output: JsonSchema | undefined
  readonly annotations: Json | undefined
  /** Annotations, icons, `_meta` and whatever else: relayed when the tool is listed. */
  readonly extra: Json
}

const MAX_NAME = 256
const MAX_DESCRIPTION = 4 * 1024
const MAX_DEFINITION = 256 * 1024
const SCHEMA = { bytes: 64 * 1024, depth: 32, subschemas: 1_000 } as const

/** A definition fit to keep, or the reason it is not. Servers are not trusted to send what the protocol says. */
export function readDefinition(raw: unknown): ToolRecord | string {
  if (!isRecord(raw)) return 'a tool that is not an object'
  const { name, annotations, inputSchema, outputSchema } = raw
  if (typeof name !== 'string' || name.trim() === '') return 'a tool whose name is not a string'
  const shown = JSON.stringify(name.slice(0, 60))
  if (name.length > MAX_NAME) return `${shown}: its name has ${name.length} characters`
  // A schema lies one level further down.
  if (deeperThan({ ...raw, inputSchema: 0, outputSchema: 0, annotations: 0 }, ENTRY.depth))
    return `${shown}: it is more than ${ENTRY.depth} deep`
  if (inputSchema !== undefined && !isRecord(inputSchema)) return `${shown}: its inputSchema is not an object`
  for (const schema of [inputSchema, outputSchema, annotations]) {
    const fault = schema === undefined ? undefined : schemaFault(schema)
    if (fault) return `${shown}: ${fault}`
  }
  const text = JSON.stringify(raw)
  if (text.length > MAX_DEFINITION) return `${shown}: its definition has ${text.length} bytes`
  const notes = isRecord(annotations) ? annotations : undefined
  const digest = digestOf(raw)
  return {
    name,
    effect: guessEffect(name, notes, false),
    claimed: guessEffect(name, notes, true),
    listed: listedCharacters(parseDefinition({ name, text })),
    mirrors: inputSchema !== undefined && JSON.stringify(inputSchema).includes('"x-mcp-header"'),
    text,
    hash: digest.toString('hex'),
    stamp: stampOf(digest),
  }
}

function listedCharacters({ title, description, input, output, extra }: Definition): number | undefined {
  // We write one then, and it names the server.
  if (description === '') return undefined
  const shown = {
    name: '',
    title,
    description,
    inputSchema: input,
    ...(output ? { outputSchema: output } : {}),
    ...extra,
  }
  return charactersOf(JSON.stringify(shown))
}

/** Reads the text of a record; damaged text reads as a tool of which only the name is known. */
export function parseDefinition({ name, text }: Pick<ToolRecord, 'name' | 'text'>): Definition {
  // Whether a tool runs as a task is between us and its server.
  const { name: _own, execution: _how, title, description, inputSchema, outputSchema, ...extra } = readText(text)
  const annotations = isRecord(extra['annotations']) ? extra['annotations'] : undefined
  const annotated = typeof annotations?.['title'] === 'string' ? plain(annotations['title']) : undefined
  const own = typeof title === 'string' ? plain(title.slice(0, MAX_NAME)) : ''
  return {
    title: own || annotated?.slice(0, MAX_NAME) || titleOf(name),
    description: plain(cut(typeof description === 'string' ? description : '')),
    input: isRecord(inputSchema) ? (portable(inputSchema) ?? inputSchema) : { type: 'object', properties: {} },
    output: isRecord(outputSchema) ? portable(outputSchema) : undefined,
    annotations,
    extra: annotated === undefined ? extra : { ...extra, annotations: { ...annotations, title: annotated } },
  }
}

function readText(text: string): Record<string, unknown> {
  try {
    const raw: unknown = JSON.parse(text)
    return isRecord(raw) ? raw : {}
  } catch {
    // It was whole when it was kept. One tool less must not end a list.
    return {}
  }
}

function titleOf(name: string): string {
  const words = wordsOf(name).join(' ')
  return words ? words.charAt(0).toUpperCase() + words.slice(1) : name
}

// Keywords that mean something else, or nothing, in 2020-12.
const OLD_KEYWORDS =
  /"(definitions|dependencies|additionalItems|\$recursiveRef|\$recursiveAnchor)"\s*:|"items"\s*:\s*\[/

/**
 * Most servers mark their schemas as draft-07, and clients of the newer SDK refuse that mark. Nearly all would read
 * the same as 2020-12: those lose the mark. `undefined` for one that would not.
 */
function portable(schema: JsonSchema): JsonSchema | undefined {
  const dialect = schema['$schema']
  if (typeof dialect !== 'string' || dialect.includes('2020-12')) return schema
  if (OLD_KEYWORDS.test(JSON.stringify(schema))) return undefined
  const { $schema: _old, ...rest } = schema
  return rest
}

const cut = (text: string): string => (text.length > MAX_DESCRIPTION ? `${text.slice(0, MAX_DESCRIPTION - 1)}…` : text)

/**
 * Why a foreign schema is not worth the risk: too big, too deep, too many parts, or it wants something fetched.
 * Does not recurse on the call stack.
 */
export function schemaFault(schema: unknown): string | undefined {
  let level: unknown[] = [schema]
  let objects = 0
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > SCHEMA.depth) return `its schema is more than ${SCHEMA.depth} deep`
    const next: unknown[] = []
    for (const node of level) {
      if (typeof node !== 'object' || node === null) continue
      if (!Array.isArray(node) && ++objects > SCHEMA.subschemas)
        return `its schema has more than ${SCHEMA.subschemas} parts`
      for (const [key, value] of Object.entries(node)) {
        if (
          (key === '$ref' || key === '$dynamicRef') &&
          typeof value === 'string' &&
          /^([a-z][a-z0-9+.-]*:|\/\/)/i.test(value)
        )
          return `its schema refers to ${JSON.stringify(value.slice(0, 80))}`
        next.push(value)
      }
    }
    level = next
  }
  const bytes = JSON.stringify(schema).length
  if (bytes > SCHEMA.bytes) return `its schema has ${bytes} bytes`
  return unfolded(schema) > MAX_UNFOLDED ? `its schema unfolds to more than ${MAX_UNFOLDED} parts` : undefined
}
