import { type Caller, localCaller } from '../core/caller.ts'
import { once } from '../core/once.ts'
import { riskOf } from '../core/tool.ts'
import { signatureOf } from '../core/tool-signature.ts'
import type { SearchSource } from '../search/search-document.ts'
import { hashOf } from '../search/word-pieces.ts'
import type { MetaHost, MetaTool } from './meta-host.ts'

/** Meta-tools that can be called by name and found by search, but are not listed, to keep the list short. */
export type UnlistedTools = ReturnType<typeof createUnlistedTools>

/** @param isFor whether a caller has a tool now */
export function createUnlistedTools(
  host: MetaHost,
  tools: readonly MetaTool[],
  isFor: (tool: MetaTool, caller: Caller) => boolean,
) {
  return {
    /** The unlisted tools of this caller, by name. */
    of: (caller: Caller): ReadonlyMap<string, MetaTool> =>
      new Map(tools.filter((tool) => isFor(tool, caller)).map((tool) => [tool.name, tool])),
    /** The texts that search indexes. */
    sources: once((): readonly SearchSource[] => tools.map((tool) => sourceOf(tool, host))),
  }
}

function sourceOf(tool: MetaTool, host: MetaHost): SearchSource {
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

/** What `get_tool` shows of a meta-tool, and `search_tools` in short. */
export function describeMetaTool({ name, hints, inputSchema, description }: MetaTool, host: MetaHost, caller: Caller) {
  return {
    name,
    description: description(host.view(caller)),
    risk_level: riskOf(hints['readOnlyHint'] ? 'read' : hints['destructiveHint'] ? 'destructive' : 'write'),
    params_summary: signatureOf(inputSchema),
    parameters: inputSchema,
  }
}
