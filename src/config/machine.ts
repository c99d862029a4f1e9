import { homedir } from 'node:os'
import { isAbsolute, join, resolve } from 'node:path'

export type Environment = Readonly<Record<string, string | undefined>>

/** The environment that the configuration depends on; tests pass their own. */
export interface Machine {
  readonly env: Environment
  /** Base of relative paths on the command line. */
  readonly cwd: string
  readonly platform?: NodeJS.Platform
  readonly home?: string
  /** Absolute path of the running script. A server that starts the same program is left out. */
  readonly self?: string
  /** Reads secrets that the configuration names as `${keyring:NAME}`. Without it there are none. */
  readonly readSecrets?: (names: readonly string[]) => Promise<ReadonlyMap<string, string>>
  /** Value of variables of servers that are not set. Absent: such a server is left out. */
  readonly unset?: string
}

/** A recording needs no values of variables, so servers without them are not left out. */
export const UNSET = 'unset'

export const thisMachine = (): Machine => ({ env: process.env, cwd: process.cwd() })

/** Absolute paths of the folders that Pegboard uses. */
export interface Dirs {
  /** Data that must survive a restart. */
  readonly state: string
  /** Data that may be deleted. */
  readonly cache: string
  /** Where tools work; base of relative paths of modules. */
  readonly workspace: string
}

export const homeOf = (machine: Machine): string => machine.home ?? homedir()

/** Makes a path absolute: `~` is the home folder, other paths are relative to `from`. */
export function pathFrom(from: string, path: string, machine: Machine): string {
  if (path === '~') return homeOf(machine)
  if (path.startsWith('~/') || path.startsWith('~\\')) return join(homeOf(machine), path.slice(2))
  return isAbsolute(path) ? path : resolve(from, path)
}

/**
 * Default folders: PEGBOARD_STATE_DIR, else those of the platform (XDG on Linux, Library on macOS, LOCALAPPDATA on
 * Windows).
 * @param base folder of the configuration file, or the working directory without one
 */
export function defaultDirs(machine: Machine, base: string): Dirs {
  const { env } = machine
  const platform = machine.platform ?? process.platform
  const dirs = (state: string, cache = join(state, 'cache')): Dirs => ({ state, cache, workspace: base })
  const own = env['PEGBOARD_STATE_DIR']
  if (own) return dirs(resolve(machine.cwd, own))
  const inHome = (...names: readonly string[]): string => join(homeOf(machine), ...names)
  if (platform === 'win32') return dirs(join(env['LOCALAPPDATA'] || inHome('AppData', 'Local'), 'pegboard'))
  if (platform === 'darwin')
    return dirs(inHome('Library', 'Application Support', 'pegboard'), inHome('Library', 'Caches', 'pegboard'))
  return dirs(
    join(env['XDG_STATE_HOME'] || inHome('.local', 'state'), 'pegboard'),
    join(env['XDG_CACHE_HOME'] || inHome('.cache'), 'pegboard'),
  )
}
