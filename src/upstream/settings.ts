import { z } from 'zod'
import { PegboardError } from '../core/errors.ts'
import { nearest } from '../core/names.ts'

/** What a server may ask of the person or model behind a client. */
export type Ask = 'elicitation' | 'sampling' | 'roots'

export interface StdioTarget {
  readonly kind: 'stdio'
  readonly command: string
  readonly args: readonly string[]
  /** Added to the child's small inherited environment. */
  readonly env: Readonly<Record<string, string>>
  readonly cwd?: string
  /** A file of KEY=VALUE lines; `env` wins over it. */
  readonly envFile?: string
}

export interface HttpTarget {
  /** `http` falls back to HTTP+SSE when the endpoint turns out to be the older kind; `sse` never tries anything else. */
  readonly kind: 'http' | 'sse'
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
}

/** One MCP server as the rest of upstream/ reads it. */
export interface ServerSettings {
  readonly target: StdioTarget | HttpTarget
  readonly enabled: boolean
  /** Put before every tool and prompt name; empty leaves them as the server named them. */
  readonly prefix: string
  /** Globs on the server's own tool names; empty allows all. */
  readonly allow: readonly string[]
  readonly deny: readonly string[]
  /** Longest a single call may take; default is the gateway's. */
  readonly timeoutMs?: number
  /** Believe annotations that make a tool look safer than its name does. */
  readonly trustHints: boolean
  readonly summary?: string
  /** Which requests of the server reach the caller; the others are refused. */
  readonly relay: readonly Ask[]
}

const ASKS = ['elicitation', 'sampling', 'roots'] as const
const scalar = z.union([z.string(), z.number(), z.boolean()]).transform(String)
const names = z.array(z.string())

/** One entry of `mcpServers`, as Claude Desktop, Cursor and VS Code write it, with Pegboard's own keys beside. */
export const serverSchema = z.looseObject({
  command: z.string().min(1).optional().describe('Program to run; the server speaks MCP on its stdin and stdout.'),
  args: z.array(scalar).optional().describe('Arguments, passed as they are; no shell reads them.'),
  env: z.record(z.string(), scalar).optional().describe('Environment variables the program needs.'),
  cwd: z.string().optional().describe('Working directory of the program.'),
  envFile: z.string().optional().describe('File of KEY=VALUE lines, read before env.'),
  url: z.string().optional().describe('Address of a remote server.'),
  serverUrl: z.string().optional().describe('The same as url.'),
  httpUrl: z.string().optional().describe('The same as url.'),
  type: z.string().optional().describe('stdio, http, streamable-http or sse; found out when absent.'),
  transport: z.string().optional().describe('The same as type.'),
  headers: z.record(z.string(), scalar).optional().describe('HTTP headers sent with every request.'),
  enabled: z.boolean().optional().describe('false leaves the server out.'),
  disabled: z.boolean().optional().describe('true leaves the server out.'),
  prefix: z
    .string()
    .optional()
    .describe('Put before the names of its tools; "" for none. Default: the key of this entry.'),
  allow: names.optional().describe('Only these tools (globs on the names the server gives them).'),
  deny: names.optional().describe('Never these tools (globs).'),
  allowed_actions: names.optional().describe('The same as allow.'),
  blocked_actions: names.optional().describe('The same as deny.'),
  includeTools: names.optional().describe('The same as allow.'),
  enabledTools: names.optional().describe('The same as allow.'),
  excludeTools: names.optional().describe('The same as deny.'),
  disabledTools: names.optional().describe('The same as deny.'),
  timeoutMs: z.int().min(100).max(600_000).optional().describe('Longest a call may take, in milliseconds.'),
  trustHints: z.boolean().optional().describe('Believe readOnlyHint and the like even where the name says otherwise.'),
  relay: z.array(z.enum(ASKS)).optional().describe('What the server may ask the caller: elicitation, sampling, roots.'),
  summary: z.string().optional().describe('One line about the server, shown with its category.'),
  description: z.string().optional().describe('The same as summary.'),
})

type Entry = z.infer<typeof serverSchema>

// Keys other clients write that mean nothing here and deserve no suggestion.
const FOREIGN = new Set([
  'alwaysAllow',
  'autoApprove',
  'auth',
  'dev',
  'gallery',
  'icon',
  'initTimeout',
  'inputs',
  'name',
  'oauth',
  'sandboxEnabled',
  'timeout',
  'tools',
  'trust',
  'version',
  'watchPaths',
])

/**
 * Reads one `mcpServers` entry. Keys it does not know are warned about, never refused: people paste what they have.
 * @throws PegboardError E_CONFIG_INVALID when a known key has the wrong type, or nothing says how to reach the server
 */
export function parseServer(
  id: string,
  raw: unknown,
): { readonly settings: ServerSettings; readonly warnings: readonly string[] } {
  const where = `mcpServers.${id}`
  const parsed = serverSchema.safeParse(raw)
  if (!parsed.success) {
    const issue = parsed.error.issues[0]
    const path = [where, ...(issue?.path ?? []).map(String)].join('.')
    throw new PegboardError('E_CONFIG_INVALID', `${path}: ${issue?.message ?? 'is not a server'}.`)
  }
  const entry = parsed.data
  const warnings: string[] = []
  for (const key of Object.keys(entry)) {
    if (key in serverSchema.shape) continue
    const [known] = FOREIGN.has(key) ? [] : nearest(key, Object.keys(serverSchema.shape), 2, 1)
    warnings.push(`${where}.${key} means nothing to Pegboard${known ? `; did you mean "${known}"?` : '.'}`)
  }
  const summary = entry.summary ?? entry.description
  const settings: ServerSettings = {
    target: targetOf(where, entry, warnings),
    enabled: entry.enabled !== false && entry.disabled !== true,
    prefix: entry.prefix ?? id,
    allow: [
      ...(entry.allow ?? []),
      ...(entry.allowed_actions ?? []),
      ...(entry.includeTools ?? []),
      ...(entry.enabledTools ?? []),
    ],
    deny: [
      ...(entry.deny ?? []),
      ...(entry.blocked_actions ?? []),
      ...(entry.excludeTools ?? []),
      ...(entry.disabledTools ?? []),
    ],
    trustHints: entry.trustHints ?? false,
    relay: entry.relay ?? ASKS,
    ...(entry.timeoutMs === undefined ? {} : { timeoutMs: entry.timeoutMs }),
    ...(summary === undefined ? {} : { summary }),
  }
  return { settings, warnings }
}

const KINDS: Readonly<Record<string, 'stdio' | 'http' | 'sse'>> = {
  stdio: 'stdio',
  local: 'stdio',
  command: 'stdio',
  http: 'http',
  https: 'http',
  remote: 'http',
  streamablehttp: 'http',
  sse: 'sse',
}

function targetOf(where: string, entry: Entry, warnings: string[]): StdioTarget | HttpTarget {
  const named = entry.type ?? entry.transport
  const kind = named === undefined ? undefined : KINDS[named.toLowerCase().replaceAll(/[-_ ]/g, '')]
  if (named !== undefined && kind === undefined)
    warnings.push(`${where}.type "${named}" is not known; stdio, http and sse are.`)
  const url = entry.url ?? entry.serverUrl ?? entry.httpUrl
  if (entry.command !== undefined && (kind === 'stdio' || url === undefined || kind === undefined)) {
    if (url !== undefined) warnings.push(`${where} has a command and a url; the command is used.`)
    return {
      kind: 'stdio',
      command: entry.command,
      args: entry.args ?? [],
      env: entry.env ?? {},
      ...(entry.cwd === undefined ? {} : { cwd: entry.cwd }),
      ...(entry.envFile === undefined ? {} : { envFile: entry.envFile }),
    }
  }
  if (url === undefined || kind === 'stdio')
    throw new PegboardError('E_CONFIG_INVALID', `${where} names neither a command nor a url.`, {
      hint: 'Give "command" and "args" for a local server, "url" for a remote one.',
    })
  const parsed = URL.canParse(url) ? new URL(url) : undefined
  if (!parsed || !['http:', 'https:'].includes(parsed.protocol))
    throw new PegboardError('E_CONFIG_INVALID', `${where}.url is not an http or https address.`)
  const sse = kind === 'sse' || (kind === undefined && /\/sse\/?$/.test(parsed.pathname))
  return { kind: sse ? 'sse' : 'http', url, headers: entry.headers ?? {} }
}
