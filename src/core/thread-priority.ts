import { setPriority } from 'node:os'

const LOW = 10

/** Lowers the priority of a thread that computes for one caller, so that the server can answer all others. */
export function lowerThreadPriority(): void {
  // Elsewhere it would apply to the whole process.
  if (process.platform === 'linux') setPriority(LOW)
}
