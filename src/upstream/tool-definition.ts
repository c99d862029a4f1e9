import { charactersOf } from '../core/estimate-tokens.ts'
import { expandedSchemaSize, MAX_EXPANDED_SCHEMA_SIZE } from '../core/expanded-schema-size.ts'
import { asRecord, isRecord, type Json } from '../core/is-record.ts'
import { listedDescription } from '../core/listed-description.ts'
import { toPrintable } from '../core/printable.ts'
import { isRegexPattern } from '../core/regex-pattern.ts'
import type { JsonSchema } from '../core/schema.ts'
import type { Effect } from '../core/tool.ts'
import { wordsOf } from '../core/tool-names.ts'
import { truncate } from '../core/truncate.ts'
import { tryParseJson } from '../core/try-parse-json.ts'
import { fingerprint } from '../trust/fingerprint.ts'
import { deeperThan, ENTRY, sanitizeEntry } from './list-entry-limits.ts'
import { objectFault, toCompilable, withoutUnlistable } from './listable.ts'
import { stampOf } from './manifest.ts'
import { effectByName, guessEffect } from './tool-hints.ts'
import { wellFormed } from './well-formed-schema.ts'

/** A tool as its server defined it, with the facts that every start needs. */
export interface ToolRecord {
  /** The server's own name for it. */
  readonly name: string
  /** Its effect, judged by name and annotations. */
  readonly effect: Effect
  /** Its effect if the annotations are trusted. */
  readonly claimed: Effect
  /**
   * Length of its list entry without the name and output schema, as `charactersOf` counts; undefined if it depends on more
   * than the server.
   */
  readonly listed: number | undefined
  /** It mirrors arguments into HTTP headers (`x-mcp-header`). */
  readonly mirrors: boolean
  /** The server lists it twice with different definitions. Calls use the first; `hash` depends on both. */
  readonly isAmbiguous: boolean
  /** The definition as JSON, parsed only when needed, which is rare. */
  readonly text: string
  /** SHA-256 of the definition in hex, independent of key order. */
  readonly hash: string
  /** The first 48 bits of `hash`. */
  readonly stamp: number
}

export interface Definition {
  readonly title: string
  /** The server gave no title; it is made from the name. */
  readonly untitled: boolean
  /** The first 4 KiB; empty if there is none. */
  readonly description: string
  readonly fullDescription: string | undefined
  readonly input: JsonSchema
  readonly output: JsonSchema | undefined
  readonly annotations: Json | undefined
  readonly saysTaskSupport: boolean
  /** Annotations, icons, `_meta` and other members, passed on in lists. */
  readonly extra: Json
}

const MIRROR = '"x-mcp-header"'
const SCHEMAS: ReadonlySet<string> = new Set(['inputSchema', 'outputSchema', 'annotations'])
const MAX_NAME = 256
/** Maximum length for lists and search. */
const MAX_DESCRIPTION = 4 * 1024
const MAX_DEFINITION = 256 * 1024
const SCHEMA = { bytes: 192 * 1024, depth: 32, subschemas: 1_000 } as const

/** Validates a definition. @returns the definition, or why it cannot be used: servers may send anything */
export function readDefinition(raw: unknown): ToolRecord | string {
  if (!isRecord(raw)) return 'a tool that is not an object'
  const { name, annotations, inputSchema } = raw
  if (typeof name !== 'string' || name.trim() === '') return 'a tool whose name is not a string'
  const describe = (fault: string): string => `${JSON.stringify(name.slice(0, 60))}: ${fault}`
  const wrongStructure = structureFault(raw, name)
  if (wrongStructure) return describe(wrongStructure)
  const text = JSON.stringify(raw)
  const wrongSize = sizeFault(raw, text)
  if (wrongSize) return describe(wrongSize)
  const annotationRecord = isRecord(annotations) ? annotations : undefined
  const hash = fingerprint(raw)
  const byName = effectByName(name)
  return {
    name,
    effect: guessEffect(byName, annotationRecord, false),
    claimed: guessEffect(byName, annotationRecord, true),
    listed: listedCharacters(definitionOf(name, raw), text),
    mirrors: text.includes(MIRROR) && inputSchema !== undefined && JSON.stringify(inputSchema).includes(MIRROR),
    isAmbiguous: false,
    text,
    hash,
    stamp: stampOf(Buffer.from(hash, 'hex')),
  }
}

/** Why a definition cannot be used, apart from its size. Afterwards it is safe to write it as JSON. */
function structureFault(raw: Json, name: string): string | undefined {
  if (name.length > MAX_NAME) return `its name has ${name.length} characters`
  // Schemas may be nested one level deeper.
  if (Object.keys(raw).some((key) => !SCHEMAS.has(key) && deeperThan(raw[key], ENTRY.depth - 1)))
    return `it is more than ${ENTRY.depth} deep`
  const { inputSchema } = raw
  if (inputSchema !== undefined) {
    if (!isRecord(inputSchema)) return 'its inputSchema is not an object'
    const fault = dialectFault(inputSchema) ?? objectFault(inputSchema)
    if (fault) return `its inputSchema ${fault}`
  }
  return firstFault(raw, shapeFault)
}

/** @param text the definition as JSON */
function sizeFault(raw: Json, text: string): string | undefined {
  // Most schemas are small and have no references, which their text shows.
  const mayBeLarge = text.length > SCHEMA.bytes || text.includes('"$ref"')
  const fault = mayBeLarge ? firstFault(raw, schemaSizeFault) : undefined
  return fault ?? (text.length > MAX_DEFINITION ? `its definition has ${text.length} bytes` : undefined)
}

function firstFault(
  { inputSchema, outputSchema, annotations }: Json,
  faultOf: (schema: unknown) => string | undefined,
): string | undefined {
  for (const schema of [inputSchema, outputSchema, annotations]) {
    const fault = schema === undefined ? undefined : faultOf(schema)
    if (fault) return fault
  }
  return undefined
}

// The version-independent URLs of all drafts.
const DIALECT =
  /^(?:https?:)?\/\/json-schema\.org\/(?:draft\/(?:2020-12|2019-09)\/schema|draft-0[3-7]\/(?:hyper-)?schema|schema)\/?#?$/i

function dialectFault({ $schema }: Json): string | undefined {
  if (typeof $schema !== 'string' || DIALECT.test($schema)) return undefined
  return `is of an unknown dialect, ${JSON.stringify($schema.slice(0, 80))}`
}

/** Constraints of a definition that are not enforced, in words for the operator. */
export function listUnenforced(raw: Json, text: string): readonly string[] {
  const hasPattern = text.includes('"pattern') && hasUnsupportedPattern(raw)
  const hasOutput = raw['outputSchema'] !== undefined && outputOf(raw['outputSchema']) === undefined
  return [
    ...(hasPattern
      ? ['a pattern of its schema is not enforced: it has look-around, a back-reference or an error']
      : []),
    ...(hasOutput ? ['its outputSchema is not enforced: it is of an unknown dialect or has an error'] : []),
  ]
}

/** Patterns that need a backtracking engine, which is never used for upstream patterns. */
const UNSUPPORTED = /\\[1-9]|\\k<|\(\?(?:[=!]|<[=!])/

function hasUnsupportedPattern(schema: unknown): boolean {
  const pending: unknown[] = [schema]
  while (pending.length > 0) {
    const node = pending.pop()
    if (typeof node !== 'object' || node === null) continue
    for (const [key, value] of Object.entries(node)) {
      if (patternsIn(key, value).some(isUnsupportedPattern)) return true
      pending.push(value)
    }
  }
  return false
}

function patternsIn(key: string, value: unknown): readonly string[] {
  if (key === 'pattern' && typeof value === 'string') return [value]
  return key === 'patternProperties' && isRecord(value) ? Object.keys(value) : []
}

const isUnsupportedPattern = (pattern: string): boolean =>
  UNSUPPORTED.test(pattern.replaceAll('\\\\', '')) || !isRegexPattern(pattern)

function listedCharacters(definition: Definition, text: string): number | undefined {
  const { title, untitled, description, input, extra } = definition
  // Pegboard then writes a description that names the server.
  if (description === '') return undefined
  const items = text.includes('"array"') ? ITEMS.length * listsWithoutItems(input) : 0
  const definitionChars = charactersOf(
    JSON.stringify({
      name: '',
      ...(untitled ? {} : { title }),
      description: listedDescription(definition),
      inputSchema: input,
      ...extra,
    }),
  )
  return definitionChars + items
}

/** Added to the listed schema of a list without `items`. */
const ITEMS = ',"items":{}'

function listsWithoutItems(node: unknown): number {
  if (typeof node !== 'object' || node === null) return 0
  const { type, items } = node as Json
  const isList = type === 'array' || (Array.isArray(type) && type.includes('array'))
  let count = isList && items === undefined ? 1 : 0
  for (const value of Object.values(node)) count += listsWithoutItems(value)
  return count
}

/** Parses a record's text; damaged text gives a tool without anything but its name, because it must not break a list. */
export const parseDefinition = ({ name, text }: Pick<ToolRecord, 'name' | 'text'>): Definition =>
  definitionOf(name, asRecord(tryParseJson(text)))

function definitionOf(name: string, sent: Json): Definition {
  const raw = sanitizeEntry(sent)
  const { name: _own, execution, title, description, inputSchema, outputSchema, ...rest } = raw
  const extra = withoutUnlistable(rest)
  const annotations = isRecord(extra['annotations']) ? extra['annotations'] : undefined
  const annotated = typeof annotations?.['title'] === 'string' ? toPrintable(annotations['title']) : undefined
  const ownTitle = typeof title === 'string' ? toPrintable(title.slice(0, MAX_NAME)) : ''
  const fullText = typeof description === 'string' ? toPrintable(description) : ''
  const isLong = fullText.length > MAX_DESCRIPTION
  return {
    title: ownTitle || annotated?.slice(0, MAX_NAME) || titleOf(name),
    untitled: ownTitle === '',
    description: isLong ? truncate(fullText, MAX_DESCRIPTION) : fullText,
    fullDescription: isLong ? fullText : undefined,
    input: isRecord(inputSchema) ? wellFormed(inputSchema) : { type: 'object', properties: {} },
    output: outputOf(outputSchema),
    annotations,
    // Whether the tool can run as a task here depends on more than that.
    saysTaskSupport: isRecord(execution) && typeof execution['taskSupport'] === 'string',
    extra: annotated === undefined ? extra : { ...extra, annotations: { ...annotations, title: annotated } },
  }
}

function outputOf(schema: unknown): JsonSchema | undefined {
  const knownSchema = isRecord(schema) && dialectFault(schema) === undefined ? inKnownDialect(schema) : undefined
  const compilable = knownSchema && toCompilable(knownSchema)
  return compilable && wellFormed(compilable)
}

function titleOf(name: string): string {
  const words = wordsOf(name).join(' ')
  return words ? words.charAt(0).toUpperCase() + words.slice(1) : name
}

/** Drafts that every client supports. */
const KNOWN_DIALECT = /^https?:\/\/json-schema\.org\/(?:draft\/20(?:20-12|19-09)|draft-0[67])\/schema#?$/
// Keywords of older drafts with another meaning, or none, in 2020-12.
const OLD_KEYWORDS =
  /"(definitions|dependencies|additionalItems|id)"\s*:|"items"\s*:\s*\[|"exclusiveM(?:in|ax)imum"\s*:\s*(?:true|false)|"required"\s*:\s*(?:true|false)/

/**
 * Removes the `$schema` of an output schema that reads the same in 2020-12, because clients of the newer SDK fail for
 * every call of a tool with an unknown draft such as draft-04. `undefined` if it reads differently.
 */
function inKnownDialect(schema: JsonSchema): JsonSchema | undefined {
  const { $schema: dialect, ...rest } = schema
  if (typeof dialect !== 'string' || KNOWN_DIALECT.test(dialect)) return schema
  return OLD_KEYWORDS.test(JSON.stringify(rest)) ? undefined : rest
}

/** Why an upstream schema cannot be used: too deep, too large, or with remote references. Not recursive. */
function shapeFault(schema: unknown): string | undefined {
  let level: unknown[] = [schema]
  let objects = 0
  for (let depth = 0; level.length > 0; depth++) {
    const next: unknown[] = []
    for (const node of level) {
      if (typeof node !== 'object' || node === null) continue
      if (!Array.isArray(node) && ++objects > SCHEMA.subschemas)
        return `its schema has more than ${SCHEMA.subschemas} parts`
      const values = Object.values(node)
      if (depth === SCHEMA.depth && values.length > 0) return `its schema is more than ${SCHEMA.depth} deep`
      const { $ref, $dynamicRef } = node as Json
      const remote = [$ref, $dynamicRef].find(isRemoteReference)
      if (remote !== undefined) return `its schema refers to ${JSON.stringify(remote.slice(0, 80))}`
      for (const value of values) if (typeof value === 'object') next.push(value)
    }
    level = next
  }
  return undefined
}

const isRemoteReference = (ref: unknown): ref is string =>
  typeof ref === 'string' && /^([a-z][a-z0-9+.-]*:|\/\/)/i.test(ref)

/** Why a schema is too large, also with its references expanded; `undefined` if it is not. */
function schemaSizeFault(schema: unknown): string | undefined {
  const bytes = JSON.stringify(schema).length
  if (bytes > SCHEMA.bytes) return `its schema has ${bytes} bytes`
  return expandedSchemaSize(schema) > MAX_EXPANDED_SCHEMA_SIZE
    ? `its schema unfolds to more than ${MAX_EXPANDED_SCHEMA_SIZE} parts`
    : undefined
}
