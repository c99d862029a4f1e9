import type { ChildProcessByStdio } from 'node:child_process'
import { existsSync, realpathSync, statSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import type { Readable, Writable } from 'node:stream'
import { PegboardError } from '../core/errors.ts'
import { replacedByOthers, writtenByOthers } from '../core/written-by-others.ts'
import { ownFilesBelow } from '../policy/own-files.ts'
import { MARK } from '../programs/descendants.ts'
import { inSandbox, SandboxError, type SandboxedProgram, type SandboxSettings } from '../programs/server-sandbox.ts'
import { childEnvironment, isMissing, isRelative, parseEnvFile, spawnPlan } from '../programs/spawn.ts'
import { spawnPiped } from '../programs/spawn-piped.ts'
import { downloadEnvironment, mayInstall } from './package-download.ts'
import type { StdioTarget } from './upstream-settings.ts'
import type { ProcessServices } from './upstream-shared.ts'

export type ServerProcess = ChildProcessByStdio<Writable, Readable, Readable>

export interface ProgramOptions extends Pick<ProcessServices, 'environment' | 'platform'> {
  /** Path of the server's entry in the configuration. */
  readonly where: string
  readonly target: StdioTarget
}

export interface Program {
  readonly plan: ReturnType<typeof spawnPlan>
  readonly env: SandboxedProgram['env']
  readonly cwd: string | undefined
}

/**
 * Checks that the program of a server may run, reads its environment and wraps it in its sandbox.
 * @param mark identifies the server's processes
 * @throws PegboardError E_UPSTREAM_UNAVAILABLE, usually for a wrong entry
 */
export async function prepareProgram(options: ProgramOptions, mark: string): Promise<Program> {
  const { target, platform, environment, where } = options
  const fromFile = target.envFile === undefined ? {} : await readEnvFile(where, target.envFile)
  const download = mayInstall({ target }) ? downloadEnvironment(environment) : {}
  const named = { ...download, ...fromFile, ...target.env, [MARK]: mark }
  const env = childEnvironment(environment, named, platform)
  if (isRelative(target.command, platform) && !isLine(target)) {
    throw createEntryError(
      `command "${target.command}" is relative; give its full path, such as "\${workspaceFolder}/server"`,
    )
  }
  const unsafe = writtenCode(target, platform)
  if (unsafe !== undefined) throw createEntryError(unsafe)
  if (target.sandbox?.kind !== 'docker' && isMissing(target.command, env, target.cwd, platform))
    throw createStartError(options, createMissingError())
  const program = { command: target.command, args: target.args, cwd: target.cwd, env, named: Object.keys(named) }
  const wrapped = target.sandbox === undefined ? program : await sandboxed(options, target.sandbox, program)
  const plan = spawnPlan(wrapped.command, wrapped.args, wrapped.env, platform)
  return { plan, env: wrapped.env, cwd: wrapped.cwd }
}

/** @throws an error of the system, which `createStartError` explains */
export function spawnProgram({ platform }: ProgramOptions, { plan, env, cwd }: Program): ServerProcess {
  if (isMissing(plan.file, env, cwd, platform)) throw createMissingError()
  return spawnPiped(plan.file, plan.args, {
    ...plan.options,
    env,
    stdio: ['pipe', 'pipe', 'pipe'],
    ...(cwd === undefined ? {} : { cwd }),
  }) as ServerProcess
}

const createMissingError = (): NodeJS.ErrnoException => Object.assign(new Error(), { code: 'ENOENT' })

export function createStartError({ target, where }: ProgramOptions, cause: NodeJS.ErrnoException): PegboardError {
  const what = isLine(target) ? target.command : path.basename(target.command)
  const inArgs = isLine(target) ? '; move the arguments to "args", one word each' : ''
  const reason =
    noFolder(where, target.cwd) ??
    (cause.code === 'ENOENT' ? `command not found: ${what}${inArgs}` : `${what} cannot start (${cause.code})`)
  return WRONG_ENTRY.has(`${cause.code}`)
    ? createEntryError(reason, cause)
    : new PegboardError('E_UPSTREAM_UNAVAILABLE', reason, { cause })
}

/** The program is never started without its sandbox. */
async function sandboxed({ where, platform }: ProgramOptions, settings: SandboxSettings, program: SandboxedProgram) {
  try {
    return await inSandbox(await withoutOwnFiles(settings, where), program, platform)
  } catch (error) {
    if (!(error instanceof SandboxError)) throw error
    throw createEntryError(`its sandbox is not available: ${error.message} (${where}.sandbox)`, error)
  }
}

/** Error codes for a wrong entry or program, which retrying does not fix. */
const WRONG_ENTRY: ReadonlySet<string> = new Set(['ENOENT', 'EACCES', 'EPERM', 'ENOTDIR', 'ENOEXEC', 'ELOOP'])

const createEntryError = (reason: string, cause?: unknown): PegboardError =>
  new PegboardError('E_UPSTREAM_UNAVAILABLE', reason, {
    hint: 'The operator must correct the entry of the server in the configuration.',
    class: 'server_setup',
    cause,
  })

const SCRIPT = /\.(?:[cm]?[jt]s|py|rb|sh|pl|php|jar|ps1)$/i

/** Why its program is not started: another user may write it. */
function writtenCode({ command, args, cwd }: StdioTarget, platform: string): string | undefined {
  if (platform === 'win32') return undefined
  const files = [command, ...args].filter((word, at) =>
    at === 0 ? path.isAbsolute(word) : SCRIPT.test(word) && !word.startsWith('-'),
  )
  for (const file of files) {
    const others = writtenByOthers(path.resolve(cwd ?? process.cwd(), file))
    if (others !== undefined) return `${path.basename(file)} is not safe to run: ${others}`
  }
  return undefined
}

/**
 * Hides Pegboard's files where the server reads.
 * @throws SandboxError if it could write what Pegboard, or another server, runs or trusts
 */
async function withoutOwnFiles(settings: SandboxSettings, where: string): Promise<SandboxSettings> {
  const find = (folders: readonly string[]) =>
    ownFilesBelow(
      folders.filter((folder) => existsSync(folder)).map((folder) => realpathSync(folder)),
      where,
    )
  const { secret, fixed } = await find(settings.write)
  const [ownFile] = [...secret, ...fixed]
  if (ownFile !== undefined) throw new SandboxError(`"write" contains ${ownFile}, which Pegboard runs or trusts`)
  return { ...settings, hidden: [...new Set([...settings.hidden, ...(await find(settings.read)).secret])] }
}

async function readEnvFile(where: string, file: string): Promise<Record<string, string>> {
  const others = replacedByOthers(file)
  if (others !== undefined) throw createEntryError(`its envFile is not safe to use: ${others} (${where}.envFile)`)
  try {
    return parseEnvFile(await readFile(file, 'utf8'))
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    const what = code === 'ENOENT' ? 'does not exist' : `cannot be read (${code})`
    throw createEntryError(`its envFile ${what}: ${file} (${where}.envFile)`)
  }
}

/** True if `command` contains a whole command line. */
const isLine = ({ command, args }: StdioTarget): boolean => args.length === 0 && /^[^\s/\\]+\s+\S/.test(command)

/** Node reports ENOENT for the program when the working folder is missing. */
function noFolder(where: string, cwd: string | undefined): string | undefined {
  if (cwd === undefined || statSync(cwd, { throwIfNoEntry: false })?.isDirectory()) return undefined
  return `its cwd does not exist: ${cwd} (${where}.cwd)`
}
