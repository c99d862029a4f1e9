import type { Prompt } from '../catalog/catalog.ts'
import type { CallContext, Caller } from '../core/context.ts'
import { isToolName, wireName } from '../core/names.ts'
import type { ToolResult } from '../core/result.ts'
import { type Schema, unchecked } from '../core/schema.ts'
import type { Capacity, Example, Relay, Tool } from '../core/tool.ts'
import { type Definition, parseDefinition, type ToolRecord } from './definition.ts'
import { exampleOf, verbAliases } from './hints.ts'
import type { ServerSettings } from './settings.ts'

/** What a tool needs of its server. */
export interface ToolHost {
  readonly id: string
  /** `mcp_<id>`: category and catalogue owner. */
  readonly module: string
  readonly settings: ServerSettings
  /** The same object for all its tools. */
  readonly capacity?: Capacity
  available(caller: Caller, record?: Pick<ToolRecord, 'text'>): true | string
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

/** A tool of a server in the catalogue, and what is kept with it. */
interface Adapted extends Tool {
  readonly record: ToolRecord
  whole?: Definition
  schema?: Schema
  sample?: readonly Example[]
}

/**
 * Makes catalogue entries of a server's tools. What all of them share is on their prototype, and what a definition says is
 * read from it when someone asks: there may be ten thousand, and most are never looked at.
 */
export function createAdapter(host: ToolHost, naming: Naming): (record: ToolRecord) => Tool {
  const { settings } = host
  const definitionOf = (tool: Adapted): Definition => {
    tool.whole ??= parseDefinition(tool.record)
    return tool.whole
  }
  const believed = (tool: Adapted, hint: string): unknown =>
    settings.trustHints ? definitionOf(tool).annotations?.[hint] : undefined
  const shared: Omit<Tool, 'id' | 'name' | 'effect'> & ThisType<Adapted> = {
    module: host.module,
    origin: 'upstream',
    sideEffects: [`calls the MCP server ${host.id}`],
    tags: ['mcp', host.id],
    ...timeoutOf(host.id, settings, undefined),
    ...(host.capacity === undefined ? {} : { capacity: host.capacity }),
    get title() {
      return definitionOf(this).title
    },
    get description() {
      const { title, description } = definitionOf(this)
      return description || `${title}, a tool of the MCP server ${host.id}.`
    },
    get input() {
      this.schema ??= unchecked(definitionOf(this).input)
      return this.schema
    },
    get output() {
      return definitionOf(this).output
    },
    get idempotent() {
      return this.effect === 'read' || believed(this, 'idempotentHint') === true
    },
    get openWorld() {
      return believed(this, 'openWorldHint') !== false
    },
    get aliases() {
      return verbAliases(this.record.name)
    },
    get examples() {
      this.sample ??= [exampleOf(definitionOf(this).input)]
      return this.sample
    },
    get extra() {
      return definitionOf(this).extra
    },
    get listed() {
      return this.record.listed
    },
    get stamp() {
      return this.record.stamp
    },
    available(caller) {
      return host.available(caller, this.record)
    },
    assemble() {
      return this
    },
    // The server checks its own arguments, by the schema it has now.
    parse: (value) => ({ ok: true, value }),
    run(value, ctx, relay) {
      return host.call(this.record, value, ctx, relay)
    },
  }
  return (record) => {
    const tool = Object.create(shared)
    tool.record = record
    tool.id = `${host.module}.${naming.ids(isToolName(record.name) ? record.name : wireName(record.name, 64))}`
    tool.name = naming.wire(exposedName(settings, record.name))
    tool.effect = settings.trustHints ? record.claimed : record.effect
    if (Object.hasOwn(settings.tools, record.name)) Object.assign(tool, timeoutOf(host.id, settings, record.name))
    return tool
  }
}

/** How long a call of a tool may take, and who decides: its own setting, its server's, or else the gateway's. */
export function timeoutOf(
  id: string,
  settings: ServerSettings,
  name: string | undefined,
): { readonly timeoutMs?: number; readonly timeoutSetting?: string } {
  const own = name !== undefined && Object.hasOwn(settings.tools, name) ? settings.tools[name]?.timeoutMs : undefined
  if (own !== undefined) return { timeoutMs: own, timeoutSetting: `mcpServers.${id}.tools.${name}.timeoutMs` }
  const { timeoutMs } = settings
  return timeoutMs === undefined ? {} : { timeoutMs, timeoutSetting: `mcpServers.${id}.timeoutMs` }
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
