import { execFileSync, spawnSync } from 'node:child_process'
import { closeSync, openSync, readdirSync } from 'node:fs'

export const canLimit = process.platform === 'linux' && spawnSync('prlimit', ['--version']).status === 0

/** With this as its limit, a process can open nothing: it may have inherited descriptors with higher numbers. */
export function lowestFreeDescriptor(pid: number | string): number {
  const used = new Set(readdirSync(`/proc/${pid}/fd`))
  let lowest = 0
  while (used.has(String(lowest))) lowest++
  return lowest
}

/** From now on this process cannot open files, until the returned function is called. */
export function useUpDescriptors(): () => void {
  const pid = String(process.pid)
  const told = execFileSync('prlimit', ['--pid', pid, '--nofile', '--noheadings', '--output=SOFT'], {
    encoding: 'utf8',
  })
  const limit = (count: number): unknown => execFileSync('prlimit', ['--pid', pid, `--nofile=${count}:`])
  // The limit is the highest descriptor number, so lower ones must be in use, and some are needed to raise it again.
  const taken: number[] = []
  const top = Math.max(...readdirSync('/proc/self/fd').map(Number)) + 20
  limit(top)
  for (;;)
    try {
      taken.push(openSync('/dev/null', 'r'))
    } catch {
      break
    }
  return () => {
    for (const one of taken.splice(0)) closeSync(one)
    limit(Number(told))
  }
}
