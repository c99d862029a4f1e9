import type { ChildProcess, SpawnOptions } from 'node:child_process'
import { PegboardError } from '../core/errors.ts'

export const spawnExhausted = (cause: unknown, what = 'No program can be started'): PegboardError =>
  new PegboardError('E_OVERLOADED', `${what} now: too many files or programs are open.`, {
    hint: 'Try again later.',
    cause,
  })

/**
 * `spawn` with pipes.
 * @throws the system's error when no descriptors are left for the pipes; Node itself would create no streams and
 * report it later
 */
export function spawnPiped(file: string, args: readonly string[], options: SpawnOptions): ChildProcess {
  const { spawn } = process.getBuiltinModule('node:child_process')
  const child = spawn(file, [...args], options)
  // May be undefined, despite its types.
  if (child.stdin !== undefined) return child
  child.once('error', () => undefined)
  throw Object.assign(new Error(`spawn ${file} EMFILE`), { code: 'EMFILE' })
}
