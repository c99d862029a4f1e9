import type { StdioOptions } from 'node:child_process'
import { openSync, readdirSync, readFileSync } from 'node:fs'
import { isFull } from '../core/full.ts'

/** Of the flags of a descriptor: programs that are started do not get it. All that we open has it. */
const CLOSED_FOR_OTHERS = 0o2000000

let known: StdioOptions | undefined

/**
 * Three pipes for a program, and nothing of what whoever started us had left open: it could write there.
 * @throws where no file can be opened now to look
 */
export function pipes(platform: string): StdioOptions {
  known ??= platform === 'linux' ? withoutStrays() : 'pipe'
  return known
}

function withoutStrays(): StdioOptions {
  const strays = descriptors().filter(isStray)
  if (strays.length === 0) return 'pipe'
  const nothing = openSync('/dev/null', 'r+')
  const most = Math.max(...strays)
  // What is ignored is left as it is.
  return Array.from({ length: most + 1 }, (_, at) => (at < 3 ? 'pipe' : strays.includes(at) ? nothing : 'ignore'))
}

function descriptors(): number[] {
  try {
    return readdirSync('/proc/self/fd').map(Number)
  } catch (error) {
    if (isFull(error)) throw error
    return []
  }
}

function isStray(descriptor: number): boolean {
  if (descriptor < 3) return false
  try {
    const flags = /^flags:\s*([0-7]+)$/m.exec(readFileSync(`/proc/self/fdinfo/${descriptor}`, 'latin1'))?.[1] ?? ''
    return flags !== '' && (Number.parseInt(flags, 8) & CLOSED_FOR_OTHERS) === 0
  } catch (error) {
    if (isFull(error)) throw error
    // It was that of the folder.
    return false
  }
}
