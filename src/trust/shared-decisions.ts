import { messageOf } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import type { SharedState } from '../state/shared-state.ts'
import type { Table } from '../state/store.ts'
import type { Pins } from './lock-file.ts'
import type { Trust } from './trust.ts'

type StoredPins = Readonly<Record<string, string>>

const TOPIC = 'approval'

/**
 * Shares review decisions between all machines that use the same store: at once if they are connected, otherwise when
 * they read the store.
 * @returns a function that starts it
 */
export function shareDecisions(
  trust: Pick<Trust, 'adopt' | 'onDecision'>,
  shared: Pick<SharedState, 'store' | 'publish' | 'subscribe' | 'onReconnect'>,
  log: Log,
): () => Promise<void> {
  const table = (): Table<StoredPins> => shared.store().table('approval')
  let lastRevision = 0
  /** Decided here and not yet sent. */
  const unsent = new Map<string, Pins>()

  function adopt(server: string, value: StoredPins, revision: number, isRecent: boolean): void {
    lastRevision = Math.max(lastRevision, revision)
    trust.adopt(server, new Map(Object.entries(value)), isRecent)
  }

  async function publish(): Promise<void> {
    for (const [server, pins] of unsent) {
      const revision = await table().put({ id: server, owner: '', value: Object.fromEntries(pins) })
      if (unsent.get(server) === pins) unsent.delete(server)
      lastRevision = Math.max(lastRevision, revision ?? 0)
      shared.publish(TOPIC, server)
    }
  }

  async function load(isRecent: boolean): Promise<void> {
    for (const { id, value, revision } of await table().list())
      if (revision > lastRevision && !unsent.has(id)) adopt(id, value, revision, isRecent)
  }

  const logFailure = (error: unknown): void =>
    log.warn('cannot share decisions about tools with other processes; Pegboard tries again', {
      error: messageOf(error),
    })

  trust.onDecision((server, pins) => {
    unsent.set(server, pins)
    publish().catch(logFailure)
  })
  shared.subscribe(TOPIC, (server) => {
    table()
      .get(server)
      .then((row) => row && adopt(server, row.value, row.revision, true))
      .catch(logFailure)
  })
  shared.onReconnect(() => {
    load(true).then(publish).catch(logFailure)
  })
  return () => load(false).catch(logFailure)
}
