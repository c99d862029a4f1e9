import type { ChildProcess, SpawnOptions } from 'node:child_process'
import { existsSync } from 'node:fs'
import path from 'node:path'

export type Environment = Readonly<Record<string, string | undefined>>

// Secrets must not reach child processes, so only variables that programs need to find files and choose a language
// are inherited. NODE_EXTRA_CA_CERTS costs every Node child 30 ms, so only programs that download get it, together
// with the proxy variables.
const INHERITED_POSIX = ['PATH', 'HOME', 'USER', 'LOGNAME', 'LANG', 'LANGUAGE', 'TMPDIR', 'SHELL', 'TERM']
const INHERITED_WINDOWS = [
  'PATH',
  'PATHEXT',
  'APPDATA',
  'LOCALAPPDATA',
  'COMSPEC',
  'HOMEDRIVE',
  'HOMEPATH',
  'PROCESSOR_ARCHITECTURE',
  'PROGRAMDATA',
  'PROGRAMFILES',
  'PROGRAMFILES(X86)',
  'PROGRAMW6432',
  'SYSTEMDRIVE',
  'SYSTEMROOT',
  'TEMP',
  'TMP',
  'USERNAME',
  'USERPROFILE',
  'WINDIR',
]

/** The environment of a child: the inherited variables, `LC_*`, and those of the entry itself. */
export function childEnvironment(ours: Environment, named: Environment, platform: string): Record<string, string> {
  const windows = platform === 'win32'
  const inheritedNames = new Set(windows ? INHERITED_WINDOWS : INHERITED_POSIX)
  const env: Record<string, string> = {}
  for (const [key, value] of Object.entries(ours)) {
    if (value === undefined || value.startsWith('()')) continue
    if (inheritedNames.has(windows ? key.toUpperCase() : key) || key.startsWith('LC_')) env[key] = value
  }
  for (const [key, value] of Object.entries(named)) if (value !== undefined) env[key] = value
  for (const key of Object.keys(env)) if (isPath(key, windows)) env[key] = absoluteFolders(env[key] ?? '', windows)
  return env
}

const isPath = (key: string, windows: boolean): boolean => (windows ? key.toUpperCase() : key) === 'PATH'

/** Without empty and relative folders, which would mean the working folder, where others may place programs. */
function absoluteFolders(value: string, windows: boolean): string {
  const { delimiter, isAbsolute } = windows ? path.win32 : path.posix
  const folders = value.split(delimiter).filter((folder) => isAbsolute(folder))
  if (folders.length > 0) return folders.join(delimiter)
  // An empty value would mean the working folder too.
  return windows ? '' : '/usr/local/bin:/usr/bin:/bin'
}

/** True if the program's path depends on the working folder. */
export const isRelative = (command: string, platform: string): boolean =>
  platform === 'win32'
    ? /[\\/]/.test(command) && !path.win32.isAbsolute(command)
    : command.includes('/') && !command.startsWith('/')

/** Parses `KEY=VALUE` lines; `#` starts a comment, quotes around a value are removed. */
export function parseEnvFile(text: string): Record<string, string> {
  const env: Record<string, string> = {}
  for (const line of text.split(/\r?\n/)) {
    const match = /^\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*?)\s*$/.exec(line)
    if (match?.[1] !== undefined) env[match[1]] = (match[2] ?? '').replace(/^(["'])(.*)\1$/, '$2')
  }
  return env
}

export interface SpawnPlan {
  readonly file: string
  readonly args: readonly string[]
  readonly options: Pick<SpawnOptions, 'detached' | 'windowsHide' | 'windowsVerbatimArguments' | 'shell'>
}

/**
 * How to start a program so that no shell reads its arguments and everything it starts can be killed with it. On
 * Windows, `npx` and similar are batch files that only cmd.exe runs, so their arguments are quoted for it.
 */
export function spawnPlan(
  command: string,
  args: readonly string[],
  env: Environment,
  platform: string,
  exists: (file: string) => boolean = existsSync,
): SpawnPlan {
  if (platform !== 'win32') return { file: command, args, options: { detached: true, shell: false } }
  const found = findOnWindows(command, env, exists)
  if (!/\.(cmd|bat)$/i.test(found)) return { file: found, args, options: { windowsHide: true, shell: false } }
  const line = [escapeMeta(path.win32.normalize(found)), ...args.map(quoteForBatch)].join(' ')
  return {
    file: read(env, 'COMSPEC') ?? 'cmd.exe',
    args: ['/d', '/s', '/c', `"${line}"`],
    options: { windowsHide: true, windowsVerbatimArguments: true, shell: false },
  }
}

/** True if the program certainly does not exist, which avoids the cost of a failing spawn. @param cwd of the program */
export function isMissing(file: string, env: Environment, cwd: string | undefined, platform: string): boolean {
  if (platform === 'win32') return false
  const from = cwd ?? process.cwd()
  if (file.includes('/')) return !existsSync(path.resolve(from, file))
  return Boolean(env['PATH']) && !env['PATH']?.split(':').some((folder) => existsSync(path.resolve(from, folder, file)))
}

// Variable names are case-insensitive on Windows, but the record is not.
const read = (env: Environment, name: string): string | undefined =>
  env[name] ?? Object.entries(env).find(([key]) => key.toUpperCase() === name)?.[1]

function findOnWindows(command: string, env: Environment, exists: (file: string) => boolean): string {
  const suffixes = (read(env, 'PATHEXT') ?? '.COM;.EXE;.BAT;.CMD').split(';')
  const names = path.win32.extname(command) ? [command] : suffixes.map((suffix) => command + suffix.toLowerCase())
  if (/[\\/]/.test(command)) return names.find(exists) ?? command
  for (const folder of (read(env, 'PATH') ?? '').split(';'))
    for (const name of names) {
      const file = folder ? path.win32.join(folder, name) : ''
      if (file && exists(file)) return file
    }
  return command
}

const escapeMeta = (text: string): string => text.replaceAll(/[()\][%!^"`<>&|;, *?]/g, '^$&')

function quoteForBatch(arg: string): string {
  const quoted = `"${arg.replaceAll(/(\\*)"/g, '$1$1\\"').replace(/(\\*)$/, '$1$1')}"`
  // The batch file passes its arguments to cmd.exe a second time.
  return escapeMeta(escapeMeta(quoted))
}

/** Kills a child and everything it started. Does nothing if there is none left. */
export function killTree(child: ChildProcess, signal: 'SIGTERM' | 'SIGKILL', platform: string): void {
  const { pid } = child
  if (pid === undefined) return
  if (platform === 'win32') {
    const { spawn } = process.getBuiltinModule('node:child_process')
    spawn('taskkill', ['/pid', String(pid), '/T', '/F'], { stdio: 'ignore', windowsHide: true }).on('error', () => {
      child.kill('SIGKILL')
    })
    return
  }
  try {
    process.kill(-pid, signal)
  } catch (error) {
    // ESRCH: already gone. EPERM: macOS reports it for a group of zombies.
    if (!['ESRCH', 'EPERM'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error
  }
}
