import type { Clock } from '../core/clock.ts'
import type { ReconnectingLink } from './reconnecting-link.ts'
import type { StartQueue } from './start-queue.ts'

export interface FirstConnectionOptions {
  readonly clock: Clock
  readonly startQueue: StartQueue
  readonly link: Pick<ReconnectingLink, 'connect' | 'later' | 'ready' | 'nextAttemptAt'>
  /** True if no attempt was made yet. */
  isNew(): boolean
  /** True if the server stays connected and so takes no turn. */
  staysConnected(): boolean
}

/** The first connection to an unknown server: when its turn comes, or at once for a call. */
export function createFirstConnection({ clock, startQueue, link, isNew, staysConnected }: FirstConnectionOptions) {
  /** Starts the planned first connection; undefined if none is planned. */
  let startPlanned: (() => void) | undefined
  let turn: Promise<void> | undefined

  /** Resolves when it is the server's turn and the connection attempt has started. */
  const nextTurn = (): Promise<void> =>
    new Promise((begun) =>
      startQueue.first(() => {
        begun()
        turn = undefined
        return isNew() ? link.connect() : Promise.resolve()
      }),
    )

  return {
    /** Connects after this delay, unless `begin` comes first. */
    plan(delayMs: number): void {
      const cancel = clock.after(delayMs, () => startPlanned?.())
      startPlanned = () => {
        cancel()
        startPlanned = undefined
        if (staysConnected()) link.later(0)
        else startQueue.take(link.connect, () => !isNew() || link.nextAttemptAt !== undefined)
      }
    },
    /** Connects now; does nothing if no connection is planned. */
    begin: (): void => startPlanned?.(),
    /** Waits for a connection, for a call. @throws PegboardError as `ReconnectingLink.ready` */
    async waitForConnection(signal?: AbortSignal): Promise<void> {
      if (isNew() && link.nextAttemptAt === undefined) {
        turn ??= nextTurn()
        await turn
      }
      await link.ready(signal)
    },
    cancel(): void {
      startPlanned = undefined
    },
  }
}
