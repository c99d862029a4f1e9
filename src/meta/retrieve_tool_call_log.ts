import { valueResult } from '../core/result.ts'
import type { Host, MetaTool } from './host.ts'
import { onlyKeys, whole } from './input.ts'

export const retrieveToolCallLog = (host: Host): MetaTool => ({
  name: 'retrieve_tool_call_log',
  title: 'Retrieve tool call log',
  description: () => 'The latest tool calls of this session: arguments, result, time.',
  inputSchema: { type: 'object', properties: { limit: { type: 'integer', default: 10 } } },
  hints: { readOnlyHint: true, openWorldHint: false },
  run(input, { caller }) {
    onlyKeys(input, ['limit'], 'retrieve_tool_call_log')
    const limit = whole(input, 'limit', 'retrieve_tool_call_log', 1, 1_000, 10)
    const { records } = host.context
    if (!records) return valueResult({ records: [], note: 'Calls are not remembered: services.callLog is 0.' })
    return valueResult({ records: records.of(caller, limit) })
  },
})
