import type { Catalog } from './catalog/catalog.ts'
import type { Clock } from './core/clock.ts'
import type { Caller } from './core/context.ts'
import { unreadServers } from './view/unread.ts'
import type { View } from './view/view.ts'

const LONGEST_WAIT_MS = 2_000

interface Reading {
  readonly catalog: Pick<Catalog, 'onChange'>
  readonly clock: Clock
  view(caller: Caller): View
  /** Reads servers that wait for their time. */
  begin(): void
}

/**
 * Waits until the tools of all servers that the caller sees are known, two seconds at most. One that takes longer is
 * waited for once, so that a server that hangs does not slow down every search.
 */
export function createReading({ catalog, clock, view, begin }: Reading): (caller: Caller) => Promise<void> {
  const slow = new Set<string>()
  return async (caller) => {
    const unread = unreadServers(view(caller))
    for (const id of slow) if (!unread.includes(id)) slow.delete(id)
    const awaited = (): string[] => unreadServers(view(caller)).filter((id) => !slow.has(id))
    if (unread.every((id) => slow.has(id))) return
    begin()
    await new Promise<void>((resolve) => {
      const done = (): void => {
        cancel()
        stop()
        resolve()
      }
      const cancel = clock.after(LONGEST_WAIT_MS, () => {
        for (const id of awaited()) slow.add(id)
        done()
      })
      const stop = catalog.onChange(() => awaited().length === 0 && done())
    })
  }
}
