import { type Caller, localCaller } from '../core/context.ts'
import { signatureOf } from '../core/signature.ts'
import { riskOf } from '../core/tool.ts'
import type { SearchSource } from '../search/index.ts'
import { hashOf } from '../search/pieces.ts'
import type { Host, MetaTool } from './host.ts'

/** Tools about tools that are called by their names and found by search, and that discovery does not list: they would fill a small window. */
export interface Unlisted {
  /** Those of this caller, by name. */
  of(caller: Caller): ReadonlyMap<string, MetaTool>
  /** What search reads of them. */
  sources(): readonly SearchSource[]
}

export function createUnlisted(host: Host, tools: readonly MetaTool[], isFor: (caller: Caller) => boolean): Unlisted {
  const byName = new Map(tools.map((tool) => [tool.name, tool]))
  const none = new Map<string, MetaTool>()
  let made: readonly SearchSource[] | undefined
  return {
    of: (caller) => (isFor(caller) ? byName : none),
    sources() {
      made ??= tools.length === 0 ? [] : tools.map((tool) => sourceOf(tool, host))
      return made
    },
  }
}

function sourceOf(tool: MetaTool, host: Host): SearchSource {
  const { name, title, inputSchema } = tool
  const description = tool.description(host.view(localCaller))
  return {
    id: name,
    name,
    module: 'pegboard',
    title,
    description,
    aliases: [],
    tags: [],
    sideEffects: [],
    inputJson: inputSchema,
    origin: 'module',
    stamp: hashOf(JSON.stringify([name, title, description, inputSchema])),
  }
}

/** What `get_tool` says of one, and `search_tools` in short. */
export function shownMeta({ name, hints, inputSchema, description }: MetaTool, host: Host, caller: Caller) {
  return {
    name,
    description: description(host.view(caller)),
    risk_level: riskOf(hints['readOnlyHint'] ? 'read' : hints['destructiveHint'] ? 'destructive' : 'write'),
    params_summary: signatureOf(inputSchema),
    parameters: inputSchema,
  }
}
