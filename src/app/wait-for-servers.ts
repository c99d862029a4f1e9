import type { Catalog } from '../catalog/catalog.ts'
import type { Caller } from '../core/caller.ts'
import type { Clock } from '../core/clock.ts'
import { unreadServers } from '../view/unread-servers.ts'
import type { View } from '../view/view.ts'

const LONGEST_WAIT_MS = 2_000

interface Reading {
  readonly catalog: Pick<Catalog, 'onChange'>
  readonly clock: Clock
  view(caller: Caller): View
  /** Connects to waiting servers now. */
  begin(): void
}

/**
 * Waits until the tools of all visible servers are known, two seconds at most. A slower server is waited for only once,
 * so that it does not delay every search.
 */
export function createWaitForServers({ catalog, clock, view, begin }: Reading): (caller: Caller) => Promise<void> {
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
