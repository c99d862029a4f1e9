import type { Owner } from '../catalog/owner.ts'
import { PegboardError } from '../core/errors.ts'
import { formatCount } from '../core/format-count.ts'
import { asRecord, isRecord } from '../core/is-record.ts'
import { DEFAULT_PROFILE } from '../core/profile.ts'
import type { JsonSchema } from '../core/schema.ts'
import type { Tool } from '../core/tool.ts'
import { actionOf, findNearest } from '../core/tool-names.ts'
import { type Args, writeAnswer } from './args.ts'
import { describeDefault, describeType } from './describe.ts'
import { formatTable, type Io } from './io.ts'
import { type Session, withApp } from './open-app.ts'

/**
 * `pegboard schema [module]`: all tools of a module for developers, with hidden parameters and internal tools marked.
 */
export async function run(args: Args, io: Io): Promise<number> {
  const [moduleName] = args.positionals
  const show = ({ app, caller }: Session): number => {
    const owners = app.catalog.snapshot().owners
    const lineOf = (owner: Owner): string => app.categoryLine(owner, app.view(caller))
    if (moduleName === undefined) {
      const rows = [...owners.values()].map((owner) => ({
        id: owner.id,
        summary: lineOf(owner),
        actions: owner.tools.length,
      }))
      const table = rows.map((row) => [row.id, formatCount(row.actions, 'tool'), row.summary])
      writeAnswer(args, io, rows, formatTable(table))
      return 0
    }
    const owner = owners.get(moduleName) ?? owners.get(`mcp_${moduleName}`)
    if (!owner) throw createUnknownModuleError(moduleName, [...owners.keys()])
    const value = { id: owner.id, summary: lineOf(owner), actions: owner.tools.map(describeTool) }
    writeAnswer(args, io, value, formatModule(owner, lineOf(owner)))
    return 0
  }
  const values = { ...args.values, profile: DEFAULT_PROFILE }
  return withApp({ ...args, values }, io, show, { everyModule: true })
}

function createUnknownModuleError(name: string, moduleNames: readonly string[]): PegboardError {
  const [near] = findNearest(name, moduleNames)
  return new PegboardError('E_NOT_FOUND', `There is no module "${name}". Modules: ${moduleNames.join(', ')}.`, {
    hint: near ? `Did you mean "${near}"?` : 'Use one of these.',
  })
}

/** The parameters that clients see, with hidden ones marked `"hidden": true`. */
export function parametersOf(tool: Tool): JsonSchema {
  const { json } = tool.input
  const hidden = Object.entries(tool.hiddenParameters ?? {}).map(([name, schema]) => [
    name,
    { ...schema, hidden: true },
  ])
  if (hidden.length === 0) return json
  const visible = asRecord(json['properties'])
  return { ...json, properties: { ...visible, ...Object.fromEntries(hidden) } }
}

const describeTool = (tool: Tool) => ({
  name: actionOf(tool),
  description: tool.description,
  effect: tool.effect,
  ...(tool.internal ? { internal: true } : {}),
  parameters: parametersOf(tool),
  ...(tool.output ? { returns: tool.output } : {}),
  aliases: tool.aliases,
  side_effects: tool.sideEffects,
})

function formatModule(owner: Owner, summary: string): string {
  const tools = owner.tools.map((tool) => {
    const { description, effect, parameters, internal } = describeTool(tool)
    const required = new Set(Array.isArray(parameters['required']) ? parameters['required'] : [])
    const properties = isRecord(parameters['properties']) ? Object.entries(parameters['properties']) : []
    const rows = properties.map(([name, schema]) => {
      const fallback = describeDefault(schema)
      const marks = [
        required.has(name) ? 'required' : fallback === undefined ? 'optional' : `default ${fallback}`,
        ...(isRecord(schema) && schema['hidden'] === true ? ['hidden'] : []),
      ]
      const about = isRecord(schema) && typeof schema['description'] === 'string' ? schema['description'] : ''
      return [`    ${name}`, describeType(schema), marks.join(', '), about]
    })
    return `\n  ${tool.id} (${effect}${internal ? ', internal' : ''})\n  ${description.replaceAll('\n', '\n  ')}\n${formatTable(rows)}`
  })
  return `${owner.id}: ${summary}\n${tools.join('')}`
}
