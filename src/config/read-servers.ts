import { realpathSync } from 'node:fs'
import { basename, dirname, isAbsolute, join, relative } from 'node:path'
import { isPegboardError } from '../core/errors.ts'
import { asRecord } from '../core/is-record.ts'
import { isLockedApi } from '../openapi/openapi-options.ts'
import { parseServer, type ServerSettings, type StdioTarget } from '../upstream/upstream-settings.ts'
import { type Dirs, defaultDirs, type Machine, pathFrom } from './machine.ts'
import { describeNameProblem, escapedName, findLookalikePairs } from './server-names.ts'
import { describeUnset, fillVariables, type VariableSources } from './variables.ts'

/** A server entry that cannot be used. The reason names keys and variables, never their values. */
export interface SkippedServer {
  readonly id: string
  readonly reason: string
  /** The entry starts Pegboard itself, so nothing is missing. */
  readonly self?: true
}

export interface ReadServers {
  readonly servers: Readonly<Record<string, ServerSettings>>
  readonly skipped: readonly SkippedServer[]
  readonly warnings: readonly string[]
  /** Values of variables in places of credentials. */
  readonly secrets: readonly string[]
}

/** @param reason of a `SkippedServer` */
export const ignoredServerWarning = (reason: string): string => `${reason}; the server is ignored.`

/** Reads each server entry. One that cannot be used is left out with a warning. */
export function readServers(
  blocks: { readonly mcpServers: unknown; readonly servers: unknown },
  sources: VariableSources,
  base: string,
  machine: Machine,
  file?: string,
  /** Paths of the profiles' servers in the file. Their URLs may come from others, so they must be public. */
  own: ReadonlyMap<string, string> = new Map(),
): ReadServers {
  const servers: Record<string, ServerSettings> = {}
  const skipped: SkippedServer[] = []
  const warnings: string[] = []
  const secrets: string[] = []

  /** @returns why the entry cannot be used; undefined after adding its settings */
  const readServer = (key: string, id: string, raw: unknown): Omit<SkippedServer, 'id'> | undefined => {
    const where = own.get(id) ?? `${key}.${id}`
    if (isLockedApi(id))
      return {
        reason: `${where} has the name of an API in the lock file; choose one that does not begin with "openapi."`,
      }
    const odd = describeNameProblem(id)
    if (odd !== undefined)
      return { reason: `${where.replaceAll(id, () => escapedName(id))} has a name that ${odd}; rename it` }
    const filled = fillVariables(raw, sources, own.has(id) ? where.split('.') : [key, id])
    secrets.push(...filled.secrets)
    const [unset] = filled.unset
    if (unset && !isOff(raw)) return { reason: `${unset.path.join('.')} needs ${describeUnset(unset)}` }
    try {
      const parsed = parseServer(id, filled.value, { where, ...(own.has(id) && { allowPrivate: false }) })
      const settings = resolvePaths(parsed.settings, base, machine)
      if (file !== undefined && settings.enabled && isSelf(settings.target, file, machine))
        return {
          reason: `${where} starts Pegboard with this same file, so each Pegboard would start another`,
          self: true,
        }
      servers[id] = settings
      warnings.push(...parsed.warnings)
      return undefined
    } catch (error) {
      if (!isPegboardError(error)) throw error
      return { reason: error.message.replace(/\.$/, '') }
    }
  }

  const entries: Array<readonly [key: string, id: string, raw: unknown]> = []
  for (const [id, raw] of Object.entries(asRecord(blocks.mcpServers))) entries.push(['mcpServers', id, raw])
  for (const [id, raw] of Object.entries(asRecord(blocks.servers))) {
    if (id in asRecord(blocks.mcpServers)) warnings.push(`servers.${id} is ignored: mcpServers.${id} is there too.`)
    else entries.push(['servers', id, raw])
  }
  for (const [key, id, raw] of entries) {
    const problem = readServer(key, id, raw)
    if (!problem) continue
    skipped.push({ id, ...problem })
    warnings.push(ignoredServerWarning(problem.reason))
  }
  for (const [one, other] of findLookalikePairs(Object.keys(servers)))
    warnings.push(
      `The servers "${one}" and "${other}" have names that look the same. Rules and people may take one for the other: rename one.`,
    )
  return { servers, skipped, warnings, secrets }
}

const isOff = (raw: unknown): boolean => asRecord(raw)['enabled'] === false || asRecord(raw)['disabled'] === true

/** True if an entry starts Pegboard with the same configuration. Files of other clients often contain Pegboard. */
function isSelf(target: ServerSettings['target'], file: string, machine: Machine): boolean {
  if (target.kind !== 'stdio' || !target.args.includes('serve')) return false
  const { args, command } = target
  const at = args.findIndex((word) => word === '--config' || word === '-c')
  const named = at < 0 ? args.find((word) => word.startsWith('--config='))?.slice('--config='.length) : args[at + 1]
  return (
    named !== undefined &&
    resolveRealPath(pathFrom(target.cwd ?? machine.cwd, named, machine)) === resolveRealPath(file) &&
    [command, ...args].some((word) => isOurs(word, target, machine))
  )
}

function isOurs(word: string, { cwd }: StdioTarget, machine: Machine): boolean {
  if (/^pegboard(?:\.cmd|@[\w.-]+)?$/.test(basename(word))) return true
  return (
    machine.self !== undefined &&
    /\.js$/.test(word) &&
    resolveRealPath(pathFrom(cwd ?? machine.cwd, word, machine)) === machine.self
  )
}

function resolveRealPath(path: string): string {
  try {
    return realpathSync(path)
  } catch {
    // The file does not exist, but a folder above it may be a link.
    return dirname(path) === path ? path : join(resolveRealPath(dirname(path)), basename(path))
  }
}

/**
 * Programs start in the folder of the file, and paths are relative to it, so that `node_modules/…` and `./data` do not
 * depend on the working directory.
 */
function resolvePaths(settings: ServerSettings, base: string, machine: Machine): ServerSettings {
  const { target, auth } = settings
  const file = auth?.idp?.idTokenFile
  if (auth?.idp && file !== undefined)
    return { ...settings, auth: { ...auth, idp: { ...auth.idp, idTokenFile: pathFrom(base, file, machine) } } }
  if (target.kind !== 'stdio') return settings
  const { sandbox } = target
  const absolute = (paths: readonly string[]): readonly string[] => paths.map((path) => pathFrom(base, path, machine))
  return {
    ...settings,
    target: {
      ...target,
      // In a sandbox the folder of the configuration is not visible.
      ...(target.cwd === undefined && sandbox
        ? {}
        : { cwd: target.cwd === undefined ? base : pathFrom(base, target.cwd, machine) }),
      ...(sandbox ? { sandbox: { ...sandbox, read: absolute(sandbox.read), write: absolute(sandbox.write) } } : {}),
      ...(target.envFile === undefined ? {} : { envFile: pathFrom(base, target.envFile, machine) }),
    },
  }
}

/** Gives each sandbox its own folder. Leaves out servers that could write what decides what they may touch. */
export function placeSandboxes(
  read: ReadServers,
  file: string | undefined,
  dirs: Pick<Dirs, 'state' | 'cache'>,
  machine: Machine,
): ReadServers {
  const servers: Record<string, ServerSettings> = {}
  const skipped = [...read.skipped]
  const warnings = [...read.warnings]
  for (const [id, settings] of Object.entries(read.servers)) {
    const { target, where } = settings
    if (target.kind !== 'stdio' || !target.sandbox) {
      servers[id] = settings
      continue
    }
    const { sandbox } = target
    // Secrets, what `undo` needs and compiled code of Pegboard are in the default folders, whatever the file says.
    const fallback = defaultDirs(machine, machine.cwd)
    const folders = [dirs.state, dirs.cache, fallback.state, fallback.cache]
    const own = [...new Set([...(file === undefined ? [] : [file]), ...folders])]
    const open = sandbox.write.find((folder) =>
      own.some((path) => isInside(resolveRealPath(path), resolveRealPath(folder))),
    )
    if (open !== undefined) {
      const reason = `${where}.sandbox.write contains ${open}, where the configuration or the state of Pegboard is`
      skipped.push({ id, reason })
      warnings.push(ignoredServerWarning(reason))
      continue
    }
    const home = join(dirs.state, 'sandboxes', id.replaceAll(/[^\w-]/g, '_'))
    servers[id] = { ...settings, target: { ...target, sandbox: { ...sandbox, hidden: own, home } } }
  }
  return { ...read, servers, skipped, warnings }
}

const isInside = (path: string, folder: string): boolean => {
  const way = relative(folder, path)
  return way === '' || (!way.startsWith('..') && !isAbsolute(way))
}
