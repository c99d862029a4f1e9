import type { Owner } from '../catalog/catalog.ts'
import { valueResult } from '../core/result.ts'
import { signatureOf } from '../core/signature.ts'
import { riskOf } from '../core/tool.ts'
import { firstSentence } from '../view/listing.ts'
import type { View, ViewTool } from '../view/view.ts'
import type { Host, MetaTool } from './host.ts'
import { invalid, onlyKeys, text, whole } from './input.ts'
import { waitFor } from './standing.ts'

/** What one answer may take together, so that five stay under 300 tokens; a long name leaves less for the rest. */
const ROW_CHARS = 148
const DESCRIPTION_CHARS = { min: 40, max: 80 }
const SUMMARY_CHARS = 60
/** What `starts_in_ms` takes of it, in tokens turned to characters. */
const WAIT_CHARS = 28
const SHOWN_CATEGORIES = 4
const QUERY_CHARS = 500
const QUERIES = 8

export const searchTools = (host: Host): MetaTool => ({
  name: 'search_tools',
  title: 'Search tools',
  step: 'discover',
  description: (view) =>
    `Find tools by what they do, in any words; several needs one a line. ${behind(view)} Then execute_tool.`,
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
  async run(input, request) {
    onlyKeys(input, ['query', 'max_results', 'limit', 'detail'], 'search_tools')
    const query = readQuery(input)
    const limit = whole(input, input.max_results === undefined ? 'limit' : 'max_results', 'search_tools', 1, 20, 5)
    const { hits, unanswered } = await host.search(query, request.caller, limit)
    const view = host.view(request.caller)
    const owners = new Map(view.owners.map((owner) => [owner.id, owner]))
    const tools = hits.flatMap(({ id, score }) => {
      const entry = view.byId.get(id)
      return entry ? [row(entry, score, input.detail === 'full', owners.get(entry.tool.module))] : []
    })
    const hint = hintFor(view, tools.length, unanswered)
    return valueResult({ tools, count: tools.length, query, ...hint })
  },
})

/** Several needs are one a line; models also send them as a list. @throws PegboardError E_VALIDATION */
function readQuery(input: Readonly<Record<string, unknown>>): string {
  const given = input['query']
  const list = Array.isArray(given) && given.every((one) => typeof one === 'string')
  const query = text(list ? { query: given.join('\n') } : input, 'query', 'search_tools', QUERIES * (QUERY_CHARS + 2))
  const lines = query.split('\n').filter((line) => line.trim() !== '')
  if (lines.length > QUERIES) throw invalid('search_tools', `query: at most ${QUERIES} lines (${lines.length} given)`)
  const long = lines.find((line) => line.length > QUERY_CHARS)
  if (long !== undefined)
    throw invalid('search_tools', `query: at most ${QUERY_CHARS} characters a line (length ${long.length})`)
  return query
}

function row(entry: ViewTool, relevance: number, full: boolean, owner: Owner | undefined) {
  const { tool } = entry
  const wait = waitFor(owner)
  const said = Object.keys(wait).length > 0 ? WAIT_CHARS : 0
  const summary = clip(signatureOf(entry.input.json), SUMMARY_CHARS)
  const room = ROW_CHARS - tool.id.length - summary.length - said
  return {
    name: tool.id,
    description: firstSentence(
      entry.description,
      Math.min(DESCRIPTION_CHARS.max, Math.max(DESCRIPTION_CHARS.min, room)),
    ),
    risk_level: riskOf(tool.effect),
    params_summary: summary,
    relevance: Math.round(relevance * 100) / 100,
    ...wait,
    ...(full ? { tags: tool.tags, parameters: entry.input.json } : {}),
  }
}

const clip = (line: string, max: number): string => {
  if (line.length <= max) return line
  const cut = line.lastIndexOf(', ', max - 2)
  return `${line.slice(0, cut > 0 ? cut : max - 1)}, …`
}

/** Servers that have not told their tools yet may have the right one. */
function hintFor(view: View, count: number, unanswered: readonly string[] = []): { readonly hint?: string } {
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
  if (count === 0) return { hint: 'Nothing matches. Try other words, or list_categories.' }
  if (unanswered.length === 0) return {}
  return { hint: `Nothing matches: ${unanswered.map((line) => clip(line, SUMMARY_CHARS)).join('; ')}.` }
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
  return `${view.size} tools: ${shown.join(', ')}${more}.`
}
