import type { Tool } from '../core/tool.ts'
import type { CallRequest } from '../exec/tool-calls.ts'
import type { BaseHost } from './server-host.ts'

/** Whether the client may know an output schema of the tool, also after the tool left its list. */
export function hasOutputSchema(
  host: Pick<BaseHost, 'catalog' | 'exposure' | 'surface' | 'view'>,
  { name, caller }: Pick<CallRequest, 'name' | 'caller'>,
): boolean {
  const isListed = (tool: Tool): boolean =>
    // The schema is checked first, because `exposure` keeps an entry for each session, which may have ended.
    tool.output !== undefined && host.exposure(caller).mode === 'direct' && host.surface.listsOutput(caller, tool)
  const { byName, byId } = host.catalog.snapshot()
  const tool = byName.get(name) ?? byId.get(name)
  // A denied tool is answered like an unknown one.
  if (tool) return isListed(tool) && host.view(caller).hidden.get(tool.id)?.kind !== 'denied'
  if (host.exposure(caller).mode !== 'direct') return false
  const found = host.view(caller).resolve(name)
  return found.kind === 'found' && isListed(found.tool.tool)
}
