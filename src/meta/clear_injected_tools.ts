import { valueResult } from '../core/tool-result.ts'
import type { Host, MetaTool } from './meta-host.ts'
import { onlyKeys } from './meta-input.ts'

export const clearInjectedTools = (host: Host): MetaTool => ({
  name: 'clear_injected_tools',
  title: 'Clear injected tools',
  description: () => 'Remove all injected tools from the list.',
  inputSchema: { type: 'object', properties: {} },
  hints: { readOnlyHint: true, openWorldHint: false },
  run(input, { caller }) {
    onlyKeys(input, [], 'clear_injected_tools')
    return valueResult({ cleared: host.context.injected.clear(caller) })
  },
})
