import { omitUndefined } from '../core/omit-undefined.ts'
import { valueResult } from '../core/tool-result.ts'
import type { MetaHost, MetaTool } from './meta-host.ts'
import { inputSchema, READS } from './meta-input.ts'
import { ownerStatus } from './owner-status.ts'

export const listCategories = (host: MetaHost): MetaTool => ({
  name: 'list_categories',
  title: 'List categories',
  step: 'discover',
  description: () => 'List all categories of tools with counts.',
  inputSchema: inputSchema({}),
  hints: READS,
  run(_input, request) {
    const view = host.view(request.caller)
    const categories = view.owners
      .filter((owner) => view.count(owner.id) > 0 || owner.origin === 'upstream')
      .map((owner) => ({
        id: owner.id,
        summary: host.categoryLine(owner, view),
        tool_count: view.count(owner.id),
        ...ownerStatus(owner, host.now()),
        ...omitUndefined({ notice: view.reviewNotice(owner) }),
      }))
    return valueResult({
      categories,
      total_categories: categories.filter((category) => category.tool_count > 0).length,
      total_tools: view.size,
      tool_injection: host.exposure(request.caller).mode,
    })
  },
})
