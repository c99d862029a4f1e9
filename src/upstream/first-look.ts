import type { Clock } from '../core/clock.ts'
import type { Stop } from '../core/ending.ts'
import type { Link } from './link.ts'
import type { Turns } from './turns.ts'

/** The first connection to a server that nothing is known of: when its turn comes, or before all others for a call. */
export interface FirstLook {
  /** Makes it after this long, unless `begin` comes first. */
  plan(delayMs: number): void
  /** Waits no longer; nothing where none is planned. */
  begin(): void
  /** A live connection, for a call. @throws PegboardError as `Link.ready` */
  meet(signal?: Stop): Promise<void>
  /** Calls wait for it. */
  readonly awaited: boolean
  cancel(): void
}

export interface FirstLookOptions {
  readonly clock: Clock
  readonly turns: Turns
  readonly link: Pick<Link, 'connect' | 'later' | 'ready' | 'nextAttemptAt'>
  /** Nothing has been tried yet. */
  isNew(): boolean
  /** It is connected for good, so it takes no turn. */
  stays(): boolean
}

export function createFirstLook({ clock, turns, link, isNew, stays }: FirstLookOptions): FirstLook {
  /** Only while it waits for its time. */
  let look: (() => void) | undefined
  let turn: Promise<void> | undefined
  let meeting = 0

  /** Its turn to be connected has come, and it is being connected. */
  const nextTurn = (): Promise<void> =>
    new Promise((begun) =>
      turns.first(() => {
        begun()
        turn = undefined
        return isNew() ? link.connect() : Promise.resolve()
      }),
    )

  return {
    plan(delayMs) {
      const cancel = clock.after(delayMs, () => look?.())
      look = () => {
        cancel()
        look = undefined
        if (stays()) link.later(0)
        else turns.take(link.connect, () => !isNew() || link.nextAttemptAt !== undefined)
      }
    },
    begin: () => look?.(),
    async meet(signal) {
      meeting++
      try {
        if (isNew() && link.nextAttemptAt === undefined) {
          turn ??= nextTurn()
          await turn
        }
        await link.ready(signal)
      } finally {
        meeting--
      }
    },
    get awaited() {
      return meeting > 0
    },
    cancel() {
      look = undefined
    },
  }
}
