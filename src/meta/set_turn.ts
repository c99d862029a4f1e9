import type { Turn } from '../core/caller.ts'
import { valueResult } from '../core/tool-result.ts'
import type { Host, MetaTool } from './meta-host.ts'
import { createInputError, onlyKeys, readText } from './meta-input.ts'

const DELIBERATE = ['follow', 'on', 'off'] as const

export const setTurn = (host: Host): MetaTool => ({
  name: 'set_turn',
  title: 'Set turn',
  admin: true,
  description: () => 'Set the message that this session handles, for clients that cannot send it with a request.',
  inputSchema: {
    type: 'object',
    properties: {
      message: { type: 'string' },
      deliberate: { enum: DELIBERATE },
      generation_id: { type: 'string' },
    },
  },
  hints: { readOnlyHint: false, destructiveHint: false, openWorldHint: false },
  run(input, { caller }) {
    onlyKeys(input, ['message', 'deliberate', 'generation_id'], 'set_turn')
    const deliberate = DELIBERATE.find((one) => one === input['deliberate'])
    if (input['deliberate'] !== undefined && deliberate === undefined)
      throw createInputError('set_turn', `deliberate: one of ${DELIBERATE.join(', ')} is required`)
    const turn: Turn = {
      ...(input['message'] === undefined ? {} : { message: readText(input, 'message', 'set_turn', 16_000) }),
      ...(deliberate === undefined ? {} : { deliberate }),
      ...(input['generation_id'] === undefined
        ? {}
        : { generation: readText(input, 'generation_id', 'set_turn', 256) }),
    }
    host.context.turns.set(caller, turn)
    return valueResult({ turn: Object.keys(turn).length === 0 ? null : input })
  },
})
