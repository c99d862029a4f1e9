import type { Prompt } from '../catalog/catalog.ts'
import { actionName, exposedName, overrideAliases, overrideOf, ownNamesOf } from '../catalog/naming.ts'
import type { ToolOverride } from '../catalog/options.ts'
import type { CallContext, Caller } from '../core/context.ts'
import type { ToolResult } from '../core/result.ts'
import { type Schema, unchecked } from '../core/schema.ts'
import type { Capacity, Effect, Example, Relay, Tool } from '../core/tool.ts'
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
  runsAsTask?(record: ToolRecord): boolean
  available(caller: Caller, record?: Pick<ToolRecord, 'text'>): true | string
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
export function createAdapter(host: ToolHost): (record: ToolRecord) => Tool {
  const { settings } = host
  const definitionOf = (tool: Adapted): Definition => {
    tool.whole ??= parseDefinition(tool.record)
    return tool.whole
  }
  /** What the operator says it does. */
  const labelOf = (name: string): Effect | undefined => overrideOf(settings, name)?.effect ?? settings.effect
  const believed = (tool: Adapted, hint: string): unknown =>
    settings.trustHints ? definitionOf(tool).annotations?.[hint] : undefined
  const shared: Omit<Tool, 'id' | 'name' | 'effect'> & ThisType<Adapted> = {
    module: host.module,
    origin: 'upstream',
    tripwire: 'warn',
    sideEffects: [`calls the MCP server ${host.id}`],
    tags: ['mcp', host.id],
    ...(settings.internal ? { internal: true } : {}),
    ...timeoutOf(settings, undefined),
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
    get hearsay() {
      return this.effect === 'read' && !settings.trustHints && labelOf(this.record.name) === undefined
    },
    get idempotent() {
      return this.effect === 'read' || believed(this, 'idempotentHint') === true
    },
    get openWorld() {
      return believed(this, 'openWorldHint') !== false
    },
    get ownNames() {
      return ownNamesOf(this.record.name, settings)
    },
    get chosenAliases() {
      return overrideAliases(this.record.name, settings)
    },
    get aliases() {
      const { name } = this.record
      return [...overrideAliases(name, settings), ...verbAliases(name)]
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
    get asTask() {
      return host.runsAsTask?.(this.record) === true
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
    const override = overrideOf(settings, record.name)
    const action = actionName(record.name, settings)
    tool.id = `${host.module}.${action}`
    tool.name = exposedName(settings, action)
    tool.effect = labelOf(record.name) ?? (settings.trustHints ? record.claimed : record.effect)
    return override ? overridden(tool, override, timeoutOf(settings, record.name)) : tool
  }
}

/** What the operator says of it stands before what its server says. */
function overridden(tool: Adapted, { describe, replaces }: ToolOverride, timeout: object): Tool {
  Object.assign(tool, timeout, replaces === undefined ? {} : { replaces })
  // Its length is no longer that of the server's text.
  if (describe !== undefined)
    Object.defineProperties(tool, { description: { value: describe }, listed: { value: undefined } })
  return tool
}

/** How long a call of a tool may take, and who decides: its own setting, its server's, or else the gateway's. */
export function timeoutOf(
  settings: ServerSettings,
  name: string | undefined,
): { readonly timeoutMs?: number; readonly timeoutSetting?: string } {
  const own = name !== undefined && Object.hasOwn(settings.tools, name) ? settings.tools[name]?.timeoutMs : undefined
  if (own !== undefined) return { timeoutMs: own, timeoutSetting: `${settings.where}.tools.${name}.timeoutMs` }
  const { timeoutMs, where } = settings
  return timeoutMs === undefined ? {} : { timeoutMs, timeoutSetting: `${where}.timeoutMs` }
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
