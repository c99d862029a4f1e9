import { actionName, exposedName, overrideAliases, overrideOf, ownNamesOf } from '../catalog/naming.ts'
import type { Prompt } from '../catalog/owner.ts'
import type { ToolOverride } from '../catalog/tool-override-options.ts'
import type { CallContext, Caller } from '../core/caller.ts'
import { createUncheckedSchema, type Schema } from '../core/schema.ts'
import type { Capacity, Effect, Example, Relay, Tool } from '../core/tool.ts'
import type { ToolResult } from '../core/tool-result.ts'
import { type Definition, parseDefinition, type ToolRecord } from './tool-definition.ts'
import { exampleOf, phrasesWithOtherVerbs } from './tool-hints.ts'
import type { ServerSettings } from './upstream-settings.ts'

export interface ToolHost {
  readonly id: string
  /** `mcp_<id>`: category and catalog owner. */
  readonly module: string
  readonly settings: ServerSettings
  readonly capacity: Capacity
  runsAsTask(record: ToolRecord): boolean
  available(caller: Caller, record?: Pick<ToolRecord, 'text'>): true | string
  call(record: ToolRecord, input: unknown, ctx: CallContext, relay: Relay): Promise<ToolResult>
}

interface ServerTool extends Tool {
  readonly record: ToolRecord
  definition?: Definition
  schema?: Schema
  sample?: readonly Example[]
}

/**
 * Creates catalog entries for a server's tools. Shared properties are on a prototype and definitions are parsed on
 * access, because there may be ten thousand tools and most are never read.
 */
export function createAdapter(host: ToolHost): (record: ToolRecord) => Tool {
  const { settings } = host
  const definitionOf = (tool: ServerTool): Definition => {
    tool.definition ??= parseDefinition(tool.record)
    return tool.definition
  }
  /** The operator's label for the effect. */
  const labelOf = (name: string): Effect | undefined => overrideOf(settings, name)?.effect ?? settings.effect
  const trustedHint = (tool: ServerTool, hint: string): unknown =>
    settings.trustHints ? definitionOf(tool).annotations?.[hint] : undefined
  const shared: Omit<Tool, 'id' | 'name' | 'effect'> & ThisType<ServerTool> = {
    module: host.module,
    origin: 'upstream',
    tripwire: 'warn',
    sideEffects: [`calls the MCP server ${host.id}`],
    tags: ['mcp', host.id],
    ...(settings.internal ? { internal: true } : {}),
    ...timeoutOf(settings, undefined),
    capacity: host.capacity,
    get title() {
      return definitionOf(this).title
    },
    get untitled() {
      return definitionOf(this).untitled
    },
    get description() {
      const { title, description } = definitionOf(this)
      return description || `${title}, a tool of the MCP server ${host.id}.`
    },
    get fullDescription() {
      return definitionOf(this).fullDescription
    },
    get input() {
      this.schema ??= createUncheckedSchema(definitionOf(this).input)
      return this.schema
    },
    get maxResultTokens() {
      return overrideOf(settings, this.record.name)?.maxResultTokens ?? settings.maxResultTokens
    },
    get output() {
      return definitionOf(this).output
    },
    get unverifiedRead() {
      return this.effect === 'read' && !settings.trustHints && labelOf(this.record.name) === undefined
    },
    get idempotent() {
      return this.effect === 'read' || trustedHint(this, 'idempotentHint') === true
    },
    get openWorld() {
      return trustedHint(this, 'openWorldHint') !== false
    },
    get ownNames() {
      return ownNamesOf(this.record.name, settings)
    },
    get aliases() {
      return overrideAliases(this.record.name, settings)
    },
    get searchPhrases() {
      return phrasesWithOtherVerbs(this.record.name)
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
    get saysTaskSupport() {
      return definitionOf(this).saysTaskSupport
    },
    get asTask() {
      return host.runsAsTask(this.record)
    },
    available(caller) {
      return host.available(caller, this.record)
    },
    assemble() {
      return this
    },
    // The server validates its own arguments, with its current schema.
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
    return override ? applyOverride(tool, override, timeoutOf(settings, record.name)) : tool
  }
}

/** The operator's settings override the server's texts. */
function applyOverride(tool: ServerTool, { describe, replaces }: ToolOverride, timeout: object): Tool {
  Object.assign(tool, timeout, replaces === undefined ? {} : { replaces })
  // The length of the server's description no longer applies.
  if (describe !== undefined)
    Object.defineProperties(tool, {
      description: { value: describe },
      fullDescription: { value: undefined },
      listed: { value: undefined },
    })
  return tool
}

/** Timeout of a tool call and the setting it comes from: the tool's, the server's or the default. */
export function timeoutOf(
  settings: ServerSettings,
  name: string | undefined,
): { readonly timeoutMs?: number; readonly timeoutSetting?: string } {
  const toolTimeoutMs =
    name !== undefined && Object.hasOwn(settings.tools, name) ? settings.tools[name]?.timeoutMs : undefined
  if (toolTimeoutMs !== undefined)
    return { timeoutMs: toolTimeoutMs, timeoutSetting: `${settings.where}.tools.${name}.timeoutMs` }
  const { timeoutMs, where } = settings
  return timeoutMs === undefined ? {} : { timeoutMs, timeoutSetting: `${where}.timeoutMs` }
}

/** A prompt as clients see it: the server's definition under its exposed name. */
export function adaptPrompt(
  entry: Readonly<Record<string, unknown>>,
  settings: ServerSettings,
  uniqueName: (name: string) => string,
): Prompt {
  const name = uniqueName(exposedName(settings, String(entry['name'])))
  return { name, entry: { ...entry, name } }
}
