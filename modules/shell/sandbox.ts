import { existsSync, lstatSync, readdirSync, readlinkSync, statSync } from 'node:fs'
import { realpath } from 'node:fs/promises'
import { dirname, isAbsolute, join, resolve, sep } from 'node:path'
import { bubblewrapBase, ownFilesBelow, type Processes, ToolError } from 'pegboard'
import { rootsOf, type Settings } from './config.ts'
import { findProgram } from './find-program.ts'

export interface Sandbox {
  readonly kind: 'bubblewrap' | 'seatbelt'
  readonly file: string
  /** Older releases of bubblewrap cannot limit the size of /tmp. */
  readonly limitsTmp: boolean
}

/** What is visible and writable in a sandbox; absolute real paths. */
export interface SandboxPaths {
  readonly writable: readonly string[]
  readonly readable: readonly string[]
  /** Inside writable folders: exist but are empty. */
  readonly hiddenFolders: readonly string[]
  readonly hiddenFiles: readonly string[]
  /** Inside writable folders: read-only. */
  readonly fixed: readonly string[]
  /** The same for paths that do not exist: macOS prevents their creation; bubblewrap would have to create them. */
  readonly absent?: readonly string[]
  /**
   * Folders inside writable ones in which no entry can be created, removed or renamed; existing files can be written.
   */
  readonly closed?: readonly string[]
  /** Writable although they are inside hidden folders. */
  readonly writableInHidden?: readonly string[]
}

/** At the top of a workspace: keys, tokens, and files that decide what other programs run. */
const HIDDEN_NAMES = /^(?:\.env(?:\..*)?|\.ssh|\.gnupg|\.aws|\.kube|\.netrc|\.npmrc|\.pypirc|\.git-credentials)$/i
const EXAMPLE_NAMES = /^\.env\.(?:example|sample|template)$/i
const READ_ONLY_NAMES = [
  // Not only its hooks and settings: a nested repository in its index, or the file commondir, brings settings of its own.
  '.git',
  '.gitconfig',
  '.mcp.json',
  '.vscode',
  '.cursor',
  '.claude',
  '.codex',
  '.gemini',
  '.bashrc',
  '.bash_profile',
  '.profile',
  '.zshrc',
  '.zshenv',
  '.zprofile',
  '.envrc',
]

/** @param writableFolders additional writable folders */
export async function sandboxPaths(settings: Settings, writableFolders: readonly string[] = []): Promise<SandboxPaths> {
  const writable = await realPaths(rootsOf(settings))
  const isInside = (path: string): boolean => writable.some((root) => path.startsWith(root + sep))
  const requestedFolders = await realPaths(writableFolders)
  const hiddenEntries = [...new Set([...writable, ...requestedFolders.filter(isFolder)])].flatMap((root) =>
    readdirSync(root, { withFileTypes: true })
      .filter((entry) => !entry.isSymbolicLink() && HIDDEN_NAMES.test(entry.name) && !EXAMPLE_NAMES.test(entry.name))
      .map((entry) => ({ path: join(root, entry.name), folder: entry.isDirectory() })),
  )
  const base = settings.workspace
  const denied = settings.denied_paths.flatMap((path) =>
    isAbsolute(path) ? [path] : [resolve(base, path), ...writable.map((root) => resolve(root, path))],
  )
  const ownFiles = await ownFilesBelow(writable)
  const deniedPaths = (
    await realPaths([settings.state_dir, settings.config_file, ...denied, ...ownFiles.secret])
  ).filter(isInside)
  const hidden = [...hiddenEntries, ...deniedPaths.map((path) => ({ path, folder: isFolder(path) }))]
  const fixedPaths = writable.flatMap((root) => READ_ONLY_NAMES.map((name) => join(root, name)))
  const fixed = await realPaths([settings.modules_dir, ...fixedPaths, ...ownFiles.fixed])
  const missing = [...fixedPaths, ...ownFiles.fixed, ...ownFiles.secret].filter((path) => !pathExists(path))
  return {
    writable,
    readable: await realPaths(settings.readable),
    hiddenFolders: [...new Set(hidden.filter(({ folder }) => folder).map(({ path }) => path))],
    hiddenFiles: [...new Set(hidden.filter(({ folder }) => !folder).map(({ path }) => path))],
    fixed: fixed.filter((path) => isInside(path) || ownFiles.fixed.includes(path)),
    ...(missing.length > 0 ? { absent: missing } : {}),
    ...(ownFiles.closed.length > 0 ? { closed: ownFiles.closed } : {}),
    ...(writableFolders.length > 0 ? { writableInHidden: requestedFolders } : {}),
  }
}

const isFolder = (path: string): boolean => existsSync(path) && statSync(path).isDirectory()

/** A broken link exists too. */
function pathExists(path: string): boolean {
  try {
    lstatSync(path)
    return true
  } catch {
    return false
  }
}

/** Files created since then that other programs obey. In a closed folder someone else created them. */
export const listCreated = ({ absent = [], closed = [] }: SandboxPaths): readonly string[] =>
  absent.filter((path) => pathExists(path) && !closed.includes(dirname(path)))

/** Hidden paths in the given folders. */
const hidePathsIn = (folders: readonly string[] = [], hidden: readonly string[]): readonly string[] =>
  hidden.filter((path) => folders.some((folder) => path.startsWith(folder + sep)))

/** Real paths of those that exist. */
async function realPaths(paths: readonly string[]): Promise<string[]> {
  const existing = paths.filter((path) => isAbsolute(path) && existsSync(path))
  return [...new Set(await Promise.all(existing.map((path) => realpath(path))))]
}

/** Folders on the way to protected paths: renaming one would make room for a replacement. */
function listParents({ writable, fixed, hiddenFolders, hiddenFiles, closed = [] }: SandboxPaths): string[] {
  const parents = new Set<string>(closed)
  for (const path of [...fixed, ...hiddenFolders, ...hiddenFiles, ...closed])
    for (let folder = dirname(path); writable.some((root) => folder.startsWith(root + sep)); folder = dirname(folder))
      parents.add(folder)
  return [...parents].toSorted((a, b) => a.length - b.length)
}

/** A closed folder with more entries cannot be used, because each entry is a mount. */
const MAX_ENTRIES = 2_000

/**
 * A closed folder becomes an empty read-only folder in which each entry is mounted. Masks on entries then stay in
 * place even if the real files are replaced.
 * @throws ToolError for a folder with too many entries
 */
function closedArgs(folder: string, { fixed, hiddenFolders, hiddenFiles }: SandboxPaths): string[] {
  const closedPaths = new Set([...fixed, ...hiddenFolders, ...hiddenFiles])
  const entries = readdirSync(folder, { withFileTypes: true })
  if (entries.length > MAX_ENTRIES)
    throw new ToolError(`A folder with Pegboard's files has more than ${MAX_ENTRIES} entries.`, {
      code: 'E_SANDBOX_UNAVAILABLE',
      hint: 'The operator sets modules.shell.config.roots to folders without such files.',
    })
  return [
    ...['--tmpfs', folder],
    ...entries.flatMap((entry) => {
      const path = join(folder, entry.name)
      if (entry.isSymbolicLink()) return linkArgs(path)
      return !closedPaths.has(path) && (entry.isDirectory() || entry.isFile()) ? ['--bind-try', path, path] : []
    }),
  ]
}

function linkArgs(path: string): string[] {
  try {
    return ['--symlink', readlinkSync(path), path]
  } catch {
    return []
  }
}

/** The arguments of `bwrap`. Own process namespace, own /tmp, and no network unless requested. */
export const bubblewrapArgs = (paths: SandboxPaths, cwd: string, boundsTmp = true, network = false): string[] => [
  ...bubblewrapBase(network, boundsTmp),
  ...paths.readable.flatMap((path) => ['--ro-bind', path, path]),
  ...paths.writable.flatMap((path) => ['--bind', path, path]),
  // A mount point cannot be renamed.
  ...listParents(paths).flatMap((path) =>
    paths.closed?.includes(path) ? closedArgs(path, paths) : ['--bind', path, path],
  ),
  ...paths.fixed.flatMap((path) => ['--ro-bind', path, path]),
  ...paths.hiddenFolders.flatMap((path) => ['--tmpfs', path]),
  ...paths.hiddenFiles.flatMap((path) => ['--ro-bind', '/dev/null', path]),
  ...(paths.writableInHidden ?? []).flatMap((path) => ['--bind', path, path]),
  ...hidePathsIn(paths.writableInHidden, paths.hiddenFolders).flatMap((path) => ['--tmpfs', path]),
  ...hidePathsIn(paths.writableInHidden, paths.hiddenFiles).flatMap((path) => ['--ro-bind', '/dev/null', path]),
  ...(paths.closed ?? []).flatMap((path) => ['--remount-ro', path]),
  ...['--remount-ro', '/', '--chdir', cwd, '--'],
]

const quote = (path: string): string => `"${path.replaceAll(/["\\]/g, '\\$&')}"`
const literals = (paths: readonly string[]): string => paths.map((path) => `(literal ${quote(path)})`).join(' ')
const subpaths = (paths: readonly string[]): string => paths.map((path) => `(subpath ${quote(path)})`).join(' ')

/** A profile for `sandbox-exec`. The last matching rule decides. */
export function seatbeltProfile(paths: SandboxPaths, network = false): string {
  const fixed = [...paths.fixed, ...(paths.absent ?? [])]
  const secret = hidePathsIn(paths.writableInHidden, [...paths.hiddenFolders, ...paths.hiddenFiles])
  return [
    '(version 1)',
    '(deny default)',
    '(allow process-exec process-fork)',
    '(allow signal (target same-sandbox))',
    '(allow sysctl-read)',
    '(allow file-read-metadata)',
    `(allow file-read* (literal "/") ${subpaths(['/usr', '/bin', '/sbin', '/System', '/Library/Apple', '/Library/Developer', '/Applications/Xcode.app', '/opt/homebrew', '/private/etc/ssl', '/private/var/db/timezone', '/private/var/select', '/dev'])} (literal "/private/etc/passwd") (literal "/private/etc/localtime"))`,
    '(allow file-write* (literal "/dev/null") (literal "/dev/zero") (literal "/dev/tty"))',
    ...(paths.readable.length > 0 ? [`(allow file-read* ${subpaths(paths.readable)})`] : []),
    `(allow file-read* file-write* ${subpaths(paths.writable)})`,
    ...(fixed.length > 0 ? [`(deny file-write* ${subpaths(fixed)})`] : []),
    ...(paths.hiddenFolders.length + paths.hiddenFiles.length > 0
      ? [`(deny file-read* file-write* ${subpaths([...paths.hiddenFolders, ...paths.hiddenFiles])})`]
      : []),
    ...(listParents(paths).length > 0 ? [`(deny file-write-unlink ${literals(listParents(paths))})`] : []),
    ...(paths.writableInHidden?.length ? [`(allow file-read* file-write* ${subpaths(paths.writableInHidden)})`] : []),
    ...(secret.length > 0 ? [`(deny file-read* file-write* ${subpaths(secret)})`] : []),
    network ? '(allow network*)' : '(deny network*)',
  ].join('\n')
}

export interface WrappedCommand {
  readonly command: string
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
}

/** The command line of a program inside the sandbox. */
export function wrapCommand(
  { kind, file, limitsTmp: boundsTmp }: Sandbox,
  paths: SandboxPaths,
  cwd: string,
  command: string,
  args: readonly string[],
  network = false,
): WrappedCommand {
  if (kind === 'bubblewrap')
    return {
      command: file,
      args: [...bubblewrapArgs(paths, cwd, boundsTmp, network), command, ...args],
      env: { HOME: '/tmp', TMPDIR: '/tmp' },
    }
  const home = paths.writable[0] as string
  return {
    command: file,
    args: ['-p', seatbeltProfile(paths, network), command, ...args],
    env: { HOME: home, TMPDIR: home },
  }
}

const TEST_TIMEOUT_MS = 5_000

/**
 * Tests the sandbox by running something in it.
 * @returns why it does not work: for clients, and with the system's message for the log
 */
export async function trySandbox(
  processes: Processes,
  settings: Settings,
): Promise<Sandbox | { readonly reason: string; readonly detail: string }> {
  const { platform } = processes
  if (platform !== 'linux' && platform !== 'darwin') return { reason: `there is none for ${platform}`, detail: '' }
  const roots = rootsOf(settings)
  const linux = platform === 'linux'
  const file = linux ? await findProgram('bwrap', processes, roots) : '/usr/bin/sandbox-exec'
  if (file === undefined) return { reason: 'bubblewrap (bwrap) is not installed', detail: '' }
  const kind = linux ? 'bubblewrap' : 'seatbelt'
  const paths = await sandboxPaths(settings)
  const cwd = await realpath(roots[0] as string)
  let detail = ''
  for (const boundsTmp of linux ? [true, false] : [false]) {
    const sandbox: Sandbox = { kind, file, limitsTmp: boundsTmp }
    detail = await testSandbox(processes, wrapCommand(sandbox, paths, cwd, '/bin/sh', ['-c', 'exit 42']), cwd)
    if (detail === '') return sandbox
  }
  return { reason: `${kind} does not work on this machine`, detail }
}

/** The error; empty if it works. */
async function testSandbox(processes: Processes, wrapped: WrappedCommand, cwd: string): Promise<string> {
  try {
    const program = await processes.start({ ...wrapped, cwd })
    program.stdin.end()
    let stderrText = ''
    program.stdout.resume()
    program.stderr.on('data', (chunk: Buffer) => {
      stderrText = (stderrText + chunk.toString('utf8')).slice(0, 500)
    })
    const timeoutTimer = setTimeout(() => void program.stop(0), TEST_TIMEOUT_MS)
    const { code } = await program.ended
    clearTimeout(timeoutTimer)
    return code === 42 ? '' : stderrText.trim() || `it exited with code ${code}`
  } catch (error) {
    return (error as Error).message
  }
}

export const createNoSandboxError = (what: string, reason: string): ToolError =>
  new ToolError(`${what} runs only in a sandbox, and ${reason}.`, {
    code: 'E_SANDBOX_UNAVAILABLE',
    hint: 'The operator installs bubblewrap on Linux, sets "sandbox": false for a trusted program, or sets modules.shell.config.sandbox to "off".',
  })
