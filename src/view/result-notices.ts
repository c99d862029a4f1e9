import type { Owner } from '../catalog/owner.ts'
import type { Caller } from '../core/caller.ts'
import type { Clock } from '../core/clock.ts'
import { messageOf } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import type { Profile } from '../core/profile.ts'
import { waitAtMost } from '../core/wait-at-most.ts'
import type { View } from './view.ts'

/** Returns a function that gets the notices for a caller; undefined if no visible module has any. */
export type ResultNotices = (view: View, caller: Caller) => (() => Promise<readonly string[]>) | undefined

/** Maximum time that a result waits for notices, in milliseconds. */
const MAX_MS = 1_000
const MAX_CHARS = 2_000
const MAX_LINES = 20

/** Omits and logs a module that throws, takes too long, or returns the wrong shape. */
export function createResultNotices(log: Log, clock: Clock): ResultNotices {
  const read = async ({ id, notices }: Owner, caller: Caller, profile: Profile): Promise<readonly string[]> => {
    try {
      return requireTexts(await waitAtMost(MAX_MS, Promise.resolve(notices?.(caller, profile)), throwTooSlow, clock))
    } catch (error) {
      log.warn('skipped the notices of a module', { module: id, error: messageOf(error) })
      return []
    }
  }
  return ({ noticing, profile }, caller) => {
    if (noticing.length === 0) return undefined
    return async () => (await Promise.all(noticing.map((owner) => read(owner, caller, profile)))).flat()
  }
}

function requireTexts(value: unknown): readonly string[] {
  if (!Array.isArray(value) || !value.every((line) => typeof line === 'string'))
    throw new TypeError('notices returns a list of texts')
  return value.slice(0, MAX_LINES).map((line: string) => line.slice(0, MAX_CHARS))
}

const throwTooSlow = (): never => {
  throw new Error(`it took longer than ${MAX_MS} ms`)
}
