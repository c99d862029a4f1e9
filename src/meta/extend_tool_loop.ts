import { valueResult } from '../core/result.ts'
import type { Host, MetaTool } from './host.ts'
import { onlyKeys, whole } from './input.ts'

export const extendToolLoop = (_host: Host): MetaTool => ({
  name: 'extend_tool_loop',
  title: 'Extend tool loop',
  description: () => 'More rounds of tool calls for this answer, where Pegboard itself runs the loop.',
  inputSchema: { type: 'object', properties: { rounds: { type: 'integer', default: 5 } } },
  hints: { readOnlyHint: true, openWorldHint: false },
  run(input, { loop }) {
    onlyKeys(input, ['rounds'], 'extend_tool_loop')
    const rounds = whole(input, 'rounds', 'extend_tool_loop', 1, 1_000, 5)
    if (!loop)
      return valueResult({
        extended: 0,
        limit: null,
        used: null,
        max: null,
        note: 'The client runs this conversation and limits it itself.',
      })
    const extended = loop.extend(rounds)
    return valueResult({ extended, limit: loop.limit, used: loop.used, max: loop.max })
  },
})
