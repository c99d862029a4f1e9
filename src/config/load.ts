import { readFile } from 'node:fs/promises'
import { basename, dirname, resolve } from 'node:path'
import type { z } from 'zod'
import { messageOf, PegboardError } from '../core/errors.ts'
import type { ExecutionSettings } from '../exec/options.ts'
import { type ApiSettings, readApi } from '../openapi/options.ts'
import type { PolicySettings } from '../policy/policy.ts'
import type { SearchSettings } from '../search/options.ts'
import type { ServerSettings } from '../server/options.ts'
import type { ServerSettings as UpstreamSettings } from '../upstream/settings.ts'
import type { ExposureSettings } from '../view/exposure.ts'
import { JsoncError, parseJsonc } from './jsonc.ts'
import { type Dirs, defaultDirs, type Machine, pathFrom } from './places.ts'
import { createProblems } from './problems.ts'
import { type FileSettings, fileSchema, type LoaderSettings, type ModuleSettings, type ToolSettings } from './schema.ts'
import { readServers, type SkippedServer } from './servers.ts'
import { fillVariables, type Sources } from './variables.ts'

/** Everything the operator decided: defaults and variables filled in, paths absolute. */
export interface Config {
  /** The file it came from; undefined without one. */
  readonly file: string | undefined
  readonly server: ServerSettings
  /** Folder of drop-in modules; undefined without a configuration file, when only bundled modules load. */
  readonly modulesDir: string | undefined
  readonly autoload: boolean
  readonly modules: Readonly<Record<string, ModuleSettings>>
  /** `mcpServers` by id, those with `enabled: false` included. */
  readonly servers: Readonly<Record<string, UpstreamSettings>>
  /** Server entries that cannot be used as they are; everything else goes on. */
  readonly skipped: readonly SkippedServer[]
  /** `openapi` by id, those with `enabled: false` included. */
  readonly openapi: Readonly<Record<string, ApiSettings>>
  readonly search: SearchSettings
  readonly exposure: ExposureSettings
  readonly policy: FileSettings['policy']
  readonly execution: ExecutionSettings
  readonly tools: Readonly<Record<string, ToolSettings>>
  readonly dirs: Dirs
  readonly loader: LoaderSettings
}

export interface Loaded {
  readonly config: Config
  /** Sentences for the operator about what was ignored or left out. */
  readonly warnings: readonly string[]
}

/**
 * Reads the configuration. Without `file` it is all defaults: nothing is ever picked up from the working directory.
 * @throws PegboardError E_CONFIG_MISSING, E_CONFIG_SYNTAX (with line and column), E_CONFIG_INVALID (with every problem)
 */
export async function loadConfig(machine: Machine, file?: string): Promise<Loaded> {
  if (file === undefined) return readConfig('{}', undefined, machine)
  const path = pathFrom(machine.cwd, file, machine)
  return readConfig(await readText(path, file), path, machine)
}

async function readText(path: string, asGiven: string): Promise<string> {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code
    const what =
      code === 'ENOENT'
        ? 'does not exist'
        : code === 'EISDIR'
          ? 'is a folder'
          : `cannot be read (${code ?? messageOf(error)})`
    throw new PegboardError('E_CONFIG_MISSING', `The configuration file ${asGiven} ${what}.`, { cause: error })
  }
}

/** As `loadConfig`, from the text of a file. @param file absolute path; undefined means no file at all */
export function readConfig(text: string, file: string | undefined, machine: Machine): Loaded {
  const shown = file === undefined ? 'The configuration' : basename(file)
  const base = file === undefined ? machine.cwd : dirname(file)
  const { value, lines } = parse(text, shown)
  const problems = createProblems(shown, lines)
  const warnings: string[] = []

  const { $schema: _editors, mcpServers, servers, ...rest } = problems.ownKeys(value, warnings)
  const sources = sourcesFor(machine, base, rest['inputs'])
  const { inputs: _answered, ...own } = rest
  const filled = fillVariables(own, sources)
  const without = new Set<string>()
  for (const { path, variable } of filled.unset) {
    const [section, id] = path
    const what = `${path.join('.')} needs the environment variable ${variable}, which is not set`
    if ((section !== 'modules' && section !== 'openapi') || id === undefined) problems.add(path, what)
    else if (isEnabled(own[section], id)) {
      without.add(`${section}.${id}`)
      warnings.push(`${what}; the ${section === 'modules' ? 'module' : 'API'} is left out.`)
    }
  }
  const settings = problems.check(fileSchema, filled, { mcpServers, servers })
  const read = readServers({ mcpServers, servers }, sources, base, machine, file)
  problems.throwIfAny()
  return {
    config: assemble(settings as FileSettings, { file, base, machine, without, read }),
    warnings: [...warnings, ...read.warnings],
  }
}

function parse(text: string, shown: string): { value: Record<string, unknown>; lines: ReadonlyMap<string, number> } {
  try {
    const { value, lines } = parseJsonc(text)
    if (typeof value !== 'object' || value === null || Array.isArray(value))
      throw new JsoncError('the whole must be an object: { … }', 1, 1)
    return { value: value as Record<string, unknown>, lines }
  } catch (error) {
    if (!(error instanceof JsoncError)) throw error
    throw new PegboardError(
      'E_CONFIG_SYNTAX',
      `${shown} is not valid JSON at line ${error.line}, column ${error.column}: ${error.message}.`,
    )
  }
}

function sourcesFor(machine: Machine, base: string, inputs: unknown): Sources {
  // A client's own file lies in a folder of the workspace it speaks of.
  const workspaceFolder = ['.vscode', '.cursor'].includes(basename(base)) ? dirname(base) : base
  const entries = Array.isArray(inputs) ? (inputs as ReadonlyArray<Record<string, unknown> | null>) : []
  return {
    env: machine.env,
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

interface Parts {
  readonly file: string | undefined
  readonly base: string
  readonly machine: Machine
  readonly without: ReadonlySet<string>
  readonly read: ReturnType<typeof readServers>
}

function assemble(settings: z.output<typeof fileSchema>, parts: Parts): Config {
  const { file, base, machine, without, read } = parts
  const fallback = defaultDirs(machine, base)
  const dir = (path: string | undefined, other: string): string =>
    path === undefined ? other : pathFrom(base, path, machine)
  const { server, autoload, exposure, policy, execution, tools, loader } = settings
  const { cacheDir } = settings.search.embedderOptions
  const modules = Object.entries(settings.modules).map(([id, entry]) => [
    id,
    without.has(`modules.${id}`) ? { ...entry, enabled: false, config: {}, setup: [] } : entry,
  ])
  const apis = Object.entries(settings.openapi).map(([id, entry]) => {
    const read = readApi(id, entry, (path) => pathFrom(base, path, machine))
    return [id, without.has(`openapi.${id}`) ? { ...read, enabled: false } : read]
  })
  return {
    file,
    server,
    modulesDir: file === undefined ? undefined : resolve(pathFrom(base, settings.modulesDir, machine)),
    autoload,
    modules: Object.fromEntries(modules) as Record<string, ModuleSettings>,
    servers: read.servers,
    skipped: read.skipped,
    openapi: Object.fromEntries(apis) as Record<string, ApiSettings>,
    search: {
      ...settings.search,
      embedderOptions: {
        ...settings.search.embedderOptions,
        ...(cacheDir === undefined ? {} : { cacheDir: pathFrom(base, cacheDir, machine) }),
      },
    },
    exposure,
    policy,
    execution,
    tools,
    dirs: {
      state: dir(settings.dirs.state, fallback.state),
      cache: dir(settings.dirs.cache, fallback.cache),
      workspace: dir(settings.dirs.workspace, fallback.workspace),
    },
    loader,
  }
}

/** The part of the configuration that decides what clients may run. */
export function policySettings(config: Config): PolicySettings {
  const constraints = Object.entries(config.modules).flatMap(([id, entry]) =>
    entry.constraints ? [[id, entry.constraints] as const] : [],
  )
  const disabled = Object.entries(config.tools).flatMap(([name, { enabled }]) => (enabled ? [] : [name]))
  return { ...config.policy, constraints: Object.fromEntries(constraints), disabled }
}
