import type { ChildProcessByStdio, SpawnOptions } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import type { Writable } from 'node:stream'
import { isResourceExhausted } from '../core/error-codes.ts'
import { MARK } from './descendants.ts'
import type { Environment } from './spawn.ts'
import { spawnPiped } from './spawn-piped.ts'

/**
 * Ends the process groups of our children if this process dies without doing so, for example after SIGKILL. A small
 * process in its own session reads the groups from its stdin. When stdin closes, it sends SIGTERM, and a second later
 * SIGKILL, to the remaining groups and to descendants that left their group. Windows has no groups: `taskkill` ends
 * each child with its tree, but misses grandchildren whose parent has exited.
 */
export type Watchdog = ReturnType<typeof createWatchdog>

export interface WatchdogOptions {
  readonly platform: string
  /** Pegboard's own environment, of which programs get only a part. */
  readonly environment: Environment
  /** How it is started; default: by platform. */
  readonly plan?: WatchdogPlan
  /** Called when it cannot be kept running. */
  warn(message: string): void
}

// Input lines are `+pid` and `-pid`. POSIX shell only: it runs on dash, bash 3 and busybox. It ignores signals that
// would end it before Pegboard.
const POSIX = `trap '' HUP INT QUIT TERM
mark=$1
groups=' '
while IFS= read -r line; do
  pid=\${line#?}
  case $pid in ''|*[!0-9]*) continue;; esac
  case $line in
    +*) groups="$groups$pid ";;
    -*) case $groups in *" $pid "*) key=" $pid "; groups="\${groups%%$key*} \${groups#*$key}";; esac;;
  esac
done
case $groups in *[0-9]*) ;; *) exit 0;; esac
table() {
  if [ -r /proc/self/stat ]; then
    for file in /proc/[0-9]*/stat; do
      { IFS= read -r stat < "$file"; } 2>/dev/null || continue
      pid=\${file#/proc/}
      set -- \${stat##*) }
      echo "\${pid%/stat} $2"
    done
  else ps -A -o pid= -o ppid= 2>/dev/null
  fi
}
end() { for pid in $2; do kill -s "$1" -- "$3$pid" 2>/dev/null; done; }
all=$(table)
end TERM "$groups" -
sleep 1 &
below=$groups
grew=1
while [ $grew = 1 ]; do
  grew=0
  while read -r pid parent; do
    case $below in *" $pid "*) continue;; esac
    case $below in *" $parent "*) below="$below$pid "; grew=1;; esac
  done <<END
$all
END
done
# Processes whose environment has the mark of one of our programs.
for file in $(grep -lzs "^${MARK}=$mark[.]" /proc/[0-9]*/environ 2>/dev/null); do
  pid=\${file#/proc/}
  pid=\${pid%/environ}
  case $below in *" $pid "*) ;; *) below="$below$pid ";; esac
done
end TERM "$below" ''
wait
end KILL "$groups" -
end KILL "$below" ''
exit 0
`

const WINDOWS = `const pids = new Set()
require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
  const pid = line.slice(1)
  if (!/^\\d+$/.test(pid)) return
  if (line[0] === '+') pids.add(pid)
  else pids.delete(pid)
}).on('close', () => {
  for (const pid of pids) require('node:child_process').spawnSync('taskkill', ['/pid', pid, '/T', '/F'], { stdio: 'ignore', windowsHide: true })
})`

export interface WatchdogPlan {
  readonly file: string
  readonly args: readonly string[]
  readonly options: Pick<SpawnOptions, 'detached' | 'windowsHide' | 'cwd'>
}

/** How the watchdog is started. @param node path of the running Node */
export const watchdogPlan = (platform: string, node: string, mark = ''): WatchdogPlan =>
  platform === 'win32'
    ? { file: node, args: ['-e', WINDOWS], options: { detached: true, windowsHide: true } }
    : { file: '/bin/sh', args: ['-c', POSIX, 'pegboard-watchdog', mark], options: { detached: true, cwd: '/' } }

type WatchdogProcess = ChildProcessByStdio<Writable, null, null>

const INHERITED = ['PATH', 'SYSTEMROOT', 'SystemRoot', 'WINDIR', 'windir']
/** If it ends this often, something is killing it on purpose, and it is not started again. */
const MAX_STARTS = 20

export function createWatchdog({ platform, environment, plan, warn }: WatchdogOptions) {
  const guarded = new Set<number>()
  let child: WatchdogProcess | undefined
  let starts = 0
  const own = randomBytes(8).toString('hex')
  let marks = 0

  const tell = (line: string): void => {
    if (child?.stdin.writable) child.stdin.write(line)
  }

  /**
   * Ensures that it runs. Called before a child is started, so that the child is watched from the beginning.
   * @throws if the system has no resources for it
   */
  function wake(): void {
    if (child || starts >= MAX_STARTS) return
    const { file, args, options } = plan ?? watchdogPlan(platform, process.execPath, own)
    const env = Object.fromEntries(INHERITED.flatMap((name) => (environment[name] ? [[name, environment[name]]] : [])))
    const started = spawnPiped(file, args, { ...options, env, stdio: ['pipe', 'ignore', 'ignore'] }) as WatchdogProcess
    starts++
    child = started
    const gone = (why: string): void => {
      if (child !== started) return
      child = undefined
      warn(`the watchdog ended (${why})${starts < MAX_STARTS ? '' : '; children may outlive a killed Pegboard'}`)
      if (guarded.size > 0) wakeIfThereIsRoom()
    }
    started.once('exit', (code, signal) => gone(String(signal ?? code)))
    started.once('error', (error: NodeJS.ErrnoException) => {
      if (isResourceExhausted(error) && child === started) child = undefined
      // If it could not be started once, further attempts are pointless.
      starts = MAX_STARTS
      gone(error.code ?? error.message)
    })
    // The `exit` event reports its end.
    started.stdin.on('error', () => undefined)
    // Neither the process nor its pipe keeps Pegboard running.
    started.unref()
    ;(started.stdin as unknown as { unref(): void }).unref()
    for (const pid of guarded) tell(`+${pid}\n`)
  }

  /** The next watchdog gets the list of everything that is watched. */
  function wakeIfThereIsRoom(): void {
    try {
      wake()
    } catch (error) {
      if (!isResourceExhausted(error)) throw error
    }
  }

  return {
    wake,
    /** Mark for a child's environment; finds everything the child starts, whoever its parent is later. */
    mark: (): string => `${own}.${++marks}`,
    guard(pid: number): void {
      guarded.add(pid)
      if (child) tell(`+${pid}\n`)
      else wakeIfThereIsRoom()
    },
    release(pid: number): void {
      if (guarded.delete(pid)) tell(`-${pid}\n`)
    },
    /** Ends the watchdog as soon as nothing is watched; it is started again when needed. */
    stop(): void {
      const ending = child
      child = undefined
      ending?.stdin.end()
    },
    get pid(): number | undefined {
      return child?.pid
    },
  }
}
