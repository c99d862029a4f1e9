import { valueResult } from '../core/result.ts'
import type { Host, MetaTool } from './host.ts'
import { invalid, onlyKeys, text } from './input.ts'

export const setFlag = (host: Host): MetaTool => ({
  name: 'set_flag',
  title: 'Set flag',
  admin: true,
  description: () => 'Switches a flag of this profile on or off, until the configuration is read again.',
  inputSchema: {
    type: 'object',
    properties: { flag: { type: 'string' }, value: { type: 'boolean' } },
    required: ['flag', 'value'],
  },
  hints: { readOnlyHint: false, destructiveHint: false, openWorldHint: false },
  run(input, { caller }) {
    onlyKeys(input, ['flag', 'value'], 'set_flag')
    const flag = text(input, 'flag', 'set_flag', 64)
    const { value } = input
    if (typeof value !== 'boolean') throw invalid('set_flag', 'value: true or false is required')
    host.context.setFlag(caller.profile, flag, value)
    return valueResult({ profile: caller.profile, flag, value })
  },
})
