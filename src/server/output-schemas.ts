import type { CallRequest } from '../exec/tool-calls.ts'
import { isSearched } from '../view/exposure.ts'
import type { BaseHost } from './server-host.ts'

/** Whether the client may know an output schema of the tool, also after the tool left its list. */
export function hasOutputSchema(
  host: Pick<BaseHost, 'catalog' | 'exposure' | 'view'>,
  { name, caller }: Pick<CallRequest, 'name' | 'caller'>,
): boolean {
  const { byName, byId } = host.catalog.snapshot()
  const tool = byName.get(name) ?? byId.get(name)
  if (tool) {
    // A denied tool is answered like an unknown one. The schema is checked first, because `exposure` keeps an entry for each
    // session, which may have ended.
    return (
      tool.output !== undefined &&
      !isSearched(host.exposure(caller).mode) &&
      host.view(caller).hidden.get(tool.id)?.kind !== 'denied'
    )
  }
  if (isSearched(host.exposure(caller).mode)) return false
  const found = host.view(caller).resolve(name)
  return found.kind === 'found' && found.tool.tool.output !== undefined
}
