import { delimiter, dirname, isAbsolute, join, resolve } from 'node:path'
import type { Config } from '../config/load-config.ts'
import { defaultDirs, type Environment } from '../config/machine.ts'
import type { OwnFiles } from '../policy/own-files.ts'
import { isInside, statOrNone } from '../policy/real-path.ts'
import { lockFile } from '../trust/lock-file.ts'
import { bothForms, filesOfProgram, isScript, MANIFESTS } from './program-files.ts'

/** Files of Pegboard in its state folder. Modules may have folders next to them. */
const STATE =
  'token tokens auth confirmed-configs.json audit audit.key state.key state.db state.db-wal state.db-shm alone.db trust lock manifests openapi resources results search unfinished names page.json secrets.json undo'.split(
    ' ',
  )
/** Files that interpreters and package managers also look for in each folder above their own. */
const PARENT_FOLDER_FILES =
  'node_modules package.json tsconfig.json pnpm-workspace.yaml .pnpmfile.cjs .yarnrc .yarnrc.yml .pnp.cjs .pnp.loader.mjs deno.json deno.jsonc pyproject.toml uv.toml .python-version .venv .tool-versions mise.toml .mise.toml .cargo rust-toolchain rust-toolchain.toml go.mod go.work Gemfile .bundle global.json NuGet.Config Directory.Build.props Directory.Build.targets'.split(
    ' ',
  )
const COMPOSE = ['compose', 'docker-compose'].flatMap((name) =>
  ['yaml', 'yml', 'override.yaml', 'override.yml'].map((ending) => `${name}.${ending}`),
)
/** Code of Pegboard, in its folder. */
const INSTALLED = ['dist', 'src', 'modules', 'models', 'scripts', 'node_modules', 'package.json', 'build.mjs']
/** In the home folder: packages and caches that programs load, and settings of package managers. */
const HOME =
  '.node_modules .node_libraries .npm .yarn .yarnrc .yarnrc.yml .bunfig.toml .bun .deno .cargo .rustup .nvm .volta .pyenv .pip .cache/uv .cache/deno .cache/pypoetry .cache/pnpm .local/bin .local/lib .local/pipx .local/share/uv .local/share/pnpm .local/share/pipx .local/share/mise .config/pip .config/uv .config/mise .config/pnpm'.split(
    ' ',
  )
const CERTIFICATE_VARIABLES = ['NODE_EXTRA_CA_CERTS', 'SSL_CERT_FILE', 'SSL_CERT_DIR']

/** The own files of the configuration in force, computed once for each. */
export function createOwnFiles(
  config: () => Config,
  env: Environment,
  installed: string,
): (except?: string) => OwnFiles {
  let cached: { readonly config: Config; readonly files: OwnFiles } | undefined
  return (except) => {
    const current = config()
    if (except !== undefined) {
      const others = Object.entries(current.servers).filter(([, { where }]) => where !== except)
      return ownFilesOf({ ...current, servers: Object.fromEntries(others) }, env, installed)
    }
    if (cached?.config !== current) cached = { config: current, files: ownFilesOf(current, env, installed) }
    return cached.files
  }
}

/** What this configuration runs, trusts and keeps secret. @param installed folder of Pegboard */
function ownFilesOf(config: Config, env: Environment, installed: string): OwnFiles {
  const { file, dirs, modulesDir, search, servers, openapi } = config
  const folder = file && dirname(file)
  // Pegboard keeps secrets, data of `undo` and compiled code there, even if the configuration names other folders.
  const fallback = defaultDirs({ env, cwd: process.cwd() }, process.cwd())
  const homes = [env['HOME'], env['USERPROFILE']]
  const targets = Object.values(servers).flatMap(({ target }) => (target.kind === 'stdio' ? [target] : []))
  const programs = targets.map((target) => filesOfProgram(target, env, [dirs.workspace, ...homes]))
  const codeFolders = [installed, modulesDir, folder, ...programs.flatMap(({ bases }) => [...bases])]
  return {
    secret: definedOnly([
      ...[dirs.state, fallback.state].flatMap((state) => STATE.map((name) => join(state, name))),
      file,
      ...auditLogs(config),
      ...Object.values(servers).map(({ auth }) => auth?.idp?.idTokenFile),
      ...programs.flatMap(({ secret }) => [...secret]),
    ]),
    kept: definedOnly([dirs.state, dirs.cache, fallback.state, fallback.cache]),
    fixed: definedOnly([
      ...INSTALLED.map((name) => join(installed, name)),
      ...(folder === undefined ? [] : [lockFile(file), ...MANIFESTS.map((name) => join(folder, name))]),
      modulesDir,
      search.embedderOptions.cacheDir,
      ...Object.values(openapi).flatMap(({ document }) => (isAbsolute(document) ? [document] : [])),
      ...CERTIFICATE_VARIABLES.map((name) => (env[name] ? resolve(env[name]) : undefined)),
      ...programs.flatMap(({ fixed }) => [...fixed]),
      ...programsInSettings(config),
      ...filesAboveCode(codeFolders, config),
      ...homes.flatMap((home) => (home && isAbsolute(home) ? HOME.map((name) => join(home, name)) : [])),
    ]),
    code: definedOnly([
      installed,
      // A program added to a folder of PATH hides programs in later folders.
      ...(env['PATH'] ?? '').split(delimiter).filter((path) => isAbsolute(path)),
      ...programs.flatMap(({ code }) => [...code]),
      ...(folder === undefined ? [] : targets.map(({ cwd }) => (cwd === folder ? undefined : cwd))),
    ]),
  }
}

const definedOnly = (paths: readonly (string | undefined)[]): readonly string[] => [
  ...new Set(paths.filter((path) => path !== undefined)),
]

function auditLogs({ audit, dirs }: Config): readonly string[] {
  const log = audit.file ?? join(dirs.state, 'audit.jsonl')
  return [log, ...Array.from({ length: audit.keep }, (_, n) => `${log}.${n + 1}`)]
}

/** Programs that the settings of modules name by path. */
function programsInSettings({ dirs, modules, profiles }: Config): readonly string[] {
  return [...textsIn([Object.values(modules).map(({ config }) => config), profiles])]
    .map((text) => text.replaceAll('{{workspace}}', dirs.workspace))
    .filter((path) => {
      if (!isAbsolute(path) || path.includes('\0')) return false
      const facts = statOrNone(path)
      return facts?.isFile() && ((facts.mode & 0o111) !== 0 || isScript(path))
    })
}

/** Files that decide what code loads, in and above its folders, where a module could write them. */
function filesAboveCode(folders: readonly (string | undefined)[], config: Config): readonly string[] {
  const writable = foldersOf(config).flatMap(bothForms)
  const names = Object.values(config.servers).some(usesCompose)
    ? [...PARENT_FOLDER_FILES, ...COMPOSE]
    : PARENT_FOLDER_FILES
  const found: string[] = []
  for (const folder of definedOnly(folders).flatMap(bothForms))
    for (let at = folder; at !== dirname(at) && writable.some((one) => isInside(at, one)); at = dirname(at))
      found.push(...names.map((name) => join(at, name)))
  return found
}

/** Folders in which modules may work, and every other path in their settings: only a module knows which paths are folders. */
export function foldersOf({ dirs, modules, profiles }: Config): readonly string[] {
  const { workspace, state, cache } = dirs
  const paths = [...textsIn([Object.values(modules).map(({ config }) => config), profiles])]
    .map((text) =>
      text.replaceAll('{{workspace}}', workspace).replaceAll('{{state_dir}}', state).replaceAll('{{cache_dir}}', cache),
    )
    .filter((path) => path !== '' && path.length <= MAX_PATH && !/[\0\r\n]|:\/\/|\{\{/.test(path))
  return [...new Set([workspace, state, cache, ...paths.map((path) => resolve(workspace, path))])]
}

const MAX_PATH = 1_024

const usesCompose = ({ target }: Config['servers'][string]): boolean =>
  target.kind === 'stdio' && [target.command, ...target.args].some((word) => /(?:^|[\\/-])compose$/.test(word))

/** All strings in a value, not its keys. */
function* textsIn(value: unknown): Generator<string> {
  if (typeof value === 'string') yield value
  else if (typeof value === 'object' && value !== null) for (const one of Object.values(value)) yield* textsIn(one)
}
