import { z } from 'zod'
import { textToolsOption } from '../agent/options.ts'
import { isRecord } from '../core/record.ts'
import { executionOptions } from '../exec/options.ts'
import { auditOptions, logOptions, telemetryOptions } from '../observe/options.ts'
import { apiOptions } from '../openapi/options.ts'
import { constraintsOptions, policyOptions, tripwireOptions } from '../policy/options.ts'
import { searchOptions } from '../search/options.ts'
import { serverOptions } from '../server/options.ts'
import { servicesOptions } from '../services/options.ts'
import { stateOptions } from '../state/options.ts'
import { serverSchema } from '../upstream/settings.ts'
import { clientOptions } from '../view/client-options.ts'
import { exposureOptions } from '../view/options.ts'
import { profileOptions } from './profiles.ts'
import { toolsSection } from './tool-settings.ts'

const setupStep = z.strictObject({
  action: z.string().min(1).describe('Tool of this module, such as "connect".'),
  params: z
    .record(z.string(), z.unknown())
    .default({})
    .describe('Its arguments; "{{workspace}}" and the like are filled.'),
})

export const moduleOptions = z.strictObject({
  enabled: z.boolean().default(true).describe('false leaves the module out.'),
  config: z.record(z.string(), z.unknown()).default({}).describe("The module's own options; it says which."),
  constraints: constraintsOptions.optional().describe('Which tools of the module exist for clients.'),
  tripwire: tripwireOptions
    .optional()
    .describe(
      'What is done about fields of results that look like credentials; default redact, and throw for single files and read-only modules.',
    ),
  setup: z
    .array(setupStep)
    .default([])
    .describe('Calls made once when the module is loaded, before clients are served.'),
  override: z.boolean().default(false).describe('Let a file in modulesDir replace a bundled module of the same name.'),
})

const dirsOptions = z.strictObject({
  state: z
    .string()
    .min(1)
    .optional()
    .describe('What must survive a restart. Default: PEGBOARD_STATE_DIR, or the state folder of the platform.'),
  cache: z.string().min(1).optional().describe('What may be thrown away. Default: the cache folder of the platform.'),
  workspace: z.string().min(1).optional().describe('Where tools work. Default: the folder of this file.'),
})

const loaderOptions = z.strictObject({
  importTimeoutMs: z.int().min(1).max(600_000).default(10_000).describe('How long importing one module file may take.'),
  startTimeoutMs: z.int().min(1).max(600_000).default(30_000).describe("How long one module's start may take."),
})

const inputOptions = z.looseObject({
  id: z.string().describe('Name of the input; PEGBOARD_INPUT_<ID> answers it.'),
  default: z.string().optional().describe('Used when the variable is not set.'),
})

/** Server entries are read one by one afterwards, so that a bad one does not take the others along. */
const serversBlock = z.record(z.string(), z.unknown())

const sections = {
  $schema: z.string().optional().describe('For editors.'),
  server: serverOptions.prefault({}).describe('How Pegboard presents itself and listens.'),
  modulesDir: z.string().min(1).default('modules').describe('Folder of drop-in modules, relative to this file.'),
  autoload: z
    .boolean()
    .default(true)
    .describe('true loads every file in modulesDir; false only modules named under modules.'),
  modules: z.record(z.string(), moduleOptions).default({}).describe('Settings by module name.'),
  search: searchOptions.prefault({}).describe('How tools are found.'),
  exposure: exposureOptions.prefault({}).describe('How much of the tools a client is shown.'),
  textTools: textToolsOption,
  policy: policyOptions.prefault({}).describe('What clients may run.'),
  audit: auditOptions.prefault({}).describe('A record of who called what.'),
  log: logOptions.prefault({}).describe('What is told on stderr.'),
  telemetry: telemetryOptions.prefault({}).describe('Traces and metrics by OpenTelemetry.'),
  execution: executionOptions.prefault({}).describe('Limits on calls.'),
  tools: toolsSection,
  dirs: dirsOptions.prefault({}).describe('Folders, relative to this file.'),
  state: stateOptions.prefault({}).describe('Where what must survive a restart is kept.'),
  loader: loaderOptions.prefault({}).describe('How modules are loaded.'),
  services: servicesOptions.prefault({}).describe('What tools may use beyond their arguments.'),
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
    .describe('What clients can take, by the name they give themselves, such as "cursor-vscode" or "claude*".'),
  inputs: z.array(inputOptions).optional().describe('As VS Code writes them.'),
}

const SERVERS = 'MCP servers whose tools are gathered, as in the files of other clients.'

/** What the file may say. Strict everywhere but inside server entries, where people paste what other clients use. */
export const fileSchema = z.strictObject({
  ...sections,
  mcpServers: serversBlock.optional().describe(SERVERS),
  servers: serversBlock.optional().describe("The same, under VS Code's name."),
})

export type FileSettings = z.infer<typeof fileSchema>
export type ModuleSettings = z.infer<typeof moduleOptions>
export type LoaderSettings = z.infer<typeof loaderOptions>
export type { ToolSettings } from './tool-settings.ts'

type Json = Record<string, unknown>

/** The JSON Schema (draft 2020-12) of the configuration file, with the server entries spelled out. */
export function configJsonSchema(): Json {
  const spelled = z.strictObject({
    ...sections,
    mcpServers: z.record(z.string(), serverSchema).optional().describe(SERVERS),
    servers: z.record(z.string(), serverSchema).optional().describe("The same, under VS Code's name."),
    profiles: z.record(
      z.string(),
      profileOptions.extend({ mcpServers: z.record(z.string(), serverSchema).default({}) }),
    ),
  })
  const { $schema, ...rest } = z.toJSONSchema(spelled, { io: 'input', unrepresentable: 'any' }) as Json
  return { $schema, title: 'Pegboard configuration', ...rest }
}

/** The keys the file may have at `path`; undefined where anything goes. */
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
