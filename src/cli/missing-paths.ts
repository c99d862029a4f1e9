import { accessSync, constants, existsSync, statSync } from 'node:fs'
import { delimiter, isAbsolute, join, resolve } from 'node:path'
import type { Config } from '../config/load-config.ts'
import type { Environment } from '../config/machine.ts'
import { isRecord } from '../core/is-record.ts'

/** Settings of modules that contain folders or files. */
const PATH_SETTINGS: ReadonlySet<string> = new Set(['root', 'roots', 'write_roots', 'allowed_paths'])

/** A setting that names a folder or file, or a program. */
type Requirement = { readonly key: string } & (
  | { readonly path: string }
  | { readonly program: string; readonly env?: Environment }
)

/** One sentence for each folder and program in the configuration that does not exist. Starts nothing. */
export function findMissingPaths(config: Config, env: Environment, platform: string): string[] {
  return [...requirementsOf(config)].flatMap((required) => {
    // Templates are replaced later.
    if (('path' in required ? required.path : required.program).includes('{{')) return []
    if ('path' in required) {
      const path = resolve(config.dirs.workspace, required.path)
      return existsSync(path) ? [] : [`${required.key}: ${path} does not exist.`]
    }
    const { key, program, env: ownEnv } = required
    // Relative paths start in the folder of the program.
    const isRelative = /[\\/]/.test(program) && !isAbsolute(program)
    const isFound = isRelative || isProgram(program, { ...env, ...ownEnv }, platform)
    return isFound ? [] : [`${key}: program ${program} not found.`]
  })
}

function* requirementsOf({ dirs, modules, servers }: Config): Generator<Requirement> {
  yield { key: 'dirs.workspace', path: dirs.workspace }
  for (const [id, { enabled, config }] of Object.entries(modules))
    if (enabled) yield* requirementsIn(`modules.${id}.config`, config)
  for (const { enabled, target, where } of Object.values(servers)) {
    if (!enabled || target.kind !== 'stdio') continue
    yield { key: `${where}.command`, program: target.command, env: target.env }
    if (target.cwd !== undefined) yield { key: `${where}.cwd`, path: target.cwd }
  }
}

/** @param key where `value` is in the configuration */
function* requirementsIn(key: string, value: unknown): Generator<Requirement> {
  if (Array.isArray(value)) for (const item of value) yield* requirementsIn(key, item)
  if (!isRecord(value)) return
  for (const [name, member] of Object.entries(value)) {
    const memberKey = `${key}.${name}`
    const paths = PATH_SETTINGS.has(name) ? [member].flat() : []
    for (const path of paths) if (typeof path === 'string') yield { key: memberKey, path }
    // A command may contain arguments.
    if (name === 'command' && typeof member === 'string')
      yield { key: memberKey, program: isAbsolute(member) ? member : (member.split(' ')[0] ?? '') }
    yield* requirementsIn(memberKey, member)
  }
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
