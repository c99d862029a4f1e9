import { messageOf } from '../core/errors.ts'
import { LIST_KINDS, type ListKind } from '../core/list-kinds.ts'
import type { Connection } from './connection.ts'
import type { ReconnectingLink } from './reconnecting-link.ts'
import type { ServerOwner } from './server-owner.ts'
import type { ServerContext } from './upstream-shared.ts'

export const ALL: ReadonlySet<ListKind> = new Set(LIST_KINDS)
/** The first five changes per minute are read at once, later ones every ten seconds. */
const PACE = { soonMs: 50, calm: 5, withinMs: 60_000, stormMs: 10_000 }

/** Tracks changed lists and reads them again: at once, or at intervals if they change all the time. */
export function createListRefresh({ shared, log }: ServerContext, link: ReconnectingLink, owner: ServerOwner) {
  const { clock } = shared
  const dirty = new Set<ListKind>()
  let busy = false
  let recentReads: number[] = []
  let cancel: (() => void) | undefined

  function schedule(): void {
    if (cancel || busy || owner.state() !== 'ready') return
    recentReads = recentReads.filter((at) => clock.now() - at < PACE.withinMs)
    cancel = clock.after(recentReads.length < PACE.calm ? PACE.soonMs : PACE.stormMs, () => {
      cancel = undefined
      refreshNow().catch((error: unknown) => log.warn(`lists not read: ${messageOf(error)}`))
    })
  }

  async function read(connection: Connection, kinds: ReadonlySet<ListKind>): Promise<void> {
    const fresh = await owner.read(connection, kinds)
    if (connection === link.live()) owner.publish(fresh, connection)
  }

  async function refreshNow(): Promise<void> {
    const connection = link.live()
    if (busy || !connection) return
    const reading = read(connection, new Set(dirty))
    busy = true
    recentReads.push(clock.now())
    dirty.clear()
    try {
      await reading
    } finally {
      busy = false
      if (dirty.size > 0) schedule()
    }
  }

  function readAll(): Promise<void> {
    for (const kind of ALL) dirty.add(kind)
    return refreshNow()
  }

  return {
    get busy(): boolean {
      return busy
    },
    changed(kind: ListKind): void {
      dirty.add(kind)
      schedule()
    },
    /** Called before all lists are read; earlier changes are included in them. */
    begin: (): void => dirty.clear(),
    resume(): void {
      if (dirty.size > 0) schedule()
    },
    /** Reads all lists, connecting if necessary. @throws PegboardError as `ReconnectingLink.ready` */
    async all(): Promise<void> {
      const wasConnected = link.live()
      await link.ready()
      // A new connection has just read them.
      if (wasConnected) await readAll()
    },
    /** Reads all lists to check whether the connection still works. */
    async recheck(): Promise<void> {
      const connection = link.live()
      if (!connection || busy) return
      await readAll().catch((error: unknown) => {
        log.debug('checked after a pause', { error: messageOf(error) })
        link.lost(connection, 'it did not answer after a pause')
      })
    },
    stop: (): void => cancel?.(),
  }
}
