import type { ReconnectingLink } from './reconnecting-link.ts'
import type { ServerOwner } from './server-owner.ts'
import type { ServerContext } from './upstream-shared.ts'

/** The first connection to an unknown server: when its turn comes, or at once for a call. */
export function createFirstConnection(server: ServerContext, link: ReconnectingLink, owner: ServerOwner) {
  const { clock, startQueue } = server.shared
  /** Starts the planned first connection; undefined if none is planned. */
  let startPlanned: (() => void) | undefined
  let turn: Promise<void> | undefined

  /** True if no attempt was made yet. */
  const isNew = (): boolean => owner.state() === 'configured'

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
        // A call has connected it meanwhile.
        if (!isNew()) return
        // A server that stays connected takes no turn.
        if (server.settings().start === 'background') link.later(0)
        else startQueue.take(link.connect, () => !isNew() || link.status.nextAttemptAt() !== undefined)
      }
    },
    /** Connects now; does nothing if no connection is planned. */
    begin: (): void => startPlanned?.(),
    /** Waits for a connection, for a call. @throws PegboardError as `ReconnectingLink.ready` */
    async waitForConnection(signal?: AbortSignal): Promise<void> {
      if (isNew() && link.status.nextAttemptAt() === undefined) {
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
