import type { Turn } from '../core/context.ts'
import { valueResult } from '../core/result.ts'
import type { Host, MetaTool } from './host.ts'
import { invalid, onlyKeys, text } from './input.ts'

const DELIBERATE = ['follow', 'on', 'off'] as const

export const setTurn = (host: Host): MetaTool => ({
  name: 'set_turn',
  title: 'Set turn',
  admin: true,
  description: () =>
    'Says what message this session serves from now on, for clients that cannot say it with a request.',
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
      throw invalid('set_turn', `deliberate: one of ${DELIBERATE.join(', ')} is required`)
    const turn: Turn = {
      ...(input['message'] === undefined ? {} : { message: text(input, 'message', 'set_turn', 16_000) }),
      ...(deliberate === undefined ? {} : { deliberate }),
      ...(input['generation_id'] === undefined ? {} : { generation: text(input, 'generation_id', 'set_turn', 256) }),
    }
    host.context.turns.set(caller, turn)
    return valueResult({ turn: Object.keys(turn).length === 0 ? null : input })
  },
})
