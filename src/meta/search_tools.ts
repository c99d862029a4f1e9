import { valueResult } from '../core/result.ts'
import { signatureOf } from '../core/signature.ts'
import { riskOf } from '../core/tool.ts'
import { firstSentence } from '../view/listing.ts'
import type { View, ViewTool } from '../view/view.ts'
import type { Host, MetaTool } from './host.ts'
import { onlyKeys, text, whole } from './input.ts'

/** What one answer may take together, so that five stay under 300 tokens; a long name leaves less for the rest. */
const ROW_CHARS = 148
const DESCRIPTION_CHARS = { min: 40, max: 80 }
const SUMMARY_CHARS = 60
const SHOWN_CATEGORIES = 4

export const searchTools = (host: Host): MetaTool => ({
  name: 'search_tools',
  title: 'Search tools',
  description: (view) => `Find tools by what they do, in any words. ${behind(view)} Then execute_tool.`,
  inputSchema: {
    type: 'object',
    properties: {
      query: { type: 'string' },
      max_results: { type: 'integer', default: 5, maximum: 20 },
      detail: { enum: ['full'] },
    },
    required: ['query'],
  },
  hints: { readOnlyHint: true, openWorldHint: false },
  run(input, request) {
    onlyKeys(input, ['query', 'max_results', 'limit', 'detail'], 'search_tools')
    const query = text(input, 'query', 'search_tools', 500)
    const limit = whole(input, input.max_results === undefined ? 'limit' : 'max_results', 'search_tools', 1, 20, 5)
    const view = host.view(request.caller)
    const { hits } = host.search(query, request.caller, limit)
    const tools = hits.flatMap(({ id, score }) => {
      const entry = view.byId.get(id)
      return entry ? [row(entry, score, input.detail === 'full')] : []
    })
    const hint = hintFor(view, tools.length)
    return valueResult({ tools, count: tools.length, query, ...hint })
  },
})

function row(entry: ViewTool, relevance: number, full: boolean) {
  const { tool } = entry
  const summary = clip(signatureOf(entry.input.json), SUMMARY_CHARS)
  const room = ROW_CHARS - tool.id.length - summary.length
  return {
    name: tool.id,
    description: firstSentence(
      entry.description,
      Math.min(DESCRIPTION_CHARS.max, Math.max(DESCRIPTION_CHARS.min, room)),
    ),
    risk_level: riskOf(tool.effect),
    params_summary: summary,
    relevance: Math.round(relevance * 100) / 100,
    ...(full ? { tags: tool.tags, parameters: entry.input.json } : {}),
  }
}

const clip = (line: string, max: number): string => {
  if (line.length <= max) return line
  const cut = line.lastIndexOf(', ', max - 2)
  return `${line.slice(0, cut > 0 ? cut : max - 1)}, …`
}

/** Servers that have not told their tools yet may have the right one. */
function hintFor(view: View, count: number): { readonly hint?: string } {
  const late = view.owners.filter(
    ({ id, state }) => view.count(id) === 0 && (state === 'connecting' || state === 'configured'),
  )
  if (late.length > 0)
    return {
      hint: `Still connecting: ${late
        .slice(0, 5)
        .map(({ id }) => id)
        .join(', ')}. Search again shortly.`,
    }
  return count === 0 ? { hint: 'Nothing matches. Try other words, or list_categories.' } : {}
}

/** What lies behind the doors, in a line. */
function behind(view: View): string {
  const owners = view.owners
    .filter((owner) => view.count(owner.id) > 0)
    .sort((a, b) => view.count(b.id) - view.count(a.id))
  const shown = owners
    .slice(0, SHOWN_CATEGORIES)
    .map((owner) => `${owner.id.replace(/^mcp_/, '')} ${view.count(owner.id)}`)
  const more = owners.length > SHOWN_CATEGORIES ? ', …' : ''
  return `${view.tools.length} tools: ${shown.join(', ')}${more}.`
}
