import { estimateTokens } from '../core/estimate-tokens.ts'
import { firstSentence } from '../core/first-sentence.ts'
import { getOrInsert } from '../core/get-or-insert.ts'
import type { Json } from '../core/is-record.ts'
import { listedDescription } from '../core/listed-description.ts'
import type { JsonSchema } from '../core/schema.ts'
import type { Effect } from '../core/tool.ts'
import { portableSchema } from './portable-schema.ts'
import type { ViewTool } from './view.ts'

/** A tool in the result of `tools/list`. */
export interface ListedTool {
  readonly name: string
  readonly title?: string
  readonly description: string
  readonly inputSchema: JsonSchema
  readonly outputSchema?: JsonSchema
  readonly annotations?: Json
  readonly [key: string]: unknown
}

function hintsOf(effect: Effect, idempotent: boolean, openWorld: boolean): Readonly<Record<string, boolean>> {
  return {
    readOnlyHint: effect === 'read',
    destructiveHint: effect === 'destructive',
    idempotentHint: idempotent,
    openWorldHint: openWorld,
  }
}

/** Accepts any object. Converters to zod 3 read `{ type: 'object' }` as an object without keys, and drop its content. */
export const OPEN_SCHEMA: JsonSchema = { type: 'object', properties: {}, additionalProperties: true }

const listedTools = new WeakMap<ViewTool, ListedTool>()

/** What clients receive for a tool. Annotations, icons and `_meta` of a server's tool are sent unchanged. */
export const listTool = (entry: ViewTool): ListedTool =>
  getOrInsert(listedTools, entry, () => {
    const { tool } = entry
    const output = listsOutput(entry) ? tool.output && portableSchema(tool.output, entry.schema) : undefined
    return {
      name: tool.name,
      ...(isTitled(tool) ? { title: tool.title } : {}),
      description: describe(entry) || tool.title || tool.id,
      inputSchema: portableSchema(entry.input.json, entry.schema),
      ...(output ? { outputSchema: output } : {}),
      ...(tool.origin === 'module' ? { annotations: hintsOf(tool.effect, tool.idempotent, tool.openWorld) } : {}),
      ...tool.extra,
    }
  })

/** A title that was derived from the name is listed only for modules: Pegboard adds no title to a server's tool. */
const isTitled = ({ title, untitled, origin }: ViewTool['tool']): boolean =>
  title !== '' && (origin === 'module' || !untitled)

/** The whole description for a caller, which assembly may have changed. */
export const fullDescriptionOf = ({ tool, description }: ViewTool): string =>
  description === tool.description ? (tool.fullDescription ?? description) : description

/** True if only the beginning of the description is listed. */
export const isCut = (entry: ViewTool): boolean => fullDescriptionOf(entry) !== entry.description

const describe = (entry: ViewTool): string => (isCut(entry) ? listedDescription(entry.tool) : entry.description)

/** Task support, for clients of 2025-11-25. Later revisions have no such field. */
export interface Execution {
  readonly taskSupport: 'required' | 'optional' | 'forbidden'
}

/** A server's tool is never `required`, because Pegboard waits for its task if the client cannot. */
export function executionOf({ tool }: ViewTool): Execution | undefined {
  if (tool.asTask === true) return { taskSupport: tool.task ?? 'optional' }
  return tool.saysTaskSupport ? { taskSupport: 'forbidden' } : undefined
}

/** The entry of a tool in compact mode: name, one line, and an open schema. */
export function listCompact(entry: ViewTool): ListedTool {
  return { name: entry.tool.name, description: firstSentence(entry.description, 100), inputSchema: OPEN_SCHEMA }
}

const listsOutput = ({ tool, listsOutput }: ViewTool): boolean => listsOutput?.(tool) === true

/** Estimated tokens of the tool's list entry. */
export function tokensOf(entry: ViewTool): number {
  const { tool } = entry
  // `listed` is undefined for tools that assembly may change, which only modules have.
  if (tool.listed !== undefined && !listsOutput(entry)) return Math.ceil((tool.listed + tool.name.length) / 4)
  return estimateTokens(JSON.stringify(listTool(entry)))
}
