import { valueResult } from '../core/tool-result.ts'
import type { Host, MetaTool } from './meta-host.ts'
import { createInputError, onlyKeys, readText } from './meta-input.ts'

export const setFlag = (host: Host): MetaTool => ({
  name: 'set_flag',
  title: 'Set flag',
  admin: true,
  description: () => 'Switch a flag of this profile on or off, until the configuration is reloaded.',
  inputSchema: {
    type: 'object',
    properties: { flag: { type: 'string' }, value: { type: 'boolean' } },
    required: ['flag', 'value'],
  },
  hints: { readOnlyHint: false, destructiveHint: false, openWorldHint: false },
  run(input, { caller }) {
    onlyKeys(input, ['flag', 'value'], 'set_flag')
    const flag = readText(input, 'flag', 'set_flag', 64)
    const { value } = input
    if (typeof value !== 'boolean') throw createInputError('set_flag', 'value: true or false is required')
    host.context.setFlag(caller.profile, flag, value)
    return valueResult({ profile: caller.profile, flag, value })
  },
})
