import { PegboardError } from '../core/errors.ts'
import { nearest } from '../core/names.ts'
import { valueResult } from '../core/result.ts'
import { riskOf } from '../core/tool.ts'
import { firstSentence } from '../view/listing.ts'
import type { Host, MetaTool } from './host.ts'
import { onlyKeys, text, whole } from './input.ts'
import { standing } from './standing.ts'

export const browseCategory = (host: Host): MetaTool => ({
  name: 'browse_category',
  title: 'Browse category',
  step: 'discover',
  description: () => 'The tools of one category, in pages.',
  inputSchema: {
    type: 'object',
    properties: {
      category: { type: 'string' },
      page: { type: 'integer', default: 1 },
      page_size: { type: 'integer', default: 20 },
    },
    required: ['category'],
  },
  hints: { readOnlyHint: true, openWorldHint: false },
  run(input, request) {
    onlyKeys(input, ['category', 'page', 'page_size'], 'browse_category')
    const wanted = text(input, 'category', 'browse_category', 200)
    const page = whole(input, 'page', 'browse_category', 1, 1_000_000, 1)
    const pageSize = whole(input, 'page_size', 'browse_category', 1, 100, 20)
    const view = host.view(request.caller)
    const owner = view.owners.find(({ id }) => id === wanted) ?? view.owners.find(({ id }) => id === `mcp_${wanted}`)
    if (!owner) {
      const ids = view.owners.map(({ id }) => id)
      const [near] = nearest(wanted, ids)
      throw new PegboardError(
        'E_NOT_FOUND',
        `Category '${wanted.slice(0, 80)}' not found. Available categories: ${ids.join(', ')}.`,
        {
          hint: near ? `Did you mean '${near}'?` : 'Use one of these.',
        },
      )
    }
    const all = view.tools.filter((entry) => entry.tool.module === owner.id)
    const tools = all.slice((page - 1) * pageSize, page * pageSize).map((entry) => ({
      name: entry.tool.id,
      description: firstSentence(entry.description, 140),
      risk_level: riskOf(entry.tool.effect),
      tags: entry.tool.tags,
    }))
    return valueResult({
      category: owner.id,
      summary: owner.summary,
      ...standing(owner, host.now()),
      tools,
      page,
      page_size: pageSize,
      total_pages: Math.ceil(all.length / pageSize),
      total_tools: all.length,
    })
  },
})
