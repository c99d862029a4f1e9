import { z } from 'zod'
import { readOverrides, type ToolOverride, toolOverrideOptions } from '../catalog/options.ts'
import type { Ask } from '../core/asks.ts'
import { messageOf, PegboardError } from '../core/errors.ts'
import { nearest } from '../core/names.ts'
import type { Effect, Tripwire } from '../core/tool.ts'
import { wanted } from '../core/wanted.ts'
import { assertReachable, publicOnly } from '../policy/net.ts'
import { tripwireOptions } from '../policy/options.ts'
import type { InstanceKind } from './stateful.ts'

export type { Ask }

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

/** How we get tokens for a remote server. Absent: only its `headers`, and OAuth when the server asks for it. */
export interface AuthSettings {
  /** `none` never starts a login, whatever the server says. */
  readonly type: 'oauth' | 'client-credentials' | 'enterprise' | 'none'
  readonly clientId?: string
  readonly clientSecret?: string
  /** PEM (PKCS 8) the client signs its own assertions with, instead of a secret. */
  readonly privateKey?: string
  /** Of that key; default RS256. */
  readonly algorithm?: string
  /** How the client proves itself where a secret could be sent in two ways. */
  readonly tokenEndpointAuth?: 'client_secret_basic' | 'client_secret_post'
  /** The authorization server the client belongs to: its secret goes nowhere else. */
  readonly issuer?: string
  /** Whether the authorization server may be at a private address or plain http. */
  readonly allowPrivate: boolean
  /** URL of a client-id metadata document, sent as the client id where the authorization server takes one. */
  readonly clientMetadataUrl?: string
  readonly scopes: readonly string[]
  /** Port of the loopback redirect; default any free one. */
  readonly redirectPort?: number
  /** Every principal logs in for itself, and calls run with its own tokens. */
  readonly perPrincipal: boolean
  /** Set for `enterprise`. */
  readonly idp?: IdpSettings
}

/** The identity provider of a company, which says what its people may use. */
export interface IdpSettings {
  readonly tokenEndpoint: string
  /** Ours, as registered there. */
  readonly clientId: string
  readonly clientSecret?: string
  /** Who the person is, as the provider said it. */
  readonly idToken?: string
  /** File that holds it, read at each use; relative to that of the configuration. */
  readonly idTokenFile?: string
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
  /** Longest an attempt to connect may take; default 30 s, and longer for a program that may be downloading itself. */
  readonly connectTimeoutMs?: number
  /** Believe annotations that make a tool look safer than its name does, and let permissions rely on them. */
  readonly trustHints: boolean
  /** What its tools do at worst, where nothing is said of the tool itself. */
  readonly effect?: Effect
  /** What is done about fields of its results that look like credentials; default nothing. */
  readonly tripwire?: Tripwire
  readonly summary?: string
  /** Which requests of the server reach the caller; the others are refused. */
  readonly relay: readonly Ask[]
  /** `lazy`: when first used; `background`: soon after the first list; `eager`: at once. The last two stay connected. */
  readonly start: 'lazy' | 'background' | 'eager'
  /** A lazy server that nobody used for so long is stopped; 0 never. */
  readonly idleStopMs: number
  /** Calls of it running at once, and waiting for that. */
  readonly maxConcurrent: number
  readonly maxQueued: number
  /** Who shares one running copy of it; default by what it is. */
  readonly instance?: InstanceKind
  /** How many copies of it may run, and how many for one principal. */
  readonly maxInstances: number
  readonly maxInstancesPerPrincipal: number
  /** `review`: new and changed tools wait for a person; `first-use`: those of the first look are taken; `always`: all. */
  readonly trust: 'review' | 'first-use' | 'always'
  /** Whether the address may be private or plain http. */
  readonly allowPrivate: boolean
  /** Where it stands in the file, such as `mcpServers.<id>`: what messages name its settings by. */
  readonly where: string
  readonly auth?: AuthSettings
  /** What its tools do in place of those of modules. */
  readonly provides?: Provided
  /** Its tools are for modules alone. */
  readonly internal?: boolean
  readonly tools: Readonly<Record<string, ToolOverride>>
}

/** What a server may be there for. */
const PROVIDED = ['url_fetcher', 'web_search'] as const
export type Provided = (typeof PROVIDED)[number]

const ASKS = ['elicitation', 'sampling', 'roots'] as const
const scalar = z.union([z.string(), z.number(), z.boolean()]).transform(String)
const names = z.array(z.string())

const authSchema = z.looseObject({
  type: z
    .enum(['oauth', 'client-credentials', 'enterprise', 'none'])
    .optional()
    .describe('How to get tokens; default oauth.'),
  clientId: z.string().optional().describe('Client registered beforehand; default is to register when asked to.'),
  clientSecret: z.string().optional().describe('Its secret; write ${env:NAME}.'),
  privateKey: z
    .string()
    .optional()
    .describe('PEM key it signs assertions with instead (private_key_jwt); ${env:NAME}.'),
  algorithm: z
    .enum(['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'ES512'])
    .optional()
    .describe('Of that key; default RS256.'),
  tokenEndpointAuth: z
    .enum(['client_secret_basic', 'client_secret_post'])
    .optional()
    .describe('How the secret is sent; default what the authorization server takes.'),
  issuer: z.url().optional().describe('Authorization server the client belongs to; its secret is sent to no other.'),
  allowPrivate: z
    .boolean()
    .optional()
    .describe('The authorization server may be private or plain http. Default false.'),
  clientMetadataUrl: z.url().optional().describe('Client-id metadata document to present instead of registering.'),
  scopes: z
    .union([z.string(), names])
    .transform((given) => (typeof given === 'string' ? given.split(/\s+/).filter(Boolean) : given))
    .optional()
    .describe('Scopes to ask for; default what the server names.'),
  redirectPort: z.int().min(1).max(65_535).optional().describe('Port the browser comes back to; default a free one.'),
  perPrincipal: z.boolean().optional().describe('Every principal logs in for itself.'),
  idp: z
    .looseObject({
      tokenEndpoint: z.url().describe('Where the identity provider exchanges tokens.'),
      clientId: z.string().describe('Client registered there.'),
      clientSecret: z.string().optional().describe('Its secret; write ${env:NAME}.'),
      idToken: z.string().optional().describe('The ID token of the person; write ${env:NAME}.'),
      idTokenFile: z.string().optional().describe('File that holds it, read at each use.'),
    })
    .optional()
    .describe('Identity provider of the company, for type enterprise.'),
})

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
  type: z
    .string()
    .optional()
    .describe('stdio, http, streamable-http or sse; found out when absent. Or what provides says.'),
  provides: z
    .enum(PROVIDED)
    .optional()
    .describe('Its tools stand in for those of modules that do this, for whoever has them.'),
  internal: z
    .boolean()
    .optional()
    .describe('true: clients neither see nor call its tools; modules do, such as web as an engine.'),
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
  connectTimeoutMs: z
    .int()
    .min(100)
    .max(3_600_000)
    .optional()
    .describe(
      'Longest it may take to connect, in milliseconds. Default 30000; 180000 for npx and the like, and for a program never seen.',
    ),
  trustHints: z.boolean().optional().describe('Believe readOnlyHint and the like even where the name says otherwise.'),
  effect: z
    .enum(['read', 'write', 'destructive'])
    .optional()
    .describe('What all tools of the server do at worst, whatever they say; tools.<name>.effect says it of one.'),
  tripwire: tripwireOptions
    .optional()
    .describe(
      'What is done about fields and values of its results that look like secrets; default warn: the audit log says so.',
    ),
  relay: z
    .array(z.enum(ASKS))
    .optional()
    .describe('What the server may ask the caller: elicitation (the default), sampling, roots.'),
  start: z
    .enum(['lazy', 'background', 'eager'])
    .optional()
    .describe(
      'When it is started: lazy (when used; the default), background (after the first list) or eager (at once).',
    ),
  idleStopMs: z
    .int()
    .min(0)
    .optional()
    .describe('A lazy server unused for so long is stopped; 0 never. Default 300000.'),
  maxConcurrent: z.int().min(1).optional().describe('Calls of it running at once; default 128.'),
  maxQueued: z.int().min(0).optional().describe('Calls waiting for that; more are refused. Default 1000.'),
  instance: z
    .enum(['shared', 'principal', 'session'])
    .optional()
    .describe(
      'Who shares one running copy: all (shared), one principal, or one session. Default: session for browsers, shells, interpreters and servers that ask questions; else shared.',
    ),
  maxInstances: z.int().min(1).optional().describe('Copies of it that may run at once; default 32.'),
  maxInstancesPerPrincipal: z.int().min(1).optional().describe('Copies of it for one principal; default 8.'),
  trust: z
    .union([z.enum(['review', 'first-use', 'always']), z.boolean()], {
      error: 'must be "review", "first-use" or "always"',
    })
    .optional()
    .describe(
      'review: all tools wait for `pegboard review`; first-use (default): those after the first look; always: none.',
    ),
  allowPrivate: z
    .boolean()
    .optional()
    .describe('false refuses an address that is not https and public. Default true; false for servers of profiles.'),
  allow_private: z.boolean().optional().describe('The same as allowPrivate.'),
  auth: authSchema.optional().describe('How to get tokens for a remote server.'),
  tools: z
    .union([z.record(z.string(), toolOverrideOptions), names])
    .optional()
    .describe(
      "By the server's name of a tool: rename, describe, alias, replaces, timeoutMs. A list is the same as allow.",
    ),
  summary: z.string().optional().describe('One line about the server, shown with its category.'),
  description: z.string().optional().describe('The same as summary.'),
})

type Entry = z.infer<typeof serverSchema>

// Keys other clients write that mean nothing here and deserve no suggestion.
const FOREIGN = new Set([
  'alwaysAllow',
  'autoApprove',
  'dev',
  'gallery',
  'icon',
  'initTimeout',
  'inputs',
  'name',
  'oauth',
  'sandboxEnabled',
  'timeout',
  'version',
  'watchPaths',
])

interface Defaults {
  /** Where it stands in the file. */
  readonly where?: string
  /** Whether its address may be private where it does not say. */
  readonly allowPrivate?: boolean
}

/**
 * Reads one `mcpServers` entry. Keys it does not know are warned about, never refused: people paste what they have.
 * @throws PegboardError E_CONFIG_INVALID when a known key has the wrong type, or nothing says how to reach the server
 */
export function parseServer(
  id: string,
  raw: unknown,
  { where = `mcpServers.${id}`, allowPrivate: mayBePrivate = true }: Defaults = {},
): { readonly settings: ServerSettings; readonly warnings: readonly string[] } {
  const entry = entryOf(where, raw)
  const warnings: string[] = []
  for (const key of Object.keys(entry)) {
    if (key in serverSchema.shape) continue
    const [known] = FOREIGN.has(key) ? [] : nearest(key, Object.keys(serverSchema.shape), 2, 1)
    warnings.push(`${where}.${key} means nothing to Pegboard${known ? `; did you mean "${known}"?` : '.'}`)
  }
  const summary = entry.summary ?? entry.description
  const provides = entry.provides ?? PROVIDED.find((one) => one === entry.type)
  const target = targetOf(where, entry, warnings)
  const allowPrivate = entry.allowPrivate ?? entry.allow_private ?? mayBePrivate
  if (target.kind !== 'stdio' && !allowPrivate) assertPublic(where, target.url)
  if (entry.auth !== undefined) assertClient(`${where}.auth`, entry.auth)
  if (entry.instance === 'shared' && entry.auth?.perPrincipal)
    throw new PegboardError(
      'E_CONFIG_INVALID',
      `${where}.instance: "shared" does not go with auth.perPrincipal, where every principal has its own connection.`,
    )
  const settings: ServerSettings = {
    target,
    enabled: entry.enabled !== false && entry.disabled !== true,
    prefix: entry.prefix ?? id,
    allow: [
      ...(entry.allow ?? []),
      ...(entry.allowed_actions ?? []),
      ...(entry.includeTools ?? []),
      ...(entry.enabledTools ?? []),
      ...(Array.isArray(entry.tools) ? entry.tools : []),
    ],
    deny: [
      ...(entry.deny ?? []),
      ...(entry.blocked_actions ?? []),
      ...(entry.excludeTools ?? []),
      ...(entry.disabledTools ?? []),
    ],
    trustHints: entry.trustHints ?? false,
    ...(entry.effect === undefined ? {} : { effect: entry.effect }),
    ...(entry.tripwire === undefined ? {} : { tripwire: entry.tripwire }),
    relay: entry.relay ?? ['elicitation'],
    start: entry.start ?? 'lazy',
    idleStopMs: entry.idleStopMs ?? 300_000,
    maxConcurrent: entry.maxConcurrent ?? 128,
    maxQueued: entry.maxQueued ?? 1_000,
    ...(entry.instance === undefined ? {} : { instance: entry.instance }),
    maxInstances: entry.maxInstances ?? 32,
    maxInstancesPerPrincipal: entry.maxInstancesPerPrincipal ?? 8,
    // Another client's `trust: true` is about its own prompts.
    trust: typeof entry.trust === 'string' ? entry.trust : 'first-use',
    allowPrivate,
    where,
    tools: entry.tools === undefined || Array.isArray(entry.tools) ? {} : readOverrides(entry.tools),
    ...(entry.auth === undefined ? {} : { auth: authOf(entry.auth) }),
    ...(entry.timeoutMs === undefined ? {} : { timeoutMs: entry.timeoutMs }),
    ...(entry.connectTimeoutMs === undefined ? {} : { connectTimeoutMs: entry.connectTimeoutMs }),
    ...(provides === undefined ? {} : { provides }),
    ...(entry.internal ? { internal: true } : {}),
    ...(summary === undefined ? {} : { summary }),
  }
  return { settings, warnings }
}

/** Its keys one by one: a few of forty are there, and none depends on another. */
function entryOf(where: string, raw: unknown): Entry {
  if (typeof raw === 'object' && raw !== null && !Array.isArray(raw)) {
    const shape: Readonly<Record<string, z.ZodType>> = serverSchema.shape
    const entry: Record<string, unknown> = {}
    const isGood = Object.entries(raw).every(([key, value]) => {
      const read = Object.hasOwn(shape, key) ? shape[key]?.safeParse(value, QUICK) : { success: true, data: value }
      entry[key] = read?.data
      return read?.success
    })
    if (isGood) return entry as Entry
  }
  const whole = serverSchema.safeParse(raw, QUICK)
  if (whole.success) return whole.data
  const issue = whole.error.issues[0]
  const path = [where, ...(issue?.path ?? []).map(String)].join('.')
  throw new PegboardError('E_CONFIG_INVALID', `${path}: ${issue ? wanted(issue, raw) : 'is not a server'}.`)
}

/** What is read once is not worth compiling a check for. */
const QUICK = { jitless: true } as const

/** What the look of an address gives away; where its name leads is checked when connecting. */
function assertPublic(where: string, url: string): void {
  try {
    assertReachable(new URL(url), publicOnly(`${where}.allowPrivate`))
  } catch (error) {
    throw new PegboardError('E_CONFIG_INVALID', `${where}.url: ${messageOf(error)}`, {
      hint: `${where}.allowPrivate is false, so only https and public addresses are taken.`,
      cause: error,
    })
  }
}

function assertClient(where: string, auth: NonNullable<Entry['auth']>): void {
  const { type, clientId, clientSecret, privateKey, idp } = auth
  const headless = type === 'client-credentials' || type === 'enterprise'
  if (headless && (clientId === undefined || (clientSecret ?? privateKey) === undefined))
    throw new PegboardError(
      'E_CONFIG_INVALID',
      `${where}: ${type} needs "clientId" and "clientSecret" or "privateKey".`,
    )
  if (headless && auth.perPrincipal)
    throw new PegboardError('E_CONFIG_INVALID', `${where}: ${type} has no principals to tell apart.`)
  if (type === 'enterprise' && (idp?.idToken === undefined) === (idp?.idTokenFile === undefined))
    throw new PegboardError('E_CONFIG_INVALID', `${where}: enterprise needs "idp" with "idToken" or "idTokenFile".`)
  if (clientId === undefined && (clientSecret ?? privateKey) !== undefined)
    throw new PegboardError('E_CONFIG_INVALID', `${where}: a secret or key needs its "clientId".`)
}

function authOf(auth: NonNullable<Entry['auth']>): AuthSettings {
  const { type, clientId, clientSecret, clientMetadataUrl, scopes, redirectPort, perPrincipal } = auth
  const { privateKey, algorithm, tokenEndpointAuth, issuer, allowPrivate, idp } = auth
  return {
    type: type ?? 'oauth',
    scopes: scopes ?? [],
    perPrincipal: perPrincipal ?? false,
    allowPrivate: allowPrivate ?? false,
    ...(privateKey === undefined ? {} : { privateKey }),
    ...(algorithm === undefined ? {} : { algorithm }),
    ...(tokenEndpointAuth === undefined ? {} : { tokenEndpointAuth }),
    ...(issuer === undefined ? {} : { issuer }),
    ...(clientId === undefined ? {} : { clientId }),
    ...(clientSecret === undefined ? {} : { clientSecret }),
    ...(clientMetadataUrl === undefined ? {} : { clientMetadataUrl }),
    ...(redirectPort === undefined ? {} : { redirectPort }),
    ...(idp === undefined ? {} : { idp: idp as IdpSettings }),
  }
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

/** What is missing of an entry that cannot be reached, and the key that may have been meant for it. */
function missing(entry: Entry): string {
  if (entry.url !== undefined) return `is of type "${entry.type ?? entry.transport}" and names no command`
  const meant = Object.keys(entry).flatMap((key) =>
    key in serverSchema.shape ? [] : nearest(key, ['command', 'url'], 2, 1).map((known) => [key, known] as const),
  )
  const [key, known] = meant[0] ?? []
  return `names neither a command nor a url${key === undefined ? '' : `; "${key}" may be meant to be "${known}"`}`
}

function targetOf(where: string, entry: Entry, warnings: string[]): StdioTarget | HttpTarget {
  const named = PROVIDED.some((one) => one === entry.type) ? entry.transport : (entry.type ?? entry.transport)
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
    throw new PegboardError('E_CONFIG_INVALID', `${where} ${missing(entry)}.`, {
      hint: 'Give "command" and "args" for a local server, "url" for a remote one.',
    })
  const parsed = URL.canParse(url) ? new URL(url) : undefined
  if (!parsed || !['http:', 'https:'].includes(parsed.protocol))
    throw new PegboardError('E_CONFIG_INVALID', `${where}.url is not an http or https address.`)
  const sse = kind === 'sse' || (kind === undefined && /\/sse\/?$/.test(parsed.pathname))
  return { kind: sse ? 'sse' : 'http', url, headers: entry.headers ?? {} }
}
