import { PegboardError } from '../core/errors.ts'
import type { CallRequest } from '../exec/call.ts'
import type { ViewTool } from '../view/view.ts'
import type { Host } from './host.ts'

/**
 * The tool of a call that is to be made when nobody is there to be asked. The policy of that moment decides again.
 * @throws PegboardError what the call would fail with now; E_CONFIRMATION_REQUIRED where each call needs a yes
 */
export function unasked(host: Host, request: CallRequest): ViewTool {
  const entry = host.checked({ ...request, finders: ['search_tools', 'list_categories'] })
  const { caller } = request
  const decision = host.view(caller).policy.decide(entry.tool, caller)
  if (decision.allow && decision.ask)
    throw new PegboardError(
      'E_CONFIRMATION_REQUIRED',
      `${entry.tool.id} runs only when a person says yes to each call, and later nobody can be asked.`,
      { hint: `Call it directly; ${decision.ask.setting} decides.` },
    )
  return entry
}
