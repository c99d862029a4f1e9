import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process'
import { PegboardError } from '../core/errors.ts'

export const noRoom = (cause: unknown, what = 'No program can be started'): PegboardError =>
  new PegboardError('E_OVERLOADED', `${what} now: too many files or programs are open.`, {
    hint: 'Try again later.',
    cause,
  })

/** `spawn` with pipes. @throws the error of the system where there is no room for the pipes: Node makes no streams then, and tells it later */
export function spawnPiped(file: string, args: readonly string[], options: SpawnOptions): ChildProcess {
  const child = spawn(file, [...args], options)
  // Not even `null`, whatever its types say.
  if (child.stdin !== undefined) return child
  child.once('error', () => undefined)
  throw Object.assign(new Error(`spawn ${file} EMFILE`), { code: 'EMFILE' })
}
