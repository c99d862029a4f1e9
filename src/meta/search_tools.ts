import type { Owner } from '../catalog/catalog.ts'
import { valueResult } from '../core/result.ts'
import { signatureOf } from '../core/signature.ts'
import { riskOf } from '../core/tool.ts'
import { firstSentence } from '../view/listing.ts'
import { shownServers, unreadServers } from '../view/unread.ts'
import type { View, ViewTool } from '../view/view.ts'
import type { Host, MetaTool } from './host.ts'
import { invalid, onlyKeys, text, whole } from './input.ts'
import { waitFor } from './standing.ts'
import { shownMeta, type Unlisted } from './unlisted.ts'

/** What one answer may take together, so that five stay under 300 tokens; a long name leaves less for the rest. */
const ROW_CHARS = 148
const DESCRIPTION_CHARS = { min: 40, max: 80 }
const SUMMARY_CHARS = 60
/** What `starts_in_ms` takes of it, in tokens turned to characters. */
const WAIT_CHARS = 28
const SHOWN_CATEGORIES = 4
const QUERY_CHARS = 500
const QUERIES = 8
const NAMES = 20
const NAME_LIKE = /^[\p{L}\p{N}]+(?:[._:/-]+[\p{L}\p{N}]+)+$/u
/** Names in a hint. */
const SHOWN_NAMES = 10

export const searchTools = (host: Host, unlisted: Unlisted): MetaTool => ({
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
    await host.serversRead(request.caller)
    const {
      hits,
      unanswered = [],
      more = [],
      behind,
    } = await host.search(query, request.caller, limit, { keepUnlikely: true })
    const view = host.view(request.caller)
    const owners = new Map(view.owners.map((owner) => [owner.id, owner]))
    const full = input.detail === 'full'
    const own = unlisted.of(request.caller)
    const found = hits.flatMap(({ id, score }) => {
      const entry = view.byId.get(id)
      if (entry) return [row(entry, score, full, owners.get(entry.tool.module))]
      const meta = own.get(id)
      return meta ? [metaRow(shownMeta(meta, host, request.caller), score, full)] : []
    })
    // An empty answer would say that there is no tool at all.
    const tools =
      found.length > 0 ? found : samples(view, limit).map((entry) => row(entry, 0, full, owners.get(entry.tool.module)))
    const needs = new Set(linesOf(query)).size
    const hint = hintFor(view, found.length === 0 || unanswered.length === needs ? 'all' : unanswered, more, behind)
    return valueResult({ tools, count: tools.length, query, ...hint })
  },
})

const linesOf = (query: string): string[] =>
  query
    .split('\n')
    .map((line) => line.trim())
    .filter(Boolean)

/** Several needs are one a line; models also send them as a list. @throws PegboardError E_VALIDATION */
function readQuery(input: Readonly<Record<string, unknown>>): string {
  const given = input['query']
  const list = Array.isArray(given) && given.every((one) => typeof one === 'string')
  const query = text(list ? { query: given.join('\n') } : input, 'query', 'search_tools', QUERIES * (QUERY_CHARS + 2))
  const lines = linesOf(query)
  const needs = lines.filter((line) => !NAME_LIKE.test(line)).length
  if (needs > QUERIES) throw invalid('search_tools', `query: at most ${QUERIES} lines (${needs} given)`)
  if (lines.length > NAMES) throw invalid('search_tools', `query: at most ${NAMES} names (${lines.length} given)`)
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

function metaRow(
  { name, description, risk_level, params_summary, parameters }: ReturnType<typeof shownMeta>,
  relevance: number,
  full: boolean,
) {
  return {
    name,
    description: firstSentence(description, DESCRIPTION_CHARS.max),
    risk_level,
    params_summary: clip(params_summary, SUMMARY_CHARS),
    relevance: Math.round(relevance * 100) / 100,
    ...(full ? { tags: [] as string[], parameters } : {}),
  }
}

const clip = (line: string, max: number): string => {
  if (line.length <= max) return line
  const cut = line.lastIndexOf(', ', max - 2)
  return `${line.slice(0, cut > 0 ? cut : max - 1)}, …`
}

/** One tool of each owner, then the second of each: what there is, for a query that matches none of it. */
function samples(view: View, most: number): ViewTool[] {
  const byOwner = view.owners.map(({ id }) => view.tools.filter(({ tool }) => tool.module === id))
  const longest = Math.max(0, ...byOwner.map((tools) => tools.length))
  const picked: ViewTool[] = []
  for (let at = 0; at < longest && picked.length < most; at++)
    picked.push(...byOwner.flatMap((tools) => tools[at] ?? []))
  return picked.slice(0, most)
}

/** Servers that have not told their tools yet may have the right one. @param unanswered the needs that no tool is likely to meet */
function hintFor(
  view: View,
  unanswered: 'all' | readonly string[],
  more: readonly string[],
  behind = false,
): { readonly hint?: string } {
  const hints: string[] = []
  const unread = unreadServers(view)
  if (unread.length > 0) hints.push(`Still connecting: ${shownServers(unread)}. Search again shortly.`)
  else if (behind) hints.push('Some new tools cannot be found yet. Search again shortly.')
  else if (view.size === 0) hints.push('There are no tools.')
  else if (unanswered === 'all')
    hints.push('No close match; these are the nearest. Try other words, or list_categories.')
  else if (unanswered.length > 0)
    hints.push(`No close match: ${unanswered.map((line) => clip(line, SUMMARY_CHARS)).join('; ')}.`)
  if (more.length > 0) hints.push(`Named, but without room here: ${listed(more, SHOWN_NAMES)}. Search for these alone.`)
  return hints.length > 0 ? { hint: hints.join(' ') } : {}
}

const listed = (names: readonly string[], most: number): string =>
  `${names.slice(0, most).join(', ')}${names.length > most ? ` and ${names.length - most} more` : ''}`

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
