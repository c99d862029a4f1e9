import type { Clock } from '../core/clock.ts'
import type { Caller } from '../core/context.ts'
import { messageOf } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import type { View } from './view.ts'

/** Takes what modules have to tell a caller; absent where none that it sees ever has anything. */
export type Notices = (view: View, caller: Caller) => (() => Promise<readonly string[]>) | undefined

/** A result does not wait longer for what nobody asked for. */
const MAX_MS = 1_000
const MAX_CHARS = 2_000
const MAX_LINES = 20

/** A module that throws, takes too long, or answers with something else, is left out and logged. */
export function createNotices(log: Log, clock: Clock): Notices {
  return ({ noticing, profile }, caller) =>
    noticing.length === 0
      ? undefined
      : async () => {
          const all = noticing.map(async ({ id, notices }) => {
            try {
              return checked(await inTime(clock, async () => notices?.(caller, profile)))
            } catch (error) {
              log.warn('the notices of a module were left out', { module: id, error: messageOf(error) })
              return []
            }
          })
          return (await Promise.all(all)).flat()
        }
}

function checked(given: unknown): readonly string[] {
  if (!Array.isArray(given) || !given.every((line) => typeof line === 'string'))
    throw new TypeError('notices returns a list of texts')
  return given.slice(0, MAX_LINES).map((line: string) => line.slice(0, MAX_CHARS))
}

async function inTime(clock: Clock, work: () => Promise<unknown>): Promise<unknown> {
  let cancel: (() => void) | undefined
  const late = new Promise<never>((_resolve, reject) => {
    cancel = clock.after(MAX_MS, () => reject(new Error(`it took longer than ${MAX_MS} ms`)))
  })
  return await Promise.race([work(), late]).finally(() => cancel?.())
}
