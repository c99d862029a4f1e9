import type { Caller } from '../core/context.ts'
import { PegboardError } from '../core/errors.ts'
import { checkArguments } from '../core/guard.ts'
import type { ToolResult } from '../core/result.ts'
import type { CallRequest } from '../exec/call.ts'
import type { Mode } from '../view/exposure.ts'
import { type ListedTool, listCompact, listTool } from '../view/listing.ts'
import type { ViewTool } from '../view/view.ts'
import { browseCategory } from './browse_category.ts'
import { executeTool } from './execute_tool.ts'
import { getTool } from './get_tool.ts'
import type { Host, MetaTool } from './host.ts'
import { listCategories } from './list_categories.ts'
import { searchTools } from './search_tools.ts'

/** What clients get: the listed tools, and one door through which every name is called. */
export interface Surface {
  /** In the order clients should see; equal for equal views. */
  list(caller: Caller, mode: Mode): readonly ListedTool[]
  /** Runs a meta-tool or any tool the caller sees. @throws PegboardError */
  call(request: CallRequest): Promise<ToolResult>
  readonly metaNames: readonly string[]
}

/** The names no module or upstream tool may take. */
export const META_NAMES: readonly string[] = [
  'search_tools',
  'get_tool',
  'execute_tool',
  'list_categories',
  'browse_category',
]

// Some clients put every tool behind a search of their own; a search behind a search is never found.
const NEVER_DEFER = { 'anthropic/alwaysLoad': true, deferTools: 'never' }

/** Clients of 2025-11-25 are told which calls can be tasks; never that they must be, as any can be made without. */
const withTask = (entry: ViewTool): ListedTool =>
  entry.tool.asTask === true ? { ...listTool(entry), execution: { taskSupport: 'optional' } } : listTool(entry)

export function createSurface(host: Host, options: { readonly pinned: () => readonly string[] }): Surface {
  const isMeta = (name: string): boolean => META_NAMES.includes(name)
  const tools: readonly MetaTool[] = [
    searchTools(host),
    getTool(host),
    executeTool(host, isMeta),
    listCategories(host),
    browseCategory(host),
  ]
  const byName = new Map(tools.map((tool) => [tool.name, tool]))

  const listMeta = (caller: Caller): ListedTool[] => {
    const view = host.view(caller)
    return tools.map((tool) => ({
      name: tool.name,
      title: tool.title,
      description: tool.description(view),
      inputSchema: tool.inputSchema,
      annotations: tool.hints,
      _meta: NEVER_DEFER,
    }))
  }

  return {
    metaNames: META_NAMES,
    list(caller, mode) {
      const view = host.view(caller)
      const told = caller.era === 'legacy' ? withTask : listTool
      if (mode === 'direct') return view.tools.map(told)
      if (mode === 'compact') return [...listMeta(caller), ...view.tools.map(listCompact)]
      const pinned = options.pinned().flatMap((name) => {
        const found = view.resolve(name)
        return found.kind === 'found' ? [told(found.tool)] : []
      })
      return [...listMeta(caller), ...pinned]
    },
    async call(request) {
      const meta = byName.get(request.name)
      if (!meta)
        return host.call({
          ...request,
          finders: host.exposure(request.caller).mode === 'direct' ? [] : ['search_tools', 'list_categories'],
        })
      const input = request.input ?? {}
      if (typeof input !== 'object' || Array.isArray(input))
        throw new PegboardError('E_VALIDATION', `Invalid params for ${meta.name}: an object is required.`)
      checkArguments(input)
      return meta.run(input as Record<string, unknown>, request)
    },
  }
}
