import { z } from 'zod'
import { type ToolOverride, toolOverrideOptions } from '../catalog/tool-override-options.ts'
import { messageOf, PegboardError } from '../core/errors.ts'
import { omitUndefined } from '../core/omit-undefined.ts'
import { describeSettingError } from '../core/setting-error.ts'
import { EFFECTS } from '../core/tool.ts'
import { findNearest } from '../core/tool-names.ts'
import { assertReachable, publicOnly } from '../policy/network-rules.ts'
import { tripwireOptions } from '../policy/policy-options.ts'
import type { SandboxSettings } from '../programs/server-sandbox.ts'
import { maxResultTokens } from '../results/results-options.ts'

export interface StdioTarget {
  readonly kind: 'stdio'
  readonly command: string
  readonly args: readonly string[]
  /** Added to the child's small inherited environment. */
  readonly env: Readonly<Record<string, string>>
  readonly cwd?: string
  /** A file of KEY=VALUE lines; `env` overrides it. */
  readonly envFile?: string
  /** What it may touch; absent: all that Pegboard may. */
  readonly sandbox?: SandboxSettings
}

export interface HttpTarget {
  /** `http` falls back to HTTP+SSE if the endpoint is of the older kind; `sse` uses only HTTP+SSE. */
  readonly kind: 'http' | 'sse'
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
}

export interface ServerSettings extends Readonly<PlainSettings> {
  readonly target: StdioTarget | HttpTarget
  /** Path of the entry, such as `mcpServers.<id>`, for messages. */
  readonly where: string
  readonly enabled: boolean
  readonly prefix: string
  readonly allow: readonly string[]
  readonly deny: readonly string[]
  readonly tools: Readonly<Record<string, ToolOverride>>
  readonly trust: 'review' | 'first-use' | 'always'
  readonly allowPrivate: boolean
}

/** The services that a server may provide. */
const PROVIDED = ['url_fetcher', 'web_search'] as const

const ASKS = ['elicitation', 'sampling', 'roots'] as const
const scalar = z.union([z.string(), z.number(), z.boolean()]).transform(String)
const names = z.array(z.string())

const authSchema = z.lazy(() =>
  z.object({
    type: z
      .enum(['oauth', 'client-credentials', 'enterprise', 'none'])
      .default('oauth')
      .describe('How to get tokens (default oauth). none never starts a login.'),
    clientId: z.string().optional().describe('Id of a registered client (default: register when needed).'),
    clientSecret: z.string().optional().describe('Client secret. Use ${env:NAME} to read it from a variable.'),
    privateKey: z
      .string()
      .optional()
      .describe('PEM key to sign assertions with, instead of a secret (private_key_jwt). Use ${env:NAME}.'),
    algorithm: z
      .enum(['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'ES512'])
      .optional()
      .describe('Algorithm of that key (default RS256).'),
    tokenEndpointAuth: z
      .enum(['client_secret_basic', 'client_secret_post'])
      .optional()
      .describe('How to send the secret (default: as the authorization server supports).'),
    issuer: z.url().optional().describe('Authorization server of the client. The secret is sent to no other server.'),
    allowPrivate: z.boolean().default(false).describe('Allow a private or http authorization server (default false).'),
    clientMetadataUrl: z.url().optional().describe('URL of a client-id metadata document, instead of registration.'),
    scopes: z
      .union([z.string(), names])
      .transform((given) => (typeof given === 'string' ? given.split(/\s+/).filter(Boolean) : given))
      .default([])
      .describe('Scopes to request (default: as the server names them).'),
    redirectPort: z
      .int()
      .min(1)
      .max(65_535)
      .optional()
      .describe('Port for the redirect of the browser (default: any free port).'),
    perPrincipal: z.boolean().default(false).describe('Use a separate login for each principal.'),
    idp: z
      .object({
        tokenEndpoint: z.url().describe('Token endpoint of the identity provider.'),
        clientId: z.string().describe('Client id at the identity provider.'),
        clientSecret: z.string().optional().describe('Client secret. Use ${env:NAME} to read it from a variable.'),
        idToken: z.string().optional().describe('ID token of the user. Use ${env:NAME} to read it from a variable.'),
        idTokenFile: z.string().optional().describe('File with the ID token, read at each use.'),
      })
      .optional()
      .describe('Identity provider of the company, for type enterprise.'),
  }),
)

/** How to get tokens for a remote server. Without them: only `headers`, and OAuth if the server requires it. */
export type AuthSettings = z.output<typeof authSchema>

export type IdpSettings = NonNullable<AuthSettings['idp']>

const KINDS_OF_SANDBOX = ['none', 'auto', 'bubblewrap', 'docker'] as const

const sandboxSchema = z.lazy(() =>
  z.union([
    z.enum(KINDS_OF_SANDBOX),
    z.strictObject({
      kind: z.enum(KINDS_OF_SANDBOX).default('auto').describe('Kind of sandbox (default auto).'),
      network: z.boolean().default(true).describe('Allow the network (default true).'),
      read: names.default([]).describe('Folders and files that the server can read, besides programs and itself.'),
      write: names.default([]).describe('Folders and files that the server can read and write.'),
      image: z
        .string()
        .regex(/^[A-Za-z0-9][\w./:@-]{0,254}$/)
        .optional()
        .describe('Image for docker (default: one with npx or uvx).'),
    }),
  ]),
)

/** Settings that a process or session depends on. If one changes, the server restarts. */
const restartOptions = {
  relay: z
    .array(z.enum(ASKS))
    .default(['elicitation'])
    .describe('Requests of the server to relay to the client: elicitation (default), sampling, roots.'),
  instance: z
    .enum(['shared', 'principal', 'session'])
    .optional()
    .describe(
      'Who shares one running instance: all clients (shared), one principal, or one session. Default: session for browsers, shells, interpreters and servers that ask questions; otherwise shared.',
    ),
  auth: authSchema.optional().describe('How to get tokens for a remote server.'),
}

/** A reload applies changes of these settings without a restart. */
const liveOptions = {
  timeoutMs: z.int().min(100).max(600_000).optional().describe('Maximum duration of a call, in milliseconds.'),
  maxResultTokens: maxResultTokens.optional(),
  connectTimeoutMs: z
    .int()
    .min(100)
    .max(3_600_000)
    .optional()
    .describe(
      'Maximum time to connect, in milliseconds (default 30000; 180000 for package runners such as npx and for new programs).',
    ),
  trustHints: z
    .boolean()
    .default(false)
    .describe("Trust readOnlyHint and other hints of the server even if the tool's name disagrees."),
  effect: z
    .enum(EFFECTS)
    .optional()
    .describe(
      'Maximum effect of all tools of the server, whatever their hints are. tools.<name>.effect sets it for one tool.',
    ),
  tripwire: tripwireOptions
    .optional()
    .describe('What to do with secrets in results (default warn: note them in the audit log).'),
  start: z
    .enum(['lazy', 'background', 'eager'])
    .default('lazy')
    .describe(
      'When to start the server: on first use (lazy, default), after the first list or after one second (background), or immediately (eager).',
    ),
  idleStopMs: z
    .int()
    .min(0)
    .default(300_000)
    .describe('Stop a lazy server after this many milliseconds without use (0: never; default 300000).'),
  maxConcurrent: z
    .int()
    .min(1)
    .default(128)
    .describe('Maximum number of running calls (default 128). One principal can use at most seven eighths of it.'),
  maxQueued: z
    .int()
    .min(0)
    .default(1_000)
    .describe('Maximum number of waiting calls (default 1000). Further calls fail.'),
  maxInstances: z.int().min(1).default(32).describe('Maximum number of running instances (default 32).'),
  maxInstancesPerPrincipal: z
    .int()
    .min(1)
    .default(8)
    .describe('Maximum number of running instances for one principal (default 8).'),
  internal: z
    .boolean()
    .optional()
    .describe(
      'Offer the tools to modules only, for example as a search engine of web. Clients cannot see or call them.',
    ),
  provides: z
    .enum(PROVIDED)
    .optional()
    .describe(
      'Kind of tool that the server provides. Callers who can use the server get its tools instead of those of modules.',
    ),
  summary: z.string().optional().describe('One line about the server, shown with its category.'),
}

/** Settings that `ServerSettings` has as they are written. */
const plainOptions = { ...restartOptions, ...liveOptions }
type PlainSettings = z.output<z.ZodObject<typeof plainOptions>>

/** One entry of `mcpServers` in the format of Claude Desktop, Cursor and VS Code, with Pegboard's own keys added. */
export const serverSchema = z.looseObject({
  command: z.string().min(1).optional().describe('Program to run. It serves MCP over stdin and stdout.'),
  args: z.array(scalar).optional().describe('Arguments of the program. No shell interprets them.'),
  env: z.record(z.string(), scalar).optional().describe('Environment variables for the program.'),
  cwd: z.string().optional().describe('Working directory of the program.'),
  envFile: z.string().optional().describe('File with KEY=VALUE lines, read before env.'),
  sandbox: sandboxSchema
    .optional()
    .describe(
      'What the program may touch: none (all that you may, default), auto, bubblewrap or docker, or an object with kind, network, read, write and image.',
    ),
  url: z.string().optional().describe('Address of a remote server.'),
  serverUrl: z.string().optional().describe('The same as url.'),
  httpUrl: z.string().optional().describe('The same as url.'),
  type: z
    .string()
    .optional()
    .describe(
      'Transport: stdio, http, streamable-http or sse (default: detected). Also accepts the values of provides.',
    ),
  transport: z.string().optional().describe('The same as type.'),
  headers: z.record(z.string(), scalar).optional().describe('HTTP headers that Pegboard adds to each request.'),
  enabled: z.boolean().optional().describe('Set to false to turn the server off.'),
  disabled: z.boolean().optional().describe('Set to true to turn the server off.'),
  prefix: z.string().optional().describe('Prefix of its tool names ("" for none; default: the key of this entry).'),
  allow: names.optional().describe("Tools to allow, as globs on the server's tool names."),
  deny: names.optional().describe("Tools to deny, as globs on the server's tool names."),
  allowed_actions: names.optional().describe('The same as allow.'),
  blocked_actions: names.optional().describe('The same as deny.'),
  includeTools: names.optional().describe('The same as allow.'),
  enabledTools: names.optional().describe('The same as allow.'),
  excludeTools: names.optional().describe('The same as deny.'),
  disabledTools: names.optional().describe('The same as deny.'),
  ...plainOptions,
  trust: z
    .union([z.enum(['review', 'first-use', 'always']), z.boolean()], {
      error: 'must be "review", "first-use" or "always"',
    })
    .optional()
    .describe(
      'Which tools Pegboard quarantines until `pegboard review` approves them: all (review), tools that are new or change after the first connection (first-use, default), or only tools that are never safe, such as those with hidden text (always).',
    ),
  allowPrivate: z
    .boolean()
    .optional()
    .describe('Allow private addresses and plain http (default true; false for servers of profiles).'),
  allow_private: z.boolean().optional().describe('The same as allowPrivate.'),
  tools: z
    .union([z.record(z.string(), toolOverrideOptions), names])
    .optional()
    .describe(
      "Settings by the server's tool name: rename, describe, alias, replaces, timeoutMs, maxResultTokens, effect. A list means the same as allow.",
    ),
  description: z.string().optional().describe('The same as summary.'),
})

type Entry = z.infer<typeof serverSchema>

// Keys of other clients that have no meaning here and are ignored.
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

const RESTART_KEYS = Object.keys(restartOptions) as ReadonlyArray<keyof typeof restartOptions>

/** If this changes, a reload restarts the server. Attribution is fixed per connection, so it depends on an empty `prefix`. */
export function restartKeyOf(settings: ServerSettings): string {
  const { target, allowPrivate, prefix } = settings
  return JSON.stringify([target, allowPrivate, prefix === '', ...RESTART_KEYS.map((key) => settings[key])])
}

interface Defaults {
  /** Path of the entry in the configuration. */
  readonly where?: string
  /** Whether private addresses are allowed if the entry does not say. */
  readonly allowPrivate?: boolean
}

/**
 * Parses one `mcpServers` entry. Unknown keys cause a warning, never an error, because people paste existing entries.
 * @throws PegboardError E_CONFIG_INVALID if a known key has the wrong type, or if the entry does not say how to reach
 * the server
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
    const [nearest] = FOREIGN.has(key) ? [] : findNearest(key, Object.keys(serverSchema.shape), 2, 1)
    warnings.push(`${where}.${key} is not a setting of Pegboard${nearest ? `; did you mean "${nearest}"?` : '.'}`)
  }
  const plain = Object.fromEntries(
    Object.entries(entry).filter(([key]) => Object.hasOwn(plainOptions, key)),
  ) as PlainSettings
  const { auth, instance } = plain
  const summary = entry.summary ?? entry.description
  const toolNames = Array.isArray(entry.tools) ? entry.tools : undefined
  const provides = entry.provides ?? PROVIDED.find((one) => one === entry.type)
  const target = targetOf(where, entry, warnings)
  const allowPrivate = entry.allowPrivate ?? entry.allow_private ?? mayBePrivate
  if (target.kind !== 'stdio' && !allowPrivate) assertPublic(where, target.url)
  if (auth !== undefined) assertClient(`${where}.auth`, auth)
  if (instance === 'shared' && auth?.perPrincipal)
    throw new PegboardError(
      'E_CONFIG_INVALID',
      `${where}.instance: "shared" does not go with auth.perPrincipal, where every principal has its own connection.`,
    )
  const settings: ServerSettings = {
    ...plain,
    target,
    where,
    enabled: entry.enabled !== false && entry.disabled !== true,
    prefix: entry.prefix ?? id,
    allow: joinLists(entry.allow, entry.allowed_actions, entry.includeTools, entry.enabledTools, toolNames),
    deny: joinLists(entry.deny, entry.blocked_actions, entry.excludeTools, entry.disabledTools),
    tools: toolNames === undefined ? ((entry.tools as ServerSettings['tools'] | undefined) ?? {}) : {},
    // Another client's `trust: true` concerns that client's own prompts.
    trust: typeof entry.trust === 'string' ? entry.trust : 'first-use',
    allowPrivate,
    ...omitUndefined({ provides, summary }),
  }
  return { settings, warnings }
}

const joinLists = (...lists: ReadonlyArray<string[] | undefined>): string[] => lists.flatMap((list) => list ?? [])

const DEFAULTS = Object.fromEntries(
  Object.entries(plainOptions).flatMap(([key, schema]) =>
    schema instanceof z.ZodDefault ? [[key, schema.def.defaultValue]] : [],
  ),
)

/**
 * Validates only the keys that are present, and adds the defaults of the others. Validating all forty costs a start 2 ms,
 * and 0.1 ms more for each server.
 */
function entryOf(where: string, raw: unknown): Entry {
  if (typeof raw === 'object' && raw !== null && !Array.isArray(raw)) {
    const shape: Readonly<Record<string, z.ZodType>> = serverSchema.shape
    const entry: Record<string, unknown> = { ...DEFAULTS }
    const isGood = Object.entries(raw).every(([key, value]) => {
      const parsed = Object.hasOwn(shape, key) ? shape[key]?.safeParse(value, QUICK) : { success: true, data: value }
      entry[key] = parsed?.data
      return parsed?.success
    })
    if (isGood) return entry as Entry
  }
  const whole = serverSchema.safeParse(raw, QUICK)
  if (whole.success) return whole.data
  const issue = whole.error.issues[0]
  const path = [where, ...(issue?.path ?? []).map(String)].join('.')
  throw new PegboardError(
    'E_CONFIG_INVALID',
    `${path}: ${issue ? describeSettingError(issue, raw) : 'is not a server'}.`,
  )
}

/** Compiling a validator takes longer than one check. */
export const QUICK = { jitless: true } as const

/** Checks the address text; DNS answers are checked when connecting. */
function assertPublic(where: string, url: string): void {
  try {
    assertReachable(new URL(url), publicOnly(`${where}.allowPrivate`))
  } catch (error) {
    throw new PegboardError('E_CONFIG_INVALID', `${where}.url: ${messageOf(error)}`, {
      hint: `${where}.allowPrivate is false, so only https and public addresses are allowed.`,
      cause: error,
    })
  }
}

/** @throws PegboardError E_CONFIG_INVALID for credentials that are incomplete or contradict the type */
function assertClient(where: string, auth: AuthSettings): void {
  const { type, clientId, clientSecret, privateKey, idp } = auth
  const headless = type === 'client-credentials' || type === 'enterprise'
  if (headless && (clientId === undefined || (clientSecret ?? privateKey) === undefined))
    throw new PegboardError(
      'E_CONFIG_INVALID',
      `${where}: ${type} needs "clientId" and "clientSecret" or "privateKey".`,
    )
  if (headless && auth.perPrincipal)
    throw new PegboardError(
      'E_CONFIG_INVALID',
      `${where}: ${type} has one login for all principals, so perPrincipal cannot be set.`,
    )
  if (type === 'enterprise' && (idp?.idToken === undefined) === (idp?.idTokenFile === undefined))
    throw new PegboardError('E_CONFIG_INVALID', `${where}: enterprise needs "idp" with "idToken" or "idTokenFile".`)
  if (clientId === undefined && (clientSecret ?? privateKey) !== undefined)
    throw new PegboardError('E_CONFIG_INVALID', `${where}: a secret or key needs its "clientId".`)
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

/** What an incomplete entry lacks, and the key that may have been meant. */
function describeMissing(entry: Entry): string {
  if (entry.url !== undefined) return `is of type "${entry.type ?? entry.transport}" and names no command`
  const misspellings = Object.keys(entry).flatMap((key) =>
    key in serverSchema.shape
      ? []
      : findNearest(key, ['command', 'url'], 2, 1).map((nearest) => [key, nearest] as const),
  )
  const [key, nearest] = misspellings[0] ?? []
  return `names neither a command nor a url${key === undefined ? '' : `; "${key}" is probably a misspelling of "${nearest}"`}`
}

function targetOf(where: string, entry: Entry, warnings: string[]): StdioTarget | HttpTarget {
  const transportName = PROVIDED.some((one) => one === entry.type) ? entry.transport : (entry.type ?? entry.transport)
  const kind = transportName === undefined ? undefined : KINDS[transportName.toLowerCase().replaceAll(/[-_ ]/g, '')]
  if (transportName !== undefined && kind === undefined)
    warnings.push(`${where}.type "${transportName}" is not known; stdio, http and sse are.`)
  const url = entry.url ?? entry.serverUrl ?? entry.httpUrl
  if (entry.command !== undefined && (kind === 'stdio' || url === undefined || kind === undefined)) {
    if (url !== undefined) warnings.push(`${where} has a command and a url; the command is used.`)
    return {
      kind: 'stdio',
      command: entry.command,
      args: entry.args ?? [],
      env: entry.env ?? {},
      ...omitUndefined({ cwd: entry.cwd, envFile: entry.envFile }),
      ...sandboxOf(entry),
    }
  }
  if (entry.sandbox !== undefined) warnings.push(`${where}.sandbox has no effect: the server runs elsewhere.`)
  if (url === undefined || kind === 'stdio')
    throw new PegboardError('E_CONFIG_INVALID', `${where} ${describeMissing(entry)}.`, {
      hint: 'Give "command" and "args" for a local server, "url" for a remote one.',
    })
  const parsed = URL.canParse(url) ? new URL(url) : undefined
  if (!parsed || !['http:', 'https:'].includes(parsed.protocol))
    throw new PegboardError('E_CONFIG_INVALID', `${where}.url is not an http or https address.`)
  const sse = kind === 'sse' || (kind === undefined && /\/sse\/?$/.test(parsed.pathname))
  return { kind: sse ? 'sse' : 'http', url, headers: entry.headers ?? {} }
}

/** Its home folder depends on the state folder, which is added later. */
function sandboxOf({ sandbox }: Entry): Pick<StdioTarget, 'sandbox'> {
  const settings = typeof sandbox === 'string' ? { kind: sandbox, network: true, read: [], write: [] } : sandbox
  if (settings === undefined || settings.kind === 'none') return {}
  const { kind, network, read, write, image } = settings
  return { sandbox: { kind, network, read, write, hidden: [], home: '', ...omitUndefined({ image }) } }
}

/** What a server may touch, for people. */
export function describeReach({ target }: Pick<ServerSettings, 'target'>): string {
  if (target.kind !== 'stdio') return 'nothing here: it runs elsewhere'
  const { sandbox } = target
  if (!sandbox) return 'all your files, network'
  const { kind, read, write, network } = sandbox
  return [
    kind === 'docker' ? 'container' : 'sandbox',
    ...(read.length > 0 ? [`reads ${read.join(', ')}`] : []),
    write.length > 0 ? `writes ${write.join(', ')}` : 'writes its own folder only',
    // A container has a network of its own. In bubblewrap, abstract sockets belong to the network.
    network
      ? kind === 'docker'
        ? 'network'
        : 'network, also ports and abstract sockets of this machine'
      : 'no network',
  ].join('; ')
}
