import { existsSync } from 'node:fs'
import { readdir, realpath } from 'node:fs/promises'
import { dirname, join, resolve, sep } from 'node:path'
import type { Processes, ToolError } from 'pegboard'
import { denied } from '../_errors.ts'
import { rootsOf, type Settings } from './config.ts'
import { findProgram } from './find-program.ts'
import { baseName } from './programs.ts'

/** git, and programs that start it. */
const STARTS_GIT: ReadonlySet<string> = new Set(['git', 'gh'])

/** Protocols that start no program named by a repository and reach no other local repository. */
const ALLOWED_PROTOCOLS = 'https:http:ssh:git'

/** git's variables outside a sandbox. */
export const gitVariables = (command: string): Readonly<Record<string, string>> =>
  STARTS_GIT.has(baseName(command)) ? { GIT_ALLOW_PROTOCOL: ALLOWED_PROTOCOLS } : {}

/** Sections whose settings are programs, or name files with more settings. */
const PROGRAM_SECTIONS =
  /^(?:alias|include|includeif|filter|credential|pager|guitool|difftool|mergetool|browser|man|instaweb|hook|sendemail|imap|lfs\.(?:customtransfer|extension))\./
/** Settings that are programs or options of programs, by their last part. */
const PROGRAM_SETTINGS =
  /(?:cmd|command|program|prog|helper|hook|driver|textconv|external|editor|askpass|difffilter|gitproxy|uploadpack|receivepack|tunnel|cookiefile|standalonetransferagent|browser)$|^remote\..*\.vcs$|^core\.(?:pager|fsmonitor|hookspath)$|^sendemail|^web\.browser$/
/** Those of them that Pegboard overrides for every program, so that the repository's values do not matter. */
const OVERRIDDEN: ReadonlySet<string> = new Set(
  'core.fsmonitor core.hookspath core.pager core.editor sequence.editor core.sshcommand core.gitproxy core.alternaterefscommand gpg.program gpg.openpgp.program gpg.x509.program gpg.ssh.program gpg.ssh.defaultkeycommand interactive.difffilter'.split(
    ' ',
  ),
)
/** Settings written by `git lfs install --local`: a program from PATH with fixed arguments. */
const LFS_SETTINGS: Readonly<Record<string, RegExp>> = {
  'filter.lfs.clean': /^git-lfs clean -- %f$/,
  'filter.lfs.smudge': /^git-lfs smudge (?:--skip )?-- %f$/,
  'filter.lfs.process': /^git-lfs filter-process(?: --skip)?$/,
  'filter.lfs.required': /^(?:true|false)$/,
}

const MAX_DEPTH = 8
const MAX_REPOSITORIES = 200
const MAX_OUTPUT = 64 * 1024 * 1024

interface Repository {
  readonly gitDir: string
  readonly commonDir: string
  /** Absent inside a `.git` folder. */
  readonly top: string | undefined
}

/**
 * Outside a sandbox git runs programs named in the repository: filters, drivers, aliases, helpers. Rejects a
 * repository that names any, or that has a submodule which does, because git starts itself there without Pegboard's
 * overrides.
 * @throws ToolError E_DENIED_BY_POLICY
 */
export async function checkRepository(
  processes: Processes,
  settings: Settings,
  { command, cwd }: { readonly command: string; readonly cwd: string },
): Promise<void> {
  if (!STARTS_GIT.has(baseName(command))) return
  const roots = await Promise.all(rootsOf(settings).map((root) => realpath(root)))
  const file = await findProgram('git', processes, roots)
  if (file === undefined) return
  const runGit = (at: string, args: readonly string[]) => gitOutput(processes, file, args, at)
  const pending: Array<{ readonly at: string; readonly depth: number }> = [{ at: cwd, depth: 0 }]
  const checkedFolders = new Set<string>()
  for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
    const { at, depth } = next
    const repository = await findRepository(runGit, at)
    if (!repository || checkedFolders.has(repository.gitDir)) continue
    checkedFolders.add(repository.gitDir)
    if (checkedFolders.size > MAX_REPOSITORIES || depth > MAX_DEPTH)
      throw createRepositoryError('it has too many submodules to check')
    const isInner = depth > 0
    // A file that no tool can write belongs to the operator.
    const check = async (settingsFile: string): Promise<void> =>
      isInside(settingsFile, roots) ? checkSettings(runGit, settingsFile, isInner, repository, roots) : undefined
    await Promise.all([check(join(repository.commonDir, 'config')), check(join(repository.gitDir, 'config.worktree'))])
    if (isInner) await checkHooks(repository.commonDir)
    else checkWorkTree(repository, roots)
    for (const folder of await listSubmoduleFolders(join(repository.commonDir, 'modules'), MAX_DEPTH)) {
      await checkSettings(runGit, join(folder, 'config'), true, undefined, roots)
      await checkHooks(folder)
    }
    for (const path of await listSubmodules(runGit, repository)) pending.push({ at: path, depth: depth + 1 })
  }
}

type Git = (at: string, args: readonly string[]) => Promise<string | undefined>

async function findRepository(git: Git, at: string): Promise<Repository | undefined> {
  const gitArgs = ['rev-parse', '--absolute-git-dir', '--git-common-dir']
  const workTree = await git(at, [...gitArgs, '--show-toplevel'])
  // A `.git` folder contains no working files.
  const output = workTree ?? (await git(at, gitArgs))
  if (output === undefined) return undefined
  const paths = output.replace(/\n$/, '').split('\n')
  if (paths.length !== (workTree === undefined ? 2 : 3) || output.includes('\ufffd'))
    throw createRepositoryError('its path has unsupported characters')
  const [gitDir = '', common = '', top] = paths.map((path) => resolve(at, path))
  return { gitDir, commonDir: common, top }
}

async function checkSettings(
  git: Git,
  file: string,
  isInner: boolean,
  where: Repository | undefined,
  roots: readonly string[],
): Promise<void> {
  if (!existsSync(file)) return
  // Includes are settings too and are not followed.
  const listed = await git(dirname(file), ['config', '--file', file, '--list', '-z'])
  if (listed === undefined) throw createRepositoryError('its settings cannot be read')
  for (const entry of listed.split('\0')) {
    const lineEnd = entry.indexOf('\n')
    const name = lineEnd === -1 ? entry : entry.slice(0, lineEnd)
    const value = lineEnd === -1 ? '' : entry.slice(lineEnd + 1)
    const lowerName = name.toLowerCase()
    if (lowerName === 'core.worktree' && !isInner && !isInside(where?.top, roots))
      throw createRepositoryError(`it uses files elsewhere (${shorten(name)})`)
    if (namesProgram(lowerName, value, isInner)) throw createRepositoryError(`it names a program (${shorten(name)})`)
  }
}

function namesProgram(name: string, value: string, isInner: boolean): boolean {
  if (LFS_SETTINGS[name]?.test(value)) return false
  if (/^submodule\..*\.update$/.test(name)) return value.startsWith('!')
  // git's built-in monitor.
  if (name === 'core.fsmonitor' && /^(?:true|false|yes|no|on|off|0|1|)$/i.test(value)) return false
  if (!isInner && OVERRIDDEN.has(name)) return false
  return PROGRAM_SECTIONS.test(name) || PROGRAM_SETTINGS.test(name)
}

/** Hooks are disabled for the repository itself only. */
async function checkHooks(folder: string): Promise<void> {
  const hooks = await readdir(join(folder, 'hooks')).catch(() => [])
  const [hook] = hooks.filter((name) => !name.endsWith('.sample'))
  if (hook !== undefined) throw createRepositoryError(`a submodule has a hook (${shorten(hook)})`)
}

/** A `.git` file in a subfolder, which any tool may write, can point to any repository of this machine. */
function checkWorkTree({ gitDir, top }: Repository, roots: readonly string[]): void {
  if (top === undefined || isInside(gitDir, roots)) return
  if (roots.some((root) => top.startsWith(root + sep))) throw createRepositoryError('its files are elsewhere (.git)')
}

async function listSubmodules(git: Git, { top }: Repository): Promise<readonly string[]> {
  if (top === undefined) return []
  const files = await git(top, ['ls-files', '--stage', '-z'])
  if (files === undefined) throw createRepositoryError('its files cannot be read')
  return files.split('\0').flatMap((line) => {
    const path = /^160000 [0-9a-f]+ \d\t(.+)$/s.exec(line)?.[1]
    if (path?.includes('\ufffd')) throw createRepositoryError('a submodule has an unsupported name')
    return path !== undefined && existsSync(join(top, path)) ? [join(top, path)] : []
  })
}

/** Folders of submodules below this one, checked out or not. */
async function listSubmoduleFolders(folder: string, depth: number): Promise<readonly string[]> {
  const entries = await readdir(folder, { withFileTypes: true }).catch(() => [])
  if (entries.some(({ name }) => name === 'HEAD'))
    return [folder, ...(await listSubmoduleFolders(join(folder, 'modules'), depth - 1))]
  if (depth <= 0 && entries.length > 0) throw createRepositoryError('it has too many submodules to check')
  const folders = entries.filter((entry) => entry.isDirectory())
  return (await Promise.all(folders.map(({ name }) => listSubmoduleFolders(join(folder, name), depth - 1)))).flat()
}

const isInside = (path: string | undefined, roots: readonly string[]): boolean =>
  path !== undefined && roots.some((root) => path === root || path.startsWith(root + sep))

/** git's output; undefined if it fails. */
async function gitOutput(
  processes: Processes,
  command: string,
  args: readonly string[],
  cwd: string,
): Promise<string | undefined> {
  const program = await processes.start({ command, args, cwd })
  program.stdin.end()
  program.stderr.resume()
  const chunks: Buffer[] = []
  let size = 0
  program.stdout.on('data', (chunk: Buffer) => {
    size += chunk.length
    if (size <= MAX_OUTPUT) chunks.push(chunk)
    else void program.stop(0)
  })
  const { code } = await program.ended
  if (size > MAX_OUTPUT) throw createRepositoryError('it has too many files to check')
  return code === 0 ? Buffer.concat(chunks).toString('utf8') : undefined
}

const shorten = (name: string): string => (name.length > 100 ? `${name.slice(0, 100)}…` : name)

const createRepositoryError = (reason: string): ToolError =>
  denied(
    `git does not run outside the sandbox in this repository: ${reason}.`,
    'The operator removes that from the repository, or lets git run in the sandbox (modules.shell.config.allowed_commands).',
  )
