import { valueResult } from '../core/result.ts'
import type { Host, MetaTool } from './host.ts'
import { onlyKeys } from './input.ts'

export const clearInjectedTools = (host: Host): MetaTool => ({
  name: 'clear_injected_tools',
  title: 'Clear injected tools',
  description: () => 'Takes all injected tools off the list again.',
  inputSchema: { type: 'object', properties: {} },
  hints: { readOnlyHint: true, openWorldHint: false },
  run(input, { caller }) {
    onlyKeys(input, [], 'clear_injected_tools')
    return valueResult({ cleared: host.context.injected.clear(caller) })
  },
})
