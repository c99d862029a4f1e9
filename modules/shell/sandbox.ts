import { existsSync, lstatSync, readdirSync, statSync } from 'node:fs'
import { realpath } from 'node:fs/promises'
import { dirname, isAbsolute, join, resolve, sep } from 'node:path'
import { ownFilesBelow, type Processes, ToolError } from 'pegboard'
import { rootsOf, type Settings } from './config.ts'
import { findProgram } from './find.ts'

export interface Sandbox {
  readonly kind: 'bubblewrap' | 'seatbelt'
  readonly file: string
  /** Older releases of bubblewrap cannot bound what is written to /tmp. */
  readonly boundsTmp: boolean
}

const TMP_BYTES = 256 * 1024 * 1024
const SHM_BYTES = 64 * 1024 * 1024

/** What a sandbox lets be seen and changed; all absolute and real. */
export interface Walls {
  readonly writable: readonly string[]
  readonly readable: readonly string[]
  /** Inside what is writable: there, but empty. */
  readonly hiddenFolders: readonly string[]
  readonly hiddenFiles: readonly string[]
  /** Inside what is writable: can only be read. */
  readonly fixed: readonly string[]
  /** The same, of what is not there: macOS keeps it from being made; bubblewrap could only by making it. */
  readonly absent?: readonly string[]
  /** Can be written although they lie in what is hidden. */
  readonly given?: readonly string[]
}

/** Programs, their libraries and what they ask of the system; of /etc nothing with a secret. */
const SYSTEM = ['/usr', '/bin', '/sbin', '/lib', '/lib32', '/lib64', '/libx32', '/nix/store', '/run/current-system']
const ETC =
  'alternatives bash.bashrc ca-certificates crypto-policies debian_version fonts group ld.so.cache ld.so.conf ld.so.conf.d localtime mime.types nsswitch.conf os-release passwd pki profile profile.d protocols services ssl/certs ssl/openssl.cnf terminfo timezone'.split(
    ' ',
  )

/** Keys and tokens, and what decides what others run: at the top of a workspace. */
const HIDDEN = /^(?:\.env(?:\..*)?|\.ssh|\.gnupg|\.aws|\.kube|\.netrc|\.npmrc|\.pypirc|\.git-credentials)$/i
const SHOWN = /^\.env\.(?:example|sample|template)$/i
const FIXED = [
  '.git/hooks',
  '.git/config',
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

/** @param given folders that a command may write to besides */
export async function wallsFor(settings: Settings, given: readonly string[] = []): Promise<Walls> {
  const writable = await realOnes(rootsOf(settings))
  const inside = (path: string): boolean => writable.some((root) => path.startsWith(root + sep))
  const theirs = await realOnes(given)
  const tops = [...new Set([...writable, ...theirs.filter(isFolder)])].flatMap((root) =>
    readdirSync(root, { withFileTypes: true })
      .filter((entry) => !entry.isSymbolicLink() && HIDDEN.test(entry.name) && !SHOWN.test(entry.name))
      .map((entry) => ({ path: join(root, entry.name), folder: entry.isDirectory() })),
  )
  const base = settings.workspace
  const denied = settings.denied_paths.flatMap((path) =>
    isAbsolute(path) ? [path] : [resolve(base, path), ...writable.map((root) => resolve(root, path))],
  )
  const own = await ownFilesBelow(writable)
  const named = (await realOnes([settings.state_dir, settings.config_file, ...denied, ...own.secret])).filter(inside)
  const hidden = [...tops, ...named.map((path) => ({ path, folder: isFolder(path) }))]
  const wanted = writable.flatMap((root) => FIXED.map((name) => join(root, name)))
  const fixed = await realOnes([settings.modules_dir, ...wanted, ...own.fixed])
  const absent = [...wanted, ...own.fixed].filter((path) => !isThere(path))
  return {
    writable,
    readable: await realOnes(settings.readable),
    hiddenFolders: [...new Set(hidden.filter(({ folder }) => folder).map(({ path }) => path))],
    hiddenFiles: [...new Set(hidden.filter(({ folder }) => !folder).map(({ path }) => path))],
    fixed: fixed.filter((path) => inside(path) || own.fixed.includes(path)),
    ...(absent.length > 0 ? { absent } : {}),
    ...(given.length > 0 ? { given: theirs } : {}),
  }
}

const isFolder = (path: string): boolean => statSync(path, { throwIfNoEntry: false })?.isDirectory() === true

/** A link that leads nowhere is there, too. */
const isThere = (path: string): boolean => lstatSync(path, { throwIfNoEntry: false }) !== undefined

/** What others obey that was made since. */
export const madeSince = ({ absent = [] }: Walls): readonly string[] => absent.filter(isThere)

/** What is hidden in folders that a command is given. */
const hiddenIn = (folders: readonly string[] = [], hidden: readonly string[]): readonly string[] =>
  hidden.filter((path) => folders.some((folder) => path.startsWith(folder + sep)))

/** The real places of those that are there. */
async function realOnes(paths: readonly string[]): Promise<string[]> {
  const found = paths.filter((path) => isAbsolute(path) && existsSync(path))
  return [...new Set(await Promise.all(found.map((path) => realpath(path))))]
}

/** Folders inside what is writable that lead to what is held: whoever renames one of them has a place for another in its stead. */
function ways({ writable, fixed, hiddenFolders, hiddenFiles }: Walls): string[] {
  const found = new Set<string>()
  for (const path of [...fixed, ...hiddenFolders, ...hiddenFiles])
    for (let at = dirname(path); writable.some((root) => at.startsWith(root + sep)); at = dirname(at)) found.add(at)
  return [...found].toSorted((a, b) => a.length - b.length)
}

/** How names of hosts are found, for what has a network. */
const RESOLVER = ['resolv.conf', 'hosts', 'host.conf', 'gai.conf']

/** The arguments of `bwrap` before those of the program. No other processes, a /tmp of its own, and no network unless asked for. */
export const bubblewrapArgs = (walls: Walls, cwd: string, boundsTmp = true, network = false): string[] => [
  '--unshare-all',
  ...(network ? ['--share-net'] : []),
  '--die-with-parent',
  '--new-session',
  ...['--cap-drop', 'ALL'],
  ...SYSTEM.flatMap((path) => ['--ro-bind-try', path, path]),
  ...[...ETC, ...(network ? RESOLVER : [])].flatMap((name) => ['--ro-bind-try', `/etc/${name}`, `/etc/${name}`]),
  ...['--proc', '/proc', '--dev', '/dev'],
  // Else memory could be filled with files there.
  ...(boundsTmp ? ['--size', String(SHM_BYTES), '--tmpfs', '/dev/shm', '--remount-ro', '/dev'] : []),
  ...(boundsTmp ? ['--size', String(TMP_BYTES)] : []),
  ...['--tmpfs', '/tmp'],
  ...walls.readable.flatMap((path) => ['--ro-bind', path, path]),
  ...walls.writable.flatMap((path) => ['--bind', path, path]),
  // A mount point cannot be renamed.
  ...ways(walls).flatMap((path) => ['--bind', path, path]),
  ...walls.fixed.flatMap((path) => ['--ro-bind', path, path]),
  ...walls.hiddenFolders.flatMap((path) => ['--tmpfs', path]),
  ...walls.hiddenFiles.flatMap((path) => ['--ro-bind', '/dev/null', path]),
  ...(walls.given ?? []).flatMap((path) => ['--bind', path, path]),
  ...hiddenIn(walls.given, walls.hiddenFolders).flatMap((path) => ['--tmpfs', path]),
  ...hiddenIn(walls.given, walls.hiddenFiles).flatMap((path) => ['--ro-bind', '/dev/null', path]),
  ...['--remount-ro', '/', '--chdir', cwd, '--'],
]

const quoted = (path: string): string => `"${path.replaceAll(/["\\]/g, '\\$&')}"`
const these = (paths: readonly string[]): string => paths.map((path) => `(literal ${quoted(path)})`).join(' ')
const below = (paths: readonly string[]): string => paths.map((path) => `(subpath ${quoted(path)})`).join(' ')

/** A profile for `sandbox-exec`. The last rule that fits decides. */
export function seatbeltProfile(walls: Walls, network = false): string {
  const fixed = [...walls.fixed, ...(walls.absent ?? [])]
  const secret = hiddenIn(walls.given, [...walls.hiddenFolders, ...walls.hiddenFiles])
  return [
    '(version 1)',
    '(deny default)',
    '(allow process-exec process-fork)',
    '(allow signal (target same-sandbox))',
    '(allow sysctl-read)',
    '(allow file-read-metadata)',
    `(allow file-read* (literal "/") ${below(['/usr', '/bin', '/sbin', '/System', '/Library/Apple', '/Library/Developer', '/Applications/Xcode.app', '/opt/homebrew', '/private/etc/ssl', '/private/var/db/timezone', '/private/var/select', '/dev'])} (literal "/private/etc/passwd") (literal "/private/etc/localtime"))`,
    '(allow file-write* (literal "/dev/null") (literal "/dev/zero") (literal "/dev/tty"))',
    ...(walls.readable.length > 0 ? [`(allow file-read* ${below(walls.readable)})`] : []),
    `(allow file-read* file-write* ${below(walls.writable)})`,
    ...(fixed.length > 0 ? [`(deny file-write* ${below(fixed)})`] : []),
    ...(walls.hiddenFolders.length + walls.hiddenFiles.length > 0
      ? [`(deny file-read* file-write* ${below([...walls.hiddenFolders, ...walls.hiddenFiles])})`]
      : []),
    ...(ways(walls).length > 0 ? [`(deny file-write-unlink ${these(ways(walls))})`] : []),
    ...(walls.given?.length ? [`(allow file-read* file-write* ${below(walls.given)})`] : []),
    ...(secret.length > 0 ? [`(deny file-read* file-write* ${below(secret)})`] : []),
    network ? '(allow network*)' : '(deny network*)',
  ].join('\n')
}

export interface Wrapped {
  readonly command: string
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
}

/** A program as it is started so that it runs inside. */
export function inside(
  { kind, file, boundsTmp }: Sandbox,
  walls: Walls,
  cwd: string,
  command: string,
  args: readonly string[],
  network = false,
): Wrapped {
  if (kind === 'bubblewrap')
    return {
      command: file,
      args: [...bubblewrapArgs(walls, cwd, boundsTmp, network), command, ...args],
      env: { HOME: '/tmp', TMPDIR: '/tmp' },
    }
  const home = walls.writable[0] as string
  return {
    command: file,
    args: ['-p', seatbeltProfile(walls, network), command, ...args],
    env: { HOME: home, TMPDIR: home },
  }
}

const TRIAL_MS = 5_000

/**
 * Finds out whether one works, by running something in it. Answers why not: in words for clients, and with what the system
 * said for the log.
 */
export async function trySandbox(
  processes: Processes,
  settings: Settings,
): Promise<Sandbox | { readonly why: string; readonly detail: string }> {
  const { platform } = processes
  if (platform !== 'linux' && platform !== 'darwin') return { why: `there is none for ${platform}`, detail: '' }
  const roots = rootsOf(settings)
  const linux = platform === 'linux'
  const file = linux ? await findProgram('bwrap', processes, roots) : '/usr/bin/sandbox-exec'
  if (file === undefined) return { why: 'bubblewrap (bwrap) is not installed', detail: '' }
  const kind = linux ? 'bubblewrap' : 'seatbelt'
  const walls = await wallsFor(settings)
  const cwd = await realpath(roots[0] as string)
  let detail = ''
  for (const boundsTmp of linux ? [true, false] : [false]) {
    const sandbox: Sandbox = { kind, file, boundsTmp }
    detail = await trial(processes, inside(sandbox, walls, cwd, '/bin/sh', ['-c', 'exit 42']), cwd)
    if (detail === '') return sandbox
  }
  return { why: `${kind} does not work on this machine`, detail }
}

/** What went wrong; empty when nothing did. */
async function trial(processes: Processes, wrapped: Wrapped, cwd: string): Promise<string> {
  try {
    const program = await processes.start({ ...wrapped, cwd })
    program.stdin.end()
    let words = ''
    program.stdout.resume()
    program.stderr.on('data', (chunk: Buffer) => {
      words = (words + chunk.toString('utf8')).slice(0, 500)
    })
    const late = setTimeout(() => void program.stop(0), TRIAL_MS)
    const { code } = await program.ended
    clearTimeout(late)
    return code === 42 ? '' : words.trim() || `it ended with ${code}`
  } catch (error) {
    return (error as Error).message
  }
}

export const noSandbox = (what: string, why: string): ToolError =>
  new ToolError(`${what} runs only in a sandbox, and ${why}.`, {
    code: 'E_SANDBOX_UNAVAILABLE',
    hint: 'The operator installs bubblewrap on Linux, writes "sandbox": false beside a program that is trusted, or sets modules.shell.config.sandbox to "off".',
  })
