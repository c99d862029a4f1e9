import { readFileSync, readlinkSync } from 'node:fs'

/** Identifies this process for `hasEnded` in another process of this machine. Undefined on anything but Linux. */
export function createProcessMark(): string | undefined {
  try {
    return JSON.stringify([...readProcessSpace(), process.pid, startOf(process.pid)])
  } catch {
    return undefined
  }
}

/** True if that process has certainly ended; false if it belongs to another machine or container. */
export function hasEnded(mark: string): boolean {
  try {
    const [boot, namespace, pid, start] = JSON.parse(mark) as [string, string, number, string]
    const [ourBoot, ourNamespace] = readProcessSpace()
    return boot === ourBoot && namespace === ourNamespace && startOf(pid) !== start
  } catch {
    return false
  }
}

/** The boot id and the PID namespace of this process. */
const readProcessSpace = (): readonly [string, string] => [
  readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim(),
  readlinkSync('/proc/self/ns/pid'),
]

/** The start time of a process in ticks since boot. Process ids are reused; start times tell them apart. */
function startOf(pid: number): string | undefined {
  let stat: string
  try {
    stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
  // The command name in brackets may itself contain spaces and brackets.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  const [state] = fields
  return state === 'Z' || state === 'X' ? undefined : fields[19]
}
