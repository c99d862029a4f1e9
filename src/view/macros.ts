import type { Owner } from '../catalog/catalog.ts'
import type { Tool } from '../core/tool.ts'
import type { ViewTool } from './view.ts'

/** As much of a view as macros need. */
export interface MacroScope {
  readonly tools: readonly ViewTool[]
  readonly owners: readonly Pick<Owner, 'id' | 'provides'>[]
}

const MACRO = /\{([a-z][a-z0-9_]*)_tool\}/g

/** What does it, whoever does; and what a person would say where nothing does. */
const KINDS: Readonly<Record<string, { readonly provides: string; readonly otherwise: string }>> = {
  url_fetch: { provides: 'url_fetcher', otherwise: 'a tool that reads web pages, if you have one' },
  web_search: { provides: 'web_search', otherwise: 'a tool that searches the web, if you have one' },
}

/** Whether a text has any: looking is cheaper than expanding. */
export const hasMacros = (text: string): boolean => text.includes('_tool}')

/**
 * Puts names of tools in for `{url_fetch_tool}`, `{web_search_tool}` and `{<name>_tool}`, as this caller has them: the
 * servers that are there for it first, else the tools that do it, else words. What is no macro stays.
 */
export function expandMacros(text: string, scope: MacroScope): string {
  if (!hasMacros(text)) return text
  return text.replaceAll(MACRO, (_whole, name: string) => {
    const kind = Object.hasOwn(KINDS, name) ? KINDS[name] : undefined
    if (kind) return listed(providers(kind.provides, scope)) ?? kind.otherwise
    return toolCalled(name, scope)?.name ?? `a tool for ${name.replaceAll('_', ' ')}, if you have one`
  })
}

function providers(provides: string, { tools, owners }: MacroScope): readonly Tool[] {
  const servers = new Set(owners.filter((owner) => owner.provides === provides).map(({ id }) => id))
  const own = tools.filter(({ tool }) => servers.has(tool.module))
  return (own.length > 0 ? own : tools.filter(({ tool }) => tool.provides === provides)).map(({ tool }) => tool)
}

/** By what it is called first, and by its other names last. */
function toolCalled(name: string, { tools }: MacroScope): Tool | undefined {
  const called = (test: (tool: Tool) => boolean): Tool | undefined => tools.find(({ tool }) => test(tool))?.tool
  return (
    called((tool) => tool.name === name) ??
    called(({ id, module }) => id.slice(module.length + 1) === name) ??
    called(({ aliases }) => aliases.includes(name))
  )
}

const listed = (tools: readonly Tool[]): string | undefined =>
  tools.length === 0 ? undefined : tools.map(({ name }) => name).join(' or ')
