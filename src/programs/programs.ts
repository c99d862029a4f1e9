import type { ChildProcessByStdio } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import type { Readable, Writable } from 'node:stream'
import { isResourceExhausted } from '../core/error-codes.ts'
import { PegboardError, shuttingDown } from '../core/errors.ts'
import type { Processes, Program, ProgramProcess, ProgramUsage } from '../core/service-types.ts'
import { childStdio } from './child-stdio.ts'
import { descendantsOf, endDescendants, MARK } from './descendants.ts'
import { safeGit } from './git-settings.ts'
import { createOrphanProcesses, type OrphanProcesses } from './orphan-processes.ts'
import { childEnvironment, type Environment, killTree, spawnPlan } from './spawn.ts'
import { spawnExhausted, spawnPiped } from './spawn-piped.ts'
import { createWatchdog, type Watchdog, type WatchdogOptions } from './watchdog.ts'

export interface Programs extends Processes {
  /** Ends all running programs, including those that start meanwhile. */
  stop(): Promise<void>
}

type Child = ChildProcessByStdio<Writable, Readable, Readable>

const GRACE_MS = 500
/** How long to wait for a program's last output. A grandchild may keep a pipe open forever. */
const DRAIN_MS = 200
/** Limit of scans, for programs that start others faster than they are found. */
const MAX_LOOKS = 20
const UNSEEN = 'Cannot read the resource use of a program'

/**
 * Runs the programs of tools: each in its own process group, watched, and ended together with everything it started.
 */
export function createPrograms({ platform, environment, warn }: Omit<WatchdogOptions, 'plan'>): Programs {
  const running = new Set<Program>()
  const orphans = createOrphanProcesses(platform)
  let dog: Watchdog | undefined
  let stopped = false

  const inherited = (names: readonly string[] = []): Environment =>
    Object.fromEntries(names.map((name) => [name, environment[name]]))

  return {
    platform,
    environment: (inherit) => childEnvironment(environment, inherited(inherit), platform),
    async start({ command, args = [], cwd, env: named = {}, inherit }) {
      if (stopped) throw shuttingDown()
      dog ??= createWatchdog({ platform, environment, warn })
      const mark = dog.mark()
      const baseEnv = childEnvironment(environment, { ...inherited(inherit), ...named, [MARK]: mark }, platform)
      const env = { ...baseEnv, ...safeGit(baseEnv) }
      const plan = spawnPlan(command, args, env, platform)
      let child: Child
      try {
        dog.wake()
        child = spawnPiped(plan.file, plan.args, { ...plan.options, env, cwd, stdio: childStdio(platform) }) as Child
      } catch (error) {
        throw isResourceExhausted(error) ? spawnExhausted(error) : error
      }
      // The end of the program reports a better reason.
      for (const stream of [child.stdin, child.stdout, child.stderr]) stream.on('error', () => undefined)
      const program = watchProgram(child, platform, dog, { orphans, mark }, () => running.delete(program))
      running.add(program)
      await new Promise<void>((resolve, reject) => {
        child.once('spawn', resolve)
        child.once('error', (cause: NodeJS.ErrnoException) =>
          reject(
            cause.code === 'ENOENT'
              ? new PegboardError('E_NOT_FOUND', 'The program or its working folder does not exist.', { cause })
              : isResourceExhausted(cause)
                ? spawnExhausted(cause)
                : new PegboardError('E_TOOL_FAILED', `The program cannot start (${cause.code}).`, { cause }),
          ),
        )
      })
      return program
    },
    async stop() {
      stopped = true
      await Promise.all([...running].map((program) => program.stop()))
      dog?.stop()
    },
  }
}

function watchProgram(
  child: Child,
  platform: string,
  dog: Watchdog,
  { orphans, mark }: { readonly orphans: OrphanProcesses; readonly mark: string },
  gone: () => void,
): Program {
  const { pid } = child
  if (pid !== undefined) dog.guard(pid)
  // Remembers processes once seen: a process that leaves the group and loses its parent can otherwise only be found
  // by its mark.
  const seenProcesses = new Map<number, string>()
  const runs = (): boolean => pid !== undefined && child.exitCode === null && child.signalCode === null
  const look = (): ReadonlyMap<number, string> => {
    const below = runs() ? descendantsOf(pid as number, platform) : new Map<number, string>()
    for (const [id, start] of below) seenProcesses.set(id, start)
    return below
  }

  const ended = new Promise<Awaited<Program['ended']>>((resolve) => {
    let over = false
    const end = async (): Promise<void> => {
      if (over) return
      over = true
      killTree(child, 'SIGKILL', platform)
      endDescendants(seenProcesses, 'SIGKILL', platform)
      for (const stream of [child.stdin, child.stdout, child.stderr]) stream.destroy()
      await endMarked()
      if (pid !== undefined) dog.release(pid)
      gone()
      resolve({ code: child.exitCode, signal: child.signalCode })
    }
    /** Processes started during the scan are found by the next one. */
    async function endMarked(): Promise<void> {
      for (let look = 0; look < MAX_LOOKS; look++)
        if (!endDescendants(await orphans.of(mark), 'SIGKILL', platform)) return
    }
    child.once('close', end)
    child.once('exit', () => setTimeout(end, DRAIN_MS))
    child.once('error', () => !runs() && end())
  })

  let stopping: Promise<void> | undefined
  const stop = async (graceMs: number): Promise<void> => {
    look()
    killTree(child, 'SIGTERM', platform)
    endDescendants(seenProcesses, 'SIGTERM', platform)
    const late = setTimeout(() => {
      look()
      killTree(child, 'SIGKILL', platform)
      endDescendants(seenProcesses, 'SIGKILL', platform)
    }, graceMs)
    await ended
    clearTimeout(late)
  }

  return {
    pid: pid ?? 0,
    stdin: child.stdin,
    stdout: child.stdout,
    stderr: child.stderr,
    ended,
    async usage() {
      const below = look()
      return runs() ? await usageOf([pid as number, ...below.keys()], platform) : { processes: 0, bytes: 0 }
    },
    async list() {
      const below = look()
      return runs() ? await processesOf([pid as number, ...below.keys()], platform) : []
    },
    signal(targetPid, signal) {
      if (!runs() || (targetPid !== pid && !look().has(targetPid))) return false
      try {
        return process.kill(targetPid, signal)
      } catch (error) {
        if (['ESRCH', 'EPERM'].includes((error as NodeJS.ErrnoException).code ?? '')) return false
        throw error
      }
    },
    stop(graceMs = GRACE_MS) {
      stopping ??= stop(graceMs)
      return stopping
    },
  }
}

async function usageOf(pids: readonly number[], platform: string): Promise<ProgramUsage> {
  if (platform === 'win32') return { processes: 0, bytes: 0 }
  const found = await processesOf(pids, platform)
  return { processes: pids.length, bytes: found.reduce((sum, { bytes }) => sum + bytes, 0) }
}

async function processesOf(pids: readonly number[], platform: string): Promise<readonly ProgramProcess[]> {
  if (platform === 'win32') return []
  if (platform !== 'linux') return await processesByPs(pids)
  const found = await Promise.all(pids.map(processFromProc))
  return found.filter((one) => one !== undefined)
}

async function processFromProc(pid: number): Promise<ProgramProcess | undefined> {
  try {
    const [words, status] = await Promise.all([
      readFile(`/proc/${pid}/cmdline`, 'utf8'),
      readFile(`/proc/${pid}/status`, 'utf8'),
    ])
    const field = (name: string): string => new RegExp(`^${name}:\\s+(\\S+)`, 'm').exec(status)?.[1] ?? ''
    const command = words.replaceAll('\0', ' ').trim()
    return {
      pid,
      parent: Number(field('PPid')),
      command: command === '' ? field('Name') : command,
      bytes: Number(field('VmRSS')) * 1024,
    }
  } catch (error) {
    if (['ENOENT', 'ESRCH', 'EACCES'].includes((error as NodeJS.ErrnoException).code ?? '')) return undefined
    throw isResourceExhausted(error) ? spawnExhausted(error, UNSEEN) : error
  }
}

/** `ps` fails if one process is gone, but still lists the others. */
const processesByPs = (pids: readonly number[]): Promise<readonly ProgramProcess[]> =>
  new Promise((resolve) => {
    const columns = ['pid=', 'ppid=', 'rss=', 'command='].flatMap((one) => ['-o', one])
    const { execFile } = process.getBuiltinModule('node:child_process')
    execFile('/bin/ps', [...columns, '-p', pids.join(',')], { timeout: 2_000 }, (_error, stdout) =>
      resolve(
        stdout.split('\n').flatMap((line) => {
          const [, pid, parent, size, command = ''] = /^\s*(\d+)\s+(\d+)\s+(\d+)\s+(.*)$/.exec(line) ?? []
          return pid === undefined
            ? []
            : [{ pid: Number(pid), parent: Number(parent), command, bytes: Number(size) * 1024 }]
        }),
      ),
    )
  })
