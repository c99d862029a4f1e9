import { getOrInsert } from './get-or-insert.ts'
import { asRecord, isRecord } from './is-record.ts'
import { resolvePointer } from './json-pointer.ts'
import type { JsonSchema } from './schema.ts'

/** A tool as a script calls it: `tools.<owner>.<name>(args)`. */
export interface DeclaredTool {
  /** `owner.name`. */
  readonly id: string
  /** Shown as a comment; one line. */
  readonly about: string
  readonly input: JsonSchema
  readonly output?: JsonSchema | undefined
}

/** A declaration longer than this loses the comments of its parameters, then the members of nested objects. */
const MAX_CHARACTERS = 1_200
const MAX_COMMENT = 80
const MAX_MEMBERS = 60
/** A schema can name its definitions so often that its type would never end. The rest is `unknown`. */
const MAX_WRITTEN = 8_000
/** A signature that is still longer than this does not name its parameters. */
const MAX_SIGNATURE = 16_000

/** Declares tools in TypeScript, grouped by owner. Required parameters are never left out. */
export function declareTools(tools: readonly DeclaredTool[]): string {
  const owners = new Map<string, string[]>()
  for (const tool of tools) {
    const at = tool.id.indexOf('.')
    const lines = getOrInsert(owners, tool.id.slice(0, at), () => [])
    lines.push(`    ${formatComment(tool.about)}${formatKey(tool.id.slice(at + 1))}${formatSignature(tool)};`)
  }
  const groups = [...owners].map(([owner, lines]) => `  ${formatKey(owner)}: {\n${lines.join('\n')}\n  };`)
  return `declare const tools: {\n${groups.join('\n')}\n};`
}

function formatSignature({ input, output }: DeclaredTool): string {
  const needsNothing = !Array.isArray(input.required) || input.required.length === 0
  const args = needsNothing ? 'args?' : 'args'
  let text = ''
  for (const level of LEVELS) {
    const room = { left: MAX_WRITTEN }
    const argsType = typeOf(input, { ...level, room, root: input })
    const resultType = output ? typeOf(output, { ...level, comments: false, room, root: output }) : 'any'
    text = `(${args}: ${argsType}): Promise<${resultType}>`
    if (text.length <= MAX_CHARACTERS) return text
  }
  return text.length <= MAX_SIGNATURE ? text : `(${args}: Record<string, unknown>): Promise<any>`
}

interface Level {
  readonly depth: number
  readonly comments: boolean
}

/** From the most detailed to the shortest. */
const LEVELS: readonly Level[] = [
  { depth: 5, comments: true },
  { depth: 5, comments: false },
  { depth: 2, comments: false },
  { depth: 1, comments: false },
]

/** `root` has the definitions that `$ref` names; `room.left` is how much may still be written. */
type Where = Level & { readonly root: JsonSchema; readonly room: { left: number } }

function typeOf(schema: unknown, where: Where): string {
  if (!isRecord(schema) || where.room.left-- <= 0) return 'unknown'
  const { $ref, const: constant, enum: values, anyOf, oneOf, allOf, type } = schema
  if (typeof $ref === 'string')
    return where.depth > 0 ? typeOf(resolvePointer(where.root, $ref), deeper(where)) : 'unknown'
  if (constant !== undefined) return formatLiteral(constant, where)
  if (Array.isArray(values)) return distinct(values.map((value) => formatLiteral(value, where))).join(' | ') || 'never'
  const alternatives = anyOf ?? oneOf
  // If the schema also has properties, the alternatives only say which of them go together.
  if (Array.isArray(alternatives) && !isRecord(schema['properties'])) return formatUnion(alternatives, where)
  if (Array.isArray(allOf) && !isRecord(schema['properties']))
    return distinct(allOf.map((part) => typeOf(part, where))).join(' & ') || 'unknown'
  if (Array.isArray(type))
    return formatUnion(
      type.map((one) => ({ ...schema, type: one })),
      where,
    )
  if (type === 'object' || isRecord(schema['properties'])) return objectType(schema, where)
  if (type === 'array') return where.depth > 0 ? `Array<${typeOf(schema['items'], deeper(where))}>` : 'unknown[]'
  return SIMPLE[String(type)] ?? 'unknown'
}

const SIMPLE: Readonly<Record<string, string>> = {
  string: 'string',
  integer: 'number',
  number: 'number',
  boolean: 'boolean',
  null: 'null',
}

const formatUnion = (schemas: readonly unknown[], where: Where): string =>
  distinct(schemas.map((one) => typeOf(one, where))).join(' | ') || 'unknown'

const distinct = (texts: readonly string[]): readonly string[] => [...new Set(texts)]

function objectType(schema: Readonly<Record<string, unknown>>, where: Where): string {
  const properties = asRecord(schema['properties'])
  const more = schema['additionalProperties']
  const names = Object.keys(properties)
  if (names.length === 0) return `Record<string, ${isRecord(more) ? typeOf(more, deeper(where)) : 'unknown'}>`
  if (where.depth === 0) return 'object'
  const required = new Set(Array.isArray(schema['required']) ? schema['required'] : [])
  const sorted = names.sort((a, b) => Number(required.has(b)) - Number(required.has(a)))
  const members = sorted.slice(0, Math.max(MAX_MEMBERS, required.size)).map((name) => {
    const member = properties[name]
    const about = where.comments && isRecord(member) ? formatComment(String(member['description'] ?? '')) : ''
    const named = `${about}${formatKey(name)}${required.has(name) ? '' : '?'}`
    where.room.left -= named.length
    return `${named}: ${typeOf(member, deeper(where))}`
  })
  return `{ ${members.join('; ')} }`
}

const deeper = (where: Where): Where => ({ ...where, depth: where.depth - 1 })

function formatLiteral(value: unknown, { room }: Where): string {
  if (room.left <= 0 || !(value === null || ['string', 'number', 'boolean'].includes(typeof value))) return 'unknown'
  const text = JSON.stringify(value)
  room.left -= text.length
  return room.left < 0 ? typeof value : text
}

const formatKey = (name: string): string => (/^[A-Za-z_$][\w$]*$/.test(name) ? name : JSON.stringify(name))

/** A comment on one line. A server's text cannot end it. */
function formatComment(text: string): string {
  const line = text.replaceAll(/\s+/g, ' ').trim()
  if (line === '') return ''
  const short = line.length > MAX_COMMENT ? `${line.slice(0, MAX_COMMENT - 1)}…` : line
  return `/** ${short.replaceAll('*/', '* /')} */ `
}
