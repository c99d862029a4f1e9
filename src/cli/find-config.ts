import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { defaultDirs, type Machine } from '../config/machine.ts'
import { replacedByOthers } from '../core/written-by-others.ts'
import { settingsFolders } from '../setup/clients.ts'
import type { Io } from './io.ts'
import { askYes } from './questions.ts'

const NAME = 'mcp.config.json'

export interface FoundConfig {
  /** Undefined if no file is used. */
  readonly file?: string
  /** Why this file: --config, PEGBOARD_CONFIG, a project's file that is confirmed, or the user's own file. */
  readonly from?: 'option' | 'variable' | 'project' | 'user'
  /** Relative path of a project's configuration that is not confirmed. */
  readonly ignored?: string
}

/**
 * Finds the configuration: --config, PEGBOARD_CONFIG, the nearest `mcp.config.json` upwards that the user confirmed, or
 * the one in the user's configuration folder. Confirmation prevents that a cloned repository decides what runs.
 */
export async function findConfig(named: string | undefined, io: Io): Promise<FoundConfig> {
  const given = named ?? (io.env['PEGBOARD_CONFIG'] || undefined)
  if (given !== undefined) return { file: given, from: named === undefined ? 'variable' : 'option' }
  const machine: Machine = { env: io.env, cwd: io.cwd }
  const project = nearestConfig(machine)
  const own = userConfigFile(machine)
  if (project !== undefined && project !== own && (await isConfirmed(project, machine, io)))
    return { file: project, from: 'project' }
  return {
    ...(existsSync(own) ? { file: own, from: 'user' as const } : {}),
    ...(project === undefined || project === own ? {} : { ignored: relative(io.cwd, project) }),
  }
}

/** In the working directory or above, up to the home folder. */
function nearestConfig(machine: Machine): string | undefined {
  const home = resolve(settingsFolders(machine).home)
  for (let at = resolve(machine.cwd); ; at = dirname(at)) {
    const file = join(at, NAME)
    if (existsSync(file)) return file
    if (at === home || at === dirname(at)) return undefined
  }
}

/** The configuration of this user, which `pegboard init` creates. */
export const userConfigFile = (machine: Machine): string => join(settingsFolders(machine).settings, 'pegboard', NAME)

async function isConfirmed(file: string, machine: Machine, io: Io): Promise<boolean> {
  const own = process.getuid?.()
  if (own !== undefined && (statSync(file).uid !== own || replacedByOthers(file) !== undefined)) return false
  const record = join(defaultDirs(machine, machine.cwd).state, 'confirmed-configs.json')
  const confirmedFiles = readConfirmed(record)
  if (confirmedFiles.includes(file)) return true
  if (!(await askYes(`Use ${file}? It decides which programs run here as you.`, io))) return false
  mkdirSync(dirname(record), { recursive: true, mode: 0o700 })
  writeFileSync(record, `${JSON.stringify([...confirmedFiles, file], null, 2)}\n`, { mode: 0o600 })
  return true
}

function readConfirmed(record: string): readonly string[] {
  try {
    if (replacedByOthers(record) !== undefined) return []
    const content = JSON.parse(readFileSync(record, 'utf8')) as unknown
    return Array.isArray(content) ? content.filter((one) => typeof one === 'string') : []
  } catch {
    // The person is asked again.
    return []
  }
}
