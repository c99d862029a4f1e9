import type { Prompt } from '../catalog/catalog.ts'
import type { CallContext } from '../core/context.ts'
import { distinctName, isToolName, wireName } from '../core/names.ts'
import type { ToolResult } from '../core/result.ts'
import type { JsonSchema, Schema } from '../core/schema.ts'
import type { Draft, Example, Relay, Tool } from '../core/tool.ts'
import type { ToolRecord } from './definition.ts'
import { isRecord } from './envelope.ts'
import { exampleOf, guessEffect, verbAliases, wordsOf } from './hints.ts'
import { plain } from './plain.ts'
import type { ServerSettings, ToolOverride } from './settings.ts'

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

/** What the operator says of a tool; a server cannot name itself into the configuration's prototype. */
export const overrideOf = (settings: ServerSettings, name: string): ToolOverride | undefined =>
  Object.hasOwn(settings.tools, name) ? settings.tools[name] : undefined

/**
 * The last part of each tool's id, by the server's name for it: as renamed, else as named. Names that become the same
 * all get a hash of the server's own name, so that the order of the list does not matter.
 */
export function actionNames(names: readonly string[], settings: ServerSettings): ReadonlyMap<string, string> {
  const wanted = new Map<string, string[]>()
  for (const name of names) {
    const shown = overrideOf(settings, name)?.rename ?? name
    const action = isToolName(shown) ? shown : wireName(shown, 64)
    wanted.set(action, [...(wanted.get(action) ?? []), name])
  }
  const actions = new Map<string, string>()
  for (const [action, group] of wanted)
    for (const name of group) {
      let seed = name
      let free = action
      if (group.length > 1)
        do {
          free = distinctName(action, seed, 64)
          seed += '#'
        } while (wanted.has(free))
      actions.set(name, free)
    }
  return actions
}

/** The name clients see for something the server calls `name`. */
export const exposedName = (settings: ServerSettings, name: string): string =>
  wireName(settings.prefix === '' ? name : `${settings.prefix}__${name}`)

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
      aliases ??= aliasesOf(record.name, settings)
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

/** The operator's, in the spelling of listed names too; then the server's own name where another is shown; then guesses. */
function aliasesOf(name: string, settings: ServerSettings): readonly string[] {
  const override = overrideOf(settings, name)
  if (!override) return verbAliases(name)
  const given = override.alias.flatMap((alias) =>
    settings.prefix === '' ? [alias] : [alias, exposedName(settings, alias)],
  )
  return [...new Set([...given, ...(override.rename === undefined ? [] : [name]), ...verbAliases(name)])]
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
