import type { Caller } from '../core/context.ts'
import type { ServerHost } from './host.ts'

const STATUS = 'server://status'
const SCHEMA = 'schema://'

/** The resources Pegboard offers of itself, beside those of upstream servers. */
export const ownResources: readonly Readonly<Record<string, unknown>>[] = [
  {
    uri: STATUS,
    name: 'status',
    title: 'Pegboard status',
    description: 'Mode, tools by category, and what is not working.',
    mimeType: 'application/json',
  },
]

export const ownTemplates: readonly Readonly<Record<string, unknown>>[] = [
  {
    uriTemplate: `${SCHEMA}{category}`,
    name: 'schema',
    title: 'Schemas of a category',
    description: 'Every tool of a category with its parameters.',
    mimeType: 'application/json',
  },
]

/** Reads one of them as this caller; undefined when the URI is not ours or names nothing the caller sees. */
export function readOwn(host: ServerHost, caller: Caller, uri: string): Readonly<Record<string, unknown>> | undefined {
  const value =
    uri === STATUS
      ? status(host, caller)
      : uri.startsWith(SCHEMA)
        ? schemas(host, caller, uri.slice(SCHEMA.length))
        : undefined
  return value && { contents: [{ uri, mimeType: 'application/json', text: JSON.stringify(value) }] }
}

function status(host: ServerHost, caller: Caller) {
  const view = host.view(caller)
  const { mode, why, tokens, budgetTokens } = host.exposure(caller)
  return {
    tool_injection: mode,
    why,
    estimated_tokens: tokens,
    budget_tokens: budgetTokens,
    total_tools: view.size,
    search: searchState(host),
    categories: view.owners.map((owner) => ({
      id: owner.id,
      state: owner.state,
      tool_count: view.count(owner.id),
      ...(owner.reason ? { reason: owner.reason } : {}),
    })),
    // The operator reads why in the log and in pegboard list: messages of files may hold paths and more.
    failed: host.failed().map(({ file, code }) => ({ file, code })),
  }
}

/** Reasons are for the operator's log: they may hold paths and addresses. */
function searchState(host: ServerHost) {
  const { ranking, embedded, semantic } = host.searchStatus()
  if (!semantic)
    return { ranking, semantic: embedded === 'ready' ? 'embedded' : embedded === 'none' ? 'off' : embedded }
  const { state, embedder, documents, indexed } = semantic
  return { ranking, semantic: state, embedder: embedder.split(':', 1)[0], documents, indexed, embedded }
}

function schemas(host: ServerHost, caller: Caller, category: string) {
  const view = host.view(caller)
  const tools = view.tools.filter((entry) => entry.tool.module === category)
  return tools.length === 0
    ? undefined
    : {
        category,
        actions: tools.map((entry) => ({
          name: entry.tool.id,
          description: entry.description,
          parameters: entry.input.json,
        })),
      }
}
