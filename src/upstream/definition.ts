import { isRecord } from './envelope.ts'

/** A tool as its server defined it, with what is needed at every look taken out of the text. Plain JSON. */
export interface ToolRecord {
  /** The server's own name for it. */
  readonly name: string
  readonly title?: string
  /** Capped at 4 KiB. */
  readonly description: string
  readonly annotations?: Readonly<Record<string, unknown>>
  /** The whole definition as JSON: parsed when a schema is asked for, which for most tools is never. */
  readonly text: string
  /** It mirrors arguments into HTTP headers (`x-mcp-header`). */
  readonly mirrors?: true
}

const MAX_NAME = 256
const MAX_DESCRIPTION = 4 * 1024
const MAX_DEFINITION = 256 * 1024
const SCHEMA = { bytes: 64 * 1024, depth: 32, subschemas: 1_000 } as const

/** A definition fit to keep, or the reason it is not. Servers are not trusted to send what the protocol says. */
export function readDefinition(raw: unknown): ToolRecord | string {
  if (!isRecord(raw)) return 'a tool that is not an object'
  const { name, title, description, annotations, inputSchema, outputSchema } = raw
  if (typeof name !== 'string' || name.trim() === '') return 'a tool whose name is not a string'
  const shown = JSON.stringify(name.slice(0, 60))
  if (name.length > MAX_NAME) return `${shown}: its name has ${name.length} characters`
  if (inputSchema !== undefined && !isRecord(inputSchema)) return `${shown}: its inputSchema is not an object`
  for (const schema of [inputSchema, outputSchema]) {
    const fault = schema === undefined ? undefined : schemaFault(schema)
    if (fault) return `${shown}: ${fault}`
  }
  const mirrors = inputSchema !== undefined && JSON.stringify(inputSchema).includes('"x-mcp-header"')
  const text = JSON.stringify(raw)
  if (text.length > MAX_DEFINITION) return `${shown}: its definition has ${text.length} bytes`
  return {
    name,
    description: cut(typeof description === 'string' ? description : ''),
    text,
    ...(typeof title === 'string' && title !== '' ? { title: title.slice(0, MAX_NAME) } : {}),
    ...(isRecord(annotations) ? { annotations } : {}),
    ...(mirrors ? { mirrors: true } : {}),
  }
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
  return bytes > SCHEMA.bytes ? `its schema has ${bytes} bytes` : undefined
}
