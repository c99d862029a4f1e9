import type { Owner } from '../catalog/owner.ts'
import type { Tool } from '../core/tool.ts'
import { actionOf } from '../core/tool-names.ts'
import type { ViewTool } from './view.ts'

/** The part of a view that macros need. */
export interface MacroScope {
  readonly tools: readonly ViewTool[]
  readonly owners: readonly Pick<Owner, 'id' | 'provides'>[]
}

const MACRO = /\{([a-z][a-z0-9_]*)_tool\}/g

/** What the tool must provide, and the text if no tool does. */
const KINDS: Readonly<Record<string, { readonly provides: string; readonly otherwise: string }>> = {
  url_fetch: { provides: 'url_fetcher', otherwise: 'a tool that reads web pages, if you have one' },
  web_search: { provides: 'web_search', otherwise: 'a tool that searches the web, if you have one' },
}

/** A quick test, because most texts have no macros. */
export const hasMacros = (text: string): boolean => text.includes('_tool}')

/**
 * Replaces `{url_fetch_tool}`, `{web_search_tool}` and `{<name>_tool}` by the names of these tools for this caller:
 * tools of servers that provide it, otherwise other tools, otherwise words.
 */
export function expandMacros(text: string, scope: MacroScope): string {
  if (!hasMacros(text)) return text
  return text.replaceAll(MACRO, (_whole, name: string) => {
    const kind = Object.hasOwn(KINDS, name) ? KINDS[name] : undefined
    if (kind) return formatTools(findProviders(kind.provides, scope)) ?? kind.otherwise
    return findTool(name, scope)?.name ?? `a tool for ${name.replaceAll('_', ' ')}, if you have one`
  })
}

function findProviders(provides: string, { tools, owners }: MacroScope): readonly Tool[] {
  const servers = new Set(owners.filter((owner) => owner.provides === provides).map(({ id }) => id))
  const ofServers = tools.filter(({ tool }) => servers.has(tool.module))
  return (ofServers.length > 0 ? ofServers : tools.filter(({ tool }) => tool.provides === provides)).map(
    ({ tool }) => tool,
  )
}

/** Wire names have priority, then action names, then aliases. */
function findTool(name: string, { tools }: MacroScope): Tool | undefined {
  const find = (test: (tool: Tool) => boolean): Tool | undefined => tools.find(({ tool }) => test(tool))?.tool
  return (
    find((tool) => tool.name === name) ??
    find((tool) => actionOf(tool) === name) ??
    find(({ aliases }) => aliases.includes(name))
  )
}

const formatTools = (tools: readonly Tool[]): string | undefined =>
  tools.length === 0 ? undefined : tools.map(({ name }) => name).join(' or ')
