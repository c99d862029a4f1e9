import type { JsonSchema } from '../core/schema.ts'
import { estimateTokens } from '../core/tokens.ts'
import type { Effect } from '../core/tool.ts'
import { portableSchema } from './portable.ts'
import type { ViewTool } from './view.ts'

/** A tool as `tools/list` sends it. */
export interface ListedTool {
  readonly name: string
  readonly title?: string
  readonly description: string
  readonly inputSchema: JsonSchema
  readonly outputSchema?: JsonSchema
  readonly annotations?: Readonly<Record<string, unknown>>
  readonly [key: string]: unknown
}

/** MCP's four hints, from the one word an author wrote. */
export function hintsOf(effect: Effect, idempotent: boolean, openWorld: boolean): Readonly<Record<string, boolean>> {
  return {
    readOnlyHint: effect === 'read',
    destructiveHint: effect === 'destructive',
    idempotentHint: idempotent,
    openWorldHint: openWorld,
  }
}

/** An object of anything. Converters to zod 3 take `{ type: 'object' }` for one without keys, and drop what is in it. */
export const OPEN_SCHEMA: JsonSchema = { type: 'object', properties: {}, additionalProperties: true }

const listed = new WeakMap<ViewTool, ListedTool>()

/** What a client is sent for a tool. Computed once a view. An upstream's own annotations, icons and `_meta` go along unchanged. */
export function listTool(entry: ViewTool): ListedTool {
  let made = listed.get(entry)
  if (!made) {
    const { tool } = entry
    const output = tool.output && portableSchema(tool.output, entry.schema)
    made = {
      name: tool.name,
      ...(tool.title ? { title: tool.title } : {}),
      description: entry.description || tool.title || tool.id,
      inputSchema: portableSchema(entry.input.json, entry.schema),
      ...(output ? { outputSchema: output } : {}),
      ...(tool.origin === 'module' ? { annotations: hintsOf(tool.effect, tool.idempotent, tool.openWorld) } : {}),
      ...tool.extra,
    }
    listed.set(entry, made)
  }
  return made
}

/** Names and one-liners with open schemas: what compact mode lists. */
export function listCompact(entry: ViewTool): ListedTool {
  return { name: entry.tool.name, description: firstSentence(entry.description, 100), inputSchema: OPEN_SCHEMA }
}

/** Estimated tokens of what a client would be sent. */
export function tokensOf(entry: ViewTool): number {
  const { tool } = entry
  // Not for one whose description or schema a caller sees otherwise, which only modules' tools can be.
  if (tool.listed !== undefined) return Math.ceil((tool.listed + tool.name.length) / 4)
  return estimateTokens(JSON.stringify(listTool(entry)))
}

/** The first sentence, cut at `max` characters on a word. */
export function firstSentence(text: string, max: number): string {
  const line = text.replaceAll(/\s+/g, ' ').trim()
  const end = line.search(/(?<!\b(?:e\.g|i\.e|cf|vs))[.!?](\s|$)|[。！？]/)
  const sentence = end >= 0 ? line.slice(0, end + 1) : line
  if (sentence.length <= max) return sentence
  const cut = sentence.slice(0, max - 1)
  const space = cut.lastIndexOf(' ')
  return `${space > max / 2 ? cut.slice(0, space) : cut}…`
}
