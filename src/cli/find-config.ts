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
export async function findConfig(option: string | undefined, io: Io): Promise<FoundConfig> {
  const namedFile = option ?? (io.env['PEGBOARD_CONFIG'] || undefined)
  if (namedFile !== undefined) return { file: namedFile, from: option === undefined ? 'variable' : 'option' }
  const machine: Machine = { env: io.env, cwd: io.cwd }
  const project = nearestConfig(machine)
  const userFile = userConfigFile(machine)
  if (project !== undefined && project !== userFile && (await isConfirmed(project, machine, io)))
    return { file: project, from: 'project' }
  return {
    ...(existsSync(userFile) ? { file: userFile, from: 'user' as const } : {}),
    ...(project === undefined || project === userFile ? {} : { ignored: relative(io.cwd, project) }),
  }
}

/** In the working directory or above, up to the home folder. */
function nearestConfig(machine: Machine): string | undefined {
  const home = resolve(settingsFolders(machine).home)
  for (let folder = resolve(machine.cwd); ; folder = dirname(folder)) {
    const file = join(folder, NAME)
    if (existsSync(file)) return file
    if (folder === home || folder === dirname(folder)) return undefined
  }
}

/** The configuration of this user, which `pegboard init` creates. */
export const userConfigFile = (machine: Machine): string => join(settingsFolders(machine).settings, 'pegboard', NAME)

async function isConfirmed(file: string, machine: Machine, io: Io): Promise<boolean> {
  const uid = process.getuid?.()
  if (uid !== undefined && (statSync(file).uid !== uid || replacedByOthers(file) !== undefined)) return false
  const recordFile = join(defaultDirs(machine, machine.cwd).state, 'confirmed-configs.json')
  const confirmedFiles = readConfirmed(recordFile)
  if (confirmedFiles.includes(file)) return true
  if (!(await askYes(`Use ${file}? It decides which programs run here as you.`, io))) return false
  mkdirSync(dirname(recordFile), { recursive: true, mode: 0o700 })
  writeFileSync(recordFile, `${JSON.stringify([...confirmedFiles, file], null, 2)}\n`, { mode: 0o600 })
  return true
}

function readConfirmed(recordFile: string): readonly string[] {
  try {
    if (replacedByOthers(recordFile) !== undefined) return []
    const content = JSON.parse(readFileSync(recordFile, 'utf8')) as unknown
    return Array.isArray(content) ? content.filter((entry) => typeof entry === 'string') : []
  } catch {
    // The person is asked again.
    return []
  }
}
