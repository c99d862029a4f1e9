import type { Prompt } from '../catalog/catalog.ts'
import type { CallContext } from '../core/context.ts'
import { isToolName, wireName } from '../core/names.ts'
import type { ToolResult } from '../core/result.ts'
import type { JsonSchema, Schema } from '../core/schema.ts'
import type { Capacity, Draft, Example, Relay, Tool } from '../core/tool.ts'
import type { ToolRecord } from './definition.ts'
import { isRecord } from './envelope.ts'
import { exampleOf, guessEffect, verbAliases, wordsOf } from './hints.ts'
import { plain } from './plain.ts'
import type { ServerSettings } from './settings.ts'

/** What a tool needs of its server. */
export interface ToolHost {
  readonly id: string
  /** `mcp_<id>`: category and catalogue owner. */
  readonly module: string
  readonly settings: ServerSettings
  /** The same object for all its tools. */
  readonly capacity?: Capacity
  available(): true | string
  call(record: ToolRecord, input: unknown, ctx: CallContext, relay: Relay): Promise<ToolResult>
}

/** Hands out each name once: a second one gets `_2`, a third `_3`. */
export function createNames(taken: ReadonlySet<string> = new Set()): (name: string) => string {
  const used = new Set(taken)
  return (name) => {
    let free = name
    for (let n = 2; used.has(free); n++) free = `${name}_${n}`
    used.add(free)
    return free
  }
}

export interface Naming {
  readonly ids: (name: string) => string
  readonly wire: (name: string) => string
}

/** The name clients see for something the server calls `name`. */
export const exposedName = (settings: ServerSettings, name: string): string =>
  wireName(settings.prefix === '' ? name : `${settings.prefix}__${name}`)

/** A catalogue entry for a server's tool. Its definition is parsed the first time someone asks for a schema. */
export function adaptTool(record: ToolRecord, host: ToolHost, naming: Naming): Tool {
  const { settings } = host
  let whole: Definition | undefined
  const definition = (): Definition => {
    whole ??= readText(record.text)
    return whole
  }
  const title = plain(record.title ?? '') || annotatedTitle(record) || titleOf(record.name)
  const description = plain(record.description) || `${title}, a tool of the MCP server ${host.id}.`
  const input: Schema = {
    get json() {
      return definition().input
    },
    // The server checks its own arguments, by the schema it has now.
    parse: (value) => ({ ok: true, value }),
  }
  const draft: Draft = { description, input }
  let examples: readonly Example[] | undefined
  let aliases: readonly string[] | undefined
  const effect = guessEffect(record.name, record.annotations, settings.trustHints)
  const tool: Tool = {
    id: `${host.module}.${naming.ids(isToolName(record.name) ? record.name : wireName(record.name, 64))}`,
    name: naming.wire(exposedName(settings, record.name)),
    module: host.module,
    origin: 'upstream',
    title,
    description,
    input,
    effect,
    idempotent: effect === 'read' || (settings.trustHints && record.annotations?.['idempotentHint'] === true),
    openWorld: !(settings.trustHints && record.annotations?.['openWorldHint'] === false),
    sideEffects: [`calls the MCP server ${host.id}`],
    tags: ['mcp', host.id],
    ...timeoutOf(host.id, settings, record.name),
    ...(host.capacity === undefined ? {} : { capacity: host.capacity }),
    get aliases() {
      aliases ??= verbAliases(record.name)
      return aliases
    },
    get examples() {
      examples ??= [exampleOf(definition().input)]
      return examples
    },
    get extra() {
      return definition().extra
    },
    available: () => host.available(),
    assemble: () => draft,
    parse: input.parse,
    run: (value, ctx, relay) => host.call(record, value, ctx, relay),
  }
  if (record.text.includes('"outputSchema"'))
    Object.defineProperty(tool, 'output', { get: () => definition().output, enumerable: true })
  return tool
}

/** How long a call of a tool may take, and who decides: its own setting, its server's, or else the gateway's. */
export function timeoutOf(
  id: string,
  settings: ServerSettings,
  name: string,
): { readonly timeoutMs?: number; readonly timeoutSetting?: string } {
  const own = Object.hasOwn(settings.tools, name) ? settings.tools[name]?.timeoutMs : undefined
  if (own !== undefined) return { timeoutMs: own, timeoutSetting: `mcpServers.${id}.tools.${name}.timeoutMs` }
  const { timeoutMs } = settings
  return timeoutMs === undefined ? {} : { timeoutMs, timeoutSetting: `mcpServers.${id}.timeoutMs` }
}

interface Definition {
  readonly input: JsonSchema
  readonly output: JsonSchema | undefined
  readonly extra: Readonly<Record<string, unknown>>
}

function readText(text: string): Definition {
  const {
    name: _n,
    title: _t,
    description: _d,
    inputSchema,
    outputSchema,
    ...extra
  } = JSON.parse(text) as Record<string, unknown>
  const { annotations } = extra
  return {
    input: isRecord(inputSchema) ? (portable(inputSchema) ?? inputSchema) : { type: 'object', properties: {} },
    output: isRecord(outputSchema) ? portable(outputSchema) : undefined,
    extra:
      isRecord(annotations) && typeof annotations['title'] === 'string'
        ? { ...extra, annotations: { ...annotations, title: plain(annotations['title']) } }
        : extra,
  }
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

const annotatedTitle = ({ annotations }: ToolRecord): string =>
  typeof annotations?.['title'] === 'string' ? plain(annotations['title']).slice(0, 256) : ''

function titleOf(name: string): string {
  const words = wordsOf(name).join(' ')
  return words ? words.charAt(0).toUpperCase() + words.slice(1) : name
}

/** Keeps the tools the operator's globs let through. `*` is any run of characters, `?` any one. */
export function createFilter({ allow, deny }: ServerSettings): (name: string) => boolean {
  const allowed = allow.map(glob)
  const denied = deny.map(glob)
  return (name) =>
    (allowed.length === 0 || allowed.some((one) => one.test(name))) && !denied.some((one) => one.test(name))
}

const glob = (pattern: string): RegExp =>
  new RegExp(
    `^${pattern
      .replaceAll(/[.+^${}()|[\]\\]/g, '\\$&')
      .replaceAll('*', '.*')
      .replaceAll('?', '.')}$`,
    's',
  )

/** A prompt as clients see it: everything as the server wrote it but its name. */
export function adaptPrompt(
  entry: Readonly<Record<string, unknown>>,
  settings: ServerSettings,
  wire: (name: string) => string,
): Prompt {
  const name = wire(exposedName(settings, String(entry['name'])))
  return { name, entry: { ...entry, name } }
}
