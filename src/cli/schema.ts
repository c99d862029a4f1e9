import type { Owner } from '../catalog/catalog.ts'
import { PegboardError } from '../core/errors.ts'
import { nearest } from '../core/names.ts'
import { isRecord } from '../core/record.ts'
import type { JsonSchema } from '../core/schema.ts'
import type { Tool } from '../core/tool.ts'
import type { Args } from './commands.ts'
import { defaultOf, typeOf } from './describe.ts'
import { counted, type Io, table, writeJson } from './io.ts'
import { withApp } from './open.ts'

/** `pegboard schema [module]`: the developer's view, hidden parameters and internal tools included and marked. */
export async function run(args: Args, io: Io): Promise<number> {
  const [wanted] = args.positionals
  const json = args.values['json'] === true
  return withApp(args, io, ({ app }) => {
    const owners = app.catalog.snapshot().owners
    if (wanted === undefined) {
      const rows = [...owners.values()].map(({ id, summary, tools }) => ({ id, summary, actions: tools.length }))
      if (json) writeJson(io, rows)
      else io.stdout(table(rows.map((row) => [row.id, counted(row.actions, 'tool'), row.summary])))
      return 0
    }
    const owner = owners.get(wanted) ?? owners.get(`mcp_${wanted}`)
    if (!owner) throw unknownModule(wanted, [...owners.keys()])
    if (json) writeJson(io, { id: owner.id, summary: owner.summary, actions: owner.tools.map(action) })
    else io.stdout(moduleText(owner))
    return 0
  })
}

function unknownModule(wanted: string, known: readonly string[]): PegboardError {
  const [near] = nearest(wanted, known)
  return new PegboardError('E_NOT_FOUND', `There is no module "${wanted}". There is: ${known.join(', ')}.`, {
    hint: near ? `Did you mean "${near}"?` : 'Use one of these.',
  })
}

/** The published parameters, with hidden ones beside them, each marked `"hidden": true`. */
export function parametersOf(tool: Tool): JsonSchema {
  const { json } = tool.input
  const hidden = Object.entries(tool.hiddenParameters ?? {}).map(([name, schema]) => [
    name,
    { ...schema, hidden: true },
  ])
  if (hidden.length === 0) return json
  const shown = isRecord(json['properties']) ? json['properties'] : {}
  return { ...json, properties: { ...shown, ...Object.fromEntries(hidden) } }
}

const action = (tool: Tool) => ({
  name: tool.id.slice(tool.module.length + 1),
  description: tool.description,
  effect: tool.effect,
  ...(tool.internal ? { internal: true } : {}),
  parameters: parametersOf(tool),
  ...(tool.output ? { returns: tool.output } : {}),
  aliases: tool.aliases,
  side_effects: tool.sideEffects,
})

function moduleText(owner: Owner): string {
  const tools = owner.tools.map((tool) => {
    const { description, effect, parameters, internal } = action(tool)
    const required = new Set(Array.isArray(parameters['required']) ? parameters['required'] : [])
    const properties = isRecord(parameters['properties']) ? Object.entries(parameters['properties']) : []
    const rows = properties.map(([name, schema]) => {
      const fallback = defaultOf(schema)
      const marks = [
        required.has(name) ? 'required' : fallback === undefined ? 'optional' : `default ${fallback}`,
        ...(isRecord(schema) && schema['hidden'] === true ? ['hidden'] : []),
      ]
      const about = isRecord(schema) && typeof schema['description'] === 'string' ? schema['description'] : ''
      return [`    ${name}`, typeOf(schema), marks.join(', '), about]
    })
    return `\n  ${tool.id} (${effect}${internal ? ', internal' : ''})\n  ${description.replaceAll('\n', '\n  ')}\n${table(rows)}`
  })
  return `${owner.id}: ${owner.summary}\n${tools.join('')}`
}
