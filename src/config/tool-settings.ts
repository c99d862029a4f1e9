import { z } from 'zod'
import { asRecord, isRecord, type Json } from '../core/is-record.ts'
import { rateLimitOptions } from '../policy/policy-options.ts'
import { maxResultTokens } from '../results/results-options.ts'

/** Seconds, or a duration such as "30s", "1m30s" or "500ms". */
const duration = () =>
  z
    .union([z.number().positive(), z.string().regex(/^(?:\d+(?:\.\d+)?(?:ms|h|m|s))+$/)], {
      error: 'must be seconds, or a duration such as "30s"',
    })
    .transform((given) => (typeof given === 'number' ? given : secondsOf(given)))

const UNITS: Readonly<Record<string, number>> = { ms: 0.001, s: 1, m: 60, h: 3_600 }
const secondsOf = (text: string): number =>
  [...text.matchAll(/(\d+(?:\.\d+)?)(ms|h|m|s)/g)].reduce(
    (sum, [, n, unit]) => sum + Number(n) * (UNITS[String(unit)] as number),
    0,
  )

const toolOptions = z.lazy(() =>
  z.strictObject({
    enabled: z
      .boolean()
      .optional()
      .describe(
        'Set to false to turn the tool off (default true). Callers get an error that names this setting. The name may contain *; true for a single tool takes precedence.',
      ),
    rate_limit: rateLimitOptions.optional().describe('Rate limit of the tool.'),
    maxResultTokens: maxResultTokens.optional(),
    deny_paths: z
      .array(z.string().min(1))
      .optional()
      .describe('For read_file and bash: paths to deny, in addition to denied_paths of the module.'),
    max_bytes: z.int().min(1).optional().describe('For write_file: maximum size of one call, in bytes.'),
    timeout: duration().optional().describe('For bash and url_fetch: seconds, or a duration such as "30s".'),
  }),
)

export type ToolSettings = z.infer<typeof toolOptions>
type ModuleSettingKey = Exclude<keyof ToolSettings, 'enabled' | 'rate_limit' | 'maxResultTokens'>

/** By setting and tool: the path of the module setting that it sets. */
const TARGETS: Readonly<
  Record<ModuleSettingKey, Readonly<Record<string, readonly [module: string, ...path: string[]]>>>
> = {
  deny_paths: { read_file: ['filesystem', 'denied_paths'], bash: ['shell', 'denied_paths'] },
  max_bytes: { write_file: ['filesystem', 'write_file_max_bytes'] },
  timeout: { bash: ['shell', 'timeout'], url_fetch: ['web', 'url_fetch', 'timeout'] },
}
const MODULE_SETTING_KEYS = Object.keys(TARGETS) as readonly ModuleSettingKey[]

export const toolsSection = z
  .record(z.string(), toolOptions)
  .superRefine((tools, problems) => {
    for (const [name, settings] of Object.entries(tools))
      for (const key of MODULE_SETTING_KEYS)
        if (settings[key] !== undefined && !Object.hasOwn(TARGETS[key], name))
          problems.addIssue({
            code: 'custom',
            path: [name, key],
            message: `is a setting of ${Object.keys(TARGETS[key]).join(' and ')} alone; set it in the configuration of the module`,
          })
  })
  .default({})
  .describe('Settings by tool name or id. For enabled and rate_limit the name may contain *.')

/** A bare name matches every file of that name. */
const asGlob = (path: string): string => (path.startsWith('/') || path.startsWith('**/') ? path : `**/${path}`)

type Tools = Readonly<Record<string, ToolSettings>>

interface ModuleSettingTarget {
  readonly module: string
  readonly path: readonly string[]
  readonly value: unknown
}

/** @param written the section before defaults were added: a default enables nothing */
function targetsOf(tools: Tools, written: unknown): readonly ModuleSettingTarget[] {
  const found: ModuleSettingTarget[] = MODULE_SETTING_KEYS.flatMap((key) =>
    Object.entries(TARGETS[key]).flatMap(([name, [module, ...path]]) => {
      const value = Object.hasOwn(tools, name) ? tools[name]?.[key] : undefined
      if (value === undefined) return []
      return [{ module, path, value: Array.isArray(value) && module === 'filesystem' ? value.map(asGlob) : value }]
    }),
  )
  const bash = asRecord(written)['bash']
  // The error for a call of bash while it is off names this setting.
  return isRecord(bash) && bash['enabled'] === true
    ? [...found, { module: 'shell', path: ['enabled'], value: true }]
    : found
}

/**
 * Merges settings of single tools into those of their modules. Lists are joined; otherwise the module's own setting
 * wins.
 */
export function mergeToolSettings<T extends { readonly config: Record<string, unknown> }>(
  modules: Readonly<Record<string, T>>,
  tools: Tools,
  written: unknown,
  fresh: () => T,
): Record<string, T> {
  const merged: Record<string, T> = { ...modules }
  for (const { module, path, value } of targetsOf(tools, written)) {
    const entry = Object.hasOwn(merged, module) ? (merged[module] as T) : fresh()
    const config = setAtPath(entry.config, path, value)
    if (config) merged[module] = { ...entry, config }
  }
  const { shell, web } = merged
  if (shell && hasSecrets(web?.config))
    merged['shell'] = { ...shell, config: { secrets_enabled: true, ...shell.config } }
  return merged
}

/** True if url_fetch may use credentials, which a command with network access could send elsewhere. */
const hasSecrets = (web: Json | undefined): boolean => {
  const secrets = isRecord(web?.['url_fetch']) ? web['url_fetch']['secrets'] : undefined
  return isRecord(secrets) && secrets['enabled'] === true
}

function setAtPath(config: Json | undefined, [name, ...rest]: readonly string[], value: unknown): Json | undefined {
  if (config === undefined || name === undefined) return undefined
  const there = config[name]
  if (rest.length > 0) {
    const inner = setAtPath(isRecord(there) ? there : there === undefined ? {} : undefined, rest, value)
    return inner && { ...config, [name]: inner }
  }
  if (Array.isArray(value)) return { ...config, [name]: [...(Array.isArray(there) ? there : []), ...value] }
  return there === undefined ? { ...config, [name]: value } : config
}

/** Modules that need no setting, so naming one enables it. */
const ON_WHEN_NAMED = ['archives', 'context', 'memory', 'relay']

/** Enables the modules that the file names without `enabled`. */
export const enableNamedModules = <T extends { readonly config: Record<string, unknown> }>(
  modules: Readonly<Record<string, T>>,
): Record<string, T> =>
  Object.fromEntries(
    Object.entries(modules).map(([id, entry]) => [
      id,
      ON_WHEN_NAMED.includes(id) ? { ...entry, config: { enabled: true, ...entry.config } } : entry,
    ]),
  )
