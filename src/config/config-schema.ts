import { z } from 'zod'
import { textToolsOption } from '../agent/agent-options.ts'
import { isRecord } from '../core/is-record.ts'
import { executionOptions } from '../exec/execution-options.ts'
import { auditOptions, logOptions, telemetryOptions } from '../observe/telemetry-options.ts'
import { apiOptions } from '../openapi/openapi-options.ts'
import { constraintsOptions, policyOptions, tripwireOptions } from '../policy/policy-options.ts'
import { searchOptions } from '../search/search-options.ts'
import { serverOptions } from '../server/server-options.ts'
import { servicesOptions } from '../services/services-options.ts'
import { stateOptions } from '../state/state-options.ts'
import { QUICK, serverSchema } from '../upstream/upstream-settings.ts'
import { clientOptions } from '../view/client-options.ts'
import { exposureOptions } from '../view/exposure-options.ts'
import defaultSettings from './default-settings.json' with { type: 'json' }
import { profileOptions } from './profile-settings.ts'
import { toolsSection } from './tool-settings.ts'

const setupStep = z.lazy(() =>
  z.strictObject({
    action: z.string().min(1).describe('Tool of this module, such as "connect".'),
    params: z
      .record(z.string(), z.unknown())
      .default({})
      .describe('Arguments of the tool. Templates such as "{{workspace}}" are replaced.'),
  }),
)

export const moduleOptions = z.lazy(() =>
  z.strictObject({
    enabled: z.boolean().default(true).describe('Set to false to turn the module off.'),
    config: z.record(z.string(), z.unknown()).default({}).describe('Options of the module.'),
    constraints: constraintsOptions
      .optional()
      .describe('Which tools of the module, or of the server or API of this name, exist for clients.'),
    tripwire: tripwireOptions
      .optional()
      .describe(
        'What to do with result fields that look like credentials (default redact; throw for files that export single tools, and for read-only tools).',
      ),
    setup: z
      .array(setupStep)
      .default([])
      .describe('Calls made once when the module is loaded, before clients are served.'),
    override: z
      .boolean()
      .default(false)
      .describe('Let a file in modulesDir replace a bundled module of the same name.'),
  }),
)

const dirsOptions = z.lazy(() =>
  z.strictObject({
    state: z
      .string()
      .min(1)
      .optional()
      .describe(
        'Folder for data that must survive a restart (default: PEGBOARD_STATE_DIR, or the state folder of the platform).',
      ),
    cache: z
      .string()
      .min(1)
      .optional()
      .describe('Folder for data that can be deleted (default: the cache folder of the platform).'),
    workspace: z.string().min(1).optional().describe('Folder that tools work in (default: the folder of this file).'),
  }),
)

const loaderOptions = z.lazy(() =>
  z.strictObject({
    importTimeoutMs: z.int().min(1).max(600_000).default(10_000).describe('Maximum time to import one module file.'),
    startTimeoutMs: z.int().min(1).max(600_000).default(30_000).describe('Maximum time for the start of one module.'),
  }),
)

const registryOptions = z.lazy(() =>
  z.strictObject({
    url: z
      .url()
      .default('https://registry.modelcontextprotocol.io')
      .describe('Base URL of the MCP registry for pegboard registry and pegboard add.'),
    allowPrivate: z.boolean().default(false).describe('Allow a registry at a private address.'),
  }),
)

const inputOptions = z.lazy(() =>
  z.looseObject({
    id: z.string().describe('Name of the input. The variable PEGBOARD_INPUT_<ID> sets its value.'),
    default: z.string().optional().describe('Value if the variable is not set.'),
  }),
)

/** Server entries are validated one by one later, so that an invalid one does not affect the others. */
const serversBlock = z.record(z.string(), z.unknown())

// Schemas of parts that a configuration may lack are z.lazy, because zod takes about 5 µs and 1 KB to create each.
const sections = {
  $schema: z.string().optional().describe('For editors.'),
  server: serverOptions.prefault({}).describe('How Pegboard presents itself and listens.'),
  modulesDir: z.string().min(1).default('modules').describe('Folder of your own modules, relative to this file.'),
  autoload: z
    .boolean()
    .default(true)
    .describe('Load every file in modulesDir (true), or only the modules named under modules (false).'),
  modules: z.record(z.string(), moduleOptions).default({}).describe('Settings by module name.'),
  search: searchOptions.prefault({}).describe('How tools are found.'),
  exposure: exposureOptions.prefault({}).describe('How Pegboard lists tools to clients.'),
  textTools: textToolsOption,
  policy: policyOptions.prefault({}).describe('What clients may run.'),
  audit: auditOptions.prefault({}).describe('Audit log of calls and decisions.'),
  log: logOptions.prefault({}).describe('Log lines on stderr.'),
  telemetry: telemetryOptions.prefault({}).describe('OpenTelemetry traces and metrics.'),
  execution: executionOptions.prefault({}).describe('Limits on calls.'),
  tools: toolsSection,
  dirs: dirsOptions.prefault({}).describe('Folders, relative to this file.'),
  state: stateOptions.prefault({}).describe('Where Pegboard stores state that must survive a restart.'),
  loader: loaderOptions.prefault({}).describe('How modules are loaded.'),
  services: servicesOptions.prefault({}).describe('Services for tools, such as storage and a language model.'),
  openapi: z
    .record(z.string().regex(/^[a-z0-9][a-z0-9_-]{0,59}$/), apiOptions)
    .default({})
    .describe('HTTP APIs whose operations become tools, by a name of lower-case letters, digits, _ and -.'),
  profiles: z
    .record(z.string().regex(/^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/), profileOptions)
    .default({})
    .describe('Named sets of modules, servers, flags and limits, each for some of the clients.'),
  clients: z
    .record(z.string().min(1).max(100), clientOptions)
    .default({})
    .describe(
      'Limits of clients, by the short name of a known client such as "cursor", by the name that a client sends, or by a pattern such as "claude*".',
    ),
  registry: registryOptions.prefault({}).describe('Where pegboard add finds servers.'),
  inputs: z.array(inputOptions).optional().describe('Inputs, in the format of VS Code.'),
}

const SERVERS = 'Upstream MCP servers, in the format of other clients.'

/**
 * The schema of the configuration file. Unknown keys are rejected except in server entries, which people paste from
 * other clients.
 */
export const fileSchema = z.strictObject({
  ...sections,
  mcpServers: serversBlock.optional().describe(SERVERS),
  servers: serversBlock.optional().describe("The same, under VS Code's name."),
})

export type FileSettings = z.infer<typeof fileSchema>

/** Validates the sections that a file has. The other sections get their defaults, without creating their schemas. */
export function parseFile(value: Readonly<Record<string, unknown>>): z.ZodSafeParseResult<FileSettings> {
  const given = Object.fromEntries(Object.entries(fileSchema.shape).filter(([key]) => Object.hasOwn(value, key)))
  const result = z.strictObject(given).safeParse(value, QUICK)
  return result.success
    ? // Not typed, so that the types are right before the build writes a new default.
      { success: true, data: { ...(defaultSettings as object), ...result.data } as FileSettings }
    : (result as z.ZodSafeParseError<FileSettings>)
}

export type ModuleSettings = z.infer<typeof moduleOptions>
type Json = Record<string, unknown>

/** The JSON Schema (draft 2020-12) of the configuration file, with server entries. */
export function configJsonSchema(): Json {
  const spelled = z.strictObject({
    ...sections,
    mcpServers: z.record(z.string(), serverSchema).optional().describe(SERVERS),
    servers: z.record(z.string(), serverSchema).optional().describe("The same, under VS Code's name."),
    profiles: z.record(
      z.string(),
      profileOptions.unwrap().extend({ mcpServers: z.record(z.string(), serverSchema).default({}) }),
    ),
  })
  const { $schema, ...rest } = z.toJSONSchema(spelled, { io: 'input', unrepresentable: 'any' }) as Json
  return { $schema, title: 'Pegboard configuration', ...rest }
}

/** The keys allowed at `path`; undefined if any are. */
export function knownKeys(schema: Json, path: readonly string[]): string[] | undefined {
  let at: Json | undefined = schema
  for (const key of path) {
    const properties = at?.['properties'] as Record<string, Json> | undefined
    at = properties?.[key] ?? (isRecord(at?.['additionalProperties']) ? at['additionalProperties'] : itemsOf(at))
  }
  return isRecord(at?.['properties']) ? Object.keys(at['properties']) : undefined
}

const itemsOf = (schema: Json | undefined): Json | undefined =>
  isRecord(schema?.['items']) ? schema['items'] : undefined
