import { valueResult } from '../core/result.ts'
import type { Host, MetaTool } from './host.ts'
import { onlyKeys } from './input.ts'
import { standing } from './standing.ts'

export const listCategories = (host: Host): MetaTool => ({
  name: 'list_categories',
  title: 'List categories',
  step: 'discover',
  description: () => 'All categories of tools with counts.',
  inputSchema: { type: 'object', properties: {} },
  hints: { readOnlyHint: true, openWorldHint: false },
  run(input, request) {
    onlyKeys(input, [], 'list_categories')
    const view = host.view(request.caller)
    const categories = view.owners
      .filter((owner) => view.count(owner.id) > 0 || owner.origin === 'upstream')
      .map((owner) => ({
        id: owner.id,
        summary: owner.summary,
        tool_count: view.count(owner.id),
        ...standing(owner, host.now()),
        ...(owner.notice === undefined ? {} : { notice: owner.notice }),
      }))
    const { mode, why } = host.exposure(request.caller)
    return valueResult({
      categories,
      total_categories: categories.length,
      total_tools: view.size,
      tool_injection: mode,
      why,
    })
  },
})
