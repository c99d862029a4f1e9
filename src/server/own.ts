import type { Caller } from '../core/context.ts'
import { isSentFile } from '../services/sent-files.ts'
import type { ServerHost } from './host.ts'
import { resourceOf } from './wire.ts'

const STATUS = 'server://status'
const SCHEMA = 'schema://'
const INBOX = 'notifications://inbox'
const STATS = 'stats://tools'

/** The resources Pegboard offers of itself, beside those of upstream servers. */
export const ownResources: readonly Readonly<Record<string, unknown>>[] = [
  {
    uri: STATUS,
    name: 'status',
    title: 'Pegboard status',
    description: 'Mode, tools by category, and what is not working.',
    mimeType: 'application/json',
  },
  {
    uri: INBOX,
    name: 'inbox',
    title: 'Notices',
    description: 'What happened in the background and was not told yet. Reading empties it.',
    mimeType: 'application/json',
  },
  {
    uri: STATS,
    name: 'stats',
    title: 'Tool statistics',
    description: 'How often you ran each tool you have since the start, how often it failed, and how long it took.',
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
  {
    uriTemplate: 'sentfile://{id}',
    name: 'sentfile',
    title: 'Files that tools sent',
    description: 'A file that came with a result, for a while.',
  },
]

/** Reads one of them as this caller; undefined when the URI is not ours or names nothing the caller sees. */
export async function readOwn(
  host: ServerHost,
  caller: Caller,
  uri: string,
): Promise<Readonly<Record<string, unknown>> | undefined> {
  if (isSentFile(uri)) {
    const file = host.files.read(caller, uri)
    return file && { contents: [resourceOf(file.bytes, file.mimetype, uri)] }
  }
  const value =
    uri === STATUS
      ? status(host, caller)
      : uri === INBOX
        ? { notices: await host.inbox.take(caller) }
        : uri === STATS
          ? stats(host, caller)
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
    failed: host.failed(caller).map(({ file, code }) => ({ file, code })),
  }
}

/** Of tools the caller sees, what this principal did with them: how busy others are is not its business. */
function stats(host: ServerHost, caller: Caller) {
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

/** Reasons are for the operator's log: they may hold paths and addresses. */
function searchState(host: ServerHost) {
  const { ranking, embedded, semantic } = host.searchStatus()
  if (!semantic)
    return { ranking, semantic: embedded === 'ready' ? 'embedded' : embedded === 'none' ? 'off' : embedded }
  const { state, embedder, documents, indexed } = semantic
  // A share, not the numbers: they count what other profiles have.
  const done = documents > 0 ? Math.floor((100 * indexed) / documents) / 100 : 1
  return { ranking, semantic: state, embedder: embedder.split(':', 1)[0], indexed: done, embedded }
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
