import { PegboardError } from '../core/errors.ts'
import { valueResult } from '../core/result.ts'
import { riskOf } from '../core/tool.ts'
import { portableSchema } from '../view/portable.ts'
import { shownServers, unreadServers } from '../view/unread.ts'
import type { View, ViewTool } from '../view/view.ts'
import { absentBy, refusalOf } from '../view/visible.ts'
import { bareName } from './execute_tool.ts'
import type { Host, MetaTool } from './host.ts'
import { onlyKeys, text } from './input.ts'
import { waitFor } from './standing.ts'
import { shownMeta, type Unlisted } from './unlisted.ts'
import { startUnseen } from './unseen.ts'

export const getTool = (host: Host, unlisted: Unlisted): MetaTool => ({
  name: 'get_tool',
  title: 'Get tool',
  step: 'schema',
  description: () => 'Full schema, examples and side effects of one tool.',
  inputSchema: { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] },
  hints: { readOnlyHint: true, openWorldHint: false },
  async run(input, request) {
    onlyKeys(input, ['name', 'tool_name'], 'get_tool')
    const name = text(
      input,
      input.name === undefined && input.tool_name !== undefined ? 'tool_name' : 'name',
      'get_tool',
      200,
    )
    const meta = unlisted.of(request.caller).get(bareName(name))
    if (meta) return valueResult(shownMeta(meta, host, request.caller))
    await startUnseen(host, name, request)
    const view = host.view(request.caller)
    const entry = lookUp(view, name)
    const { tool } = entry
    return valueResult({
      name: tool.id,
      description: entry.description,
      module: tool.module,
      risk_level: riskOf(tool.effect),
      tags: tool.tags,
      parameters: portableSchema(entry.input.json, entry.schema),
      ...(tool.output ? { returns: portableSchema(tool.output, entry.schema) } : {}),
      examples: tool.examples.map(({ input: params, note }) => ({ name: tool.id, params, ...(note ? { note } : {}) })),
      side_effects: tool.sideEffects,
      irreversible: tool.effect === 'destructive',
      policy: 'auto',
      aliases: tool.aliases,
      ...waitFor(view.owners.find(({ id }) => id === tool.module)),
      ...(tool.title === '' || tool.untitled ? {} : { title: tool.title }),
      ...decorationsOf(tool.extra),
      ...(isObject(tool.extra['_meta']) && tool.extra['_meta']['ui'] ? { ui: tool.extra['_meta']['ui'] } : {}),
    })
  },
})

/** What its server shows of it. Other members could stand for ours. */
const decorationsOf = ({ icons, annotations, _meta }: Readonly<Record<string, unknown>>) => ({
  ...(icons === undefined ? {} : { icons }),
  ...(annotations === undefined ? {} : { annotations }),
  ...(_meta === undefined ? {} : { _meta }),
})

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null

/** A visible tool by any spelling. @throws PegboardError as a call would */
function lookUp(view: View, name: string): ViewTool {
  const found = view.resolve(name)
  if (found.kind === 'found') return found.tool
  if (found.kind === 'hidden' && found.hidden.kind === 'quarantined') throw refusalOf(found)
  if (found.kind === 'hidden')
    throw new PegboardError('E_TOOL_HIDDEN', `${found.id} is not available: ${found.hidden.reason}.`)
  if (found.kind === 'ambiguous')
    throw new PegboardError('E_NOT_FOUND', `'${name}' could be ${found.candidates.join(' or ')}.`, {
      hint: 'Use one of these full names.',
    })
  if (found.down && found.suggestions.length + found.sameModule.length === 0) throw absentBy(found.down, name)
  const near = found.suggestions[0] ?? found.sameModule[0]
  const unread = unreadServers(view)
  if (unread.length > 0 && found.sameModule.length === 0)
    throw new PegboardError(
      'E_NOT_FOUND',
      `Tool '${name.slice(0, 80)}' not found. Still connecting: ${shownServers(unread)}.`,
      { retryable: true, hint: 'Try again shortly.' },
    )
  throw new PegboardError(
    'E_NOT_FOUND',
    `Tool '${name.slice(0, 80)}' not found.${near ? ` Did you mean '${near}'?` : ''}`,
    { hint: near ? `Ask for '${near}'.` : 'Find it with search_tools.' },
  )
}
