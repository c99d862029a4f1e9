import { beginning } from '../core/beginning.ts'
import { plain } from '../core/plain.ts'
import { isRecord } from '../core/record.ts'
import type { JsonSchema } from '../core/schema.ts'
import { charactersOf } from '../core/tokens.ts'
import type { Effect } from '../core/tool.ts'
import { MAX_UNFOLDED, unfolded } from '../core/unfolded.ts'
import { digestOf } from '../trust/fingerprint.ts'
import { deeperThan, ENTRY, sanitized } from './entry.ts'
import { effectByName, guessEffect, wordsOf } from './hints.ts'
import { compilable, isPattern, objectFault, withoutUnlistable } from './listable.ts'
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

const MIRROR = '"x-mcp-header"'
const SCHEMAS: ReadonlySet<string> = new Set(['inputSchema', 'outputSchema', 'annotations'])
const MAX_NAME = 256
const MAX_DESCRIPTION = 4 * 1024
const MAX_DEFINITION = 256 * 1024
const SCHEMA = { bytes: 192 * 1024, depth: 32, subschemas: 1_000 } as const

/** A definition fit to keep, or the reason it is not. Servers are not trusted to send what the protocol says. */
export function readDefinition(raw: unknown): ToolRecord | string {
  if (!isRecord(raw)) return 'a tool that is not an object'
  const { name, annotations, inputSchema, outputSchema } = raw
  if (typeof name !== 'string' || name.trim() === '') return 'a tool whose name is not a string'
  const shown = JSON.stringify(name.slice(0, 60))
  if (name.length > MAX_NAME) return `${shown}: its name has ${name.length} characters`
  // A schema lies one level further down.
  if (Object.keys(raw).some((key) => !SCHEMAS.has(key) && deeperThan(raw[key], ENTRY.depth - 1)))
    return `${shown}: it is more than ${ENTRY.depth} deep`
  if (inputSchema !== undefined && !isRecord(inputSchema)) return `${shown}: its inputSchema is not an object`
  const dialect = inputSchema && dialectFault(inputSchema)
  if (dialect) return `${shown}: its inputSchema ${dialect}`
  const unreadable = inputSchema && objectFault(inputSchema)
  if (unreadable) return `${shown}: its inputSchema ${unreadable}`
  const schemas = [inputSchema, outputSchema, annotations].filter((schema) => schema !== undefined)
  for (const schema of schemas) {
    const fault = shapeFault(schema)
    if (fault) return `${shown}: ${fault}`
  }
  const text = JSON.stringify(raw)
  // Most are small and refer to nothing, which their text tells at once.
  for (const schema of text.length > SCHEMA.bytes || text.includes('"$ref"') ? schemas : []) {
    const fault = sizeFault(schema)
    if (fault) return `${shown}: ${fault}`
  }
  if (text.length > MAX_DEFINITION) return `${shown}: its definition has ${text.length} bytes`
  const notes = isRecord(annotations) ? annotations : undefined
  const digest = digestOf(raw)
  const byName = effectByName(name)
  return {
    name,
    effect: guessEffect(name, notes, false, byName),
    claimed: guessEffect(name, notes, true, byName),
    listed: listedCharacters(definitionOf(name, raw), raw, text),
    mirrors: text.includes(MIRROR) && inputSchema !== undefined && JSON.stringify(inputSchema).includes(MIRROR),
    text,
    hash: digest.toString('hex'),
    stamp: stampOf(digest),
  }
}

// Of all drafts, the newest one as well as that of any time.
const DIALECT =
  /^(?:https?:)?\/\/json-schema\.org\/(?:draft\/(?:2020-12|2019-09)\/schema|draft-0[3-7]\/(?:hyper-)?schema|schema)\/?#?$/i

function dialectFault({ $schema }: Json): string | undefined {
  if (typeof $schema !== 'string' || DIALECT.test($schema)) return undefined
  return `is of an unknown dialect, ${JSON.stringify($schema.slice(0, 80))}`
}

/** What of a definition nobody enforces, in words for the operator. */
export function unenforced(raw: Json, text: string): readonly string[] {
  const hasPattern = text.includes('"pattern') && hasUnsupportedPattern(raw)
  const hasOutput = raw['outputSchema'] !== undefined && outputOf(raw['outputSchema']) === undefined
  return [
    ...(hasPattern
      ? ['a pattern of its schema is not enforced: it has look-around, a back-reference or an error']
      : []),
    ...(hasOutput ? ['its outputSchema is not enforced: it is of an unknown dialect or has an error'] : []),
  ]
}

/** Those that only a backtracking engine can run, which no foreign pattern gets. */
const UNSUPPORTED = /\\[1-9]|\\k<|\(\?(?:[=!]|<[=!])/

function hasUnsupportedPattern(schema: unknown): boolean {
  const open: unknown[] = [schema]
  while (open.length > 0) {
    const node = open.pop()
    if (typeof node !== 'object' || node === null) continue
    for (const [key, value] of Object.entries(node)) {
      const patterns =
        key === 'pattern' && typeof value === 'string'
          ? [value]
          : key === 'patternProperties' && isRecord(value)
            ? Object.keys(value)
            : []
      if (patterns.some((one) => UNSUPPORTED.test(one.replaceAll('\\\\', '')) || !isPattern(one))) return true
      open.push(value)
    }
  }
  return false
}

function listedCharacters(shown: Definition, raw: Json, text: string): number | undefined {
  const { title, description, input, output, extra } = shown
  // We write one then, and it names the server.
  if (description === '') return undefined
  const items = text.includes('"array"') ? ITEMS.length * (listsWithoutItems(input) + listsWithoutItems(output)) : 0
  if (isAsSent(shown, raw)) {
    const own = charactersOf(text) - charactersOf(JSON.stringify(raw['name'])) + 2 + items
    return 'title' in raw ? own : own + charactersOf(`,"title":${JSON.stringify(title)}`)
  }
  const made = charactersOf(
    JSON.stringify({
      name: '',
      title,
      description,
      inputSchema: input,
      ...(output ? { outputSchema: output } : {}),
      ...extra,
    }),
  )
  return made + items
}

/** What a list gets in the listing that says nothing of its items. */
const ITEMS = ',"items":{}'

function listsWithoutItems(node: unknown): number {
  if (typeof node !== 'object' || node === null) return 0
  const { type, items } = node as Json
  const isList = type === 'array' || (Array.isArray(type) && type.includes('array'))
  let count = isList && items === undefined ? 1 : 0
  for (const value of Object.values(node)) count += listsWithoutItems(value)
  return count
}

/** Whether all of a definition is listed as its server sent it, but for its name and perhaps a title. */
const isAsSent = ({ title, description, input, output, extra }: Definition, raw: Json): boolean =>
  description === raw['description'] &&
  input === raw['inputSchema'] &&
  output === raw['outputSchema'] &&
  extra['annotations'] === raw['annotations'] &&
  extra['icons'] === raw['icons'] &&
  extra['_meta'] === raw['_meta'] &&
  !('execution' in raw) &&
  (!('title' in raw) || title === raw['title'])

/** Reads the text of a record; damaged text reads as a tool of which only the name is known. */
export const parseDefinition = ({ name, text }: Pick<ToolRecord, 'name' | 'text'>): Definition =>
  definitionOf(name, readText(text))

function definitionOf(name: string, sent: Json): Definition {
  const raw = sanitized(sent)
  // Whether a tool runs as a task is between us and its server.
  const { name: _own, execution: _how, title, description, inputSchema, outputSchema, ...rest } = raw
  const extra = withoutUnlistable(rest)
  const annotations = isRecord(extra['annotations']) ? extra['annotations'] : undefined
  const annotated = typeof annotations?.['title'] === 'string' ? plain(annotations['title']) : undefined
  const own = typeof title === 'string' ? plain(title.slice(0, MAX_NAME)) : ''
  return {
    title: own || annotated?.slice(0, MAX_NAME) || titleOf(name),
    description: plain(cut(typeof description === 'string' ? description : '')),
    input: isRecord(inputSchema) ? (portable(inputSchema) ?? inputSchema) : { type: 'object', properties: {} },
    output: outputOf(outputSchema),
    annotations,
    extra: annotated === undefined ? extra : { ...extra, annotations: { ...annotations, title: annotated } },
  }
}

function outputOf(schema: unknown): JsonSchema | undefined {
  const own = isRecord(schema) && dialectFault(schema) === undefined ? portable(schema) : undefined
  return own && compilable(own)
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

const cut = (text: string): string =>
  text.length > MAX_DESCRIPTION ? `${beginning(text, MAX_DESCRIPTION - 1)}…` : text

/**
 * Why a foreign schema is not worth the risk: too deep, too many parts, or it wants something fetched.
 * Does not recurse on the call stack.
 */
function shapeFault(schema: unknown): string | undefined {
  let level: unknown[] = [schema]
  let objects = 0
  for (let depth = 0; level.length > 0; depth++) {
    const next: unknown[] = []
    for (const node of level) {
      if (typeof node !== 'object' || node === null) continue
      if (!Array.isArray(node) && ++objects > SCHEMA.subschemas)
        return `its schema has more than ${SCHEMA.subschemas} parts`
      const keys = Object.keys(node)
      if (depth === SCHEMA.depth && keys.length > 0) return `its schema is more than ${SCHEMA.depth} deep`
      for (const key of keys) {
        const value: unknown = (node as Json)[key]
        if (typeof value === 'object') next.push(value)
        else if (
          (key === '$ref' || key === '$dynamicRef') &&
          typeof value === 'string' &&
          /^([a-z][a-z0-9+.-]*:|\/\/)/i.test(value)
        )
          return `its schema refers to ${JSON.stringify(value.slice(0, 80))}`
      }
    }
    level = next
  }
  return undefined
}

/** The same: too big, or it would be with every reference in it followed. */
function sizeFault(schema: unknown): string | undefined {
  const bytes = JSON.stringify(schema).length
  if (bytes > SCHEMA.bytes) return `its schema has ${bytes} bytes`
  return unfolded(schema) > MAX_UNFOLDED ? `its schema unfolds to more than ${MAX_UNFOLDED} parts` : undefined
}
