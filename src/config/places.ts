import { homedir } from 'node:os'
import { isAbsolute, join, resolve } from 'node:path'

export type Environment = Readonly<Record<string, string | undefined>>

/** What of the machine the configuration depends on; tests pass their own. */
export interface Machine {
  readonly env: Environment
  /** Where relative paths of the command line start. */
  readonly cwd: string
  readonly platform?: NodeJS.Platform
  readonly home?: string
  /** The script that runs, absolute: a server that is this very program is left out. */
  readonly self?: string
}

/** The machine this process is on. */
export const thisMachine = (): Machine => ({ env: process.env, cwd: process.cwd() })

/** Folders Pegboard writes to and works in; absolute. */
export interface Dirs {
  /** What must survive a restart. */
  readonly state: string
  /** What may be thrown away. */
  readonly cache: string
  /** Where tools work and relative paths of modules start. */
  readonly workspace: string
}

export const homeOf = (machine: Machine): string => machine.home ?? homedir()

/** Makes a path of the configuration absolute: `~` is the home folder, the rest is relative to `from`. */
export function pathFrom(from: string, path: string, machine: Machine): string {
  if (path === '~') return homeOf(machine)
  if (path.startsWith('~/') || path.startsWith('~\\')) return join(homeOf(machine), path.slice(2))
  return isAbsolute(path) ? path : resolve(from, path)
}

/**
 * Where things go that nobody configured. PEGBOARD_STATE_DIR wins, then the folders of the platform: XDG on Linux,
 * Library on macOS, LOCALAPPDATA on Windows.
 * @param base folder of the configuration file, or the working directory without one
 */
export function defaultDirs(machine: Machine, base: string): Dirs {
  const { env } = machine
  const platform = machine.platform ?? process.platform
  const own = env['PEGBOARD_STATE_DIR']
  if (own) return { state: resolve(machine.cwd, own), cache: resolve(machine.cwd, own, 'cache'), workspace: base }
  const home = homeOf(machine)
  if (platform === 'win32') {
    const local = env['LOCALAPPDATA'] || join(home, 'AppData', 'Local')
    return { state: join(local, 'pegboard'), cache: join(local, 'pegboard', 'cache'), workspace: base }
  }
  if (platform === 'darwin') {
    const library = join(home, 'Library')
    return {
      state: join(library, 'Application Support', 'pegboard'),
      cache: join(library, 'Caches', 'pegboard'),
      workspace: base,
    }
  }
  return {
    state: join(env['XDG_STATE_HOME'] || join(home, '.local', 'state'), 'pegboard'),
    cache: join(env['XDG_CACHE_HOME'] || join(home, '.cache'), 'pegboard'),
    workspace: base,
  }
}
