import { valueResult } from '../core/tool-result.ts'
import type { Host, MetaTool } from './meta-host.ts'
import { onlyKeys, readInteger } from './meta-input.ts'

export const retrieveToolCallLog = (host: Host): MetaTool => ({
  name: 'retrieve_tool_call_log',
  title: 'Retrieve tool call log',
  description: () => 'Show the latest tool calls of this session: arguments, result, time.',
  inputSchema: { type: 'object', properties: { limit: { type: 'integer', default: 10 } } },
  hints: { readOnlyHint: true, openWorldHint: false },
  run(input, { caller }) {
    onlyKeys(input, ['limit'], 'retrieve_tool_call_log')
    const limit = readInteger(input, 'limit', 'retrieve_tool_call_log', 1, 1_000, 10)
    const { records } = host.context
    if (!records) return valueResult({ records: [], note: 'Calls are not recorded: services.callLog is 0.' })
    return valueResult({ records: records.of(caller, limit) })
  },
})
