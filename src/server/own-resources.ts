import type { ToolResource } from '../catalog/owner.ts'
import type { Caller } from '../core/caller.ts'
import type { Json } from '../core/is-record.ts'
import { RESULT_SCHEME } from '../results/result-store.ts'
import { isSentFile } from '../services/sent-files.ts'
import type { View } from '../view/view.ts'
import { resourceOf } from './mcp-results.ts'
import type { BaseHost, StatusHost } from './server-host.ts'

const STATUS = 'server://status'
const SCHEMA = 'schema://'
const INBOX = 'notifications://inbox'
const STATS = 'stats://tools'
const TOKENS = 'stats://tokens'

export const ownResources: readonly Json[] = [
  {
    uri: STATUS,
    name: 'status',
    title: 'Pegboard status',
    description: 'Exposure mode, tools by category, and problems.',
    mimeType: 'application/json',
  },
  {
    uri: INBOX,
    name: 'inbox',
    title: 'Notices',
    description: 'Unread notices about background work. Reading them removes them.',
    mimeType: 'application/json',
  },
  {
    uri: STATS,
    name: 'stats',
    title: 'Tool statistics',
    description: 'For each of your tools: the number of calls and failures, and the average duration.',
    mimeType: 'application/json',
  },
  {
    uri: TOKENS,
    name: 'tokens',
    title: 'Token counts',
    description:
      'Tokens that your tools have cost, and what they would have cost if all were listed: this session, by tool, by day.',
    mimeType: 'application/json',
  },
]

export const ownTemplates: readonly Json[] = [
  {
    uriTemplate: `${SCHEMA}{category}`,
    name: 'schema',
    title: 'Schemas of a category',
    description: 'Every tool of a category with its parameters.',
    mimeType: 'application/json',
  },
  {
    uriTemplate: 'sentfile://{id}',
    name: 'sentfile',
    title: 'Files that tools sent',
    description: 'A file from a result, kept for a limited time.',
  },
  {
    uriTemplate: `${RESULT_SCHEME}{handle}`,
    name: 'result',
    title: 'Long results',
    description: 'A whole result that was too long for the model, kept for a limited time.',
  },
]

export const isOwnTemplate = (uri: unknown): boolean => ownTemplates.some(({ uriTemplate }) => uriTemplate === uri)

/** Most values that one completion may have. */
const MAX_VALUES = 100

/** Completes a category of `schema://{category}`. Ids of files and results cannot be guessed, so they have no completion. */
export function completeOwnTemplate(view: View, uri: unknown, argument: unknown): Json {
  const { name, value } = argument as { readonly name?: unknown; readonly value?: unknown }
  const isCategory = uri === `${SCHEMA}{category}` && name === 'category'
  const ids = isCategory ? view.owners.map(({ id }) => id).filter((id) => view.count(id) > 0) : []
  const values = ids.filter((id) => id.startsWith(String(value)))
  return {
    completion: {
      values: values.slice(0, MAX_VALUES),
      total: values.length,
      hasMore: values.length > MAX_VALUES,
    },
  }
}

/** Reads one of them as this caller; undefined for other URIs, and for what the caller cannot see. */
export async function readOwnResource(host: StatusHost, caller: Caller, uri: string): Promise<Json | undefined> {
  if (isSentFile(uri)) {
    const file = host.files.read(caller, uri)
    return file && { contents: [resourceOf(file.bytes, file.mimetype, uri)] }
  }
  if (uri.startsWith(RESULT_SCHEME)) {
    const handle = uri.slice(RESULT_SCHEME.length)
    const stored = host.results.get(caller, handle)
    const bytes = await host.results.read(caller, handle)
    return stored && bytes && { contents: [resourceOf(bytes, stored.mimeType, uri)] }
  }
  const value = await readValue(host, caller, uri)
  return value && { contents: [{ uri, mimeType: 'application/json', text: JSON.stringify(value) }] }
}

async function readValue(host: StatusHost, caller: Caller, uri: string): Promise<object | undefined> {
  if (uri === STATUS) return status(host, caller)
  if (uri === INBOX) return { notices: await host.inbox.take(caller) }
  if (uri === STATS) return stats(host, caller)
  if (uri === TOKENS) return await tokens(host, caller)
  return uri.startsWith(SCHEMA) ? schemas(host, caller, uri.slice(SCHEMA.length)) : undefined
}

function status(host: StatusHost, caller: Caller) {
  const view = host.view(caller)
  const { mode, why, tokens, budgetTokens } = host.exposure(caller)
  return {
    tool_injection: mode,
    why,
    estimated_tokens: tokens,
    budget_tokens: budgetTokens,
    total_tools: view.size,
    search: searchState(host),
    categories: view.owners.map(({ id, state, reason }) => ({
      id,
      state,
      tool_count: view.count(id),
      ...(reason ? { reason } : {}),
    })),
    // Without messages, which may contain paths: the operator finds them in the log.
    failed: host.failed(caller).map(({ file, code }) => ({ file, code })),
  }
}

function stats(host: StatusHost, caller: Caller) {
  const seen = new Set(host.view(caller).tools.map(({ tool }) => tool.id))
  const counts = host
    .counts(caller.principal)
    .flatMap(({ tool: name, calls, failures, ms }) =>
      seen.has(name) ? [{ name, calls, failures, average_ms: ms }] : [],
    )
  return {
    tools: counts.sort((a, b) => b.calls - a.calls || (a.name < b.name ? -1 : 1)),
    total_calls: counts.reduce((sum, { calls }) => sum + calls, 0),
  }
}

/** Tokens of this principal. Tools that the caller does not see are counted together. */
async function tokens({ receipts, view }: StatusHost, caller: Caller) {
  if (!receipts) return undefined
  const { principal } = caller
  const session = await receipts.session(caller)
  const tools = await receipts.report({ by: 'tool', principal })
  const days = await receipts.report({ by: 'day', principal })
  const { byId } = view(caller)
  const isSeen = (name: string): boolean => byId.has(name) || !name.includes('.')
  const unseen = tools.rows.filter(({ name }) => !isSeen(name)).length
  return {
    ...(session === undefined ? {} : { session }),
    since: tools.since,
    tokenizer: tools.tokenizer,
    counted: tools.counted,
    estimate_error: tools.estimate_error,
    total: tools.total,
    tools: tools.rows.filter(({ name }) => isSeen(name)),
    ...(unseen > 0 ? { tools_not_shown: unseen } : {}),
    days: days.rows,
  }
}

/** Without reasons, which may contain paths and addresses: the operator finds them in the log. */
function searchState(host: StatusHost) {
  const { expand, ...status } = host.searchStatus()
  const { written = 0, missing = 0 } = expand ?? {}
  const share = written + missing > 0 ? Math.floor((100 * written) / (written + missing)) / 100 : 1
  return { ...modelState(status), ...(expand && { expand: expand.state, expanded: share }) }
}

function modelState({ ranking, embedded, semantic }: ReturnType<StatusHost['searchStatus']>) {
  const table = embedded === 'ready' ? 'embedded' : embedded === 'none' ? 'off' : embedded
  if (!semantic) return { ranking, semantic: table }
  const { state, embedder, documents, indexed } = semantic
  // A fraction, because the numbers include tools of other profiles.
  const done = documents > 0 ? Math.floor((100 * indexed) / documents) / 100 : 1
  if (embedder === 'embedded') return { ranking, semantic: table, encoder: state, indexed: done }
  return { ranking, semantic: state, embedder: embedder.split(':', 1)[0], indexed: done, embedded }
}

function schemas(host: StatusHost, caller: Caller, category: string) {
  const view = host.view(caller)
  const actions = view.tools
    .filter(({ tool }) => tool.module === category)
    .map(({ tool, description, input }) => ({ name: tool.id, description, parameters: input.json }))
  return actions.length === 0 ? undefined : { category, actions }
}

/** Resources that are answers of tools, for the tools in this view. */
export const toolResourcesOf = (view: View): readonly ToolResource[] =>
  view.owners.flatMap(({ toolResources = [] }) => toolResources.filter(({ tool }) => view.byId.has(tool)))

/** Reads a resource by calling its tool as this caller; undefined if no tool has the URI. */
export async function readToolResource(
  host: BaseHost,
  caller: Caller,
  uri: string,
  signal: AbortSignal,
): Promise<Json | undefined> {
  const toolResource = toolResourcesOf(host.view(caller)).find((one) => one.uri === uri)
  if (!toolResource) return undefined
  const { tool, input, mimeType } = toolResource
  const result = await host.surface.call({ name: tool, input, caller, signal })
  const value = result.kind === 'value' ? result.value : null
  return { contents: [{ uri, mimeType, text: typeof value === 'string' ? value : JSON.stringify(value) }] }
}
