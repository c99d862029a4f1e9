import type { StdioOptions } from 'node:child_process'
import { openSync, readdirSync, readFileSync } from 'node:fs'
import { isResourceExhausted } from '../core/error-codes.ts'

/** The close-on-exec flag of a descriptor. Every descriptor that Pegboard opens has it. */
const CLOSED_FOR_OTHERS = 0o2000000

let cached: StdioOptions | undefined

/**
 * Three pipes for a child process, and none of the descriptors that Pegboard itself inherited, because the child
 * could write to them.
 * @throws if no file can be opened to check
 */
export function childStdio(platform: string): StdioOptions {
  cached ??= platform === 'linux' ? withoutStrays() : 'pipe'
  return cached
}

function withoutStrays(): StdioOptions {
  const inherited = descriptors().filter(isInherited)
  if (inherited.length === 0) return 'pipe'
  const nothing = openSync('/dev/null', 'r+')
  const most = Math.max(...inherited)
  // Ignored descriptors stay as they are.
  return Array.from({ length: most + 1 }, (_, at) => (at < 3 ? 'pipe' : inherited.includes(at) ? nothing : 'ignore'))
}

function descriptors(): number[] {
  try {
    return readdirSync('/proc/self/fd').map(Number)
  } catch (error) {
    if (isResourceExhausted(error)) throw error
    return []
  }
}

function isInherited(descriptor: number): boolean {
  if (descriptor < 3) return false
  try {
    const flags = /^flags:\s*([0-7]+)$/m.exec(readFileSync(`/proc/self/fdinfo/${descriptor}`, 'latin1'))?.[1] ?? ''
    return flags !== '' && (Number.parseInt(flags, 8) & CLOSED_FOR_OTHERS) === 0
  } catch (error) {
    if (isResourceExhausted(error)) throw error
    // The entry was the descriptor of the folder itself.
    return false
  }
}
