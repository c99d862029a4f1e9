import type { Prompt } from '../catalog/catalog.ts'
import { exposedName, overrideAliases, overrideOf } from '../catalog/naming.ts'
import type { CallContext } from '../core/context.ts'
import { plain } from '../core/plain.ts'
import type { ToolResult } from '../core/result.ts'
import type { JsonSchema, Schema } from '../core/schema.ts'
import type { Draft, Example, Relay, Tool } from '../core/tool.ts'
import type { ToolRecord } from './definition.ts'
import { isRecord } from './envelope.ts'
import { exampleOf, guessEffect, verbAliases, wordsOf } from './hints.ts'
import type { ServerSettings } from './settings.ts'

/** What a tool needs of its server. */
export interface ToolHost {
  readonly id: string
  /** `mcp_<id>`: category and catalogue owner. */
  readonly module: string
  readonly settings: ServerSettings
  available(): true | string
  call(record: ToolRecord, input: unknown, ctx: CallContext, relay: Relay): Promise<ToolResult>
}

/** Hands out each name once: a second one gets `_2`, a third `_3`. */
export function createNames(): (name: string) => string {
  const used = new Set<string>()
  return (name) => {
    let free = name
    for (let n = 2; used.has(free); n++) free = `${name}_${n}`
    used.add(free)
    return free
  }
}

/** A catalogue entry for a server's tool. Its definition is parsed the first time someone asks for a schema. */
export function adaptTool(record: ToolRecord, host: ToolHost, action: string): Tool {
  const { settings } = host
  const override = overrideOf(settings, record.name)
  let whole: Definition | undefined
  const definition = (): Definition => {
    whole ??= readText(record.text)
    return whole
  }
  const title = plain(record.title ?? '') || annotatedTitle(record) || titleOf(override?.rename ?? record.name)
  const description =
    override?.describe ?? (plain(record.description) || `${title}, a tool of the MCP server ${host.id}.`)
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
    id: `${host.module}.${action}`,
    name: exposedName(settings, override?.rename ?? record.name),
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
    ...(settings.timeoutMs === undefined ? {} : { timeoutMs: settings.timeoutMs }),
    ...(override?.replaces === undefined ? {} : { replaces: override.replaces }),
    get aliases() {
      aliases ??= [...new Set([...overrideAliases(record.name, settings), ...verbAliases(record.name)])]
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

/** A prompt as clients see it: everything as the server wrote it but its name. */
export function adaptPrompt(
  entry: Readonly<Record<string, unknown>>,
  settings: ServerSettings,
  wire: (name: string) => string,
): Prompt {
  const name = wire(exposedName(settings, String(entry['name'])))
  return { name, entry: { ...entry, name } }
}
