import { asRecord, isRecord } from '../core/is-record.ts'
import type { ToolDefinition, ToolIdentity } from '../core/tool.ts'

/** What search knows about a tool. */
export interface SearchSource
  extends Pick<ToolIdentity, 'id' | 'name' | 'module' | 'origin' | 'aliases'>,
    Pick<ToolDefinition, 'title' | 'description' | 'tags' | 'sideEffects'> {
  /** JSON Schema of the arguments. */
  readonly inputJson: Record<string, unknown>
  /** The module's or server's own description. */
  readonly moduleDescription?: string | undefined
  /** The module's own synonym groups. */
  readonly synonyms?: readonly (readonly string[])[] | undefined
  /** How people ask for a tool that the atlas does not know; written by a language model. */
  readonly requests?: readonly string[]
  /** Changes whenever any field changes, so the fields need not be read to compare. Absent if reading is cheap. */
  readonly stamp?: number
}

/** A weighted piece of text. `weight` multiplies the term counts before saturation. */
export interface DocumentField {
  readonly name:
    | 'name'
    | 'aliases'
    | 'description'
    | 'parameters'
    | 'tags'
    | 'effects'
    | 'module'
    | 'context'
    | 'requests'
  readonly text: string
  readonly weight: number
}

/** The indexed text of a tool: its weighted fields, each cut to a fixed length. */
export interface SearchDocument {
  readonly fields: readonly DocumentField[]
  /** Spellings that name exactly this tool; a query that equals one ranks the tool first. */
  readonly names: readonly string[]
  /** The tool's name without its module; used for name coverage and for unique bare names. */
  readonly bareName: string
  /** The module's own synonym groups. */
  readonly synonyms?: readonly (readonly string[])[]
}

/** Weights and maximum lengths (characters) of the indexed fields. */
export const FIELD_WEIGHTS = {
  name: 2,
  aliases: 2,
  description: 1,
  parameters: 0.7,
  tags: 1,
  effects: 0.7,
  module: 1,
  context: 0.5,
  requests: 0.5,
} as const

const CAPS = {
  name: 200,
  aliases: 512,
  description: 2048,
  parameters: 1024,
  tags: 256,
  effects: 128,
  module: 128,
  context: 200,
  requests: 4096,
} as const
const PARAMETER_TEXT_CAP = 120
const ENUM_VALUES_CAP = 24
const SCHEMA_DEPTH_CAP = 4

/**
 * The weighted fields of a tool. The same source always gives the same text.
 * @param requests how people ask for the tool, from the atlas
 */
export function documentOf(source: SearchSource, requests = source.requests ?? []): SearchDocument {
  const bareName = bareNameOf(source)
  const texts: Record<DocumentField['name'], string> = {
    name: source.title && source.title !== bareName ? `${bareName} ${source.title}` : bareName,
    aliases: source.aliases.join(' · '),
    description: source.description,
    parameters: parameterText(source.inputJson),
    tags: source.tags.join(' '),
    effects: source.sideEffects.join(' '),
    module: source.origin === 'upstream' ? source.module.replace(/^mcp_/, '') : source.module,
    context: source.moduleDescription ?? '',
    requests: requests.join(' · '),
  }
  const fields: DocumentField[] = []
  for (const name of Object.keys(texts) as DocumentField['name'][]) {
    const text = texts[name].slice(0, CAPS[name])
    if (text.trim()) fields.push({ name, text, weight: FIELD_WEIGHTS[name] })
  }
  return {
    fields,
    names: namesOf(source, bareName),
    bareName,
    ...(source.synonyms?.length ? { synonyms: source.synonyms } : {}),
  }
}

export function bareNameOf(source: Pick<SearchSource, 'id' | 'module' | 'name'>): string {
  const { id, module } = source
  for (const separator of ['.', '__', '::', ':', '/']) {
    const prefix = `${module}${separator}`
    if (id.startsWith(prefix) && id.length > prefix.length) return id.slice(prefix.length)
  }
  return source.name
}

function namesOf(source: SearchSource, bareName: string): string[] {
  const server = source.module.replace(/^mcp_/, '')
  const names = [source.id, source.name, `${source.module}.${bareName}`, `${server}.${bareName}`]
  return [...new Set(names.map((name) => name.toLowerCase()))]
}

function parameterText(schema: Record<string, unknown>): string {
  const parts: string[] = []
  collectParameters(schema, 0, parts)
  return parts.join(' ')
}

function collectParameters(schema: unknown, depth: number, parts: string[]): void {
  if (depth > SCHEMA_DEPTH_CAP || parts.length > 200 || !isRecord(schema)) return
  const collect = (nested: unknown): void => collectParameters(nested, depth + 1, parts)
  for (const [name, property] of Object.entries(asRecord(schema.properties))) {
    parts.push(name)
    if (isRecord(property) && typeof property.description === 'string')
      parts.push(property.description.slice(0, PARAMETER_TEXT_CAP))
    collect(property)
  }
  for (const value of listOf(schema.enum).slice(0, ENUM_VALUES_CAP))
    if (typeof value === 'string') parts.push(value.slice(0, 40))
  if (isRecord(schema.items)) collect(schema.items)
  for (const key of ['anyOf', 'oneOf', 'allOf'] as const)
    for (const branch of listOf(schema[key]).slice(0, 8)) collect(branch)
}

const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])
