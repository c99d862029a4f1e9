import { existsSync, realpathSync } from 'node:fs'
import { basename, delimiter, dirname, extname, isAbsolute, join, parse, resolve, sep } from 'node:path'
import type { Config } from '../config/load-config.ts'
import { defaultDirs } from '../config/machine.ts'
import type { OwnFiles } from '../policy/own-files.ts'
import { isInside, statOrNone } from '../policy/real-path.ts'
import { lockFile } from '../trust/lock-file.ts'
import type { StdioTarget } from '../upstream/upstream-settings.ts'

type Environment = Readonly<Record<string, string | undefined>>

/** Files of Pegboard in its state folder. Modules may have folders next to them. */
const STATE =
  'token tokens auth confirmed-configs.json audit audit.key state.key state.db state.db-wal state.db-shm alone.db trust lock manifests openapi resources results search unfinished names page.json secrets.json undo'.split(
    ' ',
  )
/** Files that package managers and interpreters read in their working folder. */
const MANIFESTS =
  'node_modules package.json package-lock.json npm-shrinkwrap.json pnpm-lock.yaml pnpm-workspace.yaml yarn.lock .pnpmfile.cjs .yarnrc .yarnrc.yml .yarn .pnp.cjs .pnp.loader.mjs bunfig.toml bun.lock bun.lockb deno.json deno.jsonc pyproject.toml setup.py setup.cfg uv.toml uv.lock .python-version .venv venv .tool-versions mise.toml .mise.toml'.split(
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
/** In the home folder: packages and caches that programs load, and settings of package managers. */
const HOME =
  '.node_modules .node_libraries .npm .yarn .yarnrc .yarnrc.yml .bunfig.toml .bun .deno .cargo .rustup .nvm .volta .pyenv .pip .cache/uv .cache/deno .cache/pypoetry .cache/pnpm .local/bin .local/lib .local/pipx .local/share/uv .local/share/pnpm .local/share/pipx .local/share/mise .config/pip .config/uv .config/mise .config/pnpm'.split(
    ' ',
  )
/** Programs that run what they find in their working folder, unless an argument names a script. */
const LOADS_FOLDER =
  /^(?:python[\d.]*|pypy\d*|py|uv|poetry|pdm|hatch|pipenv|deno|bun|tsx|ts-node|npm|pnpm|yarn|ruby|bundle|rake|perl|php|java|gradle|mvn|go|cargo|dotnet|make|just|task|sh|bash|dash|zsh|fish|pwsh|powershell|cmd|env|docker-compose|mise|nix|nix-shell|nodemon)$/
/** Programs whose plain arguments are data, except for the package that they run. */
const RUNS_PACKAGE = /^(?:npx|pnpx|bunx|uvx|pipx|docker|podman)$/
const SCRIPT_EXTENSIONS = new Set(
  '.js .mjs .cjs .ts .mts .cts .jsx .tsx .py .pyz .pyc .rb .pl .php .jar .sh .bash .ps1 .bat .cmd .exe .wasm .lua .go'.split(
    ' ',
  ),
)
const PACKAGE_FILES =
  'package.json pyproject.toml setup.py __main__.py __init__.py index.js go.mod Cargo.toml deno.json Makefile'.split(
    ' ',
  )
/** Environment variables that name code for interpreters. */
const LOADER_VARIABLES =
  /^(?:NODE_OPTIONS|NODE_PATH|NODE_EXTRA_CA_CERTS|PYTHONPATH|PYTHONHOME|PYTHONSTARTUP|PATH|LD_PRELOAD|LD_LIBRARY_PATH|DYLD_\w+|BASH_ENV|ENV|RUBYLIB|RUBYOPT|PERL5LIB|PERL5OPT|CLASSPATH|JAVA_TOOL_OPTIONS|GIT_CONFIG\w*|GIT_SSH\w*|SSL_CERT_\w+|UV_\w+|npm_config_\w+)$/i
const SECRET_VARIABLES = /KEY|TOKEN|SECRET|CREDENTIAL|PASSW|PRIVATE|KUBECONFIG|_AUTH|ENV_?FILE|DOTENV/i
/** Options whose value is a file with secrets. */
const SECRET_OPTION = /^--?[\w-]*(?:env-?file|key|token|secret|credential|passw|private|kubeconfig)[\w-]*$/i
/** Folders of build output in a package. */
const BUILT = new Set(['dist', 'build', 'out', 'lib', 'bin', 'src', 'Scripts'])

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
  const { file, dirs, modulesDir } = config
  // Secrets, what `undo` needs and compiled code of Pegboard are there, whatever the configuration says.
  const fallback = defaultDirs({ env, cwd: process.cwd() }, process.cwd())
  const stateFolders = new Set([dirs.state, dirs.cache, fallback.state, fallback.cache])
  const secret = new Set<string>([dirs.state, fallback.state].flatMap((at) => STATE.map((name) => join(at, name))))
  const fixed = new Set<string>()
  const code = new Set<string>([installed])
  for (const name of ['dist', 'src', 'modules', 'models', 'scripts', 'node_modules', 'package.json', 'build.mjs'])
    fixed.add(join(installed, name))
  /** Folders of code, in which and above which interpreters look for packages and settings. */
  const bases = new Set([installed, modulesDir, file && dirname(file)])
  if (file !== undefined) {
    secret.add(file)
    const folder = dirname(file)
    for (const name of [lockFile(file) ?? file, ...MANIFESTS.map((one) => join(folder, one))])
      fixed.add(resolve(folder, name))
  }
  if (modulesDir !== undefined) fixed.add(modulesDir)
  const { audit, search, openapi } = config
  const log = audit.file ?? join(dirs.state, 'audit.jsonl')
  for (let n = 0; n <= audit.keep; n++) secret.add(n === 0 ? log : `${log}.${n}`)
  if (search.embedderOptions.cacheDir !== undefined) fixed.add(search.embedderOptions.cacheDir)
  for (const { document } of Object.values(openapi)) if (isAbsolute(document)) fixed.add(document)
  for (const name of ['NODE_EXTRA_CA_CERTS', 'SSL_CERT_FILE', 'SSL_CERT_DIR'])
    if (env[name]) fixed.add(resolve(env[name]))
  // A program added to a folder of PATH hides programs in later folders.
  for (const folder of (env['PATH'] ?? '').split(delimiter)) if (isAbsolute(folder)) code.add(folder)
  for (const { target, auth } of Object.values(config.servers)) {
    if (auth?.idp?.idTokenFile !== undefined) secret.add(auth.idp.idTokenFile)
    if (target.kind !== 'stdio') continue
    addProgram(target, env, { secret, fixed, code, bases }, [dirs.workspace, env['HOME'], env['USERPROFILE']])
    if (target.cwd !== undefined && file !== undefined && target.cwd !== dirname(file)) code.add(target.cwd)
  }
  for (const settings of [...Object.values(config.modules).map((one) => one.config), config.profiles])
    for (const path of programsIn(settings, dirs.workspace)) fixed.add(path)
  const writable = foldersOf(config).flatMap(bothForms)
  const names = Object.values(config.servers).some(usesCompose)
    ? [...PARENT_FOLDER_FILES, ...COMPOSE]
    : PARENT_FOLDER_FILES
  for (const base of bases)
    for (const start of base === undefined ? [] : bothForms(base))
      for (let at = start; at !== dirname(at) && writable.some((one) => isInside(at, one)); at = dirname(at))
        for (const name of names) fixed.add(join(at, name))
  for (const home of new Set([env['HOME'], env['USERPROFILE']]))
    if (home !== undefined && isAbsolute(home)) for (const name of HOME) fixed.add(join(home, name))
  return { secret: [...secret], kept: [...stateFolders], fixed: [...fixed], code: [...code] }
}

/** Folders in which modules may work, and every other path in their settings: only a module knows which paths are folders. */
export function foldersOf({ dirs, modules, profiles }: Config): readonly string[] {
  const { workspace, state, cache } = dirs
  const found = new Set([workspace, state, cache])
  const add = (value: unknown): void => {
    if (typeof value === 'string') {
      const path = value
        .replaceAll('{{workspace}}', workspace)
        .replaceAll('{{state_dir}}', state)
        .replaceAll('{{cache_dir}}', cache)
      if (path !== '' && path.length <= MAX_PATH && !/[\0\r\n]|:\/\/|\{\{/.test(path))
        found.add(resolve(workspace, path))
    } else if (typeof value === 'object' && value !== null) for (const one of Object.values(value)) add(one)
  }
  for (const { config } of Object.values(modules)) add(config)
  add(profiles)
  return [...found]
}

const MAX_PATH = 1_024

/** As written, and where it really is. */
const bothForms = (path: string): readonly string[] =>
  existsSync(path) ? [...new Set([path, realpathSync(path)])] : [path]

const usesCompose = ({ target }: Config['servers'][string]): boolean =>
  target.kind === 'stdio' && [target.command, ...target.args].some((word) => /(?:^|[\\/-])compose$/.test(word))

/** Programs that the settings of a module name by path. */
function* programsIn(value: unknown, workspace: string): Generator<string> {
  if (typeof value === 'string') {
    const path = value.replaceAll('{{workspace}}', workspace)
    if (!isAbsolute(path) || path.includes('\0')) return
    const facts = statOrNone(path)
    if (facts?.isFile() && ((facts.mode & 0o111) !== 0 || SCRIPT_EXTENSIONS.has(extname(path)))) yield path
  } else if (typeof value === 'object' && value !== null)
    for (const one of Object.values(value)) yield* programsIn(one, workspace)
}

interface OwnFileLists {
  readonly secret: Set<string>
  readonly fixed: Set<string>
  readonly code: Set<string>
  readonly bases: Set<string | undefined>
}

/** @param tooLarge folders that are no package, whatever is in them */
function addProgram(
  target: StdioTarget,
  env: Environment,
  { secret, fixed, code, bases }: OwnFileLists,
  tooLarge: readonly (string | undefined)[],
): void {
  const cwd = target.cwd ?? target.sandbox?.home ?? process.cwd()
  const program = programOf(target, cwd, env)
  const name = basename(target.command).replace(/\.(?:exe|cmd|bat)$/i, '')
  if (target.envFile !== undefined) secret.add(target.envFile)
  for (const one of MANIFESTS) fixed.add(join(cwd, one))
  bases.add(cwd)

  const addCode = (folder: string): void => {
    bases.add(folder)
    const modules = folder.split(sep).indexOf('node_modules')
    if (modules > 0)
      fixed.add(
        folder
          .split(sep)
          .slice(0, modules + 1)
          .join(sep),
      )
    else code.add(packageOf(folder))
  }
  const addFile = (path: string): void => {
    fixed.add(path)
    if (SCRIPT_EXTENSIONS.has(extname(path)) || extname(path) === '') addCode(dirname(path))
    if (!SCRIPT_EXTENSIONS.has(extname(path))) return
    // A link may lead to a script of another package.
    for (const one of new Set([path, existsSync(path) ? realpathSync(path) : path])) {
      bases.add(dirname(one))
      const root = packageRootOf(dirname(one))
      if (root !== undefined && !tooLarge.includes(root)) code.add(root)
    }
  }
  if (program !== undefined) {
    fixed.add(program)
    addCode(dirname(program))
  }
  let hasScript = false
  for (const [at, word] of target.args.entries()) {
    const path = pathIn(word, cwd)
    if (path === undefined) continue
    const facts = statOrNone(path)
    if (
      facts?.isFile() &&
      SECRET_OPTION.test(word.startsWith('-') ? word.replace(/=.*/s, '') : (target.args[at - 1] ?? ''))
    )
      secret.add(path)
    if (facts?.isDirectory()) {
      const isPackage = PACKAGE_FILES.some((one) => existsSync(join(path, one)))
      const named = /^--?(?:p|package|from|with|directory|project|prefix|C)$/.test(target.args[at - 1] ?? '')
      if (isPackage && (!RUNS_PACKAGE.test(name) || named || isFirst(target.args, at))) addCode(path)
    } else if (facts?.isFile() || SCRIPT_EXTENSIONS.has(extname(path))) {
      if (SCRIPT_EXTENSIONS.has(extname(path))) hasScript = true
      addFile(path)
    }
  }
  // Any other program in a folder of its own was installed there together with what it needs.
  if ((LOADS_FOLDER.test(name) && !hasScript) || (name === 'node' && !hasScript)) code.add(cwd)
  for (const [variable, value] of Object.entries(target.env)) {
    if (LOADER_VARIABLES.test(variable))
      for (const word of value.split(/[\s=]|:(?!\\)|;/)) {
        const path = word === '' ? undefined : pathIn(word, cwd)
        const facts = path === undefined ? undefined : statOrNone(path)
        if (path === undefined || facts === undefined) continue
        if (facts.isDirectory()) code.add(path)
        else addFile(path)
      }
    else if (SECRET_VARIABLES.test(variable)) {
      const path = pathIn(value, cwd)
      if (path !== undefined && statOrNone(path)?.isFile()) secret.add(path)
    }
  }
}

/** Where a program is found. */
function programOf({ command, env: serverEnv }: StdioTarget, cwd: string, env: Environment): string | undefined {
  if (/[\\/]/.test(command)) return resolve(cwd, command)
  const folders = (serverEnv['PATH'] ?? env['PATH'] ?? '').split(delimiter).filter((folder) => isAbsolute(folder))
  return folders.map((folder) => join(folder, command)).find((path) => existsSync(path))
}

/** The path that an argument names, such as `./server.js` or `--config=settings.json`; undefined for other words. */
function pathIn(word: string, cwd: string): string | undefined {
  const value = /^--?[\w-]+=(.+)$/s.exec(word)?.[1] ?? word
  if (value.startsWith('-') || value.length > 4096 || value.includes('\0') || /^\w+:\/\//.test(value)) return undefined
  const path = resolve(cwd, value)
  return SCRIPT_EXTENSIONS.has(extname(value)) || existsSync(path) ? path : undefined
}

const isFirst = (args: readonly string[], at: number): boolean => args.findIndex((one) => !one.startsWith('-')) === at

const PACKAGE_ROOT = ['package.json', 'pyproject.toml', '.git']

/** The nearest folder above a script that is a package or a repository. A script may load code from all of it. */
function packageRootOf(folder: string): string | undefined {
  for (let at = folder; at !== dirname(at); at = dirname(at))
    if (PACKAGE_ROOT.some((one) => existsSync(join(at, one)))) return at
  return undefined
}

/** The folder of the package, if the script is in a folder of build output. */
function packageOf(folder: string): string {
  const parent = dirname(folder)
  if (parent === parse(folder).root || !BUILT.has(basename(folder))) return folder
  return ['package.json', 'pyproject.toml', 'pyvenv.cfg'].some((one) => existsSync(join(parent, one))) ? parent : folder
}
