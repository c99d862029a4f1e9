import type { Clock } from '../core/clock.ts'
import { messageOf } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import type { ListKind } from './listing.ts'

export interface RefreshHost {
  /** Whether there is a connection whose first lists were read. */
  isReady(): boolean
  /** Reads these lists again and shows them; false where there is no connection to read on. */
  read(kinds: ReadonlySet<ListKind>): Promise<void> | false
}

/** Knows which lists have changed, and reads them again: at once, unless they change all the time. */
export interface Refresh {
  readonly busy: boolean
  changed(kind: ListKind): void
  /** All lists are about to be read: what changed before that is in them. */
  begin(): void
  /** Reads what changed while they were read. */
  resume(): void
  /** Reads all lists again. */
  all(): Promise<void>
  stop(): void
}

export const ALL: ReadonlySet<ListKind> = new Set<ListKind>(['tools', 'resources', 'prompts'])
/** The first five changes of a minute are read at once, those after them every ten seconds. */
const PACE = { soonMs: 50, calm: 5, withinMs: 60_000, stormMs: 10_000 }

export function createRefresh(clock: Clock, log: Log, host: RefreshHost): Refresh {
  const dirty = new Set<ListKind>()
  let busy = false
  let last: number[] = []
  let cancel: (() => void) | undefined

  function soon(): void {
    if (cancel || busy || !host.isReady()) return
    last = last.filter((at) => clock.now() - at < PACE.withinMs)
    cancel = clock.after(last.length < PACE.calm ? PACE.soonMs : PACE.stormMs, () => {
      cancel = undefined
      now().catch((error: unknown) => log.warn(`lists not read: ${messageOf(error)}`))
    })
  }

  async function now(): Promise<void> {
    if (busy) return
    const reading = host.read(new Set(dirty))
    if (reading === false) return
    busy = true
    last.push(clock.now())
    dirty.clear()
    try {
      await reading
    } finally {
      busy = false
      if (dirty.size > 0) soon()
    }
  }

  return {
    get busy() {
      return busy
    },
    changed(kind) {
      dirty.add(kind)
      soon()
    },
    begin: () => dirty.clear(),
    resume() {
      if (dirty.size > 0) soon()
    },
    all() {
      for (const kind of ALL) dirty.add(kind)
      return now()
    },
    stop: () => cancel?.(),
  }
}
