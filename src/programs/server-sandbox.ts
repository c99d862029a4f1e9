import { existsSync, mkdirSync, readdirSync, readlinkSync, realpathSync, statSync } from 'node:fs'
import path from 'node:path'
import { bubblewrapBase, SYSTEM_FOLDERS } from './bubblewrap.ts'
import type { Environment } from './spawn.ts'

export type SandboxKind = 'none' | 'auto' | 'bubblewrap' | 'docker'

/** What a sandboxed server may touch. All paths are absolute. */
export interface SandboxSettings {
  readonly kind: Exclude<SandboxKind, 'none'>
  readonly network: boolean
  readonly read: readonly string[]
  readonly write: readonly string[]
  /** Files and folders of Pegboard, hidden where `read` or `write` contains them. */
  readonly hidden: readonly string[]
  /** A folder of its own, which is its home folder and keeps downloads. */
  readonly home: string
  /** Image for `docker`. */
  readonly image?: string
}

export interface SandboxedProgram {
  readonly command: string
  readonly args: readonly string[]
  readonly cwd: string | undefined
  /** The complete environment. */
  readonly env: Readonly<Record<string, string>>
  /** Names of the variables that the operator or the server's entry gives. */
  readonly named: readonly string[]
}

type Wrapped = Pick<SandboxedProgram, 'command' | 'args' | 'env'> & {
  /** Where the command that starts the sandbox runs; the program itself runs in its own folder. */
  readonly cwd: string
}

/** The sandbox cannot be used. The program is not started without it. */
export class SandboxError extends Error {}

/**
 * The command line of a program inside its sandbox.
 * @throws SandboxError if there is no such sandbox on this machine
 */
export async function inSandbox(
  settings: SandboxSettings,
  program: SandboxedProgram,
  platform: string,
): Promise<Wrapped> {
  mkdirSync(settings.home, { recursive: true, mode: 0o700 })
  for (const folder of [...settings.read, ...settings.write])
    if (!existsSync(folder)) throw new SandboxError(`${folder} does not exist`)
  return settings.kind === 'docker'
    ? inContainer(settings, program, platform)
    : await inBubblewrap(settings, program, platform)
}

async function inBubblewrap(settings: SandboxSettings, program: SandboxedProgram, platform: string): Promise<Wrapped> {
  const { network, read, write, hidden, home } = settings
  if (platform !== 'linux') throw new SandboxError(`bubblewrap is only for Linux, not for ${platform}`)
  const bwrap = findOnPath('bwrap', program.env)
  if (bwrap === undefined) throw new SandboxError('bubblewrap (bwrap) is not installed')
  const boundsTmp = await tryBubblewrap(bwrap)
  const folder = program.cwd ?? settings.write[0] ?? home
  const shown = [...new Set([...read, ...programFiles(program)])]
  const mounts = mountsOf({ read: shown, write: [...write, home], hidden })
  return {
    command: bwrap,
    args: [
      ...bubblewrapBase(network, boundsTmp),
      ...mounts.flatMap(({ kind, at }) => BUBBLEWRAP[kind](at)),
      ...mounts.flatMap(({ kind, at }) => (kind === 'empty folder' ? ['--remount-ro', at] : [])),
      ...['--remount-ro', '/', '--chdir', isShown(folder, [...shown, ...write, home]) ? folder : home, '--'],
      program.command,
      ...program.args,
    ],
    env: { ...program.env, HOME: home, TMPDIR: '/tmp' },
    cwd: home,
  }
}

interface Mount {
  readonly at: string
  readonly kind: 'read' | 'write' | 'link' | 'empty folder' | 'empty file'
}

/**
 * The outer ones first, because a later mount covers what is below it. A path in both lists can be written. What is
 * hidden is covered where a list would show it.
 */
function mountsOf({ read, write, hidden }: Pick<SandboxSettings, 'read' | 'write' | 'hidden'>): readonly Mount[] {
  const lists = [...new Set([...read, ...write])]
  const places = hidden
    .filter((at) => existsSync(at))
    .flatMap((at) => {
      const kind = statSync(at).isDirectory() ? ('empty folder' as const) : ('empty file' as const)
      return lists.flatMap((path) => placeBelow(at, path)).map((place) => ({ at: place, kind }))
    })
  const covers = places.filter(
    ({ at }) => !places.some((one) => one.kind === 'empty folder' && one.at !== at && isInside(at, one.at)),
  )
  // A cover over a file vanishes when another program replaces the file, so its folder is mounted entry by entry.
  const files = covers.filter(({ at, kind }) => kind === 'empty file' && !lists.includes(at))
  const parted = new Set(files.map(({ at }) => path.dirname(at)))
  const shown = [...[...parted].flatMap(entriesOf), ...read.map((at) => ({ at, kind: 'read' as const }))]
  const taken = new Set([...covers.map(({ at }) => at), ...parted, ...write])
  const mounts: readonly Mount[] = [
    ...[...parted].map((at) => ({ at, kind: 'empty folder' as const })),
    ...shown.filter(({ at }) => !taken.has(at)),
    ...write.map((at) => ({ at, kind: 'write' as const })),
    ...covers,
  ]
  return mounts.toSorted((one, other) => one.at.length - other.at.length)
}

/** Each entry is a mount. */
const MAX_ENTRIES = 2_000

/** @throws SandboxError for a folder with too many entries */
function entriesOf(folder: string): readonly Mount[] {
  const entries = readdirSync(folder, { withFileTypes: true })
  if (entries.length > MAX_ENTRIES)
    throw new SandboxError(`${folder}, which holds files of Pegboard, has more than ${MAX_ENTRIES} entries`)
  return entries.flatMap((entry): readonly Mount[] => {
    const at = path.join(folder, entry.name)
    if (entry.isSymbolicLink()) return [{ at, kind: 'link' }]
    return entry.isDirectory() || entry.isFile() ? [{ at, kind: 'read' }] : []
  })
}

/** Where a mount of the folder would show the file or folder, which a link may name differently. */
function placeBelow(hidden: string, folder: string): readonly string[] {
  const [real, root] = [realpathSync(hidden), realpathSync(folder)]
  return isInside(real, root) ? [path.join(folder, path.relative(root, real))] : []
}

const BUBBLEWRAP: Readonly<Record<Mount['kind'], (at: string) => readonly string[]>> = {
  // An entry may be gone since it was listed.
  read: (at) => ['--ro-bind-try', at, at],
  write: (at) => ['--bind', at, at],
  link: (at) => ['--symlink', readlinkSync(at), at],
  'empty folder': (at) => ['--tmpfs', at],
  'empty file': (at) => ['--ro-bind', '/dev/null', at],
}

const DOCKER: Readonly<Record<Exclude<Mount['kind'], 'link'>, (at: string) => string>> = {
  read: (at) => `type=bind,source=${at},target=${at},readonly`,
  write: (at) => `type=bind,source=${at},target=${at}`,
  'empty folder': (at) => `type=tmpfs,target=${at}`,
  'empty file': (at) => `type=bind,source=/dev/null,target=${at},readonly`,
}

const isInside = (file: string, folder: string): boolean =>
  file === folder || file.startsWith(folder.endsWith('/') ? folder : `${folder}/`)
const isShown = (file: string, folders: readonly string[]): boolean =>
  [...SYSTEM_FOLDERS, ...folders].some((folder) => isInside(file, folder))

/**
 * What a program and its script need to start, as far as it is not in a system folder. Never more than that: the folder
 * above a program may be the home folder, or ~/.local with keys and the state of Pegboard.
 */
function programFiles({ command, args, env }: SandboxedProgram): readonly string[] {
  const found = command.includes('/') ? command : findOnPath(command, env)
  const real = found === undefined || !existsSync(found) ? undefined : realpathSync(found)
  const runtime = [found, real].flatMap((file) =>
    file === undefined || isShown(file, []) ? [] : [file, ...besideProgram(path.dirname(file))],
  )
  const scripts = args.flatMap((word) => {
    if (!path.isAbsolute(word) || !SCRIPT.test(word) || !statSync(word, { throwIfNoEntry: false })?.isFile()) return []
    return [word, realpathSync(word)].map((script) => packageFolder(script, env['HOME']) ?? script)
  })
  const certificates = ['NODE_EXTRA_CA_CERTS', 'SSL_CERT_FILE'].flatMap((name) => {
    const file = env[name]
    return file !== undefined && path.isAbsolute(file) && existsSync(file) ? [file] : []
  })
  return [...runtime, ...scripts, ...certificates]
}

const SCRIPT = /\.(?:[cm]?[jt]s|py|rb|sh|pl|php|jar)$/i

/** `bin/node` needs `bin/npx` and `lib/node_modules`; `bin/python` of a virtual environment needs `pyvenv.cfg`. */
const besideProgram = (folder: string): readonly string[] =>
  path.basename(folder) === 'bin'
    ? [folder, ...['lib', 'lib64', 'pyvenv.cfg'].map((name) => path.join(path.dirname(folder), name))].filter(
        existsSync,
      )
    : []

/** The package of a script with all packages beside it; undefined for a script that belongs to none. */
function packageFolder(script: string, home: string | undefined): string | undefined {
  const at = script.indexOf('/node_modules/')
  if (at !== -1) return script.slice(0, at + '/node_modules'.length)
  for (
    let folder = path.dirname(script);
    folder !== path.dirname(folder) && folder !== home;
    folder = path.dirname(folder)
  )
    if (['package.json', 'pyproject.toml'].some((name) => existsSync(path.join(folder, name)))) return folder
  return undefined
}

const tried = new Map<string, Promise<boolean>>()
const TRIAL_MS = 5_000

/** @returns whether /tmp can be limited @throws SandboxError if nothing can run */
function tryBubblewrap(bwrap: string): Promise<boolean> {
  const cached = tried.get(bwrap)
  if (cached) return cached
  const attempt = (boundsTmp: boolean): Promise<string | undefined> =>
    new Promise((resolve) => {
      const args = [...bubblewrapBase(false, boundsTmp), '--', '/bin/sh', '-c', 'exit 42']
      const { execFile } = process.getBuiltinModule('node:child_process')
      execFile(bwrap, args, { timeout: TRIAL_MS, env: {} }, (error, _out, words) => {
        const { code } = (error ?? {}) as { code?: unknown }
        resolve(code === 42 ? undefined : words.trim().slice(0, 200) || `it exited with ${String(code)}`)
      })
    })
  const result = (async () => {
    if ((await attempt(true)) === undefined) return true
    const why = await attempt(false)
    if (why === undefined) return false
    tried.delete(bwrap)
    throw new SandboxError(`bubblewrap does not work on this machine: ${why}`)
  })()
  tried.set(bwrap, result)
  return result
}

/** Images in which npx and uvx are. */
const IMAGES: Readonly<Record<string, string>> = {
  npx: 'node:22-slim',
  uvx: 'ghcr.io/astral-sh/uv:python3.12-bookworm-slim',
}

function inContainer(settings: SandboxSettings, program: SandboxedProgram, platform: string): Wrapped {
  const { network, read, write, hidden, home } = settings
  const runner = path.basename(program.command).replace(/\.(?:cmd|exe)$/i, '')
  const image = settings.image ?? IMAGES[runner]
  if (image === undefined)
    throw new SandboxError(`docker runs npx and uvx; for ${runner}, "image" must name an image that has it`)
  const engine = findOnPath('docker', program.env, platform) ?? findOnPath('podman', program.env, platform)
  if (engine === undefined) throw new SandboxError('neither docker nor podman is on PATH')
  const uid = process.getuid?.()
  const mounts = mountsOf({ read, write: [...write, home], hidden })
  for (const { at } of mounts)
    if (/[,"\n]/.test(at)) throw new SandboxError(`docker cannot mount ${JSON.stringify(at)}`)
  return {
    command: engine,
    args: [
      ...['run', '-i', '--rm', '--init', '--read-only', '--tmpfs', '/tmp:rw,exec,size=256m'],
      ...['--cap-drop', 'ALL', '--security-opt', 'no-new-privileges', '--pids-limit', '512'],
      ...(network ? [] : ['--network', 'none']),
      // Files that it writes belong to the same user.
      ...(uid === undefined ? [] : ['--user', `${uid}:${process.getgid?.() ?? uid}`]),
      ...mounts.flatMap(({ kind, at }) => (kind === 'link' ? [] : ['--mount', DOCKER[kind](at)])),
      ...['--workdir', program.cwd !== undefined && isShown(program.cwd, [...read, ...write]) ? program.cwd : home],
      ...['--env', `HOME=${home}`],
      // By name, so that no value is on the command line.
      ...program.named.filter((name) => name !== 'HOME' && name !== 'PATH').flatMap((name) => ['--env', name]),
      image,
      runner,
      ...program.args,
    ],
    env: program.env,
    cwd: home,
  }
}

function findOnPath(name: string, env: Environment, platform = 'linux'): string | undefined {
  const windows = platform === 'win32'
  const { delimiter, join } = windows ? path.win32 : path.posix
  for (const folder of (env['PATH'] ?? env['Path'] ?? '').split(delimiter).filter(Boolean))
    for (const ending of windows ? ['.exe', '.cmd'] : ['']) {
      const file = join(folder, `${name}${ending}`)
      // A folder that this user may not enter makes statSync throw.
      if (existsSync(file) && statSync(file).isFile()) return file
    }
  return undefined
}
