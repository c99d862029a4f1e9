import { valueResult } from '../core/tool-result.ts'
import type { Host, MetaTool } from './meta-host.ts'
import { createInputError, onlyKeys } from './meta-input.ts'

const MAX_NAMES = 20

export const requestToolInjection = (host: Host): MetaTool => ({
  name: 'request_tool_injection',
  title: 'Request tool injection',
  description: () => 'Add found tools to the list, to call them by name.',
  inputSchema: {
    type: 'object',
    properties: { tool_names: { type: 'array', items: { type: 'string' } } },
    required: ['tool_names'],
  },
  hints: { readOnlyHint: true, openWorldHint: false },
  run(input, { caller }) {
    onlyKeys(input, ['tool_names'], 'request_tool_injection')
    return valueResult(host.context.inject(caller, readNames(input['tool_names'])))
  },
})

/** Models also send a single name, or several names in one string. */
function readNames(given: unknown): readonly string[] {
  const names = typeof given === 'string' ? given.split(/[\s,]+/).filter((name) => name !== '') : given
  if (!Array.isArray(names) || names.length === 0 || !names.every((name) => typeof name === 'string'))
    throw createInputError('request_tool_injection', 'tool_names: a list of names is required')
  if (names.length > MAX_NAMES)
    throw createInputError('request_tool_injection', `tool_names: at most ${MAX_NAMES} (${names.length} given)`)
  return [...new Set(names)]
}
