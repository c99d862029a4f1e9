import { readFileSync } from 'node:fs'
import { basename, dirname, resolve } from 'node:path'
import { messageOf, PegboardError } from '../core/errors.ts'
import { asRecord, isRecord } from '../core/is-record.ts'
import { assertRegularFile, FILE_FAULTS } from '../core/regular-file.ts'
import { type ApiSettings, readApi } from '../openapi/openapi-options.ts'
import type { ServerSettings as UpstreamSettings } from '../upstream/upstream-settings.ts'
import { createProblemCollector } from './config-problems.ts'
import { type FileSettings, type ModuleSettings, moduleOptions } from './config-schema.ts'
import { JsoncError, parseJsonc } from './jsonc.ts'
import { type Dirs, defaultDirs, type Machine, pathFrom } from './machine.ts'
import { nameServers, type ProfileSettings, tokenProblems } from './profile-settings.ts'
import { placeSandboxes, readServers, type SkippedServer } from './read-servers.ts'
import { redactSettings } from './redact-settings.ts'
import { enableNamedModules, mergeToolSettings } from './tool-settings.ts'
import { describeUnset, fillVariables, secretNames, type VariableSources } from './variables.ts'

/** The complete configuration: with defaults, values of variables and absolute paths. */
export interface Config extends Readonly<Omit<FileSettings, ChangedKey>> {
  readonly file: string | undefined
  /** Folder of drop-in modules; undefined if there is no configuration file and the setting is absent. */
  readonly modulesDir: string | undefined
  readonly modules: Readonly<Record<string, ModuleSettings>>
  /** `mcpServers` by id, including those with `enabled: false`. */
  readonly servers: Readonly<Record<string, UpstreamSettings>>
  /** Server entries that cannot be used. They do not affect the rest. */
  readonly skipped: readonly SkippedServer[]
  /** `openapi` by id, including those with `enabled: false`. */
  readonly openapi: Readonly<Record<string, ApiSettings>>
  /**
   * Why `services.llm`, `modules.<id>` or `openapi.<id>` are left out. Names keys and variables, never their values.
   */
  readonly missing: Readonly<Record<string, string>>
  /** Values of variables in places of credentials. */
  readonly secrets: readonly string[]
  /** By name. Callers without a profile use `default`, which may be missing here. */
  readonly profiles: Readonly<Record<string, ProfileSettings>>
  readonly dirs: Dirs
  /** The configuration without secrets, which tools may read. */
  published(): Readonly<Record<string, unknown>>
}

type ChangedKey =
  | '$schema'
  | 'inputs'
  | 'mcpServers'
  | 'servers'
  | 'modulesDir'
  | 'modules'
  | 'openapi'
  | 'profiles'
  | 'dirs'

export interface LoadedConfig {
  readonly config: Config
  /** Sentences for the operator about what was ignored or left out. */
  readonly warnings: readonly string[]
  /** The text of the file. */
  readonly text?: string
}

const MEGA = 1_000_000
/** Longer texts could overflow the stack of the parser. */
const MAX_CHARS = 4 * MEGA

/**
 * Reads the configuration. Without `file` it has only defaults: no file of the working directory is used.
 * @throws PegboardError E_CONFIG_MISSING, E_CONFIG_SYNTAX (with line and column), E_CONFIG_INVALID (with every problem)
 */
export async function loadConfig(machine: Machine, file?: string): Promise<LoadedConfig> {
  if (file === undefined) return readConfig('{}', undefined, machine)
  const path = pathFrom(machine.cwd, file, machine)
  const text = readText(path, file)
  return readConfig(text, path, machine, await readSecrets(text, machine))
}

/** The secrets that a text names as `${keyring:NAME}`. */
export async function readSecrets(text: string, machine: Machine): Promise<ReadonlyMap<string, string>> {
  const names = secretNames(text)
  return names.length === 0 ? new Map() : ((await machine.readSecrets?.(names)) ?? new Map())
}

function readText(path: string, asGiven: string): string {
  try {
    assertRegularFile(path)
    // An asynchronous read waits for the thread pool, which adds 1 to 2 ms to a start.
    return readFileSync(path, 'utf8')
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    const what = FILE_FAULTS[code ?? ''] ?? `cannot be read (${code ?? messageOf(error)})`
    throw new PegboardError('E_CONFIG_MISSING', `The configuration file ${asGiven} ${what}.`, { cause: error })
  }
}

/**
 * As `loadConfig`, for the text of a file.
 * @param file absolute path; undefined without a file
 * @param secrets by name, as `readSecrets` returns them
 */
export function readConfig(
  text: string,
  file: string | undefined,
  machine: Machine,
  secrets: ReadonlyMap<string, string> = new Map(),
): LoadedConfig {
  const shown = file === undefined ? 'The configuration' : basename(file)
  if (text.length > MAX_CHARS)
    throw new PegboardError(
      'E_CONFIG_INVALID',
      `${shown} has ${Math.ceil(text.length / MEGA)} million characters; the limit is ${MAX_CHARS / MEGA} million.`,
      { hint: 'Move long texts to separate files.' },
    )
  const base = file === undefined ? machine.cwd : dirname(file)
  const { value, lines } = parse(text, shown)
  const problems = createProblemCollector(shown, lines)
  const warnings: string[] = []

  const { $schema: _editors, mcpServers, servers, ...rest } = problems.ownKeys(value, warnings)
  const sources = sourcesFor(machine, base, rest['inputs'], secrets)
  const { inputs: _answered, ...given } = rest
  const { own, servers: theirs } = separateServers(given)
  const placed = nameServers({ ...asRecord(servers), ...asRecord(mcpServers) }, theirs)
  const filled = fillVariables(own, sources)
  const missing: Record<string, string> = {}
  for (const unset of filled.unset) {
    const { path } = unset
    const [section, id] = path
    const what = `${path.join('.')} needs ${describeUnset(unset)}`
    const kind = section === 'modules' ? 'module' : section === 'openapi' ? 'API' : undefined
    if (section === 'services' && id === 'llm') {
      missing['services.llm'] ??= what
      warnings.push(`${what}; the language model is ignored.`)
    } else if (kind === undefined || id === undefined) problems.unset(path, what)
    else if (isEnabled(own[section ?? ''], id)) {
      missing[`${section}.${id}`] ??= what
      warnings.push(`${what}; the ${kind} is ignored.`)
    }
  }
  if (missing['services.llm'] !== undefined) {
    const { services } = filled.value as { services: { llm?: unknown } }
    delete services.llm
  }
  const settings = problems.check(filled, { mcpServers, servers })
  if (settings)
    for (const [path, what] of tokenProblems(settings.server.http, settings.profiles)) problems.add(path, what)
  const entries = readServers(
    { mcpServers: { ...asRecord(mcpServers), ...placed.servers }, servers },
    { ...sources, unset: machine.unset },
    base,
    machine,
    file,
    placed.where,
  )
  problems.throwIfAny()
  const dirs = dirsOf(settings as FileSettings, base, machine)
  const read = placeSandboxes(entries, file, dirs, machine)
  return {
    config: assemble(settings as FileSettings, {
      ...{ file, base, machine, missing, read, dirs, names: placed.names },
      secrets: [...new Set([...filled.secrets, ...read.secrets])],
      written: { ...given, mcpServers: { ...asRecord(servers), ...asRecord(mcpServers), ...placed.servers } },
    }),
    warnings: [...warnings, ...read.warnings],
    ...(file === undefined ? {} : { text }),
  }
}

function parse(text: string, shown: string): { value: Record<string, unknown>; lines: ReadonlyMap<string, number> } {
  try {
    const { value, lines } = parseJsonc(text)
    if (!isRecord(value))
      throw new PegboardError('E_CONFIG_SYNTAX', `${shown} is not a JSON object.`, {
        hint: 'Write an object, such as { "mcpServers": {} }.',
      })
    return { value, lines }
  } catch (error) {
    if (!(error instanceof JsoncError)) throw error
    throw new PegboardError(
      'E_CONFIG_SYNTAX',
      `${shown} is not valid JSON at line ${error.line}, column ${error.column}: ${error.message}.`,
    )
  }
}

function sourcesFor(
  machine: Machine,
  base: string,
  inputs: unknown,
  secrets: ReadonlyMap<string, string>,
): VariableSources {
  // These files of other clients lie in a folder of their workspace.
  const workspaceFolder = ['.vscode', '.cursor'].includes(basename(base)) ? dirname(base) : base
  const entries = Array.isArray(inputs) ? (inputs as ReadonlyArray<Record<string, unknown> | null>) : []
  return {
    env: machine.env,
    secrets,
    inputs: new Map(
      entries.map((entry) => [
        String(entry?.['id']),
        typeof entry?.['default'] === 'string' ? entry['default'] : undefined,
      ]),
    ),
    folders: {
      workspaceFolder,
      workspaceFolderBasename: basename(workspaceFolder),
      userHome: pathFrom(base, '~', machine),
    },
  }
}

function isEnabled(modules: unknown, id: string): boolean {
  return (modules as Record<string, { enabled?: unknown } | null>)[id]?.enabled !== false
}

/** Separates the profiles from their servers, which are validated one by one. */
function separateServers(root: Readonly<Record<string, unknown>>): {
  readonly own: Readonly<Record<string, unknown>>
  readonly servers: Readonly<Record<string, Readonly<Record<string, unknown>>>>
} {
  if (!isRecord(root['profiles'])) return { own: root, servers: {} }
  const servers: Record<string, Readonly<Record<string, unknown>>> = {}
  const profiles = Object.entries(root['profiles']).map(([id, profile]) => {
    if (!isRecord(profile) || !isRecord(profile['mcpServers'])) return [id, profile]
    const { mcpServers, ...rest } = profile
    servers[id] = mcpServers
    return [id, rest]
  })
  return { own: { ...root, profiles: Object.fromEntries(profiles) }, servers }
}

interface ConfigParts extends Pick<Config, 'file' | 'missing' | 'dirs' | 'secrets'> {
  readonly base: string
  readonly machine: Machine
  readonly read: ReturnType<typeof readServers>
  /** Names of the profiles' own servers, by profile. */
  readonly names: Readonly<Record<string, Readonly<Record<string, string>>>>
  /** The file before variables were replaced. */
  readonly written: Readonly<Record<string, unknown>>
}

function dirsOf({ dirs }: FileSettings, base: string, machine: Machine): Dirs {
  const fallback = defaultDirs(machine, base)
  const dir = (path: string | undefined, other: string): string =>
    path === undefined ? other : pathFrom(base, path, machine)
  return {
    state: dir(dirs.state, fallback.state),
    cache: dir(dirs.cache, fallback.cache),
    workspace: dir(dirs.workspace, fallback.workspace),
  }
}

function assemble(settings: FileSettings, parts: ConfigParts): Config {
  const { file, base, machine, missing, read, names, written, dirs } = parts
  const { $schema: _editors, inputs: _answered, mcpServers: _own, servers: _older, ...otherSettings } = settings
  const { cacheDir } = settings.search.embedderOptions
  const moduleSettings = mergeToolSettings(enableNamedModules(settings.modules), settings.tools, written['tools'], () =>
    moduleOptions.parse({}),
  )
  const modules = Object.entries(moduleSettings).map(([id, entry]) => [
    id,
    Object.hasOwn(missing, `modules.${id}`) ? { ...entry, enabled: false, config: {}, setup: [] } : entry,
  ])
  const apis = Object.entries(settings.openapi).map(([id, entry]) => {
    const read = readApi(id, entry, (path) => pathFrom(base, path, machine))
    return [id, Object.hasOwn(missing, `openapi.${id}`) ? { ...read, enabled: false } : read]
  })
  const config: Omit<Config, 'published'> = {
    ...otherSettings,
    file,
    // Without a file, the default would be a folder of whatever folder the process runs in.
    modulesDir:
      file === undefined && written['modulesDir'] === undefined
        ? undefined
        : resolve(pathFrom(base, settings.modulesDir, machine)),
    modules: Object.fromEntries(modules) as Record<string, ModuleSettings>,
    servers: read.servers,
    skipped: read.skipped,
    openapi: Object.fromEntries(apis) as Record<string, ApiSettings>,
    missing,
    search: {
      ...settings.search,
      embedderOptions: {
        ...settings.search.embedderOptions,
        ...(cacheDir === undefined ? {} : { cacheDir: pathFrom(base, cacheDir, machine) }),
      },
    },
    audit: {
      ...settings.audit,
      ...(settings.audit.file === undefined ? {} : { file: pathFrom(base, settings.audit.file, machine) }),
    },
    secrets: parts.secrets,
    profiles: Object.fromEntries(
      Object.entries(settings.profiles).map(([id, { mcpServers: _own, ...profile }]) => [
        id,
        { ...profile, servers: names[id] ?? {} },
      ]),
    ),
    dirs,
  }
  const { file: _file, skipped: _skipped, missing: _missing, servers, ...rest } = config
  const published = () => redactSettings({ ...rest, mcpServers: servers }, written) as Readonly<Record<string, unknown>>
  return { ...config, published }
}
