import type { Clock } from '../core/clock.ts'
import { messageOf } from '../core/errors.ts'
import { LIST_KINDS, type ListKind } from '../core/list-kinds.ts'
import type { Log } from '../core/log.ts'

export interface RefreshHost {
  /** True if there is a connection whose first lists were read. */
  isReady(): boolean
  /** Reads and publishes these lists; false if there is no connection. */
  read(kinds: ReadonlySet<ListKind>): Promise<void> | false
}

export const ALL: ReadonlySet<ListKind> = new Set(LIST_KINDS)
/** The first five changes per minute are read at once, later ones every ten seconds. */
const PACE = { soonMs: 50, calm: 5, withinMs: 60_000, stormMs: 10_000 }

/** Tracks changed lists and reads them again: at once, or at intervals if they change all the time. */
export function createListRefresh(clock: Clock, log: Log, host: RefreshHost) {
  const dirty = new Set<ListKind>()
  let busy = false
  let recentReads: number[] = []
  let cancel: (() => void) | undefined

  function schedule(): void {
    if (cancel || busy || !host.isReady()) return
    recentReads = recentReads.filter((at) => clock.now() - at < PACE.withinMs)
    cancel = clock.after(recentReads.length < PACE.calm ? PACE.soonMs : PACE.stormMs, () => {
      cancel = undefined
      refreshNow().catch((error: unknown) => log.warn(`lists not read: ${messageOf(error)}`))
    })
  }

  async function refreshNow(): Promise<void> {
    if (busy) return
    const reading = host.read(new Set(dirty))
    if (reading === false) return
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
    all(): Promise<void> {
      for (const kind of ALL) dirty.add(kind)
      return refreshNow()
    },
    stop: (): void => cancel?.(),
  }
}
