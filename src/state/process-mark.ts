import { readFileSync, readlinkSync } from 'node:fs'

/** Which process this is, so that another one on the same machine can tell that it has ended. Linux only; else `undefined`. */
export function markOfThisProcess(): string | undefined {
  try {
    return JSON.stringify([...here(), process.pid, startOf(process.pid)])
  } catch {
    return undefined
  }
}

/** Whether that process has ended for sure. False for one of another machine or container, of which nothing can be said. */
export function hasEnded(mark: string): boolean {
  try {
    const [boot, namespace, pid, start] = JSON.parse(mark) as [string, string, number, string]
    const [ourBoot, ourNamespace] = here()
    return boot === ourBoot && namespace === ourNamespace && startOf(pid) !== start
  } catch {
    return false
  }
}

/** This start of the machine, and the set of process numbers that this process sees. */
const here = (): readonly [string, string] => [
  readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim(),
  readlinkSync('/proc/self/ns/pid'),
]

/** When a process began, in ticks since the machine did: its number may belong to another by now. */
function startOf(pid: number): string | undefined {
  let stat: string
  try {
    stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
  // The name in brackets may have spaces and brackets of its own.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  const [state] = fields
  return state === 'Z' || state === 'X' ? undefined : fields[19]
}
