import { firstSentence } from '../core/first-sentence.ts'
import { formatCount } from '../core/format-count.ts'
import { isRecord, type Json } from '../core/is-record.ts'
import { joinNames } from '../core/join-names.ts'
import { omitUndefined } from '../core/omit-undefined.ts'
import { riskOf } from '../core/tool.ts'
import { declareTools } from '../core/tool-declarations.ts'
import { valueResult } from '../core/tool-result.ts'
import { shortSignatureOf } from '../core/tool-signature.ts'
import type { CallRequest } from '../exec/tool-calls.ts'
import type { AnsweredQuery } from '../search/misses.ts'
import { isStopWord, stemOf, wordsOf } from '../search/tokenize.ts'
import type { ToolAnswer } from '../search/tool-search.ts'
import type { UsedWith } from '../search/used-with.ts'
import { joinServerIds, unreadServers } from '../view/unread-servers.ts'
import type { View, ViewTool } from '../view/view.ts'
import { type CallNeed, type CallState, callState } from './call-needs.ts'
import { firstFitting, readMaxTokens, shrinking } from './fit-answer.ts'
import type { MetaHost, MetaTool } from './meta-host.ts'
import { createInputError, inputSchema, READS, readFormat, readInteger, readText, TEXT } from './meta-input.ts'
import { describeMetaTool, type UnlistedTools } from './unlisted-tools.ts'

/**
 * Maximum size of one answer row, so that five rows stay under 300 tokens. A long name leaves less room for the rest.
 */
const ROW_CHARS = 140
const DESCRIPTION_CHARS = { min: 50, max: 80, best: 140 }
const SUMMARY_CHARS = 60
/** Characters of a row for `state`, and for `needs` without its value. */
const STATE_CHARS = { failing: 18, needs: 12 }
/** Values of an enum that are compared with a need. */
const MAX_VALUES = 24
const SHOWN_CATEGORIES = 4
const MAX_LINE_CHARACTERS = 500
const MAX_LINES = 8
const MAX_NAMES = 20
const DEFAULT_RESULTS = 5
const MAX_RESULTS = 20
const NAME_LIKE = /^[\p{L}\p{N}]+(?:[._:/-]+[\p{L}\p{N}]+)+$/u
/** Maximum number of names in a hint. */
const SHOWN_NAMES = 10

export const searchTools = (host: MetaHost, unlisted: UnlistedTools): MetaTool => ({
  name: 'search_tools',
  title: 'Search tools',
  step: 'discover',
  description: (view) =>
    `Find tools by what they do, in any words; one need per line. ${describeCategories(view)} Then execute_tool.`,
  inputSchema: inputSchema(
    {
      query: TEXT,
      max_results: { type: 'integer', default: DEFAULT_RESULTS, maximum: MAX_RESULTS },
      detail: { enum: ['full'] },
    },
    'query',
  ),
  otherKeys: ['limit', 'format', 'max_tokens'],
  hints: READS,
  async run(input, request) {
    const { caller } = request
    const format = readFormat(input, 'search_tools', host, caller)
    const tokens = Math.min(readMaxTokens(input, 'search_tools'), host.view(caller).maxResultTokens())
    const query = readQuery(input)
    const limitKey = input.max_results === undefined ? 'limit' : 'max_results'
    const limit = readInteger(input, limitKey, 'search_tools', 1, MAX_RESULTS, DEFAULT_RESULTS)
    // A model that asks for a number of tools wants to choose itself.
    const brief = input[limitKey] === undefined
    const full = input.detail === 'full'
    await host.serversRead(caller)
    const answer = await search(host, request, query, limit, brief)
    const { hits, unanswered = [], more = [], behind, usedWith } = answer
    const view = host.view(caller)
    const needs = [...new Set(linesOf(query))]
    host.recordSearch?.(caller, listPlainAnswers(needs, hits, view))

    const unlistedTools = unlisted.of(caller)
    const toRow = (entry: ViewTool, score: number, need?: string, isBest = false) => {
      const owner = view.owners.find(({ id }) => id === entry.tool.module)
      return formatRow(entry, score, full, callState(entry, owner, host), need, isBest)
    }
    const found = hits.flatMap(({ id, score, query: line }, at) => {
      const need = needs[line ?? 0] ?? query
      const isWeak = unanswered.includes(need)
      const label = { ...(line !== undefined && { need: line + 1 }), ...(isWeak && { confidence: 'low' as const }) }
      const entry = view.byId.get(id)
      if (entry) return [{ ...toRow(entry, score, need, at === 0), ...label }]
      const meta = unlistedTools.get(id)
      return meta ? [{ ...metaRow(describeMetaTool(meta, host, caller), score, full), ...label }] : []
    })
    const useful = brief ? dropIrrelevant(found) : found
    // An empty answer would look as if there were no tool at all.
    const rows = useful.length > 0 ? useful : pickSamples(view, limit).map((entry) => toRow(entry, 0))
    const isWeakAnswer = found.length === 0 || unanswered.length === needs.length
    const hint = hintFor(view, isWeakAnswer ? 'all' : unanswered, more, behind)
    const used = usedWith && { used_with: formatUsedWith(usedWith) }
    const about = isWeakAnswer && view.size > 0 ? { categories: categoryLines(view, host, rows) } : {}

    const toAnswer = (shown: ReadonlyArray<(typeof rows)[number]>, ...rest: readonly object[]): object => {
      const tools = format === 'ts' ? { declarations: declareRows(shown, view) } : { tools: shown }
      const omitted = shown.length < rows.length ? { omitted: rows.length - shown.length } : {}
      return Object.assign({ ...tools, count: shown.length, query, ...omitted }, ...rest)
    }
    function* answers(): Iterable<object> {
      yield toAnswer(rows, used ?? {}, about, hint)
      const plain = rows.map(({ tags: _tags, parameters: _parameters, ...row }) => row)
      if (full && format !== 'ts')
        for (let count = rows.length - 1; count >= 0; count--)
          yield toAnswer([...rows.slice(0, count), ...plain.slice(count)], withoutSchemas(count, rows.length, hint))
      yield toAnswer(plain, hint)
      for (const fewer of shrinking(plain)) yield toAnswer(fewer)
    }
    return valueResult(firstFitting(tokens, answers()))
  },
})

/** Searches again if the client's model wrote text for tools near a need that had no answer. */
async function search(
  host: MetaHost,
  { caller, relay, signal }: CallRequest,
  query: string,
  limit: number,
  brief: boolean,
): Promise<ToolAnswer> {
  const answer = await host.search(query, caller, limit, { brief })
  if (!answer.unanswered || !host.writeSearchText) return answer
  const { byId } = host.view(caller)
  const nearOwners = answer.hits.flatMap(({ id }) => byId.get(id)?.tool.module ?? [])
  const mayFindMore = await host.writeSearchText(caller, relay, nearOwners, signal)
  return mayFindMore ? await host.search(query, caller, limit, { brief }) : answer
}

/** Without a need that is a name, or that finds a tool outside the catalog: those teach nothing. */
const listPlainAnswers = (needs: readonly string[], hits: ToolAnswer['hits'], { byId }: View): AnsweredQuery[] =>
  needs.flatMap((query, at) => {
    const answers = hits.filter((hit) => (hit.query ?? 0) === at)
    const isPlain = answers.every(({ id, score }) => score < 1 && byId.has(id))
    return isPlain ? [{ query, ids: answers.map(({ id }) => id) }] : []
  })

/** The best row, and others that are relevant or answer a need badly. All rows if one of the tools is destructive. */
function dropIrrelevant<T extends Row>(rows: readonly T[]): readonly T[] {
  // Next to a destructive tool, a tool that changes the same thing stays.
  if (rows.some(({ risk_level }) => risk_level === 'high')) return rows
  return rows.filter(({ relevance, confidence }, at) => at === 0 || relevance > 0 || confidence)
}

/** What the categories of the shown tools are for. */
function categoryLines(view: View, host: MetaHost, shown: readonly Pick<Row, 'name'>[]): Record<string, string> {
  const near = new Set(shown.map(({ name }) => view.byId.get(name)?.tool.module))
  return Object.fromEntries(
    view.owners
      .filter(({ id }) => near.has(id))
      .map((owner) => [owner.id, firstSentence(host.categoryLine(owner, view), DESCRIPTION_CHARS.max)]),
  )
}

/** "before: mcp_git.git_add; after: mcp_git.git_push" */
const formatUsedWith = (used: UsedWith): string =>
  (['before', 'after'] as const)
    .filter((when) => used[when].length > 0)
    .map((when) => `${when}: ${used[when].join(', ')}`)
    .join('; ')

const linesOf = (query: string): string[] =>
  query
    .split('\n')
    .map((line) => line.trim())
    .filter(Boolean)

/** Several needs are separated by line breaks; models also send them as a list. @throws PegboardError E_VALIDATION */
function readQuery(input: Json): string {
  const value = input['query']
  const list = Array.isArray(value) && value.every((one) => typeof one === 'string')
  const max = MAX_LINES * (MAX_LINE_CHARACTERS + 2)
  const query = readText(list ? { query: value.join('\n') } : input, 'query', 'search_tools', max)
  const lines = linesOf(query)
  const needs = lines.filter((line) => !NAME_LIKE.test(line)).length
  if (needs > MAX_LINES) throw createInputError('search_tools', `query: at most ${MAX_LINES} lines (${needs} given)`)
  if (lines.length > MAX_NAMES)
    throw createInputError('search_tools', `query: at most ${MAX_NAMES} names (${lines.length} given)`)
  const tooLong = lines.find((line) => line.length > MAX_LINE_CHARACTERS)
  if (tooLong === undefined) return query
  const what = `query: at most ${MAX_LINE_CHARACTERS} characters a line (length ${tooLong.length})`
  throw createInputError('search_tools', what)
}

/** Whether a need names a parameter or one of its values: `state_event` with "close" for "close issue 12". */
function isNamedIn(need: string, tool: string): (name: string, schema: unknown) => boolean {
  const ofTool = new Set(stemsOf(tool))
  const stems = new Set(stemsOf(need).filter((stem) => !ofTool.has(stem)))
  const isNamed = (text: unknown): boolean => {
    const words = typeof text === 'string' ? stemsOf(text).filter((stem) => !/^i?ids?$/.test(stem)) : []
    return words.length > 0 && words.every((stem) => stems.has(stem))
  }
  return (name, schema) =>
    isNamed(name) || (isRecord(schema) && Array.isArray(schema.enum) && schema.enum.slice(0, MAX_VALUES).some(isNamed))
}

const stemsOf = (text: string): string[] =>
  wordsOf(text)
    .flatMap(({ text: word, parts }) => (parts.length > 0 ? parts : [word]))
    .filter((word) => !isStopWord(word))
    .map(stemOf)

function formatRow(entry: ViewTool, relevance: number, full: boolean, callState: CallState, need = '', isBest = false) {
  const { tool } = entry
  const { needs, state: failing } = callState
  const stateChars =
    (failing === undefined ? 0 : STATE_CHARS.failing) + (needs === undefined ? 0 : STATE_CHARS.needs + needs.length)
  const summary = shortSignatureOf(entry.input.json, SUMMARY_CHARS, isNamedIn(need, tool.id))
  const room = ROW_CHARS - tool.id.length - summary.length - stateChars
  const { min, max, best } = DESCRIPTION_CHARS
  return {
    name: tool.id,
    description: firstSentence(entry.description, isBest ? best : Math.min(max, Math.max(min, room))),
    risk_level: riskOf(tool.effect),
    params_summary: summary,
    relevance: Math.round(relevance * 100) / 100,
    // Not how long the server takes to start: that does not change which tool is right.
    ...omitUndefined({ state: failing, needs }),
    ...(full ? { tags: tool.tags, parameters: entry.input.json } : {}),
  }
}

type Row = Pick<ReturnType<typeof formatRow>, 'name' | 'description' | 'risk_level' | 'relevance'> & {
  readonly need?: number
  readonly confidence?: 'low'
  readonly needs?: CallNeed
}

function declareRows(rows: readonly Row[], view: View): string {
  return declareTools(
    rows.flatMap(({ name, description, need, confidence, needs }) => {
      const entry = view.byId.get(name)
      if (!entry) return []
      const notes = [
        ...(need === undefined ? [] : [`need ${need}`]),
        ...(confidence === undefined ? [] : ['weak match']),
        ...(entry.tool.effect === 'destructive' ? ['destructive'] : []),
        ...(needs === undefined ? [] : [`needs ${needs}`]),
      ]
      const about = notes.length > 0 ? `(${notes.join(', ')}) ${description}` : description
      return [{ id: name, about, input: entry.input.json, output: entry.tool.output }]
    }),
  )
}

function metaRow(
  { name, description, risk_level, parameters }: ReturnType<typeof describeMetaTool>,
  relevance: number,
  full: boolean,
) {
  return {
    name,
    description: firstSentence(description, DESCRIPTION_CHARS.max),
    risk_level,
    params_summary: shortSignatureOf(parameters, SUMMARY_CHARS),
    relevance: Math.round(relevance * 100) / 100,
    ...(full ? { tags: [] as string[], parameters } : {}),
  }
}

const clip = (line: string, max: number): string => {
  if (line.length <= max) return line
  const cut = line.lastIndexOf(', ', max - 2)
  return `${line.slice(0, cut > 0 ? cut : max - 1)}, …`
}

/** One tool of each owner, then the second of each: an overview for a query that matches nothing. */
function pickSamples(view: View, most: number): ViewTool[] {
  const byOwner = view.owners.map(({ id }) => view.tools.filter(({ tool }) => tool.module === id))
  const longest = Math.max(0, ...byOwner.map((tools) => tools.length))
  const picked: ViewTool[] = []
  for (let at = 0; at < longest && picked.length < most; at++)
    picked.push(...byOwner.flatMap((tools) => tools[at] ?? []))
  return picked.slice(0, most)
}

/**
 * Names servers whose tools are not known yet, because one of them may have the right tool.
 * @param unanswered the needs for which no likely tool was found
 */
function hintFor(
  view: View,
  unanswered: 'all' | readonly string[],
  more: readonly string[],
  behind = false,
): { readonly hint?: string } {
  const hints: string[] = []
  const unread = unreadServers(view)
  if (unread.length > 0) hints.push(`Still connecting: ${joinServerIds(unread)}. Search again shortly.`)
  else if (behind) hints.push('Some new tools cannot be found yet. Search again shortly.')
  else if (view.size === 0) hints.push('There are no tools.')
  else if (unanswered === 'all')
    hints.push('No close match; these are the nearest. Try other words, or list_categories.')
  else if (unanswered.length > 0)
    hints.push(`No close match: ${unanswered.map((line) => clip(line, SUMMARY_CHARS)).join('; ')}.`)
  if (more.length > 0)
    hints.push(`Also named, but not shown here: ${joinNames(more, SHOWN_NAMES)}. Search for them separately.`)
  return hints.length > 0 ? { hint: hints.join(' ') } : {}
}

/** The hint of an answer in which only the first rows have schemas. */
function withoutSchemas(
  fullRows: number,
  rows: number,
  { hint }: { readonly hint?: string },
): { readonly hint: string } {
  const note = `To stay within the limit, ${rows - fullRows} of ${rows} tools are shown without parameters. get_tool has the rest.`
  return { hint: hint === undefined ? note : `${hint} ${note}` }
}

/** One line that says what the categories contain. */
function describeCategories(view: View): string {
  const owners = view.owners
    .filter((owner) => view.count(owner.id) > 0)
    .sort((a, b) => view.count(b.id) - view.count(a.id))
  const shown = owners
    .slice(0, SHOWN_CATEGORIES)
    .map((owner) => `${owner.id.replace(/^mcp_/, '')} ${view.count(owner.id)}`)
  const more = owners.length > SHOWN_CATEGORIES ? ', …' : ''
  return `${formatCount(view.size, 'tool')}: ${shown.join(', ')}${more}.`
}
