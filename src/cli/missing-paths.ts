import { accessSync, constants, existsSync, statSync } from 'node:fs'
import { delimiter, isAbsolute, join, resolve } from 'node:path'
import type { Config } from '../config/load-config.ts'
import type { Environment } from '../config/machine.ts'
import { isRecord } from '../core/is-record.ts'

/** Settings of modules that contain folders or files. */
const PATH_SETTINGS: ReadonlySet<string> = new Set(['root', 'roots', 'write_roots', 'allowed_paths'])

/** One sentence for each folder and program in the configuration that does not exist. Starts nothing. */
export function findMissingPaths({ dirs, modules, servers }: Config, env: Environment, platform: string): string[] {
  const problems: string[] = []
  const requirePath = (key: string, path: string): void => {
    // Templates are replaced later.
    if (path.includes('{{') || existsSync(resolve(dirs.workspace, path))) return
    problems.push(`${key}: ${resolve(dirs.workspace, path)} does not exist.`)
  }
  const requireProgram = (key: string, command: string, serverEnv: Environment = {}): void => {
    // Relative paths start in the folder of the program.
    const isUnknown = command.includes('{{') || (/[\\/]/.test(command) && !isAbsolute(command))
    if (!isUnknown && !isProgram(command, { ...env, ...serverEnv }, platform))
      problems.push(`${key}: program ${command} not found.`)
  }
  const checkValue = (key: string, value: unknown): void => {
    if (Array.isArray(value)) for (const item of value) checkValue(key, item)
    if (!isRecord(value)) return
    for (const [name, member] of Object.entries(value)) {
      const memberPath = `${key}.${name}`
      if (PATH_SETTINGS.has(name))
        for (const path of [member].flat()) if (typeof path === 'string') requirePath(memberPath, path)
      // A command may contain arguments.
      if (name === 'command' && typeof member === 'string')
        requireProgram(memberPath, isAbsolute(member) ? member : (member.split(' ')[0] ?? ''))
      checkValue(memberPath, member)
    }
  }
  requirePath('dirs.workspace', dirs.workspace)
  for (const [id, { enabled, config }] of Object.entries(modules))
    if (enabled) checkValue(`modules.${id}.config`, config)
  for (const { enabled, target, where } of Object.values(servers)) {
    if (!enabled || target.kind !== 'stdio') continue
    requireProgram(`${where}.command`, target.command, target.env)
    if (target.cwd !== undefined) requirePath(`${where}.cwd`, target.cwd)
  }
  return problems
}

/** True if a program can be started: an executable file, or one on PATH. */
function isProgram(command: string, env: Environment, platform: string): boolean {
  const endings = platform === 'win32' ? ['', ...(env['PATHEXT'] ?? '.EXE;.CMD;.BAT').split(';')] : ['']
  const folders = isAbsolute(command) ? [''] : (env['PATH'] ?? env['Path'] ?? '').split(delimiter)
  return folders.some((folder) => endings.some((ending) => isExecutable(join(folder, `${command}${ending}`))))
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return statSync(path).isFile()
  } catch {
    return false
  }
}
