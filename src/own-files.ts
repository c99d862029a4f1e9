import { existsSync, statSync } from 'node:fs'
import { basename, delimiter, dirname, extname, isAbsolute, join, parse, resolve, sep } from 'node:path'
import type { Config } from './config/load.ts'
import type { OwnFiles } from './policy/own-files.ts'
import { lockFile } from './trust/lock.ts'
import type { StdioTarget } from './upstream/settings.ts'

type Environment = Readonly<Record<string, string | undefined>>

/** What Pegboard keeps in its state folder for itself; modules may be given folders beside it. */
const STATE =
  'token tokens auth confirmed-configs.json audit audit.key state.key state.db state.db-wal state.db-shm alone.db trust lock manifests openapi search unfinished'.split(
    ' ',
  )
/** What package managers and interpreters read in the folder they are started in. */
const MANIFESTS =
  'node_modules package.json package-lock.json npm-shrinkwrap.json pnpm-lock.yaml pnpm-workspace.yaml yarn.lock .yarnrc .yarnrc.yml .yarn .pnp.cjs .pnp.loader.mjs bunfig.toml bun.lock bun.lockb deno.json deno.jsonc pyproject.toml setup.py setup.cfg uv.toml uv.lock .python-version .venv venv .tool-versions mise.toml .mise.toml'.split(
    ' ',
  )
/** Programs that run what they find in the folder they are started in, unless they are given a script. */
const LOADS_FOLDER =
  /^(?:python[\d.]*|pypy\d*|py|uv|poetry|pdm|hatch|pipenv|deno|bun|tsx|ts-node|npm|pnpm|yarn|ruby|bundle|rake|perl|php|java|gradle|mvn|go|cargo|dotnet|make|just|task|sh|bash|dash|zsh|fish|pwsh|powershell|cmd|env|docker-compose|mise|nix|nix-shell|nodemon)$/
/** Programs whose plain arguments are data, but for the package they run. */
const RUNS_PACKAGE = /^(?:npx|pnpx|bunx|uvx|pipx|docker|podman)$/
const SCRIPT = new Set(
  '.js .mjs .cjs .ts .mts .cts .jsx .tsx .py .pyz .pyc .rb .pl .php .jar .sh .bash .ps1 .bat .cmd .exe .wasm .lua .go'.split(
    ' ',
  ),
)
const PACKAGE_FILES =
  'package.json pyproject.toml setup.py __main__.py __init__.py index.js go.mod Cargo.toml deno.json Makefile'.split(
    ' ',
  )
/** Variables that name what interpreters load. */
const LOADER_VARIABLES =
  /^(?:NODE_OPTIONS|NODE_PATH|NODE_EXTRA_CA_CERTS|PYTHONPATH|PYTHONHOME|PYTHONSTARTUP|PATH|LD_PRELOAD|LD_LIBRARY_PATH|DYLD_\w+|BASH_ENV|ENV|RUBYLIB|RUBYOPT|PERL5LIB|PERL5OPT|CLASSPATH|JAVA_TOOL_OPTIONS|GIT_CONFIG\w*|GIT_SSH\w*|SSL_CERT_\w+|UV_\w+|npm_config_\w+)$/i
const SECRET_VARIABLES = /KEY|TOKEN|SECRET|CREDENTIAL|PASSW|PRIVATE|KUBECONFIG|_AUTH/i
/** Folders of what was built of a package. */
const BUILT = new Set(['dist', 'build', 'out', 'lib', 'bin', 'src', 'Scripts'])

/** What this configuration runs, trusts and keeps secret. @param installed the folder of Pegboard itself */
export function ownFilesOf(config: Config, env: Environment, installed: string): OwnFiles {
  const { file, dirs, modulesDir } = config
  const secret = new Set<string>(STATE.map((name) => join(dirs.state, name)))
  const fixed = new Set<string>()
  const code = new Set<string>([installed])
  for (const name of ['dist', 'src', 'modules', 'models', 'scripts', 'node_modules', 'package.json', 'build.mjs'])
    fixed.add(join(installed, name))
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
  // Whoever adds a program to a folder of PATH shadows one in a later folder.
  for (const folder of (env['PATH'] ?? '').split(delimiter)) if (isAbsolute(folder)) code.add(folder)
  for (const { target, auth } of Object.values(config.servers)) {
    if (auth?.idp?.idTokenFile !== undefined) secret.add(auth.idp.idTokenFile)
    if (target.kind !== 'stdio') continue
    addProgram(target, env, { secret, fixed, code })
    if (target.cwd !== undefined && file !== undefined && target.cwd !== dirname(file)) code.add(target.cwd)
  }
  for (const { config: settings } of Object.values(config.modules))
    for (const path of programsIn(settings, dirs.workspace)) fixed.add(path)
  return { secret: [...secret], kept: [dirs.state, dirs.cache], fixed: [...fixed], code: [...code] }
}

/** Programs that the settings of a module name by their path. */
function* programsIn(value: unknown, workspace: string): Generator<string> {
  if (typeof value === 'string') {
    const path = value.replaceAll('{{workspace}}', workspace)
    if (!isAbsolute(path) || path.includes('\0')) return
    const facts = statSync(path, { throwIfNoEntry: false })
    if (facts?.isFile() && ((facts.mode & 0o111) !== 0 || SCRIPT.has(extname(path)))) yield path
  } else if (typeof value === 'object' && value !== null)
    for (const one of Object.values(value)) yield* programsIn(one, workspace)
}

interface Lists {
  readonly secret: Set<string>
  readonly fixed: Set<string>
  readonly code: Set<string>
}

function addProgram(target: StdioTarget, env: Environment, { secret, fixed, code }: Lists): void {
  const cwd = target.cwd ?? process.cwd()
  const program = programOf(target, cwd, env)
  const name = basename(target.command).replace(/\.(?:exe|cmd|bat)$/i, '')
  if (target.envFile !== undefined) secret.add(target.envFile)
  for (const one of MANIFESTS) fixed.add(join(cwd, one))

  const addCode = (folder: string): void => {
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
    if (SCRIPT.has(extname(path)) || extname(path) === '') addCode(dirname(path))
  }
  if (program !== undefined) {
    fixed.add(program)
    addCode(dirname(program))
  }
  let script = false
  for (const [at, word] of target.args.entries()) {
    const path = pathIn(word, cwd)
    if (path === undefined) continue
    const facts = statSync(path, { throwIfNoEntry: false })
    if (facts?.isDirectory()) {
      const isPackage = PACKAGE_FILES.some((one) => existsSync(join(path, one)))
      const named = /^--?(?:p|package|from|with|directory|project|prefix|C)$/.test(target.args[at - 1] ?? '')
      if (isPackage && (!RUNS_PACKAGE.test(name) || named || isFirst(target.args, at))) addCode(path)
    } else if (facts?.isFile() || SCRIPT.has(extname(path))) {
      if (SCRIPT.has(extname(path))) script = true
      addFile(path)
    }
  }
  // Whatever else is started in a folder of its own was put there with what it needs.
  if ((LOADS_FOLDER.test(name) && !script) || (name === 'node' && !script)) code.add(cwd)
  for (const [variable, value] of Object.entries(target.env)) {
    if (LOADER_VARIABLES.test(variable))
      for (const word of value.split(/[\s=]|:(?!\\)|;/)) {
        const path = word === '' ? undefined : pathIn(word, cwd)
        const facts = path === undefined ? undefined : statSync(path, { throwIfNoEntry: false })
        if (path === undefined || facts === undefined) continue
        if (facts.isDirectory()) code.add(path)
        else addFile(path)
      }
    else if (SECRET_VARIABLES.test(variable)) {
      const path = pathIn(value, cwd)
      if (path !== undefined && statSync(path, { throwIfNoEntry: false })?.isFile()) secret.add(path)
    }
  }
}

/** Where a program is found. */
function programOf({ command, env: own }: StdioTarget, cwd: string, env: Environment): string | undefined {
  if (/[\\/]/.test(command)) return resolve(cwd, command)
  const folders = (own['PATH'] ?? env['PATH'] ?? '').split(delimiter).filter((folder) => isAbsolute(folder))
  return folders.map((folder) => join(folder, command)).find((path) => existsSync(path))
}

/** The path that an argument names, such as `./server.js` or `--config=settings.json`; undefined for other words. */
function pathIn(word: string, cwd: string): string | undefined {
  const value = /^--?[\w-]+=(.+)$/s.exec(word)?.[1] ?? word
  if (value.startsWith('-') || value.length > 4096 || value.includes('\0') || /^\w+:\/\//.test(value)) return undefined
  const path = resolve(cwd, value)
  return SCRIPT.has(extname(value)) || existsSync(path) ? path : undefined
}

const isFirst = (args: readonly string[], at: number): boolean => args.findIndex((one) => !one.startsWith('-')) === at

/** The folder of the whole package where the folder of a script holds what was built of it. */
function packageOf(folder: string): string {
  const parent = dirname(folder)
  if (parent === parse(folder).root || !BUILT.has(basename(folder))) return folder
  return ['package.json', 'pyproject.toml', 'pyvenv.cfg'].some((one) => existsSync(join(parent, one))) ? parent : folder
}
