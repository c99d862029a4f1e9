import { valueResult } from '../core/tool-result.ts'
import type { Host, MetaTool } from './meta-host.ts'
import { onlyKeys, readInteger } from './meta-input.ts'

export const extendToolLoop = (_host: Host): MetaTool => ({
  name: 'extend_tool_loop',
  title: 'Extend tool loop',
  description: () => 'Allow more rounds of tool calls for this answer, if Pegboard runs the loop.',
  inputSchema: { type: 'object', properties: { rounds: { type: 'integer', default: 5 } } },
  hints: { readOnlyHint: true, openWorldHint: false },
  run(input, { loop }) {
    onlyKeys(input, ['rounds'], 'extend_tool_loop')
    const rounds = readInteger(input, 'rounds', 'extend_tool_loop', 1, 1_000, 5)
    if (!loop)
      return valueResult({
        extended: 0,
        limit: null,
        used: null,
        max: null,
        note: 'The client runs this conversation and sets its limit.',
      })
    const extended = loop.extend(rounds)
    return valueResult({ extended, limit: loop.limit, used: loop.used, max: loop.max })
  },
})
