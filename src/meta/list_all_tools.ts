import { firstSentence } from '../core/first-sentence.ts'
import { valueResult } from '../core/tool-result.ts'
import type { Host, MetaTool } from './meta-host.ts'
import { onlyKeys } from './meta-input.ts'

export const listAllTools = (host: Host): MetaTool => ({
  name: 'list_all_tools',
  title: 'List all tools',
  description: () => 'List names and descriptions of all tools at once; long if there are many.',
  inputSchema: { type: 'object', properties: {} },
  hints: { readOnlyHint: true, openWorldHint: false },
  run(input, request) {
    onlyKeys(input, [], 'list_all_tools')
    const { tools } = host.view(request.caller)
    return valueResult({
      tools: tools.map(({ tool, description }) => ({ name: tool.id, description: firstSentence(description, 140) })),
      total: tools.length,
    })
  },
})
