import { isPegboardError, joinSentences } from '../core/errors.ts'
import { firstSentence } from '../core/first-sentence.ts'
import { toPrintable, toPrintableJson } from '../core/printable.ts'
import { tokensOfText } from '../core/text-tokens.ts'
import type { Tool } from '../core/tool.ts'
import type { McpResult } from '../core/tool-result.ts'
import { tryParseJson } from '../core/try-parse-json.ts'
import { statusOfResult } from '../exec/audited-call.ts'
import type { CallRequest } from '../exec/tool-calls.ts'
import { toMcpResult } from '../server/mcp-results.ts'
import type { SearchAnswer, SearchRow, ToolDetail, ToolRow, TryAnswer } from '../ui/api-types.ts'
import { fullDescriptionOf, tokensOf } from '../view/listed-tools.ts'
import type { View, ViewTool } from '../view/view.ts'
import { hiddenReason, knownTools, verdictOf, verdictRows } from './explain-tool.ts'
import type { UiContext } from './ui-parts.ts'

const SUMMARY_CHARS = 120
const MAX_TEXT = 200_000

const rowsByView = new WeakMap<View, readonly ToolRow[]>()

/** All tools: those that clients see, then those that they do not, each by owner. */
export function listTools(parts: UiContext, profile: string): readonly ToolRow[] {
  const view = parts.app.view(parts.caller(profile))
  const before = rowsByView.get(view)
  if (before) return before
  const row = (tool: Tool, description: string): Omit<ToolRow, 'tokens'> => ({
    id: tool.id,
    name: tool.name,
    owner: tool.module,
    summary: toPrintable(firstSentence(description, SUMMARY_CHARS)),
    effect: tool.effect,
  })
  const all = knownTools(parts.app)
  const rows: ToolRow[] = view.tools.map((entry) => ({
    ...row(entry.tool, entry.description),
    tokens: tokensOf(entry),
  }))
  for (const [id, why] of view.hidden) {
    const tool = all.get(id)
    if (tool) rows.push({ ...row(tool, tool.description), tokens: 0, hidden: parts.toSafeText(hiddenReason(why)) })
  }
  rowsByView.set(view, rows)
  return rows
}

export function showTool(parts: UiContext, id: string, profile: string): ToolDetail | undefined {
  const caller = parts.caller(profile)
  const entry = parts.app.view(caller).byId.get(id)
  const tool = entry?.tool ?? knownTools(parts.app).get(id)
  const row = listTools(parts, profile).find((one) => one.id === id)
  if (!tool || !row) return undefined
  const verdict = verdictOf({ app: parts.app, config: parts.config(), caller }, id)
  return {
    ...row,
    description: toPrintable(entry ? fullDescriptionOf(entry) : tool.description),
    schema: JSON.parse(toPrintableJson(JSON.stringify((entry ?? tool).input.json))),
    why: verdictRows(verdict).map(([label, text]) => [label, parts.toSafeText(text)] as const),
    visible: entry !== undefined,
  }
}

/** Searches as the operator, with the parts of each score and the answer that a model would get. */
export async function searchTools(
  parts: UiContext,
  query: string,
  profile: string,
  limit: number,
): Promise<SearchAnswer> {
  const { app, clock } = parts
  const caller = parts.caller(profile)
  const view = app.view(caller)
  const beganAt = clock.now()
  const answer = await app.search(query, caller, limit, { explain: true })
  const ms = clock.now() - beganAt
  const rows = answer.hits.flatMap(({ id, score, matched, why }): SearchRow[] => {
    const entry = view.byId.get(id)
    if (!entry) return []
    const numbers = Object.entries(why ?? {}).filter((one): one is [string, number] => typeof one[1] === 'number')
    return [{ id, score, matched, parts: Object.fromEntries(numbers), summary: summaryOf(entry) }]
  })
  const shown = await app.surface
    .call({ name: app.surface.metaNames[0] ?? '', input: { query, limit: Math.min(limit, 20) }, caller })
    .then((result) => textOf(toMcpResult(result, app.server.files, caller)), describeFailure)
  return {
    rows,
    ranking: answer.ranking,
    unanswered: (answer.unanswered?.length ?? 0) > 0 || rows.length === 0,
    shown: toPrintable(shown),
    tokens: tokensOfText(shown),
    ms,
  }
}

const summaryOf = ({ description }: ViewTool): string => toPrintable(firstSentence(description, SUMMARY_CHARS))

/** Runs a tool as the operator would through a client. A failure is part of the answer. */
export async function tryTool(
  { app, clock }: UiContext,
  request: Pick<CallRequest, 'name' | 'input' | 'caller' | 'signal'>,
): Promise<TryAnswer> {
  const beganAt = clock.now()
  const end = (outcome: string, text: string): TryAnswer => ({
    outcome,
    text: toPrintable(text.length > MAX_TEXT ? `${text.slice(0, MAX_TEXT)}…` : text),
    ms: Math.round(clock.now() - beganAt),
    tokens: tokensOfText(text),
  })
  try {
    const result = await app.surface.call(request)
    return end(statusOfResult(result), textOf(toMcpResult(result, app.server.files, request.caller)))
  } catch (error) {
    return end(isPegboardError(error) ? error.code : 'E_INTERNAL', describeFailure(error))
  }
}

const describeFailure = (error: unknown): string =>
  isPegboardError(error) ? joinSentences(error.message, error.hint) : 'The tool has a bug. The log has the reason.'

function textOf({ content = [], structuredContent }: McpResult): string {
  const texts = content.map((block) => {
    const { type, text, mimeType, uri } = block
    if (typeof text === 'string') return formatJson(text)
    return `[${[type, mimeType, uri].filter((one) => typeof one === 'string').join(' ')}]`
  })
  return texts.length > 0 || structuredContent === undefined
    ? texts.join('\n')
    : JSON.stringify(structuredContent, undefined, 2)
}

/** JSON with line breaks; other texts as they are. */
function formatJson(text: string): string {
  if (!/^\s*[[{]/.test(text) || text.length > MAX_TEXT) return text
  return JSON.stringify(tryParseJson(text), undefined, 2) ?? text
}
