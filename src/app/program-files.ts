import { existsSync, realpathSync, type Stats } from 'node:fs'
import { basename, delimiter, dirname, extname, isAbsolute, join, parse, resolve, sep } from 'node:path'
import type { Environment } from '../config/machine.ts'
import { statOrNone } from '../policy/real-path.ts'
import type { StdioTarget } from '../upstream/upstream-settings.ts'

/** Files that package managers and interpreters read in their working folder. */
export const MANIFESTS =
  'node_modules package.json package-lock.json npm-shrinkwrap.json pnpm-lock.yaml pnpm-workspace.yaml yarn.lock .pnpmfile.cjs .yarnrc .yarnrc.yml .yarn .pnp.cjs .pnp.loader.mjs bunfig.toml bun.lock bun.lockb deno.json deno.jsonc pyproject.toml setup.py setup.cfg uv.toml uv.lock .python-version .venv venv .tool-versions mise.toml .mise.toml'.split(
    ' ',
  )
/** Programs that run what they find in their working folder, unless an argument names a script. */
const LOADS_FOLDER =
  /^(?:python[\d.]*|pypy\d*|py|uv|poetry|pdm|hatch|pipenv|deno|bun|tsx|ts-node|npm|pnpm|yarn|ruby|bundle|rake|perl|php|java|gradle|mvn|go|cargo|dotnet|make|just|task|sh|bash|dash|zsh|fish|pwsh|powershell|cmd|env|docker-compose|mise|nix|nix-shell|node|nodemon)$/
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
/** Options whose value is the package that a program runs. */
const PACKAGE_OPTION = /^--?(?:p|package|from|with|directory|project|prefix|C)$/
/** Folders of build output in a package. */
const BUILT = new Set(['dist', 'build', 'out', 'lib', 'bin', 'src', 'Scripts'])

/** Own files of one program; `OwnFiles` describes the first three. */
export interface ProgramFiles {
  readonly secret: ReadonlySet<string>
  readonly fixed: ReadonlySet<string>
  readonly code: ReadonlySet<string>
  /** Folders in which and above which the program looks for packages and settings. */
  readonly bases: ReadonlySet<string>
}

/**
 * The files that a server's program runs, loads and reads secrets from, as far as its command, arguments and
 * environment show.
 * @param tooLarge folders that never count as one package, such as the home folder
 */
export function filesOfProgram(
  target: StdioTarget,
  env: Environment,
  tooLarge: readonly (string | undefined)[],
): ProgramFiles {
  const cwd = target.cwd ?? target.sandbox?.home ?? process.cwd()
  const name = basename(target.command).replace(/\.(?:exe|cmd|bat)$/i, '')
  const { files, addCode, addFile } = createCollector(cwd, tooLarge)

  const program = programOf(target, cwd, env)
  if (program !== undefined) {
    files.fixed.add(program)
    addCode(dirname(program))
  }
  const args = pathArguments(target.args, cwd)
  for (const argument of args) {
    if (isSecretFile(argument)) files.secret.add(argument.path)
    if (!argument.facts?.isDirectory()) addFile(argument.path)
    else if (isPackageArgument(argument, name)) addCode(argument.path)
  }
  const hasScript = args.some(({ path, facts }) => isScript(path) && !facts?.isDirectory())
  if (LOADS_FOLDER.test(name) && !hasScript) files.code.add(cwd)

  for (const { path, facts } of loadedPaths(target.env, cwd)) {
    if (facts.isDirectory()) files.code.add(path)
    else addFile(path)
  }
  for (const path of secretFiles(target.env, cwd)) files.secret.add(path)
  if (target.envFile !== undefined) files.secret.add(target.envFile)
  return files
}

function createCollector(cwd: string, tooLarge: readonly (string | undefined)[]) {
  const files = {
    secret: new Set<string>(),
    fixed: new Set(MANIFESTS.map((one) => join(cwd, one))),
    code: new Set<string>(),
    bases: new Set([cwd]),
  }
  /** Adds the package that a folder belongs to. */
  const addCode = (folder: string): void => {
    files.bases.add(folder)
    const steps = folder.split(sep)
    const modules = steps.indexOf('node_modules')
    if (modules > 0) files.fixed.add(steps.slice(0, modules + 1).join(sep))
    else files.code.add(packageOf(folder))
  }
  /** Adds a file and, if it is a program, the code that it may load. */
  const addFile = (path: string): void => {
    files.fixed.add(path)
    if (isScript(path) || extname(path) === '') addCode(dirname(path))
    if (!isScript(path)) return
    // A link may lead to a script of another package.
    for (const folder of bothForms(path).map((form) => dirname(form))) {
      files.bases.add(folder)
      const root = packageRootOf(folder)
      if (root !== undefined && !tooLarge.includes(root)) files.code.add(root)
    }
  }
  return { files, addCode, addFile }
}

interface PathArgument {
  readonly word: string
  /** The argument before it, which may be an option. */
  readonly before: string
  /** True if only options come before it. */
  readonly isFirst: boolean
  readonly path: string
  /** Undefined if nothing exists at the path. */
  readonly facts: Stats | undefined
}

function pathArguments(args: readonly string[], cwd: string): readonly PathArgument[] {
  const first = args.findIndex((word) => !word.startsWith('-'))
  return args.flatMap((word, at) => {
    const path = pathIn(word, cwd)
    if (path === undefined) return []
    const facts = statOrNone(path)
    // Devices and sockets are not code.
    if (!facts?.isFile() && !facts?.isDirectory() && !isScript(path)) return []
    return [{ word, before: args[at - 1] ?? '', isFirst: at === first, path, facts }]
  })
}

export const isScript = (path: string): boolean => SCRIPT_EXTENSIONS.has(extname(path))

/** The option whose value the argument may be: `--key` for `--key=FILE`, and for `FILE` after `--key`. */
const optionOf = ({ word, before }: PathArgument): string => (word.startsWith('-') ? word.replace(/=.*/s, '') : before)

/** True for a file that is the value of an option such as `--key`. */
const isSecretFile = (argument: PathArgument): boolean =>
  argument.facts?.isFile() === true && SECRET_OPTION.test(optionOf(argument))

/** True if a program loads the package in a folder that it has as an argument. */
function isPackageArgument(argument: PathArgument, program: string): boolean {
  const { path, isFirst } = argument
  if (!PACKAGE_FILES.some((one) => existsSync(join(path, one)))) return false
  return !RUNS_PACKAGE.test(program) || isFirst || PACKAGE_OPTION.test(optionOf(argument))
}

interface ExistingPath {
  readonly path: string
  readonly facts: Stats
}

/** The words that name existing files and folders. */
function existingPaths(words: readonly string[], cwd: string): readonly ExistingPath[] {
  return words.flatMap((word) => {
    const path = word === '' ? undefined : pathIn(word, cwd)
    const facts = path === undefined ? undefined : statOrNone(path)
    return path === undefined || facts === undefined ? [] : [{ path, facts }]
  })
}

/** Files and folders in variables such as `NODE_OPTIONS` and `PATH`. */
const loadedPaths = (env: StdioTarget['env'], cwd: string): readonly ExistingPath[] =>
  Object.entries(env).flatMap(([name, value]) =>
    LOADER_VARIABLES.test(name) ? existingPaths(value.split(/[\s=]|:(?!\\)|;/), cwd) : [],
  )

/** Files in variables such as `TOKEN_FILE`. */
function secretFiles(env: StdioTarget['env'], cwd: string): readonly string[] {
  const isSecret = (name: string): boolean => SECRET_VARIABLES.test(name) && !LOADER_VARIABLES.test(name)
  const values = Object.entries(env).flatMap(([name, value]) => (isSecret(name) ? [value] : []))
  return existingPaths(values, cwd).flatMap(({ path, facts }) => (facts.isFile() ? [path] : []))
}

/** A path as written, and where it really is. */
export const bothForms = (path: string): readonly string[] =>
  existsSync(path) ? [...new Set([path, realpathSync(path)])] : [path]

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
  return isScript(value) || existsSync(path) ? path : undefined
}

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
